//! The objects of the verbs, as plain records.

use super::late::Late;
use super::memory::{Bytes, Source};
use super::outcome::{Completion, Event, Outbox, Side, Statuses};
use crate::program::rule::Rule;
use crate::program::{
    Access, CqId, MrId, MwId, PdId, ProcessId, Program, QpId, RecvWr, SendWr, Service, SrqId,
    WindowType, XrcdId,
};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// A memory region.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Mr {
    /// The owning process.
    pub owner: ProcessId,
    /// Its domain.
    pub pd: PdId,
    /// Offset in the arena.
    pub at: u32,
    /// Length in bytes.
    pub len: u32,
    /// Its rights.
    pub access: Access,
}

/// The memory that a window is bound to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Binding {
    /// The region.
    pub mr: MrId,
    /// Offset in the arena.
    pub at: u32,
    /// Length in bytes.
    pub len: u32,
    /// Its rights.
    pub access: Access,
    /// Type 2: the only queue pair that may use it.
    pub qp: Option<QpId>,
}

/// A memory window.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Mw {
    /// The owning process.
    pub owner: ProcessId,
    /// Its domain.
    pub pd: PdId,
    /// Its type.
    pub kind: WindowType,
    /// Its binding, if it is bound.
    pub binding: Option<Binding>,
}

/// A shared receive queue.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Srq {
    /// The owning process.
    pub owner: ProcessId,
    /// Its domain.
    pub pd: PdId,
    /// XRC: its domain and completion queue.
    pub xrc: Option<(XrcdId, CqId)>,
    /// The armed limit; 0 for none.
    pub limit: u32,
    /// Posted requests.
    pub queue: VecDeque<RecvWr>,
}

/// States of a queue pair (10.3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs, reason = "the specification's names")]
pub enum State {
    Reset,
    Init,
    Rtr,
    Rts,
    Sqd,
    Sqe,
    Err,
}

/// The progress of a send request.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Phase {
    /// Nothing was sent.
    Queued,
    /// The responder had no receive request; the request is sent again.
    Postponed {
        /// The memory that it writes was changed meanwhile.
        changed: bool,
    },
    /// The responder has part of it. The data, as of the first packet.
    Begun(Bytes),
    /// The responder has executed or refused it.
    Answered(Answer),
}

/// A responder's answer.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Answer {
    /// Executed; with the data of a read or an atomic.
    Executed(Option<Bytes>),
    /// It will complete with one of these statuses.
    Failed(Statuses),
    /// Not ready; the requester must retry.
    Postponed,
}

/// A send request in its queue.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Wqe {
    /// As posted.
    pub wr: SendWr,
    /// Whether its success generates a completion.
    pub signaled: bool,
    /// Its data when it was posted, or when its fence opened. Inline data is read then; other data
    /// at any time until the request is complete.
    pub posted: Bytes,
    /// Whether other requests preceded it in the same list: they may have been executed before the
    /// call read its data.
    pub is_behind_others: bool,
    /// Its progress.
    pub phase: Phase,
}

/// A receive request that was taken from its queue.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Current {
    /// As posted.
    pub wr: RecvWr,
    /// Its completion queue.
    pub cq: CqId,
}

/// A queue pair.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Qp {
    /// The owning process.
    pub owner: ProcessId,
    /// Its number among those that the process has created, from 1.
    pub number: u32,
    /// Its service.
    pub service: Service,
    /// Its domain; an XRC target has none.
    pub pd: Option<PdId>,
    /// Completion queue of sends.
    pub send_cq: Option<CqId>,
    /// Completion queue of receives.
    pub recv_cq: Option<CqId>,
    /// The shared receive queue, if it has one.
    pub srq: Option<SrqId>,
    /// XRC target: its domain.
    pub xrcd: Option<XrcdId>,
    /// Whether every send is signaled.
    pub all_signaled: bool,
    /// Its state.
    pub state: State,
    /// Access that peers have through it.
    pub access: Access,
    /// The connected peer.
    pub peer: Option<QpId>,
    /// The initial PSN that it expects.
    pub rq_psn: u32,
    /// The initial PSN that it sends.
    pub sq_psn: u32,
    /// Retries after a loss.
    pub retry: u8,
    /// RNR retries; 7 is unlimited.
    pub rnr_retry: u8,
    /// Unacknowledged send requests.
    pub sq: VecDeque<Wqe>,
    /// Receive requests.
    pub rq: VecDeque<RecvWr>,
    /// The receive request of the message that is arriving.
    pub current: Option<Current>,
    /// Successful unsignaled requests since the last signaled one: the requester may not know yet
    /// that they have ended.
    pub silent: Vec<Wqe>,
    /// SQD: the number of send requests that may still begin; `Some` while the drained event is
    /// due.
    pub draining: Option<usize>,
}

/// The state of all objects.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "a table of each kind of object")]
pub struct World {
    pub rules: Arc<Vec<Rule>>,
    /// Number of queue pairs that each process has created.
    pub made: Vec<u32>,
    pub memory: Vec<Bytes>,
    pub alive: Vec<bool>,
    pub pds: BTreeMap<PdId, ProcessId>,
    pub mrs: BTreeMap<MrId, Mr>,
    pub mws: BTreeMap<MwId, Mw>,
    pub cqs: BTreeMap<CqId, ProcessId>,
    pub srqs: BTreeMap<SrqId, Srq>,
    pub qps: BTreeMap<QpId, Qp>,
    pub xrcds: BTreeMap<XrcdId, (ProcessId, u32)>,
    pub late: Vec<Late>,
    pub outbox: Outbox,
}

impl World {
    /// Returns processes without objects; each process's arena holds the pattern of its number.
    pub fn new(program: &Program) -> World {
        let arena = |process| Bytes::of(program.arena, Source::Pattern(process, 0));
        World {
            rules: Arc::new(program.rules.clone()),
            made: vec![0; program.processes.into()],
            memory: (0..program.processes)
                .map(|process| arena(process.into()))
                .collect(),
            alive: vec![true; program.processes.into()],
            pds: BTreeMap::new(),
            mrs: BTreeMap::new(),
            mws: BTreeMap::new(),
            cqs: BTreeMap::new(),
            srqs: BTreeMap::new(),
            qps: BTreeMap::new(),
            xrcds: BTreeMap::new(),
            late: Vec::new(),
            outbox: Outbox::default(),
        }
    }

    /// Returns a process's memory.
    pub fn arena(&mut self, process: ProcessId) -> &mut Bytes {
        &mut self.memory[usize::from(process.0)]
    }

    /// Returns an existing queue pair.
    pub fn qp(&mut self, id: QpId) -> &mut Qp {
        self.qps.get_mut(&id).expect("the queue pair exists")
    }

    /// Adds a completion.
    pub fn complete(&mut self, qp: QpId, side: Side, completion: Completion) {
        self.outbox
            .completions
            .entry((qp, side))
            .or_default()
            .push_back(completion);
    }

    /// Adds an event that must be raised.
    pub fn raise(&mut self, event: Event) {
        self.outbox.events.push(event);
        self.outbox.events.sort();
    }

    /// Adds an event that may be raised.
    pub fn perhaps(&mut self, event: Event) {
        if !self.outbox.possible.contains(&event) {
            self.outbox.possible.push(event);
            self.outbox.possible.sort();
        }
    }
}
