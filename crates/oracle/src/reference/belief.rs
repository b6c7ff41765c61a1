//! What the reference believes: every world that agrees with all that was observed.

use super::explore::{self, TooMany};
use super::memory::{Bytes, sum_of};
use super::object::World;
use super::outcome::{Carried, Completion, Event, Side};
use crate::program::{CqId, ProcessId, Program, QpId, Step};
use verbena_abi as abi;

/// A completion as a library reported it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// The queue that it was polled from.
    pub cq: CqId,
    /// The queue pair that it names, if the program knows the number.
    pub qp: Option<QpId>,
    /// `wr_id`.
    pub id: u64,
    /// Its status.
    pub status: abi::ibv_wc_status,
    /// Its opcode.
    pub opcode: abi::ibv_wc_opcode,
    /// Its length.
    pub byte_len: u32,
    /// Immediate data in host order, or the invalidated key.
    pub carried: u32,
    /// `wc_flags`.
    pub flags: u32,
    /// The sum of the message's bytes at the moment at which the completion was polled.
    pub sum: Option<u64>,
}

/// The worlds that are possible now.
#[derive(Clone)]
pub struct Belief {
    worlds: Vec<World>,
}

impl Belief {
    /// The beginning of a program.
    pub fn new(program: &Program) -> Belief {
        Belief {
            worlds: vec![World::new(program)],
        }
    }

    /// The worlds.
    pub fn worlds(&self) -> &[World] {
        &self.worlds
    }

    /// Follows only one of the possible worlds, as if everything in it had been observed.
    pub fn forget_all_but_one(&mut self) {
        self.worlds.truncate(1);
        self.worlds[0].outbox = Default::default();
    }

    /// Lets a step happen.
    pub fn step(&mut self, step: &Step) -> Result<(), TooMany> {
        for world in &mut self.worlds {
            world.outbox.codes.clear();
            world.outbox.silent = false;
        }
        self.worlds = explore::after(&self.worlds, step)?;
        Ok(())
    }

    /// Keeps the worlds in which a call returns this code. If none is left the belief stays as it
    /// was and the answer is what was allowed.
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

    /// Keeps the worlds in which this completion is the next of its queue, and takes it from them.
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

    /// Keeps the worlds in which this event may be raised, and takes it from them.
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

    /// Keeps the worlds in which a process's memory is this.
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
        // A world whose work is not done yet may still change its memory: it cannot be judged, and
        // must not stand for those that can.
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

    /// Whether a process must see something.
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

    /// Whether some world has nothing left that must still be observed.
    pub fn rests(&self) -> bool {
        self.worlds.iter().any(World::rests)
    }

    /// Whether work may be under way whose end nothing tells.
    pub fn silent(&self) -> bool {
        self.worlds.iter().any(|world| world.outbox.silent)
    }

    /// Drops the worlds that still owe something: the time for it is over.
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
    /// Whether nothing is due that must be observed.
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

    /// Whether the message was there when its completion was polled. What was changed again in
    /// the same step cannot be judged.
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
