//! Candidate states: every state of the reference that agrees with all observations.

use super::explore::{self, TooMany};
use super::memory::{Bytes, sum_of};
use super::object::World;
use super::outcome::{Carried, Completion, Event, Side};
use crate::program::{CqId, ProcessId, Program, QpId, Step};
use verbena_abi as abi;

/// A completion as a library reported it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// The completion queue.
    pub cq: CqId,
    /// The queue pair, if its number is known.
    pub qp: Option<QpId>,
    /// `wr_id`.
    pub id: u64,
    /// Status.
    pub status: abi::ibv_wc_status,
    /// Opcode.
    pub opcode: abi::ibv_wc_opcode,
    /// Length in bytes.
    pub byte_len: u32,
    /// Immediate data in host order, or the invalidated key.
    pub carried: u32,
    /// `wc_flags`.
    pub flags: u32,
    /// Checksum of the message's bytes when the completion was polled.
    pub sum: Option<u64>,
}

/// The states that are possible now.
#[derive(Clone)]
pub struct CandidateStates {
    worlds: Vec<World>,
}

impl CandidateStates {
    /// Returns the state at the beginning of a program.
    pub fn new(program: &Program) -> CandidateStates {
        CandidateStates {
            worlds: vec![World::new(program)],
        }
    }

    /// Returns the possible states.
    pub fn worlds(&self) -> &[World] {
        &self.worlds
    }

    /// Keeps only one of the possible states, as if all of its events had been observed.
    pub fn forget_all_but_one(&mut self) {
        self.worlds.truncate(1);
        self.worlds[0].outbox = Default::default();
    }

    /// Executes a step.
    ///
    /// # Errors
    ///
    /// The step has too many possible orders.
    pub fn step(&mut self, step: &Step) -> Result<(), TooMany> {
        for world in &mut self.worlds {
            world.outbox.codes.clear();
            world.outbox.silent = false;
        }
        self.worlds = explore::after(&self.worlds, step)?;
        Ok(())
    }

    /// Keeps the states in which a call returns this code.
    ///
    /// # Errors
    ///
    /// No state allows it; returns the allowed codes and changes nothing.
    pub fn returned(&mut self, index: usize, code: i32) -> Result<(), String> {
        let allowed = |world: &World| {
            world
                .outbox
                .codes
                .get(&index)
                .is_some_and(|codes| codes.allows(code))
        };
        let words = |world: &World| format!("{:?}", world.outbox.codes.get(&index));
        self.keep(allowed, words)
    }

    /// Keeps the states in which this completion is the next of its queue, and removes it there.
    ///
    /// # Errors
    ///
    /// No state allows it; returns the allowed completions and changes nothing.
    pub fn completed(&mut self, seen: &Seen) -> Result<(), String> {
        let matching = |world: &World| world.next_completion(seen).is_some();
        let words = |world: &World| world.describe_completions();
        self.keep(matching, words)?;
        for world in &mut self.worlds {
            let key = world.next_completion(seen).expect("it was kept for that");
            let queue = world
                .outbox
                .completions
                .get_mut(&key)
                .expect("it has a completion");
            queue.pop_front();
            if queue.is_empty() {
                world.outbox.completions.remove(&key);
            }
        }
        self.merge();
        Ok(())
    }

    /// Keeps the states in which this event may be raised, and removes it there.
    ///
    /// # Errors
    ///
    /// No state allows it; returns the due events and changes nothing.
    pub fn raised(&mut self, event: &Event) -> Result<(), String> {
        let matching = |world: &World| {
            world.outbox.events.contains(event) || world.outbox.possible.contains(event)
        };
        let words = |world: &World| format!("{:?}", world.outbox.events);
        self.keep(matching, words)?;
        for world in &mut self.worlds {
            let outbox = &mut world.outbox;
            if let Some(at) = outbox.events.iter().position(|due| due == event) {
                outbox.events.remove(at);
            } else {
                outbox.possible.retain(|possible| possible != event);
            }
        }
        self.merge();
        Ok(())
    }

    /// Keeps the states in which a process's memory has these contents.
    ///
    /// # Errors
    ///
    /// No state allows it; returns the first difference and changes nothing.
    pub fn holds(&mut self, process: ProcessId, memory: &[u8]) -> Result<(), String> {
        let index = usize::from(process.0);
        let same = |world: &World| world.memory[index].difference(memory).is_none();
        let words = |world: &World| match world.memory[index].difference(memory) {
            Some(at) => format!(
                "byte {at} must be {}, it is {:02x}",
                world.memory[index].describe(at),
                memory[at as usize]
            ),
            None => String::new(),
        };
        // A state with unfinished work may still change its memory: it cannot be judged, and must
        // not hide a difference from those that can.
        let undone: Vec<World> = self
            .worlds
            .iter()
            .filter(|world| !world.rests())
            .cloned()
            .collect();
        self.keep(|world| world.rests() && same(world), words)?;
        self.worlds.extend(undone);
        Ok(())
    }

