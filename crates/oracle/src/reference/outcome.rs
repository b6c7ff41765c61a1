//! A program's observations: completions, events and return codes, each as a set of allowed values.

use super::memory::Bytes;
use crate::program::{CqId, ProcessId, QpId, SrqId};
use std::collections::{BTreeMap, VecDeque};
use verbena_abi as abi;

/// A set of completion statuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Statuses(u32);

impl Statuses {
    /// Returns a set of one status.
    pub const fn of(status: abi::ibv_wc_status) -> Statuses {
        Statuses(1 << status)
    }

    /// Adds a status.
    pub const fn or(self, status: abi::ibv_wc_status) -> Statuses {
        Statuses(self.0 | 1 << status)
    }

    /// Returns whether a status is allowed.
    pub fn allows(self, status: abi::ibv_wc_status) -> bool {
        status < 32 && self.0 & 1 << status != 0
    }

    /// Iterates over the allowed statuses.
    pub fn each(self) -> impl Iterator<Item = abi::ibv_wc_status> {
        (0..32).filter(move |status| self.allows(*status))
    }
}

/// Success.
pub const SUCCESS: Statuses = Statuses::of(abi::IBV_WC_SUCCESS);
/// Flushed.
pub const FLUSHED: Statuses = Statuses::of(abi::IBV_WC_WR_FLUSH_ERR);

/// A work queue of a queue pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Side {
    /// The send queue.
    Send,
    /// The receive queue, or the shared one.
    Receive,
}

/// Information of a receive completion besides its length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Carried {
    /// None.
    Nothing,
    /// Immediate data, in host order.
    Immediate(u32),
    /// A key was invalidated.
    Invalidated,
}

/// A completion that must occur.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Completion {
    /// Its completion queue.
    pub cq: CqId,
    /// `wr_id`.
    pub id: u64,
    /// The allowed statuses.
    pub statuses: Statuses,
    /// The opcode, defined for successes.
    pub opcode: abi::ibv_wc_opcode,
    /// Length in bytes, where the manual page defines it.
    pub byte_len: Option<u32>,
    /// Immediate data or invalidation.
    pub carried: Carried,
    /// UD: 40 bytes of global route header precede the message.
    pub datagram: bool,
    /// The memory of the message, which must be complete when the completion is observed.
    pub places: Vec<(u32, u32)>,
    /// The expected contents.
    pub content: Bytes,
}

/// Kinds of asynchronous events that can occur.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum EventKind {
    /// IBV_EVENT_QP_FATAL.
    QpFatal,
    /// IBV_EVENT_QP_REQ_ERR.
    QpRequestError,
    /// IBV_EVENT_QP_ACCESS_ERR.
    QpAccessError,
    /// IBV_EVENT_COMM_EST.
    CommunicationEstablished,
    /// IBV_EVENT_SQ_DRAINED.
    Drained,
    /// IBV_EVENT_SRQ_LIMIT_REACHED.
    SrqLimit,
    /// IBV_EVENT_QP_LAST_WQE_REACHED.
    LastWqe,
}

impl EventKind {
    /// Returns the kind with this number.
    pub fn from_abi(kind: abi::ibv_event_type) -> Option<EventKind> {
        Some(match kind {
            abi::IBV_EVENT_QP_FATAL => EventKind::QpFatal,
            abi::IBV_EVENT_QP_REQ_ERR => EventKind::QpRequestError,
            abi::IBV_EVENT_QP_ACCESS_ERR => EventKind::QpAccessError,
            abi::IBV_EVENT_COMM_EST => EventKind::CommunicationEstablished,
            abi::IBV_EVENT_SQ_DRAINED => EventKind::Drained,
            abi::IBV_EVENT_SRQ_LIMIT_REACHED => EventKind::SrqLimit,
            abi::IBV_EVENT_QP_LAST_WQE_REACHED => EventKind::LastWqe,
            _ => return None,
        })
    }
}

/// The object of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Subject {
    /// A queue pair.
    Qp(QpId),
    /// A shared receive queue.
    Srq(SrqId),
}

/// An asynchronous event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Event {
    /// The process that receives it.
    pub process: ProcessId,
    /// The kind.
    pub kind: EventKind,
    /// The object.
    pub subject: Subject,
}

/// The allowed return codes of a call.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Code {
    /// Success.
    Success,
    /// Any of these errors.
    Errors(Vec<i32>),
    /// Any error: the manual page does not specify which.
    SomeError,
}

impl Code {
    /// Returns whether a return code (0 or an errno value) is allowed.
    pub fn allows(&self, code: i32) -> bool {
        match self {
            Code::Success => code == 0,
            Code::Errors(errors) => errors.contains(&code),
            Code::SomeError => code != 0,
        }
    }
}

/// Effects that are not observed yet.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct Outbox {
    /// Completions, in order per work queue.
    pub completions: BTreeMap<(QpId, Side), VecDeque<Completion>>,
    /// Events that must occur.
    pub events: Vec<Event>,
    /// Events that may occur, once each.
    pub possible: Vec<Event>,
    /// Whether work of this step ends without a completion, so that its end is not observable.
    pub silent: bool,
    /// Return codes by the call's position in the step.
    pub codes: BTreeMap<usize, Code>,
}
