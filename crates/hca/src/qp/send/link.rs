//! Requests on a link with rules ([`crate::causes::link`]): in shared memory they wait as the rules
//! say ([`crate::causes::passage`]), and packets are lost, repeated and held.

use super::{Backoff, SendQueue, SendRequest};
use crate::causes::delay_line;
use crate::causes::link::{self, Medium, QpLink};
use crate::causes::passage::{Arrival, Back, Posted, Retries};
use crate::emulation::lead::Lead;
use crate::emulation::schedule::{Due, Posting, Way};
use crate::emulation::work::Work;
use crate::emulation::{self, Emulation};
use crate::qp::Qp;
use crate::qp::requester::outcome::Outcome;
use crate::qp::terms::{is_answered, request_kind, status_code};
use crate::roce::path::{Path, leads_elsewhere};
use crate::roce::tx_batch::TxBatch;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use verbena_abi::*;
use verbena_faults::link::Direction;
use verbena_hca_os::clock;
use verbena_transport::completion::Status;
use verbena_wire::opcode::Kind;

/// Nanoseconds for which a change of state waits for emulated requests.
const SOON: u64 = 1_000_000;

impl Qp {
    /// Begins the passage of a request that is posted.
    #[cold]
    pub(super) fn begin_passage(
        &self,
        send: &mut SendQueue,
        request: &SendRequest<'_>,
        index: u64,
    ) {
        if request_kind(request.opcode).is_none() {
            return;
        }
        let emulation = emulation::own();
        let is_packets = send.packets.is_some();
        if is_packets && emulation.is_none() {
            return;
        }
        if !is_packets {
            self.meet_receiver(send, request);
        }
        let (timeout, count) = (send.timeout.nanoseconds(), send.retry_count.value());
        let (port, length) = (send.port, request.length());
        let now = match send.passages() {
            Some(passages) => passages.clock.read(),
            None => return,
        };
        let leaves = |one: &&Arc<crate::ah::AddressHandle>| leads_elsewhere(one.attributes());
        let medium = match (self.kind, request.address.filter(leaves)) {
            (IBV_QPT_UD, Some(_)) => Medium::DatagramPacket,
            (IBV_QPT_UD, None) => Medium::Datagram,
            _ if is_packets => Medium::Packet,
            _ => Medium::Request,
        };
        let Some(passages) = send.passages() else {
            return;
        };
        let way = match medium {
            Medium::Packet => Way::Network(passages.round_trip(length)),
            // No answer tells how long the network needs.
            Medium::DatagramPacket => Way::Network(0),
            Medium::Request | Medium::Datagram => Way::Memory,
        };
        let due = emulation.map(|emulation| self.schedule(emulation, request, send, now, way));
        let Some(passages) = send.passages() else {
            return;
        };
        let bytes = match is_answered(request.opcode) {
            false => (length, 0),
            true => (0, length),
        };
        let released = passages.begin(&Posted {
            index,
            now: due.map_or(now, |due| due.arrival),
            port,
            medium,
            bytes: bytes.0,
            answer_bytes: bytes.1,
            is_fetch: is_answered(request.opcode),
            retries: self.is_reliable().then_some(Retries { timeout, count }),
            completion: due.map_or(0, |due| due.completion),
            lead: due.map_or(Lead::default(), |due| due.lead),
            time: due.map_or(0, |due| (due.completion - now).max(1)),
            is_signalled: self.is_signalled(request.flags),
            work: match request.opcode {
                IBV_WR_RDMA_WRITE_WITH_IMM if self.is_reliable() => Work::Message,
                _ if request_kind(request.opcode) != Some(Kind::Send) => Work::Copy,
                _ if self.is_reliable() => Work::Message,
                _ => Work::Datagram,
            },
        });
        passages.set_posting(now, due.map_or(now, |due| due.posted));
        passages.posts_packets = matches!(way, Way::Network(_));
        let losses = std::mem::take(&mut passages.losses);
        let counters = self.process.counters.shard();
        counters.damaged_packets.add(losses.damaged);
        counters.lost_retries.add(losses.repeated);
        if released && matches!(send.backoff, Backoff::Link(_)) {
            send.backoff = Backoff::None;
        }
    }

