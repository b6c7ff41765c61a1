//! The send queue: posting, order, waiting, completion.
//!
//! A request that is executed at once while the queue is empty leaves no state except its
//! completion. Others wait in `pending`, in order: first those that were sent and await an
//! answer, then those not begun. Over RoCE the packet requester works on the sent ones in place.

mod altered_packets;
mod answer;
mod capture;
mod completion;
mod counting;
mod datagrams;
mod explain;
mod full;
pub(in crate::qp) mod known_memory;
mod lane;
mod lane_state;
mod link;
pub(super) mod packet_requester;
mod packets;
pub mod post;
mod progress;
mod request;
mod single_request;
mod timed;
mod timed_state;

use counting::Counting;
use request::RequestStage;
pub use request::{Bind, PendingRequest, RequestProgress, SendRequest};

use crate::causes;
use crate::cq::Retired;
use crate::lanes;
use crate::process::Outbound;
use crate::qp::terms::{answer_to, request_kind};
use crate::roce::path::Path;
use known_memory::KnownMemory;
use packet_requester::{PacketRequester, retries_of};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use verbena_abi::*;
use verbena_hca_os::slots::Slots;
use verbena_hca_shm::context_table::{Interfaces, QpRecord};
use verbena_transport::order::Outstanding;
use verbena_transport::retry::{RetryCount, RnrRetries, RnrRetry};
use verbena_transport::unreliable;
use verbena_wire::AckTimeout;

/// Reason why nothing is sent now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Backoff {
    None,
    /// Backoff until this time, because the receiver was not ready.
    NotReady(u64),
    /// Backoff until this time, because the peer does not answer.
    NoAnswer(u64),
    /// Backoff until this time, because a rule about the link delays the request.
    Link(u64),
    /// Until there is a channel, or connecting has failed for now.
    Connecting,
}

/// A previous connection: the responder, and the PSN that it expects next from us unless it was
/// reset as well.
#[derive(Clone, Copy, Debug)]
struct PreviousConnection {
    destination: u32,
    incarnation: u32,
    next_psn: u32,
}

/// Requester state of a queue pair.
pub struct SendQueue {
    capacity: u64,
    posted: u64,
    /// Position up to which there was space at the last look.
    room_until: u64,
    /// Index of the first request of this connection.
    first_index: u64,
    pub(super) retired: Arc<Retired>,
    pending: Slots<PendingRequest>,
    /// Number of requests in `pending` that are sent or finished.
    begun: usize,
    /// Number of requests that are sent and not answered.
    sent: usize,
    /// Number of go-backs so far.
    pub(super) epoch: u32,
    pub(super) channel: Option<Arc<Outbound>>,
    /// Incarnation of the responder that expected our first request.
    pub(super) responder: Option<u32>,
    /// End of a previous connection of this queue pair to a responder.
    previous_connection: Option<PreviousConnection>,
    /// Address of the channel with messages in flight: XRC uses several.
    pub(super) lane: usize,
    /// Whether requests in flight are not pending ones, but in a lane or timed.
    is_unsettled: bool,
    /// Plain requests of an emulated adapter, once there were some.
    timed: Option<Box<timed_state::TimedRequests>>,
    /// Lane for short messages, once there were some.
    send_lane: Option<Box<lane_state::SendLane<crate::qp::Qp>>>,
    /// Messages in the channel until the consumer is notified of a lane, u32::MAX for none.
    messages_to_lane: u32,
    pub(super) destination: u32,
    pub(super) mtu: u32,
    /// Address vector of the responder, as the program set it.
    pub(super) vector: ibv_ah_attr,
    /// Interfaces at both ends of the path.
    pub(super) interfaces: Interfaces,
    /// Port that datagrams leave from.
    pub(super) port: u8,
    /// Whether requests leave the fast path, because that port is down, packets are lost or rules
    /// may concern them.
    pub(super) is_off_path: bool,
    /// Whether the fabric loses packets.
    pub(super) is_lost: bool,
    /// Counts of packets for the ports of the fabric.
    pub(super) counting: Option<Box<Counting>>,
    /// Rules about the requests.
    pub(super) causes: Option<Box<causes::Sends>>,
    /// Reads and atomics in flight.
    pub(super) outstanding: Outstanding,
    pub(super) notify_drained: bool,
    /// Whether acknowledgements take the general path: the program wants to know when the queue is
    /// drained, or rules about the link delay completions.
    completes_generally: bool,
    next_psn: u32,
    timeout: AckTimeout,
    retry_count: RetryCount,
    pub(super) rnr_retries: RnrRetries,
    backoff: Backoff,
    unanswered_since: Option<u64>,
    /// Number whose owner is being connected to.
    connecting: Option<u32>,
    /// The responder must be woken for records in the channel: once for a list of requests, at the
    /// end of posting.
    pub(super) owes_wake: bool,
    /// Requester for packets, if the peer is on another host.
    pub(super) packets: Option<Box<PacketRequester>>,
    pub(super) path: Option<Path>,
    /// Requester for datagrams to other hosts, once there was one.
    pub(super) datagrams: Option<Box<unreliable::Requester>>,
    /// Memory of plain requests.
    pub(super) known: KnownMemory,
}

