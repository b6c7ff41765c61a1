//! What a program can see: completions, events and return codes, each as the set that is allowed.

use super::memory::Bytes;
use crate::program::{CqId, ProcessId, QpId, SrqId};
use std::collections::{BTreeMap, VecDeque};
use verbena_abi as abi;

/// A set of completion statuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Statuses(u32);

impl Statuses {
    /// One status.
    pub const fn of(status: abi::ibv_wc_status) -> Statuses {
        Statuses(1 << status)
    }

    /// Either.
    pub const fn or(self, status: abi::ibv_wc_status) -> Statuses {
        Statuses(self.0 | 1 << status)
    }

    /// Whether a status is allowed.
    pub fn allows(self, status: abi::ibv_wc_status) -> bool {
        status < 32 && self.0 & 1 << status != 0
    }

    /// The allowed ones.
    pub fn each(self) -> impl Iterator<Item = abi::ibv_wc_status> {
        (0..32).filter(move |status| self.allows(*status))
    }
}

/// Success.
pub const SUCCESS: Statuses = Statuses::of(abi::IBV_WC_SUCCESS);
/// Flushed.
pub const FLUSHED: Statuses = Statuses::of(abi::IBV_WC_WR_FLUSH_ERR);

/// Which of a queue pair's work queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Side {
    /// The send queue.
    Send,
    /// The receive queue, or the shared one in its place.
    Receive,
}

/// What a receive completion tells beside its length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Carried {
    /// Nothing.
    Nothing,
    /// Immediate data, in host order.
    Immediate(u32),
    /// A key was invalidated.
    Invalidated,
}

/// A completion that must come.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Completion {
    /// Where.
    pub cq: CqId,
    /// `wr_id`.
    pub id: u64,
    /// The allowed statuses.
    pub statuses: Statuses,
    /// The opcode, defined for successes.
    pub opcode: abi::ibv_wc_opcode,
    /// Bytes, where the manual page defines them.
    pub byte_len: Option<u32>,
    /// What came with it.
    pub carried: Carried,
    /// UD: there are 40 bytes of global route header in front.
    pub datagram: bool,
    /// Where the message lies, which must be complete when its completion is seen.
    pub places: Vec<(u32, u32)>,
    /// What is there then.
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
    /// The kind with this number.
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

/// Whose event it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Subject {
    /// A queue pair's.
    Qp(QpId),
    /// A shared receive queue's.
    Srq(SrqId),
}

/// An event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Event {
    /// Who is told.
    pub process: ProcessId,
    /// What happened.
    pub kind: EventKind,
    /// To what.
    pub subject: Subject,
}

/// What a call may return.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Code {
    /// Success.
    Success,
    /// Any of these errors.
    Errors(Vec<i32>),
    /// Some error: the manual page does not say which.
    SomeError,
}

impl Code {
    /// Whether a return code (0 or an errno value) is allowed.
    pub fn allows(&self, code: i32) -> bool {
        match self {
            Code::Success => code == 0,
            Code::Errors(errors) => errors.contains(&code),
            Code::SomeError => code != 0,
        }
    }
}

/// What has happened and was not observed yet.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct Outbox {
    /// Completions, in order for each work queue.
    pub completions: BTreeMap<(QpId, Side), VecDeque<Completion>>,
    /// Events that must come.
    pub events: Vec<Event>,
    /// Events that may come, once each.
    pub possible: Vec<Event>,
    /// Work of this step ended without a completion: nothing tells when.
    pub silent: bool,
    /// Return codes by the call's position in the step.
    pub codes: BTreeMap<usize, Code>,
}
