//! One of the two processes of a trial. It reads commands from standard input, one per line, and
//! answers each with a line.

use std::io::{self, Write};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use verbena_verbs::qp::PairType;
use verbena_verbs::qp::attributes::{Change, Connection, Path};
use verbena_verbs::qp::builder::PairOptions;
use verbena_verbs::{
    AccessFlags, Buffer, CompletionQueue, Error, Gid, Library, Opcode, QueuePair, Region, Scratch,
    SendFlags, SendTarget, WorkCompletion,
};

use crate::doctor::Failure;
use verbena_run::libraries::Libraries;

/// The operations that the two processes perform on each other, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Operation {
    /// A message.
    Send,
    /// An RDMA write.
    Write,
    /// An RDMA read.
    Read,
    /// A fetch-and-add.
    Atomic,
}

impl Operation {
    /// All operations, in order.
    pub const ALL: [Operation; 4] = [
        Operation::Send,
        Operation::Write,
        Operation::Read,
        Operation::Atomic,
    ];

    /// Returns the name, which is also the command.
    pub fn name(self) -> &'static str {
        match self {
            Operation::Send => "send",
            Operation::Write => "write",
            Operation::Read => "read",
            Operation::Atomic => "atomic",
        }
    }
}

/// Address of a process: queue pair and memory.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Address {
    lid: u16,
    gid: [u8; 16],
    pair: u32,
    memory: u64,
    key: u32,
    /// Memory registered without remote write access.
    unwritable: u64,
    unwritable_key: u32,
}

/// The answer to each command.
pub const DONE: &str = "done";
/// Command, followed by an operation: compares every received byte with the peer's data.
pub const CHECK: &str = "check ";
/// Command: writes to the peer's memory that lacks remote write access. The answer is the status of
/// the completion.
pub const MISTAKE: &str = "mistake";

const PORT: u8 = 1;
/// Bytes of each operation: more than fits inline, and whole pages.
pub const LENGTH: usize = 64 << 10;
/// Offsets into the memory: data to send, target of the peer's writes, target of reads, target of
/// received messages, and the word for atomics.
const OWN: usize = 0;
const WRITTEN: usize = LENGTH;
const READ: usize = 2 * LENGTH;
const MESSAGE: usize = 3 * LENGTH;
const WORD: usize = 4 * LENGTH;
const PAGE: usize = 4096;
const WHOLE: usize = WORD + PAGE;

/// Time limit; no step takes longer on a working machine.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Sleep between polls, which leaves the processor to the peer.
const PAUSE: Duration = Duration::from_micros(50);

const WORK: u64 = 1;
const ARRIVAL: u64 = 2;

/// Runs one side until the end of standard input.
///
/// # Errors
///
/// Fails if the adapter cannot be used or an operation fails.
pub fn play() -> Result<(), Failure> {
    let libraries = Libraries::beside_this_executable()?;
    let failed = |error: Error| Failure::Probe(error.to_string());
    let mut end = End::open(&libraries.ibverbs()).map_err(failed)?;
    say(&serde_json::to_string(&end.address().map_err(failed)?).expect("plain data"));
    let mut lines = io::stdin().lines();
    let Some(Ok(line)) = lines.next() else {
        return Ok(());
    };
    let peer: Address =
        serde_json::from_str(&line).map_err(|error| Failure::Probe(error.to_string()))?;
    end.connect(&peer).map_err(failed)?;
    say(DONE);
    for line in lines.map_while(Result::ok) {
        let answer = end.obey(&line, &peer).map_err(Failure::Probe)?;
        say(&answer);
    }
    Ok(())
}

fn operation(name: &str) -> Result<Operation, String> {
    let known = Operation::ALL.into_iter().find(|one| one.name() == name);
    known.ok_or_else(|| format!("no operation {name:?}"))
}