impl SendQueue {
    pub(super) fn new(
        capacity: u32,
        pd: u32,
        causes: Option<Box<causes::Sends>>,
        lanes: lanes::Mode,
    ) -> SendQueue {
        SendQueue {
            capacity: u64::from(capacity),
            posted: 0,
            room_until: 0,
            first_index: 0,
            retired: Arc::default(),
            pending: Slots::default(),
            begun: 0,
            sent: 0,
            epoch: 0,
            channel: None,
            responder: None,
            previous_connection: None,
            lane: 0,
            is_unsettled: false,
            timed: None,
            send_lane: None,
            messages_to_lane: lanes.threshold(),
            destination: 0,
            mtu: 4096,
            vector: ibv_ah_attr::default(),
            interfaces: Interfaces::default(),
            port: 0,
            is_off_path: causes.is_some(),
            is_lost: false,
            counting: None,
            completes_generally: causes.is_some(),
            causes,
            outstanding: Outstanding::new(0),
            notify_drained: false,
            next_psn: 0,
            timeout: AckTimeout::INFINITE,
            retry_count: RetryCount::NONE,
            rnr_retries: RnrRetries::new(RnrRetry::Limited(0)),
            backoff: Backoff::None,
            unanswered_since: None,
            connecting: None,
            owes_wake: false,
            packets: None,
            path: None,
            datagrams: None,
            known: KnownMemory::new(pd),
        }
    }

    pub(super) fn configure(&mut self, attributes: &ibv_qp_attr) {
        self.mtu = 128 << attributes.path_mtu.clamp(1, 5);
        self.vector = attributes.ah_attr;
        self.port = attributes.port_num;
        let (timeout, retry_count, rnr_retry) = retries_of(attributes);
        (self.timeout, self.retry_count) = (timeout, retry_count);
        self.rnr_retries = RnrRetries::new(rnr_retry);
        self.outstanding.set_limit(attributes.max_rd_atomic.into());
        if self.destination != attributes.dest_qp_num {
            self.forget_channel();
            self.destination = attributes.dest_qp_num;
        }
    }

    /// Begins to count the packets to a destination with the request of this index, on a fabric.
    pub(super) fn begin_counting(&mut self, vector: &ibv_ah_attr, index: u64) {
        let fabric = crate::link::fabric();
        self.counting = fabric.map(|fabric| Counting::begin(fabric, vector, index));
    }

    pub(super) fn set_psn(&mut self, psn: u32) {
        self.next_psn = psn;
    }

    pub(super) fn forget_channel(&mut self) {
        self.known.forget_target();
        if let Some(incarnation) = self.responder.take() {
            let next = self.pending.get(self.begun).map(|one| one.psn);
            self.previous_connection = Some(PreviousConnection {
                destination: self.destination,
                incarnation,
                next_psn: next.unwrap_or(self.next_psn),
            });
        }
        self.channel = None;
    }

