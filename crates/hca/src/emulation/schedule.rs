//! The times at which a request's effects are due.

use super::Emulation;
use super::lead::{self, Lead};
use super::nodes::Nodes;
use super::work::{self, Work};
use verbena_abi::*;
use verbena_emulation::operation::{Operation, Placement};
use verbena_emulation::reservation::Request;
use verbena_emulation::table::Times;

/// Nanoseconds from the end of a write until the peer can act on it: a cache line from one core to
/// the other. Half a round trip of perftest beyond the time of the table, measured with 8 B.
const HANDOVER: u64 = 170;

/// Nanoseconds from the start of a completion's delivery until the program has it.
const COMPLETING: u64 = 110;

/// The way of a request to its peer.
#[derive(Clone, Copy, Debug)]
pub enum Way {
    /// Shared memory.
    Memory,
    /// The network, with the shortest round trip in nanoseconds, 0 if that is not known.
    Network(u64),
}

/// A request that is posted.
pub struct Posting {
    /// Its opcode.
    pub opcode: ibv_wr_opcode,
    /// Whether it is a datagram.
    pub is_datagram: bool,
    /// Its flags.
    pub flags: u32,
    /// Bytes of user data.
    pub bytes: u64,
    /// The time, in nanoseconds.
    pub now: u64,
    /// The peer's node, if that is emulated.
    pub peer: Option<usize>,
    /// Its queue pair's number.
    pub queue_pair: u32,
    /// Its way.
    pub way: Way,
}

/// The times of a request, in nanoseconds of the clock.
#[derive(Clone, Copy, Debug)]
pub struct Due {
    /// It is executed, or its packets leave.
    pub arrival: u64,
    /// Nanoseconds by which both of the others are early.
    pub lead: Lead,
    /// It completes.
    pub completion: u64,
    /// Its posting ends.
    pub posted: u64,
}

impl Posting {
    /// Returns the operation and the placement by which the table has its times.
    pub fn kind(&self) -> (Operation, Placement) {
        let placement = match self.flags & IBV_SEND_INLINE {
            0 => Placement::Reference,
            _ => Placement::Inline,
        };
        (operation_of(self.opcode, self.is_datagram), placement)
    }
}

impl Emulation {
    /// Returns the times of a request, and occupies the sides of the nodes that it needs.
    pub fn schedule(&self, posting: &Posting, nodes: Option<&Nodes>) -> Due {
        self.schedule_with(posting, &self.times(posting), nodes)
    }

    /// Returns the times of a request as the table has them.
    pub fn times(&self, posting: &Posting) -> Times {
        let (operation, placement) = posting.kind();
        self.table.times(operation, placement, posting.bytes)
    }

    /// As [`Emulation::schedule`], given [`Emulation::times`].
    pub fn schedule_with(&self, posting: &Posting, times: &Times, nodes: Option<&Nodes>) -> Due {
        let (operation, placement) = posting.kind();
        let now = posting.now;
        let wait = nodes.map_or(0, |nodes| {
            let request = Request {
                operation,
                placement,
                bytes: posting.bytes,
                now,
                own: nodes.own(),
                peer: posting.peer,
                queue_pair: posting.queue_pair,
            };
            self.table.reserve(&request, times, nodes)
        });
        let needed = match operation {
            Operation::Write => HANDOVER + work::usual(Work::Copy, posting.bytes),
            Operation::Send | Operation::WriteImmediate => {
                work::usual(Work::Message, posting.bytes)
            }
            Operation::Datagram => work::usual(Work::Datagram, posting.bytes),
            Operation::Read | Operation::Atomic => work::usual(Work::Copy, posting.bytes),
        };
        let start = now.saturating_add(wait);
        let at = |time: f64, early: u64| start.saturating_add((time as u64).saturating_sub(early));
        if let Way::Network(round_trip) = posting.way {
            let arrival = match operation {
                // The answer has the data: it is to come when the request completes.
                Operation::Read | Operation::Atomic => at(times.completion, round_trip),
                _ => at(times.visible, round_trip / 2),
            };
            return Due {
                arrival: arrival.max(now),
                completion: at(times.completion, 0),
                lead: Lead::default(),
                posted: now.saturating_add(times.posting as u64),
            };
        }
        let lead = lead::now();
        Due {
            arrival: at(times.visible, needed + lead.arrival),
            completion: at(times.completion, COMPLETING + lead.completion),
            lead,
            posted: now.saturating_add(times.posting as u64),
        }
    }
}

fn operation_of(opcode: ibv_wr_opcode, is_datagram: bool) -> Operation {
    match opcode {
        _ if is_datagram => Operation::Datagram,
        IBV_WR_RDMA_WRITE => Operation::Write,
        IBV_WR_RDMA_WRITE_WITH_IMM => Operation::WriteImmediate,
        IBV_WR_RDMA_READ | IBV_WR_FLUSH => Operation::Read,
        IBV_WR_ATOMIC_CMP_AND_SWP | IBV_WR_ATOMIC_FETCH_AND_ADD | IBV_WR_ATOMIC_WRITE => {
            Operation::Atomic
        }
        _ => Operation::Send,
    }
}
