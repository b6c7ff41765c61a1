//! The agents of a node: they answer requests that arrive at one of its ports.

mod m_key;
mod pma;
mod set_port;
mod sma;
mod tables;

pub(crate) use pma::class_port_info;
pub(crate) use sma::{PARTITIONS, SWITCH_PARTITIONS, node_info};

use crate::fabric::{End, Fabric, Node};
use crate::mad::{Mad, class, status};

/// The result of a datagram's arrival.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// The agent answers.
    Reply(Mad),
    /// The agent drops the datagram, as the specification demands.
    Dropped,
    /// No agent of the hardware answers: it is for a program, or for subnet administration.
    Foreign,
}

impl Fabric {
    /// Answers a datagram that arrived at a port. Only subnet management may arrive at queue pair
    /// 0.
    pub fn respond(&mut self, at: End, mad: &Mad, queue_pair: u32) -> Answer {
        let is_management = matches!(mad.class(), class::SM_LID | class::SM_DIRECTED);
        if is_management != (queue_pair == 0) {
            return Answer::Dropped;
        }
        if mad.is_response() {
            return Answer::Foreign;
        }
        match mad.class() {
            class::SM_LID | class::SM_DIRECTED => self.answer_smp(at, mad),
            class::PM => self.answer_perf(at, mad),
            _ => Answer::Foreign,
        }
    }

    /// Returns the node of an end.
    fn node_mut(&mut self, at: End) -> Result<&mut Node, u16> {
        let node = self.nodes.get_mut(at.node as usize);
        node.ok_or(status::INVALID)
    }
}
