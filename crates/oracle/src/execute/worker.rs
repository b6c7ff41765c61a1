//! A worker: a process of the program that makes its calls on request and reports its observations.

use super::message::{self, Fact, Order};
use super::objects::{Facts, Objects};
use crate::program::{Action, CqId, Operation, Program, RecvWr};
use std::collections::{HashMap, HashSet};
use std::io;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// The code of a call that was not made because an object does not exist.
pub const NOT_MADE: i32 = -1;
/// Time to look for observations before reporting none.
const LOOK: Duration = Duration::from_micros(100);

/// Runs a worker until the runner's end of the stream is closed.
///
/// # Errors
///
/// The stream fails.
pub fn live(
    program: &Program,
    process: u16,
    mut stream: UnixStream,
    files: &Path,
) -> io::Result<()> {
    let mut worker = match Objects::open(process, program.arena as usize, program.waits) {
        Ok(objects) => Worker {
            armed: HashSet::new(),
            messages: Messages::of(program),
            told: objects.facts.clone(),
            told_by_us: HashSet::new(),
            objects,
            process,
            files,
        },
        Err(error) => {
            eprintln!("p{process}: {error}");
            return Err(io::Error::other(error));
        }
    };
    message::send(&mut stream, &[])?;
    loop {
        let words = match message::receive(&mut stream) {
            Ok(words) => words,
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
            Err(error) => return Err(error),
        };
        match words.first().copied().and_then(Order::from_word) {
            Some(Order::Step) => {
                let reply = worker.step(program, &words[1..]);
                message::send(&mut stream, &reply)?;
            }
            Some(Order::Observe) => {
                let long = match words.get(1) {
                    Some(0) | None => Duration::ZERO,
                    Some(1) => LOOK,
                    Some(_) => WATCH,
                };
                let reply = worker.observe(long);
                message::send(&mut stream, &reply)?;
            }
            Some(Order::Memory) => {
                use std::io::Write;
                stream.write_all(worker.arena())?;
            }
            None => return Err(io::Error::other("an order that there is not")),
        }
    }
}

/// Destinations of the program's messages.
pub(super) struct Messages<'a> {
    /// Receive requests by `wr_id`.
    pub(super) receives: HashMap<u64, &'a RecvWr>,
    /// Offsets of writes by their immediate data.
    pub(super) writes: HashMap<u32, u32>,
}

impl<'a> Messages<'a> {
    fn of(program: &'a Program) -> Messages<'a> {
        let mut messages = Messages {
            receives: HashMap::new(),
            writes: HashMap::new(),
        };
        for call in program.calls() {
            match &call.action {
                Action::PostRecv { wrs, .. } | Action::PostSrqRecv { wrs, .. } => {
                    messages.receives.extend(wrs.iter().map(|wr| (wr.id, wr)));
                }
                Action::PostSend { wrs, .. } => {
                    for wr in wrs {
                        if let Operation::WriteImm { to, imm } = &wr.operation {
                            messages.writes.insert(*imm, to.at);
                        }
                    }
                }
                _ => {}
            }
        }
        messages
    }
}

/// A process of the program.
pub struct Worker<'a> {
    /// Armed completion queues.
    pub(super) armed: HashSet<CqId>,
    pub(super) messages: Messages<'a>,
    pub(super) objects: Objects,
    /// Facts that the other processes have.
    told: Facts,
    told_by_us: HashSet<(Fact, u16)>,
    process: u16,
    pub(super) files: &'a Path,
}

/// Time to look for observations when completions are expected during a step.
const WATCH: Duration = Duration::from_millis(2);

impl Worker<'_> {
    pub(super) fn arena(&self) -> &[u8] {
        // SAFETY: the arena is mapped for the process's lifetime. Peers may change it during the
        // read; the bytes are only copied.
        unsafe { std::slice::from_raw_parts(self.objects.arena, self.objects.arena_len) }
    }

    /// Makes the calls of a step. The reply: the number of codes, (index, code)..., new facts.
    fn step(&mut self, program: &Program, words: &[u64]) -> Vec<u64> {
        let step = &program.steps[words[0] as usize];
        for fact in words[1..].as_chunks::<3>().0 {
            let kind = Fact::from_word(fact[0]).expect("a fact that there is");
            let of = (kind, fact[1] as u16);
            // A fact of this process may be newer than the received one.
            if !self.told_by_us.contains(&of) {
                self.objects.facts.insert(of, fact[2]);
                self.told.insert(of, fact[2]);
            }
        }
        let mut codes = Vec::new();
        for (index, call) in step.calls.iter().enumerate() {
            let by_runner = matches!(call.action, Action::Kill {} | Action::Pause {});
            if call.by.0 == self.process && !by_runner {
                let code = self.call(&call.action);
                codes.extend([index as u64, code as u32 as u64]);
            }
        }
        let mut reply = vec![codes.len() as u64 / 2];
        reply.extend(codes);
        for (fact, id, value) in self.new_facts() {
            reply.extend([fact as u64, u64::from(id), value]);
        }
        reply
    }

    /// Returns facts that the other processes do not have yet.
    pub(super) fn new_facts(&mut self) -> Vec<(Fact, u16, u64)> {
        let mut new = Vec::new();
        for (of, value) in &self.objects.facts {
            if self.told.get(of) != Some(value) {
                new.push((of.0, of.1, *value));
                self.told.insert(*of, *value);
                self.told_by_us.insert(*of);
            }
        }
        new
    }

    fn call(&mut self, action: &Action) -> i32 {
        self.try_call(action).unwrap_or(NOT_MADE)
    }
}
