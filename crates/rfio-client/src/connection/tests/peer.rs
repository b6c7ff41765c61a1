//! Tests against a simulated peer that answers requests in any order, in fragments or short, or
//! disconnects halfway. Each byte of its files is a function of file and offset, so misplaced data
//! are detected.

use std::io::{Read as _, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use proptest::prelude::*;
use verbena_rfio_common::scratch::Scratch;
use verbena_rfio_protocol::checksum::crc32c;
use verbena_rfio_protocol::frame::{HEADER, Kind, Limits, MOST_BODY, MOST_PAYLOAD};
use verbena_rfio_protocol::reply::{
    self, Accepted, Done, ReadDone, ReadVectorDone, Refusal, Welcome, Written,
};
use verbena_rfio_protocol::types::Text;
use verbena_rfio_protocol::{ANY_ORDER, Header, IN_ORDER, Reply, Request, Status};

use super::*;
use crate::blocks::checksums_of;

pub const BLOCK: u32 = 1000;
const SIZE: u64 = 100_000;
const FILES: u64 = 4;

fn byte(handle: u64, offset: u64) -> u8 {
    (handle.wrapping_mul(97) ^ offset.wrapping_mul(2_654_435_761) >> 7) as u8
}

pub fn content(handle: u64, offset: u64, length: usize) -> Vec<u8> {
    let end = (offset + length as u64).min(SIZE);
    (offset.min(end)..end).map(|at| byte(handle, at)).collect()
}

/// Behavior of the peer.
#[derive(Debug, Clone, Copy)]
pub struct PeerBehavior {
    pub version: u16,
    pub seed: u64,
    /// Disconnects after this number of answers.
    pub disconnects_after: Option<usize>,
}

pub struct Peer {
    stream: UnixStream,
    dice: Dice,
    behavior: PeerBehavior,
    held: Vec<(Header, Request)>,
    answers: usize,
    /// Number of correct bytes received from writes.
    written: usize,
}

impl Peer {
    pub fn new(stream: UnixStream, behavior: PeerBehavior) -> Peer {
        Peer {
            stream,
            dice: Dice::new(behavior.seed),
            behavior,
            held: Vec::new(),
            answers: 0,
            written: 0,
        }
    }

    pub fn next(&mut self) -> Option<(Header, Request)> {
        let mut raw = [0; HEADER];
        self.stream.read_exact(&mut raw).ok()?;
        let limits = Limits {
            body: MOST_BODY,
            payload: MOST_PAYLOAD,
        };
        let header = Header::parse(&raw, limits).expect("a frame of the client");
        let mut body = vec![0; header.body as usize];
        self.stream.read_exact(&mut body).ok()?;
        let request = Request::decode(header.kind.operation(), &body).expect("a request");
        let mut data = vec![0; header.payload as usize];
        self.stream.read_exact(&mut data).ok()?;
        if let Request::Write(write) = &request {
            assert_eq!(data.len(), write.range.length as usize);
            let expected = content(write.handle.0, write.range.offset, data.len());
            assert!(data == expected, "a write brought another's bytes");
            let sums = checksums_of(write.range.offset, &data, BLOCK);
            assert_eq!(sums, write.checksums);
            self.written += data.len();
        }
        Some((header, request))
    }

    pub fn send(
        &mut self,
        header: Header,
        outcome: &Result<Reply, Refusal>,
        data: &[u8],
    ) -> Option<()> {
        let body = reply::encode(outcome);
        let header = Header {
            kind: Kind::reply(header.kind.operation()),
            body: body.len() as u32,
            payload: data.len() as u32,
            id: header.id,
        };
        let whole = [&header.emit()[..], &body, data].concat();
        let cut = self.dice.below(whole.len());
        self.stream.write_all(&whole[..cut]).ok()?;
        if self.dice.below(4) == 0 {
            std::thread::yield_now();
        }
        self.stream.write_all(&whole[cut..]).ok()
    }

    pub fn handshake(&mut self) -> Option<()> {
        let (header, _) = self.next()?;
        let welcome = Welcome {
            version: self.behavior.version,
            method: 4,
            nonce: [0; 32],
        };
        self.send(header, &Ok(Reply::Welcome(welcome)), &[])?;
        let (header, _) = self.next()?;
        let accepted = Accepted {
            proof: [0; 32],
            user: Text::new("nobody"),
            most_payload: 16_000,
            most_ranges: 5,
            block: BLOCK,
            most_requests: 8,
            fabric: false,
            writable: true,
        };
        self.send(header, &Ok(Reply::Accepted(accepted)), &[])
    }

    pub fn answer(&mut self, header: Header, request: &Request) -> Option<()> {
        let (outcome, data) = match request {
            Request::Read(read) => {
                let wanted = content(read.handle.0, read.range.offset, read.range.length as usize);
                // Sometimes shorter than requested, like a busy server.
                let length = match self.dice.below(3) {
                    0 if wanted.len() > 1 => 1 + self.dice.below(wanted.len() - 1),
                    _ => wanted.len(),
                };
                let data = wanted[..length].to_vec();
                let done = ReadDone {
                    length: length as u32,
                    end: read.range.offset + length as u64 >= SIZE,
                    version: 1,
                    checksums: checksums_of(read.range.offset, &data, BLOCK),
                };
                (Reply::ReadDone(done), data)
            }
            Request::ReadVector(vector) => {
                let parts: Vec<Vec<u8>> = vector
                    .ranges
                    .iter()
                    .map(|range| content(vector.handle.0, range.offset, range.length as usize))
                    .collect();
                let done = ReadVectorDone {
                    version: 1,
                    lengths: parts.iter().map(|part| part.len() as u32).collect(),
                    checksums: parts.iter().map(|part| crc32c(part)).collect(),
                };
                (Reply::ReadVectorDone(done), parts.concat())
            }
            Request::Write(write) => {
                let length = write.range.length;
                (Reply::Written(Written { length }), Vec::new())
            }
            Request::Ping(_) => (Reply::Pong(Done {}), Vec::new()),
            Request::Cancel(_) => (Reply::Cancelled(Done {}), Vec::new()),
            other => panic!("{other:?} was never asked for"),
        };
        self.answers += 1;
        self.send(header, &Ok(outcome), &data)
    }

    /// Serves until the client or this peer disconnects.
    fn serve(&mut self) -> Option<()> {
        self.handshake()?;
        loop {
            if self
                .behavior
                .disconnects_after
                .is_some_and(|most| self.answers >= most)
            {
                return None;
            }
            // With an answer pending, does not block for further requests.
            self.stream
                .set_nonblocking(!self.held.is_empty())
                .expect("a socket can be");
            let mut first = [0];
            let has_more =
                match rustix::net::recv(&self.stream, &mut first, rustix::net::RecvFlags::PEEK) {
                    Ok((1, _)) => true,
                    Ok(_) => return None,
                    Err(rustix::io::Errno::AGAIN) => false,
                    Err(_) => return None,
                };
            self.stream.set_nonblocking(false).expect("a socket can be");
            if has_more && (self.held.is_empty() || self.dice.below(3) > 0) {
                let (header, request) = self.next()?;
                if let Request::Cancel(cancel) = &request {
                    let held = self.held.iter().position(|(held, _)| held.id == cancel.id);
                    if let Some(index) = held
                        && self.dice.below(2) == 0
                    {
                        let (header, _) = self.held.remove(index);
                        let status = Status::errno(libc::ECANCELED);
                        self.send(header, &Err(Refusal::new(status, "taken back")), &[])?;
                    }
                }
                self.held.push((header, request));
                assert!(self.held.len() <= 8, "more requests than were allowed");
            } else if !self.held.is_empty() {
                let index = match self.behavior.version {
                    ANY_ORDER.. => self.dice.below(self.held.len()),
                    _ => 0,
                };
                let (header, request) = self.held.remove(index);
                self.answer(header, &request)?;
            }
        }
    }
}

/// The fate of an operation that a thread has begun.
#[derive(Debug, Clone, Copy)]
enum Fate {
    Wait,
    Cancel,
    Drop,
}

#[derive(Debug, Clone)]
struct Step {
    operation: Operation,
    length: usize,
    fate: Fate,
}

fn step() -> impl Strategy<Value = Step> {
    let handle = (0..FILES).prop_map(Handle);
    let range = (0..SIZE + 5000, 0u32..9000);
    let operation = prop_oneof![
        4 => (handle.clone(), range.clone()).prop_map(|(handle, (offset, length))|
            (Operation::Read { handle, offset }, length as usize)),
        2 => (handle.clone(), (0..SIZE - 9000, 0u32..9000)).prop_map(|(handle, (offset, length))|
            (Operation::Write { handle, offset }, length as usize)),
        2 => (handle.clone(), (0..SIZE + 5000, 0u32..4000)).prop_map(|(handle, (offset, length))|
            (Operation::Chunk { handle, offset, length, version: Some(1) }, 0)),
        2 => (handle, proptest::collection::vec(range, 0..12)).prop_map(|(handle, ranges)| {
            let ranges: Vec<Range> = ranges
                .into_iter()
                .map(|(offset, length)| Range { offset, length })
                .collect();
            let length = ranges.iter().map(|range| range.length as usize).sum();
            (Operation::Vector { handle, ranges }, length)
        }),
        1 => Just((Operation::Call(Request::Ping(verbena_rfio_protocol::request::Ping {})), 0)),
    ];
    let fate = prop_oneof![6 => Just(Fate::Wait), 1 => Just(Fate::Cancel), 1 => Just(Fate::Drop)];
    (operation, fate).prop_map(|((operation, length), fate)| Step {
        operation,
        length,
        fate,
    })
}

fn memory(step: &Step) -> Vec<u8> {
    match step.operation {
        Operation::Write { handle, offset } => content(handle.0, offset, step.length),
        _ => vec![0xee; step.length],
    }
}

/// Returns whether the result is correct and complete.
fn is_right(operation: &Operation, succeeded: &OperationOutput, memory: &[u8]) -> bool {
    match (operation, succeeded) {
        (Operation::Read { handle, offset }, OperationOutput::Read(length)) => {
            let expected = content(handle.0, *offset, memory.len());
            *length == expected.len() && memory[..*length] == expected
        }
        (Operation::Write { .. }, OperationOutput::Written) => true,
        (Operation::Vector { handle, ranges }, OperationOutput::Vector(lengths)) => {
            let mut at = 0;
            lengths.len() == ranges.len()
                && lengths.iter().zip(ranges).all(|(&length, range)| {
                    let expected = content(handle.0, range.offset, range.length as usize);
                    let found = &memory[at..at + length as usize];
                    at += range.length as usize;
                    found == expected
                })
        }
        (Operation::Call(_), OperationOutput::Reply(Reply::Pong(_), 0)) => true,
        _ => false,
    }
}

fn is_cancelled(error: &Error) -> bool {
    error.errno() == Some(libc::ECANCELED)
}

/// Runs the operations of each thread against a peer with this behavior; returns the number of
/// successful operations.
fn run_against_peer(threads: &[Vec<Step>], behavior: PeerBehavior) -> usize {
    let scratch = Scratch::new();
    let path = scratch.path("peer.sock");
    let listener = UnixListener::bind(&path).unwrap();
    let succeeded = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let (stream, _) = listener.accept().unwrap();
            stream
                .set_write_timeout(Some(Duration::from_secs(60)))
                .unwrap();
            Peer::new(stream, behavior).serve();
        });
        let connection =
            match MultiplexedConnection::connect(&Address::Socket(path.clone()), &options()) {
                Ok(connection) => connection,
                Err(error) => panic!("{error}"),
            };
        let disconnects = behavior.disconnects_after.is_some();
        std::thread::scope(|scope| {
            for (number, steps) in threads.iter().enumerate() {
                let (connection, succeeded) = (&connection, &succeeded);
                scope.spawn(move || {
                    let mut dice = Dice::new(behavior.seed ^ (number as u64 + 77));
                    let mut begun = Vec::new();
                    for step in steps {
                        let mut bytes = memory(step);
                        // Borrowed bytes have been sent, so they may be overwritten.
                        let is_borrowed =
                            matches!(step.operation, Operation::Write { .. }) && dice.below(2) == 0;
                        let begun_now = match is_borrowed {
                            true => connection.begin_borrowed(step.operation.clone(), &bytes),
                            false => connection.begin(step.operation.clone(), bytes.clone()),
                        };
                        bytes.fill(0);
                        match begun_now {
                            Ok(pending) => begun.push((step, pending)),
                            Err(error) => assert!(disconnects, "{error}"),
                        }
                        // Some at once, some after later ones, in random order.
                        while begun.len() > 20 || (!begun.is_empty() && dice.below(4) == 0) {
                            let next = choose_pending(&begun, &mut dice);
                            let (step, pending) = begun.swap_remove(next);
                            finish(step, pending, disconnects, succeeded);
                        }
                    }
                    while !begun.is_empty() {
                        let next = choose_pending(&begun, &mut dice);
                        let (step, pending) = begun.swap_remove(next);
                        finish(step, pending, disconnects, succeeded);
                    }
                });
            }
        });
    });
    succeeded.into_inner()
}

