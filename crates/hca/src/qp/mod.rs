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
pub mod backlog;
mod check;
mod congestion;
pub mod flush;
pub mod multicast;
mod names;
mod notification_timer;
mod packet_setup;
mod ports;
mod requester;
pub mod responder;
pub mod ring_message;
mod seen_from_below;
pub mod send;
mod terms;
mod transition;

pub use send::{Bind, SendRequest};

use crate::context::Context;
use crate::cq::Completion;
use crate::device;
use crate::event::AsyncEvent;
use crate::link;
use crate::process::Cq;
use crate::process::Process;
use crate::receive::{Receive, ReceiveRing};
use crate::roce::path::{Path, interface_towards};
use crate::srq::Srq;
use crate::xrcd::Xrcd;
use multicast::Loopback;
use responder::message_state::MessageState;
use responder::packet_responder::PacketResponder;
use send::SendQueue;
use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use verbena_abi::*;
use verbena_hca_memory::domain::Pd;
use verbena_hca_memory::fault_injection::{self, Fault};
use verbena_hca_memory::process_memory::ProcessMemory;
use verbena_hca_memory::quota;
use verbena_hca_os::errno::Result;
use verbena_hca_os::lock::{Guard, Lock};
use verbena_hca_os::refused;
use verbena_hca_shm::context_table::{Interfaces, QpRecord};
use verbena_transport::completion::Status;
use verbena_transport::state::{Kind, Receives, State};

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
    /// Shared receive queue, used instead of its own receive queue.
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

/// A queue pair.
pub struct Qp {
    context: Arc<Context>,
    process: Arc<Process>,
    memory: Arc<ProcessMemory>,
    number: u32,
    kind: ibv_qp_type,
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
}

impl Qp {
    /// Creates a queue pair in the reset state.
    ///
    /// # Errors
    /// EINVAL for attributes that are inconsistent or exceed the device's limits; EOPNOTSUPP for
    /// types that the device lacks; ENOMEM beyond the device's number of queue pairs.
    pub fn create(context: &Arc<Context>, init: QpInit) -> Result<Arc<Qp>> {
        let cap = check::init(&init)?;
        let quota_share = quota::QUEUE_PAIRS.take()?;
        let process = context.process.clone();
        let number = process.allocate_number()?;
        let queue_pair = Arc::new(Qp {
            context: context.clone(),
            process: process.clone(),
            memory: process.memory.clone(),
            number,
            kind: init.kind,
            accepted_requests: terms::accepted_requests(init.kind),
            pd: init.pd,
            send_cq: init.send_cq,
            recv_cq: init.recv_cq,
            srq: init.srq,
            xrcd: init.xrcd,
            cap,
            signal_all: init.signal_all,
            loopback: init.loopback,
            state: AtomicU32::new(IBV_QPS_RESET),
            incarnation: AtomicU32::new(process.membership.next_incarnation()),
            cookie: AtomicUsize::new(0),
            established: AtomicBool::new(false),
            destroyed: AtomicBool::new(false),
            quota_share: Mutex::new(Some(quota_share)),
            attributes: Mutex::new(ibv_qp_attr {
                cap,
                ..ibv_qp_attr::default()
            }),
            send: Lock::new(SendQueue::new(cap.max_send_wr)),
            receive: Lock::new(ReceiveQueue {
                ring: ReceiveRing::new(cap.max_recv_wr, cap.max_recv_sge),
                message_state: MessageState::default(),
                qkey: 0,
                port: 0,
                rnr_timer: 0,
                mtu: 0,
                packets: None,
            }),
        });
        let retired = queue_pair.lock_send().retired.clone();
        let weak = Arc::downgrade(&queue_pair);
        queue_pair.for_each_cq(|cq| cq.attach(number, weak.clone(), &retired));
        if let Some(pd) = &queue_pair.pd {
            pd.retain();
        }
        if let Some(srq) = &queue_pair.srq {
            srq.retain();
        }
        if let Some(xrcd) = &queue_pair.xrcd {
            xrcd.retain();
        }
        process.queue_pairs.set(number, Some(queue_pair.clone()));
        Ok(queue_pair)
    }