    /// Returns the PSN that a responder in this incarnation expects from us: its initial PSN, or
    /// where our previous connection to it ended.
    pub(super) fn expected_psn(&self, incarnation: u32, record: &QpRecord) -> u32 {
        match &self.previous_connection {
            Some(previous_connection)
                if previous_connection.destination == self.destination
                    && previous_connection.incarnation == incarnation =>
            {
                previous_connection.next_psn
            }
            _ => record.receive_psn.load(Ordering::Relaxed),
        }
    }

    pub(super) fn clear(&mut self) {
        if let Some(causes) = &mut self.causes {
            causes.forget();
        }
        self.packets = None;
        self.path = None;
        self.datagrams = None;
        self.counting = None;
        self.is_lost = false;
        self.forget_channel();
        self.pending.take_all();
        self.begun = 0;
        self.sent = 0;
        self.epoch = self.epoch.wrapping_add(1);
        self.outstanding.clear();
        self.backoff = Backoff::None;
        self.unanswered_since = None;
        self.first_index = self.posted;
        self.retired.forget(self.posted);
    }

    pub(super) fn take_pending(&mut self) -> Vec<PendingRequest> {
        self.begun = 0;
        self.sent = 0;
        self.epoch = self.epoch.wrapping_add(1);
        self.outstanding.clear();
        self.backoff = Backoff::None;
        self.pending.take_all()
    }

    /// Returns the number of incomplete requests, and the reason why the first of them waits.
    pub(super) fn waiting(&self) -> (usize, &'static str) {
        let first = self.pending.front().map(|one| one.stage);
        let reason = match (first, self.backoff) {
            (None, _) => "nothing",
            (Some(RequestStage::Sent), _) => "answer",
            (Some(RequestStage::Finished(_)), _) => "completion",
            (Some(RequestStage::Waiting), Backoff::None) => "turn",
            (Some(RequestStage::Waiting), Backoff::NotReady(_)) => "receiver",
            (Some(RequestStage::Waiting), Backoff::NoAnswer(_)) => "peer",
            (Some(RequestStage::Waiting), Backoff::Link(_)) => "link",
            (Some(RequestStage::Waiting), Backoff::Connecting) => "channel",
        };
        (self.pending.len(), reason)
    }

    /// Returns the index of the next request.
    pub(super) fn posted(&self) -> u64 {
        self.posted
    }

    /// Sets whether the program wants to know when the queue is drained.
    pub(super) fn set_notify_drained(&mut self, wanted: bool) {
        self.notify_drained = wanted;
        self.completes_generally = wanted || self.causes.is_some();
    }

    /// Returns the requests on a link with rules; none if there are no such rules.
    pub(super) fn passages(&mut self) -> Option<&mut causes::passage::Passages> {
        self.causes.as_deref_mut()?.passages()
    }

    /// Returns whether a request that the peer does not answer fails at last.
    pub(super) fn gives_up(&self) -> bool {
        self.retry_count.patience(self.timeout).is_some()
    }

    /// Returns whether a request is in flight.
    pub(super) fn has_outstanding(&self) -> bool {
        self.sent > 0
    }

    /// Returns whether there is space for one more request.
    #[inline]
    fn has_room(&mut self) -> bool {
        self.posted < self.room_until || self.finds_room()
    }

    #[inline]
    fn finds_room(&mut self) -> bool {
        self.room_until = self.retired.position() + self.capacity;
        self.posted < self.room_until
    }

    /// Returns whether no request is partly done, as the drained state requires.
    pub(super) fn is_drained(&self) -> bool {
        self.begun == 0 && self.pending.front().is_none_or(|one| !one.is_started)
    }

    /// Returns whether a request that is posted now may be executed at once: there is space for it,
    /// no backoff, and all earlier requests are in flight or done.
    #[inline]
    fn may_go_on(&mut self) -> bool {
        self.has_room()
            && self.begun == self.pending.len()
            && self.backoff == Backoff::None
            // If all are in flight, none has failed.
            && (self.sent == self.begun || !self.has_failed())
    }