/// Prints a line. Ignores write errors: if the parent has ended, so has standard input.
fn say(line: &str) {
    let mut out = io::stdout().lock();
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

struct End {
    // Declared before the region, which it uses, so that it is dropped first.
    pair: QueuePair,
    completions: std::sync::Arc<CompletionQueue>,
    region: Region,
    unwritable: Region,
    context: std::sync::Arc<verbena_verbs::Context>,
    scratch: Scratch,
    arrived: bool,
}

impl End {
    fn open(library: &std::path::Path) -> Result<End, Error> {
        let context = Library::open(library)?.device(None)?.open()?;
        let domain = context.protection_domain()?;
        let completions = context.completion_queue(16, None)?;
        let access = AccessFlags::LOCAL
            .remote_write()
            .remote_read()
            .remote_atomic();
        let region = domain.register(Buffer::allocate(WHOLE)?, access)?;
        region.write(OWN, &pattern(std::process::id()))?;
        let unwritable = domain.register(Buffer::allocate(PAGE)?, AccessFlags::LOCAL)?;
        let pair = PairOptions::new(&domain, PairType::Rc, &completions).create()?;
        pair.modify(&Change::to_init(PairType::Rc, PORT, access, 0))?;
        pair.post_receive_one(ARRIVAL, region.segment(MESSAGE, LENGTH)?)
            .map_err(|error| posting("ibv_post_recv", error.errno))?;
        Ok(End {
            pair,
            completions,
            region,
            unwritable,
            context,
            scratch: Scratch::new(),
            arrived: false,
        })
    }

    fn address(&self) -> Result<Address, Error> {
        let index = self.context.routed_gid_index(PORT)?;
        Ok(Address {
            lid: self.context.port(PORT)?.lid,
            gid: self.context.gid(PORT, index)?.0,
            pair: self.pair.number(),
            memory: self.region.address(),
            key: self.region.remote_key(),
            unwritable: self.unwritable.address(),
            unwritable_key: self.unwritable.remote_key(),
        })
    }

    fn connect(&self, peer: &Address) -> Result<(), Error> {
        let port = self.context.port(PORT)?;
        let connection = Connection {
            path: Path {
                lid: peer.lid,
                gid: port.ethernet.then_some(Gid(peer.gid)),
                source_gid: self.context.routed_gid_index(PORT)?,
                traffic_class: 0,
                service_level: 0,
                port: PORT,
            },
            peer: peer.pair,
            peer_psn: 0,
            psn: 0,
            mtu_code: port.mtu_code,
            reads_served: 1,
            reads_initiated: 1,
            timeout: 14,
            retries: 7,
            rnr_retries: 7,
        };
        self.pair
            .modify(&Change::to_rtr(PairType::Rc, &connection))?;
        self.pair.modify(&Change::to_rts(PairType::Rc, &connection))
    }

    /// Executes a command and returns the answer.
    fn obey(&mut self, line: &str, peer: &Address) -> Result<String, String> {
        if line == MISTAKE {
            return self.mistake(peer);
        }
        match line.strip_prefix(CHECK) {
            Some(name) => self.verify(operation(name)?)?,
            None => self.perform(operation(line)?, peer)?,
        }
        Ok(DONE.to_owned())
    }

    /// Writes to memory of the peer that lacks remote write access; returns the status of the
    /// completion.
    fn mistake(&mut self, peer: &Address) -> Result<String, String> {
        let opcode = Opcode::Write(peer.unwritable, peer.unwritable_key);
        let segment = self.region.segment(OWN, PAGE);
        let segment = segment.map_err(|error| error.to_string())?;
        let work = (WORK, opcode, SendFlags::SIGNALED);
        self.pair
            .post_one(&mut self.scratch, work, segment, SendTarget::Connected)
            .map_err(|error| error.to_string())?;
        let until = Instant::now() + TIMEOUT;
        loop {
            let completion = self.poll(until)?;
            // The posted receive is flushed with the queue pair.
            if completion.id == WORK {
                return match completion.status.is_success() {
                    true => Err("the adapter executed a write that it must refuse".to_owned()),
                    false => Ok(completion.status.to_string()),
                };
            }
        }
    }

    fn perform(&mut self, operation: Operation, peer: &Address) -> Result<(), String> {
        let at = |offset: usize| peer.memory + offset as u64;
        let (opcode, local, length) = match operation {
            Operation::Send => (Opcode::Send, OWN, LENGTH),
            Operation::Write => (Opcode::Write(at(WRITTEN), peer.key), OWN, LENGTH),
            Operation::Read => (Opcode::Read(at(OWN), peer.key), READ, LENGTH),
            Operation::Atomic => (Opcode::FetchAdd(at(WORD), peer.key, 1), WORD + 8, 8),
        };
        let words = |error: &dyn std::fmt::Display| format!("{}: {error}", operation.name());
        let segment = self
            .region
            .segment(local, length)
            .map_err(|error| words(&error))?;
        let work = (WORK, opcode, SendFlags::SIGNALED);
        self.pair
            .post_one(&mut self.scratch, work, segment, SendTarget::Connected)
            .map_err(|error| words(&error))?;
        self.complete(operation).map_err(|error| words(&error))
    }

    /// Waits for the posted request and, for a send, for the peer's message.
    fn complete(&mut self, operation: Operation) -> Result<(), String> {
        let until = Instant::now() + TIMEOUT;
        let (mut done, mut arrived) = (false, operation != Operation::Send || self.arrived);
        while !(done && arrived) {
            let completion = self.poll(until)?;
            if !completion.status.is_success() {
                return Err(completion.status.to_string());
            }
            match completion.id {
                ARRIVAL => (self.arrived, arrived) = (true, true),
                _ => done = true,
            }
        }
        Ok(())
    }

    /// Waits for the next completion.
    fn poll(&self, until: Instant) -> Result<WorkCompletion, String> {
        loop {
            let mut found = [WorkCompletion::default()];
            let count = self
                .completions
                .poll(&mut found, |completion| *completion)
                .map_err(|error| error.to_string())?;
            match found.first().filter(|_| count > 0) {
                Some(completion) => return Ok(*completion),
                None if Instant::now() > until => {
                    return Err(format!("did not complete within {TIMEOUT:?}"));
                }
                None => std::thread::sleep(PAUSE),
            }
        }
    }

    /// Checks the received data. Called after both sides have completed the operation.
    fn verify(&self, operation: Operation) -> Result<(), String> {
        let wrong = |what: &str| Err(format!("{}: {what}", operation.name()));
        let place = match operation {
            Operation::Send => MESSAGE,
            Operation::Read => READ,
            Operation::Write => WRITTEN,
            // The peer added 1 to 0.
            Operation::Atomic if self.region.load_word(WORD) == 1 => return Ok(()),
            Operation::Atomic => return wrong("the word was not incremented"),
        };
        let mut bytes = vec![0; LENGTH];
        self.region
            .read(place, &mut bytes)
            .map_err(|error| error.to_string())?;
        let mut first = [0; 4];
        first.copy_from_slice(&bytes[..4]);
        match bytes == pattern(u32::from_le_bytes(first)) && first != [0; 4] {
            true => Ok(()),
            false => wrong("the received bytes differ from those sent"),
        }
    }
}

fn posting(call: &'static str, errno: i32) -> Error {
    Error::Call {
        call,
        object: "a queue pair".to_owned(),
        errno,
    }
}

/// Returns bytes unique to a process: its process id, then values derived from it.
fn pattern(seed: u32) -> Vec<u8> {
    let mut bytes = seed.to_le_bytes().to_vec();
    bytes.extend(
        (4..LENGTH).map(|at| (at as u32).wrapping_mul(2_654_435_761).wrapping_add(seed) as u8),
    );
    bytes
}