    fn for_each_cq(&self, action: impl Fn(&Cq)) {
        self.send_cq
            .iter()
            .chain(&self.recv_cq)
            .for_each(|cq| action(cq));
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

    /// Changes state and attributes: all of `mask` or none. On return, peers have stopped any
    /// access that the queue pair no longer allows.
    ///
    /// # Errors
    /// EINVAL as in ibv_modify_qp(3). For a peer on another host also EADDRNOTAVAIL for a source
    /// GID that is not an address (any more), and ENETDOWN if the RoCE port could not be opened.
    pub fn modify(self: &Arc<Qp>, new: &ibv_qp_attr, mask: c_int) -> Result<()> {
        if mask & IBV_QP_STATE != 0 {
            self.complete_acknowledged_before(new.qp_state);
        }
        {
            let mut attributes = self.lock_attributes();
            let from = self.state();
            if mask & IBV_QP_CUR_STATE != 0 && new.cur_qp_state != from {
                return Err(refused!(
                    EINVAL,
                    "cur_qp_state is {}, and the queue pair is in {}",
                    transition::state_name(new.cur_qp_state),
                    transition::state_name(from)
                ));
            }
            let to = if mask & IBV_QP_STATE != 0 {
                new.qp_state
            } else {
                from
            };
            transition::check(self.kind, from, to, mask)?;
            let new = &ports::of_host(self.context.device, new, mask)?;
            let joined = || self.process.groups.port_of(self.number);
            check::port(&attributes, new, mask, joined)?;
            check::values(new, mask)?;
            let path = self.path_of_packets(new, from, to)?;
            self.answer_before(to);
            let allowed = attributes.qp_access_flags;
            if to == IBV_QPS_RESET {
                *attributes = ibv_qp_attr {
                    cap: self.cap,
                    ..ibv_qp_attr::default()
                };
            } else {
                take(&mut attributes, new, mask);
            }
            let revokes = allowed & !attributes.qp_access_flags != 0;
            self.apply(&attributes, from, to, mask, path);
            let ends = matches!(to, IBV_QPS_RESET | IBV_QPS_ERR);
            let fences = ends && from != IBV_QPS_RESET || revokes;
            if fences && !fault_injection::is(Fault::ModifyFence) {
                self.memory.fence();
            }
        }
        if matches!(self.kind, IBV_QPT_RC | IBV_QPT_UC | IBV_QPT_XRC_SEND)
            && mask & IBV_QP_DEST_QPN != 0
            && !self.goes_by_packets()
        {
            self.connect_to_peer();
        }
        Ok(())
    }

    fn apply(
        self: &Arc<Qp>,
        attributes: &ibv_qp_attr,
        from: ibv_qp_state,
        to: ibv_qp_state,
        mask: c_int,
        path: Option<Path>,
    ) {
        let mut send = self.lock_send();
        match to {
            IBV_QPS_ERR => {
                self.enter_error(&mut send);
                return;
            }
            IBV_QPS_RESET => {
                self.reset(&mut send);
                self.show_attributes(attributes, send.interfaces);
                send.configure(attributes);
                return;
            }
            _ => (),
        }
        send.configure(attributes);
        if mask & IBV_QP_AV != 0 {
            send.interfaces = Interfaces {
                own: link::interface_number(attributes.port_num),
                peer: interface_towards(&attributes.ah_attr),
            };
        }
        if mask & IBV_QP_SQ_PSN != 0 {
            send.set_psn(attributes.sq_psn);
        }
        {
            let mut receive = self.lock_receive();
            receive.qkey = attributes.qkey;
            receive.port = attributes.port_num;
            receive.rnr_timer = attributes.min_rnr_timer;
            receive.mtu = send.mtu;
        }
        self.show_attributes(attributes, send.interfaces);
        self.prepare_packets(&mut send, attributes, to, path);
        self.set_state(&mut send, to);
        if to == IBV_QPS_SQD && from == IBV_QPS_RTS {
            send.notify_drained = attributes.en_sqd_async_notify != 0;
            self.check_drained(&mut send);
        }
        if to == IBV_QPS_RTS && matches!(from, IBV_QPS_SQD | IBV_QPS_SQE) {
            self.transmit(&mut send);
        }
    }

    /// Publishes the attributes that peers need, before the state permits peers to act on them.
    fn show_attributes(&self, attributes: &ibv_qp_attr, interfaces: Interfaces) {
        let record = self.memory.contexts().queue_pair(self.number);
        let xrcd = self.xrcd.as_ref().map_or(0, |xrcd| xrcd.identity());
        record
            .destination
            .store(attributes.dest_qp_num, Ordering::Relaxed);
        record.pd.store(self.pd_number(), Ordering::Relaxed);
        record
            .access
            .store(attributes.qp_access_flags, Ordering::SeqCst);
        record
            .receive_psn
            .store(attributes.rq_psn, Ordering::Relaxed);
        record
            .rd_atomic
            .store(attributes.max_dest_rd_atomic.into(), Ordering::Relaxed);
        record
            .rnr_timer
            .store(attributes.min_rnr_timer.into(), Ordering::Relaxed);
        record
            .incarnation
            .store(self.incarnation(), Ordering::Relaxed);
        record.xrcd.store(xrcd, Ordering::Relaxed);
        record
            .interfaces
            .store(interfaces.as_word(), Ordering::Relaxed);
    }

    /// Enters the reset state: drops all posted requests without completions, and begins a new
    /// incarnation.
    fn reset(&self, send: &mut SendQueue) {
        self.set_state(send, IBV_QPS_RESET);
        self.incarnation.store(
            self.process.membership.next_incarnation(),
            Ordering::Release,
        );
        self.memory
            .contexts()
            .queue_pair(self.number)
            .incarnation
            .store(self.incarnation(), Ordering::SeqCst);
        self.clear(send);
    }

    #[inline]
    pub(crate) fn incarnation(&self) -> u32 {
        self.incarnation.load(Ordering::Acquire)
    }

    pub(crate) fn is_destroyed(&self) -> bool {
        self.destroyed.load(Ordering::Acquire)
    }

    /// Changes the state; no other code does. Peers that access the queue pair directly stop when
    /// the new state forbids it.
    fn set_state(&self, send: &mut SendQueue, state: ibv_qp_state) {
        self.state.store(state, Ordering::Release);
        self.show_state(send);
    }

    /// Publishes the state, and whether the port is up.
    fn show_state(&self, send: &mut SendQueue) {
        send.is_cut = link::is_down(send.port);
        let record = self.memory.contexts().queue_pair(self.number);
        let cut = if send.is_cut { QpRecord::CUT } else { 0 };
        let word = QpRecord::PRESENT | cut | self.kind << 8 | self.state();
        record.state.store(word, Ordering::SeqCst);
    }

    /// Handles a port that was taken down or up.
    pub(crate) fn port_changed(self: &Arc<Qp>, port: u8) {
        let mut send = self.lock_send();
        if send.port == port && !self.is_destroyed() {
            self.show_state(&mut send);
        }
    }

    /// Drops all posted requests without completions.
    fn clear(&self, send: &mut SendQueue) {
        send.clear();
        {
            let mut receive = self.lock_receive();
            receive.ring.clear();
            receive.message_state = MessageState::default();
            receive.packets = None;
        }
        self.established.store(false, Ordering::Relaxed);
        self.for_each_cq(|cq| cq.clean(self.number));
    }

    /// Enters the error state: all posted requests complete as flushed.
    fn enter_error(&self, send: &mut SendQueue) {
        self.enter_error_from(self.state(), send);
    }

    /// As [`Qp::enter_error`], with the previous state given.
    fn enter_error_from(&self, before: ibv_qp_state, send: &mut SendQueue) {
        let was_in_error = before == IBV_QPS_ERR;
        self.set_state(send, IBV_QPS_ERR);
        send.packets = None;
        for flushed in send.take_pending() {
            self.complete_send(send, &flushed, IBV_WC_WR_FLUSH_ERR);
        }
        self.flush_receives();
        let shares_receives = self.srq.is_some() || self.kind == IBV_QPT_XRC_RECV;
        if shares_receives && !was_in_error {
            self.raise(IBV_EVENT_QP_LAST_WQE_REACHED);
        }
    }

    fn flush_receives(&self) {
        self.flush_receives_of(&mut self.lock_receive());
    }

    fn flush_receives_of(&self, receive: &mut ReceiveQueue) {
        let begun = receive
            .message_state
            .current
            .take()
            .map(|current| current.receive);
        let packets = receive.packets.take();
        let taken = packets.and_then(|packets| packets.into_receive());
        let mut posted: Vec<Receive> = begun.into_iter().chain(taken).collect();
        while let Some(next) = receive.ring.take() {
            posted.push(next);
        }
        if fault_injection::is(Fault::FlushOrder) {
            posted.reverse();
        }
        for flushed in posted {
            self.complete_flushed_receive(flushed.wr_id);
        }
    }

    fn complete_flushed_receive(&self, wr_id: u64) {
        if let Some(cq) = &self.recv_cq {
            let wc = terms::failed_receive(self.number, wr_id, Status::Flushed);
            cq.push(Completion::received(wc), true);
        }
    }

    /// Enters the error state because of a responder error; `event` reports errors that have no
    /// completion. Returns whether the queue pair was receiving until now.
    pub(crate) fn fail_as_responder(&self, event: Option<ibv_event_type>) -> bool {
        let mut send = self.lock_send();
        if !self.receives() {
            return false;
        }
        self.enter_error(&mut send);
        if let Some(event) = event {
            self.raise(event);
        }
        true
    }

    fn raise(&self, kind: ibv_event_type) {
        let element = self.cookie.load(Ordering::Acquire);
        if element != 0 {
            self.context.events.push(AsyncEvent { kind, element });
        }
    }

    /// Returns the current attributes.
    pub fn query(&self) -> ibv_qp_attr {
        let mut attributes = *self.lock_attributes();
        attributes.qp_state = self.state();
        attributes.cur_qp_state = attributes.qp_state;
        attributes.cap = self.cap;
        let send = self.lock_send();
        attributes.sq_draining = u8::from(attributes.qp_state == IBV_QPS_SQD && !send.is_drained());
        ports::of_device(attributes)
    }

    /// Posts a receive request.
    ///
    /// # Errors
    /// EINVAL in the reset state, with a shared receive queue, or for too many buffers; ENOMEM when
    /// the queue is full.
    #[inline]
    pub fn post_receive(&self, wr_id: u64, sges: &[ibv_sge]) -> Result<()> {
        if self.srq.is_some() || matches!(self.kind, IBV_QPT_XRC_SEND | IBV_QPT_XRC_RECV) {
            return Err(check::no_receive_queue());
        }
        let mut receive = self.lock_receive();
        let receives = match self.state() {
            IBV_QPS_RTS => Receives::Kept,
            other => terms::state_of(other).receives(),
        };
        match receives {
            Receives::Refused => return Err(check::reset()),
            Receives::Flushed => {
                if sges.len() > self.cap.max_recv_sge as usize {
                    return Err(check::too_many_buffers(
                        "max_recv_sge",
                        sges.len(),
                        self.cap.max_recv_sge,
                    ));
                }
                // The thread that changed the state may not have flushed the earlier receives yet.
                self.flush_receives_of(&mut receive);
                self.complete_flushed_receive(wr_id);
                return Ok(());
            }
            Receives::Kept => (),
        }
        receive.ring.post(wr_id, sges)
    }

    /// Returns the number of posted receives; with a shared receive queue, of all its queue pairs.
    pub fn receives_waiting(&self) -> usize {
        match &self.srq {
            Some(srq) => srq.waiting(),
            None => self.lock_receive().ring.waiting(),
        }
    }

    /// Returns the number of incomplete send requests, and the reason why the first of them waits:
    /// nothing, its turn, a channel, a ready receiver, a peer, an answer, its completion.
    pub fn sends_waiting(&self) -> (usize, &'static str) {
        self.lock_send().waiting()
    }

    /// Attaches to a multicast group at the queue pair's port, which cannot change while it is
    /// attached.
    ///
    /// # Errors
    /// EINVAL if the GID is not a multicast GID, if this is not a datagram queue pair, or if it has
    /// no port yet on a device with several; as [`Memberships::join`].
    ///
    /// [`Memberships::join`]: crate::roce::group::Memberships::join
    pub fn attach(self: &Arc<Qp>, gid: ibv_gid) -> Result<()> {
        if self.kind != IBV_QPT_UD {
            return Err(refused!(
                EINVAL,
                "the queue pair has type {}, but only datagram queue pairs (IBV_QPT_UD) can join \
                 groups",
                self.kind
            ));
        }
        let group = link::group(gid).ok_or_else(check::no_group)?;
        let port = match self.lock_attributes().port_num {
            0 if device::Device::ports() == 1 => *self.context.device.host_ports().start(),
            0 => {
                return Err(refused!(
                    EINVAL,
                    "the device has {} ports, and the queue pair has none yet: move it to INIT \
                     first",
                    device::Device::ports()
                ));
            }
            port => port,
        };
        let join = || match self.process.ports.roce() {
            Some(udp) => udp.groups.join(port, group.into()),
            None => Ok(()),
        };
        self.process.groups.attach(port, group, self, join)?;
        self.show_multicast();
        Ok(())
    }

    /// Detaches from a multicast group.
    ///
    /// # Errors
    /// EINVAL if it was not attached.
    pub fn detach(&self, gid: ibv_gid) -> Result<()> {
        let group = link::group(gid).ok_or_else(check::no_group)?;
        let leave = |port| {
            if let Some(udp) = self.process.ports.roce() {
                udp.groups.leave(port, group.into());
            }
        };
        self.process.groups.detach(group, self.number, leave)?;
        self.show_multicast();
        Ok(())
    }

    fn show_multicast(&self) {
        if let Some(member) = self.process.membership.get() {
            let flags = if self.process.groups.is_empty() {
                0
            } else {
                verbena_hca_shm::registry::MULTICAST
            };
            member.registry.set_flags(member.identity, flags);
        }
    }

    /// Destroys the queue pair. On return, peers have stopped acting on it and no completion names
    /// it.
    ///
    /// # Errors
    /// EBUSY while attached to a multicast group; EINVAL if it is destroyed already.
    pub fn destroy(&self) -> Result<()> {
        if self.process.groups.port_of(self.number).is_some() {
            return Err(refused!(
                EBUSY,
                "the queue pair is attached to multicast groups: ibv_detach_mcast first"
            ));
        }
        if self.destroyed.swap(true, Ordering::SeqCst) {
            return Err(refused!(EINVAL, "the queue pair is already destroyed"));
        }
        self.answer_before(IBV_QPS_RESET);
        if self.kind == IBV_QPT_UD {
            self.process.backlog.wait_until_sent(self.number);
        }
        {
            let mut send = self.lock_send();
            self.reset(&mut send);
            let record = self.memory.contexts().queue_pair(self.number);
            record.state.store(0, Ordering::SeqCst);
        }
        self.process.queue_pairs.set(self.number, None);
        self.memory.fence();
        self.for_each_cq(|cq| cq.detach(self.number));
        if let Some(pd) = &self.pd {
            pd.release();
        }
        if let Some(srq) = &self.srq {
            srq.release();
        }
        if let Some(xrcd) = &self.xrcd {
            xrcd.release();
        }
        let cookie = self.cookie.swap(0, Ordering::SeqCst);
        self.context.events.forget(|event| {
            event.element == cookie
                && matches!(
                    event.kind,
                    IBV_EVENT_QP_FATAL
                        | IBV_EVENT_QP_REQ_ERR
                        | IBV_EVENT_QP_ACCESS_ERR
                        | IBV_EVENT_COMM_EST
                        | IBV_EVENT_SQ_DRAINED
                        | IBV_EVENT_QP_LAST_WQE_REACHED
                )
        });
        self.process.membership.release_number(self.number);
        *self.quota_share.lock().unwrap_or_else(|e| e.into_inner()) = None;
        Ok(())
    }

    fn lock_attributes(&self) -> MutexGuard<'_, ibv_qp_attr> {
        self.attributes.lock().unwrap_or_else(|e| e.into_inner())
    }