/// Picks any operation, or waits for the first of some to be done. If the session has ended, all
/// are done.
fn choose_pending(begun: &[(&Step, super::super::PendingOperation)], dice: &mut Dice) -> usize {
    let any = dice.below(begun.len());
    if dice.below(2) == 0 {
        return any;
    }
    let some = &begun[any..];
    let operations: Vec<_> = some.iter().map(|(_, pending)| pending).collect();
    let done = super::super::wait_any(&operations, None);
    done.ok().flatten().map_or(any, |index| any + index)
}

fn finish(
    step: &Step,
    pending: super::super::PendingOperation,
    disconnects: bool,
    succeeded: &AtomicUsize,
) {
    match step.fate {
        Fate::Drop => return,
        Fate::Cancel => drop(pending.cancel()),
        Fate::Wait => {}
    }
    let outcome = match step.operation {
        Operation::Chunk {
            handle,
            offset,
            length,
            ..
        } => pending.look(|found| found == content(handle.0, offset, length as usize)),
        _ => {
            let done = pending.wait().unwrap();
            let memory = done.memory.bytes();
            done.outcome
                .map(|what| is_right(&step.operation, &what, memory))
        }
    };
    match &outcome {
        Ok(is_right) => {
            assert!(is_right, "{step:?}");
            succeeded.fetch_add(1, Ordering::Relaxed);
        }
        Err(error) if is_cancelled(error) => assert!(matches!(step.fate, Fate::Cancel)),
        Err(error) => assert!(disconnects, "{step:?}: {error}"),
    }
}

