//! Queue pairs: ibv_create_qp(3), ibv_modify_qp(3), ibv_query_qp(3), ibv_destroy_qp(3).
//!
//! Invariants:
//! - `state` changes only in `set_state`, under the send queue's lock, which also publishes
//!   it in the context table.
//! - The requester's state is in the send queue, the responder's in the receive queue, each under
//!   its lock.
//! - Completions of one queue are pushed in the order of its work requests.

mod acknowledge;
pub mod atomic;
mod attach;
pub mod backlog;
mod callbacks;
mod check;
mod congestion;
mod create;
mod fabric;
pub mod flush;
mod inline_data;
mod modify;
pub mod multicast_groups;
mod names;
mod notification_timer;
mod packet_setup;
mod ports;
mod post_receive;
mod requester;
pub mod responder;
pub mod ring_message;
mod ruled_peer;
pub mod send;
mod state;
mod terms;
mod transition;

pub use send::{Bind, SendRequest};

use crate::causes;
use crate::device::Device;
use crate::event::{AsyncEvent, EventQueue};
use crate::process::outbound_lane::LaneUser;
use crate::process::{Cq, Process};
use crate::receive::ReceiveRing;
use crate::srq::Srq;
use crate::xrcd::Xrcd;
use multicast_groups::Loopback;
use responder::message_state::{MessageState, ReceivedByLane};
use responder::packet_responder::PacketResponder;
use send::SendQueue;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use verbena_abi::*;
use verbena_hca_memory::domain::Pd;
use verbena_hca_memory::known_range::KnownRange;
use verbena_hca_memory::process_memory::ProcessMemory;
use verbena_hca_memory::quota;
use verbena_hca_os::lock::{Guard, Lock};
use verbena_transport::state::{Kind, State};

/// Attributes of a new queue pair.
pub struct QpInit {
    /// IBV_QPT_*.
    pub kind: ibv_qp_type,
    /// Protection domain; none for an XRC target.
    pub pd: Option<Arc<Pd>>,
    /// Completion queue for sends.
    pub send_cq: Option<Arc<Cq>>,
    /// Completion queue for receives.
    pub recv_cq: Option<Arc<Cq>>,
    /// Shared receive queue, used instead of a receive queue.
    pub srq: Option<Arc<Srq>>,
    /// XRC domain of an XRC target.
    pub xrcd: Option<Arc<Xrcd>>,
    /// Requested capacities.
    pub cap: ibv_qp_cap,
    /// Whether every send completes, signalled or not.
    pub signal_all: bool,
    /// Delivery of its multicast datagrams to local members.
    pub loopback: Loopback,
}

/// A queue pair, which shares no cache line.
#[repr(align(64))]
pub struct Qp {
    events: Arc<EventQueue<AsyncEvent>>,
    device: Device,
    process: Arc<Process>,
    memory: Arc<ProcessMemory>,
    number: u32,
    kind: ibv_qp_type,
    /// Whether messages may take the fast path: RC, and no rules about receives.
    receives_plainly: bool,
    /// Opcodes of the work requests that can be posted, a bit for each.
    accepted_requests: u32,
    pd: Option<Arc<Pd>>,
    send_cq: Option<Arc<Cq>>,
    recv_cq: Option<Arc<Cq>>,
    srq: Option<Arc<Srq>>,
    xrcd: Option<Arc<Xrcd>>,
    cap: ibv_qp_cap,
    signal_all: bool,
    loopback: Loopback,
    state: AtomicU32,
    /// Incarnation of the queue pair: changes with each reset.
    incarnation: AtomicU32,
    cookie: AtomicUsize,
    established: AtomicBool,
    destroyed: AtomicBool,
    /// The queue pair's share of the device's limit, until it is destroyed.
    quota_share: Mutex<Option<quota::QuotaShare>>,
    attributes: Mutex<ibv_qp_attr>,
    send: Lock<SendQueue>,
    receive: Lock<ReceiveQueue>,
    received_by_lane: ReceivedByLane,
    /// The link, if rules are about it.
    link: Option<Arc<causes::link::QpLink>>,
}

