//! The objects of the verbs, as plain records.

use super::late::Late;
use super::memory::{Bytes, Source};
use super::outcome::{Completion, Event, Outbox, Side, Statuses};
use crate::program::{
    Access, CqId, MrId, MwId, PdId, ProcessId, Program, QpId, RecvWr, SendWr, Service, SrqId,
    WindowType, XrcdId,
};
use std::collections::{BTreeMap, VecDeque};

/// A memory region.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Mr {
    /// Whose.
    pub owner: ProcessId,
    /// Its domain.
    pub pd: PdId,
    /// Where it begins in the arena.
    pub at: u32,
    /// Bytes.
    pub len: u32,
    /// Its rights.
    pub access: Access,
}

/// What a window is bound to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Binding {
    /// The region under it.
    pub mr: MrId,
    /// Where it begins in the arena.
    pub at: u32,
    /// Bytes.
    pub len: u32,
    /// Its rights.
    pub access: Access,
    /// Type 2: the queue pair through which alone it may be used.
    pub qp: Option<QpId>,
}

/// A memory window.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Mw {
    /// Whose.
    pub owner: ProcessId,
    /// Its domain.
    pub pd: PdId,
    /// Its type.
    pub kind: WindowType,
    /// What it shows, if it is bound.
    pub binding: Option<Binding>,
}

/// A shared receive queue.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Srq {
    /// Whose.
    pub owner: ProcessId,
    /// Its domain.
    pub pd: PdId,
    /// XRC: its domain's file and where its completions go.
    pub xrc: Option<(XrcdId, CqId)>,
    /// The limit that is armed; 0 is none.
    pub limit: u32,
    /// What was posted.
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

/// How far a send request is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Phase {
    /// Nothing was sent.
    Queued,
    /// What was sent found no receive request, and is sent again.
    Postponed {
        /// The memory that it writes was changed meanwhile.
        changed: bool,
    },
    /// The responder has part of it. What it carries, as it was when the first packet was made.
    Begun(Bytes),
    /// The responder has executed or refused it.
    Answered(Answer),
}

/// A responder's answer.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Answer {
    /// Executed; what a read or an atomic brings back.
    Executed(Option<Bytes>),
    /// It will end with one of these statuses.
    Failed(Statuses),
    /// Not ready; to be asked again.
    Postponed,
}

/// A send request in its queue.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Wqe {
    /// As posted.
    pub wr: SendWr,
    /// Whether its success makes a completion.
    pub signaled: bool,
    /// What it sends, as it was while it was posted, or when its fence opened. Inline data is taken then; other data at any
    /// time until the request is complete.
    pub posted: Bytes,
    /// Whether others stood before it in the same list: they may have been executed before the call came to its data.
    pub is_behind_others: bool,
    /// How far it is.
    pub phase: Phase,
}

/// A receive request that was taken from its queue.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Current {
    /// As posted.
    pub wr: RecvWr,
    /// Where it completes.
    pub cq: CqId,
}

/// A queue pair.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Qp {
    /// Whose.
    pub owner: ProcessId,
    /// Its service.
    pub service: Service,
    /// Its domain; an XRC target has none.
    pub pd: Option<PdId>,
    /// Where sends complete.
    pub send_cq: Option<CqId>,
    /// Where receives complete.
    pub recv_cq: Option<CqId>,
    /// Where its receives come from, if not from its own queue.
    pub srq: Option<SrqId>,
    /// XRC target: its domain.
    pub xrcd: Option<XrcdId>,
    /// Every send is signaled.
    pub all_signaled: bool,
    /// Its state.
    pub state: State,
    /// What peers may do through it.
    pub access: Access,
    /// Whom it is connected to.
    pub peer: Option<QpId>,
    /// The first packet number it expects.
    pub rq_psn: u32,
    /// The first packet number it sends.
    pub sq_psn: u32,
    /// How often it tries again after RNR; 7 is for ever.
    pub rnr_retry: u8,
    /// Send requests that are not acknowledged.
    pub sq: VecDeque<Wqe>,
    /// Receive requests.
    pub rq: VecDeque<RecvWr>,
    /// The receive request into which a message is coming.
    pub current: Option<Current>,
    /// Requests that ended in success without a completion since the last one that made one: the
    /// requester may not know yet that they have.
    pub silent: Vec<Wqe>,
    /// SQD: the send requests that may still begin, and that the drained event is due.
    pub draining: Option<usize>,
}

/// Everything that exists.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "a table of each kind of object")]
pub struct World {
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
    /// Processes without objects; each process's arena holds the pattern of its number.
    pub fn new(program: &Program) -> World {
        let arena = |process| Bytes::of(program.arena, Source::Pattern(process, 0));
        World {
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

    /// A process's memory.
    pub fn arena(&mut self, process: ProcessId) -> &mut Bytes {
        &mut self.memory[usize::from(process.0)]
    }

    /// A queue pair that is known to exist.
    pub fn qp(&mut self, id: QpId) -> &mut Qp {
        self.qps.get_mut(&id).expect("the queue pair exists")
    }

    /// Makes a completion.
    pub fn complete(&mut self, qp: QpId, side: Side, completion: Completion) {
        self.outbox
            .completions
            .entry((qp, side))
            .or_default()
            .push_back(completion);
    }

    /// Makes an event that must be raised.
    pub fn raise(&mut self, event: Event) {
        self.outbox.events.push(event);
        self.outbox.events.sort();
    }

    /// Makes an event that may be raised.
    pub fn perhaps(&mut self, event: Event) {
        if !self.outbox.possible.contains(&event) {
            self.outbox.possible.push(event);
            self.outbox.possible.sort();
        }
    }
}