fn threads() -> impl Strategy<Value = Vec<Vec<Step>>> {
    proptest::collection::vec(proptest::collection::vec(step(), 0..30), 1..4)
}

proptest! {
    #![proptest_config(cases(48))]

    /// Every reply is matched to its request, no bytes are misplaced, and every operation ends.
    #[test]
    fn replies_in_any_order_match_their_requests(threads in threads(), seed: u64) {
        let waited = threads.iter().flatten().filter(|step| matches!(step.fate, Fate::Wait))
            .count();
        let behavior = PeerBehavior { version: ANY_ORDER, seed, disconnects_after: None };
        prop_assert!(run_against_peer(&threads, behavior) >= waited);
    }

    #[test]
    fn a_version_2_server_is_served_in_order(threads in threads(), seed: u64) {
        let waited = threads.iter().flatten().filter(|step| matches!(step.fate, Fate::Wait))
            .count();
        let behavior = PeerBehavior { version: IN_ORDER, seed, disconnects_after: None };
        prop_assert!(run_against_peer(&threads, behavior) >= waited);
    }

    #[test]
    fn losing_the_server_ends_all_waits(threads in threads(), seed: u64, answers in 0usize..40) {
        let behavior = PeerBehavior { version: ANY_ORDER, seed, disconnects_after: Some(answers) };
        run_against_peer(&threads, behavior);
    }
}