/// Responder state.
pub(crate) struct ReceiveQueue {
    ring: ReceiveRing,
    message_state: MessageState,
    qkey: u32,
    port: u8,
    rnr_timer: u8,
    /// The path MTU in bytes.
    mtu: u32,
    /// Responder of requests that arrive as packets.
    packets: Option<Box<PacketResponder>>,
    /// Rules about the receives.
    causes: Option<Box<causes::Receives>>,
    /// Range of the last plain messages' buffers.
    known_range: KnownRange,
}

impl Qp {
    fn for_each_cq(&self, action: impl Fn(&Cq)) {
        self.send_cq
            .iter()
            .chain(&self.recv_cq)
            .for_each(|cq| action(cq));
    }

    /// Returns the numbers by which threads that poll find the lanes of the queue pair.
    pub(crate) fn as_lane_user(&self) -> LaneUser {
        let number_of = |cq: &Option<Arc<Cq>>| cq.as_ref().map_or(0, |cq| cq.number());
        LaneUser {
            number: self.number,
            send_queue: number_of(&self.send_cq),
            receive_queue: number_of(&self.recv_cq),
        }
    }

    /// Returns the queue pair number, unique on the host.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Returns the type, IBV_QPT_*.
    pub fn kind(&self) -> ibv_qp_type {
        self.kind
    }

    /// Returns the granted capacities.
    pub fn cap(&self) -> ibv_qp_cap {
        self.cap
    }

    /// Returns the current state.
    #[inline]
    pub fn state(&self) -> ibv_qp_state {
        self.state.load(Ordering::Acquire)
    }

    /// Returns the type, as the transport's rules name it. It was checked at creation.
    #[inline]
    fn rule_kind(&self) -> Kind {
        terms::kind_of(self.kind).unwrap_or(Kind::Rc)
    }

    /// Returns whether requests are acknowledged and repeated.
    #[inline]
    fn is_reliable(&self) -> bool {
        self.rule_kind().is_reliable()
    }

    /// Returns whether the peer's requests are answered in the present state.
    #[inline]
    fn receives(&self) -> bool {
        State::code_responds(self.state())
    }

    /// Returns the XRC domain of an XRC target.
    pub fn xrcd(&self) -> Option<&Arc<Xrcd>> {
        self.xrcd.as_ref()
    }

    /// Returns the number of the queue pair that this one is connected to.
    pub fn destination(&self) -> u32 {
        self.lock_attributes().dest_qp_num
    }

    /// Sets the cookie that events of this queue pair carry.
    pub fn set_cookie(&self, cookie: usize) {
        self.cookie.store(cookie, Ordering::Release);
    }

    pub(crate) fn pd_number(&self) -> u32 {
        self.pd.as_ref().map_or(0, |pd| pd.number())
    }

    #[inline]
    pub(crate) fn incarnation(&self) -> u32 {
        self.incarnation.load(Ordering::Acquire)
    }

    pub(crate) fn is_destroyed(&self) -> bool {
        self.destroyed.load(Ordering::Acquire)
    }

    /// Returns the number of incomplete send requests, and the reason why the first of them waits:
    /// nothing, its turn, a channel, a ready receiver, a peer, an answer, its completion.
    pub fn sends_waiting(&self) -> (usize, &'static str) {
        self.lock_send().waiting()
    }

    /// Returns whether the program has requests to send, or completions in its queues, that it has
    /// not seen the end of.
    pub fn has_unseen_completions(&self) -> bool {
        let is_filled = |queue: &Option<Arc<Cq>>| queue.as_ref().is_some_and(|cq| !cq.is_empty());
        is_filled(&self.send_cq) || is_filled(&self.recv_cq) || self.sends_waiting().0 > 0
    }

    fn lock_attributes(&self) -> MutexGuard<'_, ibv_qp_attr> {
        self.attributes.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Locks the send queue, whose requests in flight are all pending then, also those that went
    /// by a lane.
    #[inline]
    fn lock_send(&self) -> Guard<'_, SendQueue> {
        let mut send = self.lock_send_unsettled();
        send.settle();
        send
    }

    /// Locks the send queue, of which messages in flight in a lane are no pending requests.
    #[inline]
    fn lock_send_unsettled(&self) -> Guard<'_, SendQueue> {
        self.send.lock()
    }

    #[inline]
    fn lock_receive(&self) -> Guard<'_, ReceiveQueue> {
        self.receive.lock()
    }
}
