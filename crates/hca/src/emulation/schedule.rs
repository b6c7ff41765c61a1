//! The times at which a request's effects are due.

use super::Emulation;
use super::lead::{self, Lead};
use super::nodes::{Nodes, Resource};
use super::work::{self, Work};
use verbena_abi::*;
use verbena_emulation::operation::{Operation, Placement};

/// Nanoseconds from the end of a write until the peer can act on it: a cache line from one core to
/// the other. Half a round trip of perftest beyond the time of the table, measured with 8 B.
const HANDOVER: u64 = 85;

/// Nanoseconds from the start of a completion's delivery until the program has it.
const COMPLETING: u64 = 80;

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
}

/// The times of a request, in nanoseconds of the clock.
#[derive(Clone, Copy, Debug)]
pub struct Due {
    /// It is executed.
    pub arrival: u64,
    /// Nanoseconds by which both of the others are early.
    pub lead: Lead,
    /// It completes.
    pub completion: u64,
    /// Its posting ends.
    pub posted: u64,
}

impl Emulation {
    /// Returns the times of a request, and occupies the sides of the nodes that it needs.
    pub fn schedule(&self, posting: &Posting, nodes: Option<&Nodes>) -> Due {
        let operation = operation_of(posting.opcode, posting.is_datagram);
        let placement = match posting.flags & IBV_SEND_INLINE {
            0 => Placement::Reference,
            _ => Placement::Inline,
        };
        let times = self.table.times(operation, placement, posting.bytes);
        let (now, is_fetched) = (posting.now, operation == Operation::Read);
        let wait = nodes.map_or(0, |nodes| {
            let (own, peer) = (Some(nodes.own()), posting.peer);
            let (from, to) = match is_fetched {
                false => (own, peer),
                true => (peer, own),
            };
            let sides = [
                (from, Resource::Out, times.sending),
                (to, Resource::In, times.sending),
                (own, Resource::Memory, times.memory),
                (peer.filter(|_| peer != own), Resource::Memory, times.memory),
            ];
            let waits = sides.into_iter().filter_map(|(node, resource, time)| {
                let node = node.filter(|_| time > 0.0)?;
                Some(nodes.occupy(node, resource, now, time))
            });
            waits.max().unwrap_or(0)
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