    /// Returns whether the last request that has begun has failed: no later one may begin.
    #[inline]
    fn has_failed(&self) -> bool {
        let last = self.begun.checked_sub(1);
        match last.and_then(|last| self.stage(last)) {
            Some(RequestStage::Finished(status)) => status != IBV_WC_SUCCESS,
            _ => false,
        }
    }

    /// Appends a plain send, which was just sent while all earlier requests were begun.
    #[inline]
    fn append_sent(&mut self, request: &SendRequest<'_>, index: u64, psn: u32) {
        let one = self.pending.append();
        one.fill_send(request, index, psn);
        one.epoch = self.epoch;
        one.is_started = true;
        one.stage = RequestStage::Sent;
        self.begun += 1;
        self.sent += 1;
        self.unanswered_since = None;
    }

    /// Changes a request's stage; apart from [`SendQueue::append_sent`], no other code does.
    fn set_stage(&mut self, position: usize, stage: RequestStage) {
        let Some(one) = self.pending.get_mut(position) else {
            return;
        };
        let before = std::mem::replace(&mut one.stage, stage);
        let answer = answer_to(one.opcode);
        if before == RequestStage::Sent {
            self.sent -= 1;
            self.outstanding.end(answer);
        }
        if stage == RequestStage::Sent {
            self.sent += 1;
            self.outstanding.start(answer);
        }
        if self.is_off_path && stage == RequestStage::Finished(IBV_WC_SUCCESS) {
            let index = one.index;
            if let Some(passages) = self.passages() {
                passages.executed(index);
            }
        }
    }

    /// Returns the position of the first request that is sent and not answered, in a queue whose
    /// requests are answered in order; the number of those begun if there is none.
    fn first_sent(&self) -> usize {
        if self.sent == 0 {
            return self.begun;
        }
        let is_sent = |position| self.stage(position) == Some(RequestStage::Sent);
        // Requests that have finished are before those sent, but for one that has failed.
        let most = self.begun.saturating_sub(self.sent);
        let mut positions = (0..=most).rev();
        positions
            .find(|first| is_sent(*first) && (*first == 0 || !is_sent(first - 1)))
            .unwrap_or(0)
    }

    fn stage(&self, position: usize) -> Option<RequestStage> {
        self.pending.get(position).map(|one| one.stage)
    }

    /// Returns the request with this PSN that is in flight or partly sent.
    fn find_by_psn(&mut self, psn: u32) -> Option<usize> {
        let may_be_sent = (self.begun + 1).min(self.pending.len());
        self.pending.range(0..may_be_sent).position(|one| {
            let in_part = one.stage == RequestStage::Waiting && one.progress.bytes > 0;
            one.psn == psn && (one.stage == RequestStage::Sent || in_part)
        })
    }

    /// Returns the request that was sent as number `index` after `epoch` go-backs, if it was not
    /// sent again since.
    fn find_sent(&self, index: u64, epoch: u32) -> Option<usize> {
        let first = self.pending.front()?.index;
        let position = usize::try_from(index.checked_sub(first)?).ok()?;
        let one = self.pending.get(position)?;
        (one.stage == RequestStage::Sent && one.epoch == epoch).then_some(position)
    }

    /// Marks all requests from `position` on for sending again.
    fn go_back(&mut self, position: usize) {
        self.epoch = self.epoch.wrapping_add(1);
        for later in position..self.pending.len() {
            if self.stage(later) == Some(RequestStage::Sent) {
                self.set_stage(later, RequestStage::Waiting);
            }
            if let Some(one) = self.pending.get_mut(later) {
                one.progress.bytes = 0;
            }
        }
        self.begun = self.begun.min(position);
    }

    /// Returns the number of packets of a request, each with its own PSN; local operations have
    /// none.
    pub(super) fn packets(&self, opcode: ibv_wr_opcode, length: u64) -> u32 {
        // As for most requests, so that these need no more.
        if length <= u64::from(self.mtu) {
            return u32::from(!matches!(opcode, IBV_WR_LOCAL_INV | IBV_WR_BIND_MW));
        }
        match request_kind(opcode) {
            Some(kind) => verbena_transport::request::packets(kind, length, self.mtu) & 0xff_ffff,
            None => 0,
        }
    }
}