    /// Returns the times of a request on the emulated adapter.
    fn schedule(
        &self,
        emulation: &Emulation,
        request: &SendRequest<'_>,
        send: &SendQueue,
        now: u64,
        way: Way,
    ) -> Due {
        let nodes = self.process.nodes.get();
        let is_datagram = self.kind == IBV_QPT_UD;
        let destination = match is_datagram {
            true => request.remote_qpn,
            false => send.destination,
        };
        // Another host may give a queue pair the same number.
        let owner = match way {
            Way::Memory => self.process.membership.owner(destination),
            Way::Network(_) => None,
        };
        let posting = Posting {
            opcode: request.opcode,
            is_datagram,
            flags: request.flags,
            bytes: request.length(),
            now,
            peer: nodes.and_then(|nodes| nodes.of(owner?)),
            queue_pair: self.number,
            way,
        };
        emulation.schedule(&posting, nodes)
    }

    /// Keeps the thread busy until a post would have ended on the emulated adapter, and does the
    /// work of this queue pair that is due meanwhile.
    pub(super) fn end_posting(self: &Arc<Qp>, send: &mut SendQueue) {
        let Some(emulation) = emulation::own() else {
            return;
        };
        let Some(passages) = send.passages() else {
            return;
        };
        let posting = std::mem::take(&mut passages.posting);
        // Empty for a request that the adapter does not send, or posts in no time.
        if posting.is_empty() {
            return self.continue_timed(send);
        }
        let mut now = passages.clock.towards(posting.end);
        if send.backoff == Backoff::None && send.begun < send.pending.len() {
            // Those that were no pending requests until now have not been looked at.
            self.transmit(send);
        }
        loop {
            let mut has_worked = self.execute_timed(send, &mut now);
            if let Backoff::Link(until) = send.backoff
                && until <= now
            {
                send.backoff = Backoff::None;
                self.transmit(send);
                has_worked = true;
            }
            if has_worked {
                let is_overtaken = &self.process.follower.is_overtaken;
                is_overtaken.store(true, Ordering::Relaxed);
            }
            if now >= posting.end {
                break;
            }
            // Without a pause, which takes as long as some posts.
            now = send
                .passages()
                .map_or(u64::MAX, |passages| passages.clock.read());
        }
        if let Some(passages) = send.passages()
            && passages.end_posting(now)
            // The system call for packets takes longer in any case.
            && !passages.posts_packets
        {
            emulation.note_slow_post();
        }
        self.follow_timed(send);
    }

    /// Executes the requests that are due soon, before the queue pair is reset or enters the error
    /// state: an adapter would have sent them.
    pub(in crate::qp) fn execute_soon(self: &Arc<Qp>, send: &mut SendQueue) {
        if emulation::own().is_none() {
            return;
        }
        let end = clock::now() + SOON;
        if send.backoff == Backoff::None {
            // Those that were no pending requests until now have not been looked at.
            self.transmit(send);
        }
        while let Backoff::Link(until) = send.backoff
            && until <= end
        {
            while clock::now() < until {
                std::hint::spin_loop();
            }
            send.backoff = Backoff::None;
            self.transmit(send);
        }
    }

    /// Returns how a request arrives that begins, or the outcome of one that does not arrive now.
    pub(in crate::qp) fn arrival(
        &self,
        send: &mut SendQueue,
        index: u64,
    ) -> Result<Arrival, Outcome> {
        let Some(passages) = send.passages() else {
            return Ok(Arrival::Once);
        };
        match passages.arrives(index) {
            Err(due) => Err(Outcome::Wait(due)),
            Ok(Arrival::Unanswered) => Err(Outcome::Failed(status_code(Status::RetryExceeded))),
            Ok(arrival) => Ok(arrival),
        }
    }

    /// Returns the status of the oldest request, which is executed, once its acknowledgement has
    /// arrived.
    #[cold]
    pub(super) fn returned(
        self: &Arc<Qp>,
        send: &mut SendQueue,
        index: u64,
        status: ibv_wc_status,
    ) -> Option<ibv_wc_status> {
        if status != IBV_WC_SUCCESS {
            return Some(status);
        }
        let Some(passages) = send.passages() else {
            return Some(status);
        };
        match passages.returns(index) {
            Back::Arrived => Some(status),
            Back::Unanswered => Some(status_code(Status::RetryExceeded)),
            Back::At(time) => {
                self.continue_at(send, time);
                None
            }
        }
    }