    #[inline]
    fn lock_send(&self) -> Guard<'_, SendQueue> {
        self.send.lock()
    }

    #[inline]
    fn lock_receive(&self) -> Guard<'_, ReceiveQueue> {
        self.receive.lock()
    }
}

fn take(attributes: &mut ibv_qp_attr, new: &ibv_qp_attr, mask: c_int) {
    macro_rules! take {
        ($($bit:ident => $($field:ident),+;)*) => {
            $(if mask & $bit != 0 { $(attributes.$field = new.$field;)+ })*
        };
    }
    take! {
        IBV_QP_EN_SQD_ASYNC_NOTIFY => en_sqd_async_notify;
        IBV_QP_ACCESS_FLAGS => qp_access_flags;
        IBV_QP_PKEY_INDEX => pkey_index;
        IBV_QP_PORT => port_num;
        IBV_QP_QKEY => qkey;
        IBV_QP_AV => ah_attr;
        IBV_QP_PATH_MTU => path_mtu;
        IBV_QP_TIMEOUT => timeout;
        IBV_QP_RETRY_CNT => retry_cnt;
        IBV_QP_RNR_RETRY => rnr_retry;
        IBV_QP_MAX_QP_RD_ATOMIC => max_rd_atomic;
        IBV_QP_ALT_PATH => alt_ah_attr, alt_pkey_index, alt_port_num, alt_timeout;
        IBV_QP_MIN_RNR_TIMER => min_rnr_timer;
        IBV_QP_MAX_DEST_RD_ATOMIC => max_dest_rd_atomic;
        IBV_QP_PATH_MIG_STATE => path_mig_state;
        IBV_QP_RATE_LIMIT => rate_limit;
    }
    // 24-bit numbers: higher bits are not part of the attribute.
    if mask & IBV_QP_RQ_PSN != 0 {
        attributes.rq_psn = new.rq_psn & 0xff_ffff;
    }
    if mask & IBV_QP_SQ_PSN != 0 {
        attributes.sq_psn = new.sq_psn & 0xff_ffff;
    }
    if mask & IBV_QP_DEST_QPN != 0 {
        attributes.dest_qp_num = new.dest_qp_num & 0xff_ffff;
    }
}