    /// Returns whether a process must observe something.
    pub fn expects(&self, process: ProcessId) -> bool {
        self.worlds.iter().any(|world| {
            let own = |cq: &CqId| world.cqs.get(cq) == Some(&process);
            world
                .outbox
                .completions
                .values()
                .flatten()
                .any(|completion| own(&completion.cq))
        })
    }

    /// Returns whether some state has no outstanding observation.
    pub fn rests(&self) -> bool {
        self.worlds.iter().any(World::rests)
    }

    /// Returns whether work may be under way whose end is not observable.
    pub fn silent(&self) -> bool {
        self.worlds.iter().any(|world| world.outbox.silent)
    }

    /// Drops the states with outstanding observations: their time is over.
    ///
    /// # Errors
    ///
    /// No state is left; returns the missing observations.
    pub fn settle(&mut self) -> Result<(), String> {
        let words = |world: &World| {
            format!(
                "{}{:?} must come",
                world.describe_completions(),
                world.outbox.events
            )
        };
        self.keep(World::rests, words)
    }

    fn keep(
        &mut self,
        matching: impl Fn(&World) -> bool,
        words: impl Fn(&World) -> String,
    ) -> Result<(), String> {
        if self.worlds.iter().any(&matching) {
            self.worlds.retain(matching);
            return Ok(());
        }
        let mut allowed: Vec<String> = self.worlds.iter().map(words).collect();
        allowed.sort();
        allowed.dedup();
        let more = allowed.len().saturating_sub(6);
        allowed.truncate(6);
        let more = if more > 0 {
            format!(" (and {more} more)")
        } else {
            String::new()
        };
        Err(format!("allowed: {}{more}", allowed.join(" | ")))
    }

    fn merge(&mut self) {
        let mut seen = std::collections::HashSet::new();
        self.worlds.retain(|world| seen.insert(world.clone()));
    }
}

impl World {
    /// Returns whether no observation is outstanding.
    pub fn rests(&self) -> bool {
        self.outbox.events.is_empty() && self.outbox.completions.is_empty()
    }

    fn next_completion(&self, seen: &Seen) -> Option<(QpId, Side)> {
        let fits = |completion: &Completion| {
            completion.agrees(seen) && self.was_complete(completion, seen)
        };
        self.outbox
            .completions
            .iter()
            .find(|((qp, _), queue)| {
                seen.qp.is_none_or(|named| named == *qp) && queue.front().is_some_and(fits)
            })
            .map(|(key, _)| *key)
    }

    /// Returns whether the message was complete when its completion was polled. Memory that was
    /// changed again in the same step cannot be judged.
    fn was_complete(&self, completion: &Completion, seen: &Seen) -> bool {
        let Some(sum) = seen.sum.filter(|_| !completion.datagram) else {
            return true;
        };
        let Some(owner) = self.cqs.get(&completion.cq) else {
            return true;
        };
        let memory = &self.memory[usize::from(owner.0)];
        let mut now = Bytes::default();
        for (at, len) in &completion.places {
            now.extend(&memory.slice(*at..*at + *len));
        }
        if now != completion.content {
            return true;
        }
        completion
            .content
            .known()
            .is_none_or(|bytes| sum_of(bytes.into_iter()) == sum)
    }

    fn describe_completions(&self) -> String {
        let mut words = String::new();
        for ((qp, side), queue) in &self.outbox.completions {
            if let Some(next) = queue.front() {
                words.push_str(&format!(
                    "qp{} {side:?}: wr {} status {:?} opcode {} len {:?} {:?} ({} due); ",
                    qp.0,
                    next.id,
                    next.statuses.each().collect::<Vec<_>>(),
                    next.opcode,
                    next.byte_len,
                    next.carried,
                    queue.len()
                ));
            }
        }
        if words.is_empty() {
            "no completion".to_owned()
        } else {
            words
        }
    }
}

impl Completion {
    fn agrees(&self, seen: &Seen) -> bool {
        if self.cq != seen.cq || self.id != seen.id || !self.statuses.allows(seen.status) {
            return false;
        }
        if seen.status != abi::IBV_WC_SUCCESS {
            return true;
        }
        let flags = seen.flags & (abi::IBV_WC_WITH_IMM | abi::IBV_WC_WITH_INV);
        let carried = match self.carried {
            Carried::Nothing => flags == 0,
            Carried::Immediate(imm) => flags == abi::IBV_WC_WITH_IMM && seen.carried == imm,
            Carried::Invalidated => flags == abi::IBV_WC_WITH_INV,
        };
        carried
            && self.opcode == seen.opcode
            && self.byte_len.is_none_or(|len| len == seen.byte_len)
    }
}