    /// Continues at a time; never for `u64::MAX`. Polls look at the timer; a program that does not
    /// poll is not kept waiting for the progress thread, which sleeps for whole milliseconds.
    pub(super) fn continue_at(self: &Arc<Qp>, send: &mut SendQueue, time: u64) {
        if time == u64::MAX {
            return;
        }
        let is_emulated = emulation::own().is_some();
        if !is_emulated {
            self.set_timer(time);
        }
        if let Some(passages) = send.passages() {
            // One wake at a time, or each of them would cause another.
            if passages.wake_at != 0 && passages.wake_at <= time {
                return;
            }
            passages.wake_at = time;
        }
        if is_emulated {
            self.process.timers.set_quiet(time, self.number);
            // Without the thread of the emulation, the progress thread looks.
            if !self.process.follower.follow(&self.process) {
                self.set_timer(time);
            }
            return;
        }
        let queue_pair = Arc::downgrade(self);
        // If it cannot wait there, polls and the progress thread look at the timer.
        let _ = delay_line::send_at(time, move || {
            if let Some(queue_pair) = queue_pair.upgrade() {
                queue_pair.wake();
            }
        });
    }

    /// Sends a packet that was written to the space of a TX batch, as the rules about the queue
    /// pair's link say.
    #[cold]
    pub(in crate::qp) fn push_on_link(
        &self,
        link: &Arc<QpLink>,
        port: u8,
        path: &Path,
        tx_batch: &mut TxBatch<'_>,
        length: usize,
    ) {
        if !link.has_rules {
            return tx_batch.push(length);
        }
        if link::is_cut(port) {
            return;
        }
        let mut rules = link.rules(Direction::Out);
        let fate = rules.next(Medium::Packet, port);
        if fate.is_lost {
            // A damaged packet is counted by the adapter that discards it, which is on another
            // host.
            return;
        }
        let now = clock::now();
        let time = rules.arrival(&fate, now, length as u64);
        drop(rules);
        let copy = tx_batch.room()[..length].to_vec();
        if fate.is_late {
            let path = path.clone();
            return link.keep_back(move || send_packet(&path, &copy));
        }
        let copies = 1 + u32::from(fate.is_doubled);
        if time <= now && !link.holds_some() {
            tx_batch.push(length);
            for _ in 1..copies {
                tx_batch.flush();
                send_packet(path, &copy);
            }
        } else {
            // Those before it in the batch leave first.
            tx_batch.flush();
            let (held, path) = (link.hold(), path.clone());
            // If too many wait, it is lost, as in a full buffer.
            let _ = delay_line::send_at(time, move || {
                for _ in 0..copies {
                    send_packet(&path, &copy);
                }
                drop(held);
            });
        }
        if link.keeps_one() {
            tx_batch.flush();
            link.sent_another();
        }
    }

    /// Returns how often a packet that has come is taken: not at all if it is lost.
    #[inline]
    pub(in crate::qp) fn packets_taken(&self) -> u32 {
        match &self.link {
            Some(link) if link.has_rules => self.packets_taken_from(link),
            _ => 1,
        }
    }

    #[cold]
    fn packets_taken_from(&self, link: &QpLink) -> u32 {
        let port = self.lock_receive().port;
        if link::is_cut(port) {
            return 0;
        }
        let fate = link.rules(Direction::In).next(Medium::Packet, port);
        if fate.is_damaged {
            self.process.counters.shard().damaged_packets.add(1);
        }
        match (fate.is_lost, fate.is_doubled) {
            (true, _) => 0,
            (false, false) => 1,
            (false, true) => 2,
        }
    }
}

/// Sends a packet in a batch by itself.
fn send_packet(path: &Path, packet: &[u8]) {
    let mut tx_batch = TxBatch::new(path);
    tx_batch.room()[..packet.len()].copy_from_slice(packet);
    tx_batch.push(packet.len());
}
