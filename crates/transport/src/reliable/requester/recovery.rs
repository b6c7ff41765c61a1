//! Loss recovery of a requester (specification 9.7.5.1, 9.7.6).
//!
//! **Retransmission.** At first only the missing packet is sent again. The next acknowledgement
//! shows whether the peer kept the packets behind it. If it did, the acknowledgement covers them up
//! to the next missing packet, which is sent again at once. If the acknowledgement covers the one
//! packet and no more, the packets behind it are lost:
//! - If the peer had reported the loss (NAK, because later packets arrived), it drops packets
//!   behind a gap: all are sent again (go-back-N). After several such losses in succession the
//!   requester remembers this ([`Peer`]); a single one may be chance, when the next packet and the
//!   NAK for it are lost too.
//! - If the peer had not reported it, twice as many packets are sent again as before.
//!
//! With frequent losses the one packet is sent twice (`Losses`).
//!
//! **Timing.** A NAK, or an acknowledgement that passes over a missing response, triggers recovery
//! at once. Otherwise there are two timers:
//! - the consumer's (`timeout`): each expiry costs a retry and retransmits;
//! - a shorter one derived from measured round trips, the *probe*: it retransmits the oldest
//!   packet, which every responder answers as a duplicate if it has it. It costs no retry, and its
//!   interval doubles until there is progress. Hardware adapters do the same and call it adaptive
//!   retransmission.

use verbena_wire::{Psn, RnrTimer};

use super::{Cursor, Mode, Requester};
use crate::access::ReliableRequesterAccess;
use crate::completion::Status;
use crate::disposition::Disposition;
use crate::request::Answer;
use crate::time::Instant;

/// With at least this many packets behind a lost one, chance does not explain that all are lost.
const TELLING: i32 = 8;
/// Losses in succession after which the peer is known to drop packets behind a gap. The loss of two
/// adjacent packets together with the NAK for the second is too rare to happen twice in succession;
/// with frequent losses more evidence is needed.
const TELLING_LOSSES: u32 = 2;
const TELLING_FREQUENT_LOSSES: u32 = 8;

/// The awaited event and its deadline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Timer {
    Idle,
    Acknowledgement(Instant),
    ReceiverNotReady(Instant),
}

/// The next retransmission of the oldest packet to find out whether it has arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Probe {
    at: Option<Instant>,
    /// Probes since the last progress.
    sent: u32,
}

impl Probe {
    pub(super) const NONE: Self = Self { at: None, sent: 0 };
}

/// How the peer treats packets behind a missing one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Peer {
    /// It may keep them; in `doubts` losses in succession it seemed not to.
    MayKeep {
        doubts: u32,
    },
    Drops,
}

impl Peer {
    pub(super) const UNKNOWN: Self = Self::MayKeep { doubts: 0 };

    fn may_keep(self) -> bool {
        self != Self::Drops
    }

    /// Clears the doubts: the peer has acknowledged more than was retransmitted.
    fn has_kept(&mut self) {
        if self.may_keep() {
            *self = Self::UNKNOWN;
        }
    }

    /// Records a loss behind which no packet seems to have been kept; the `most`-th in succession
    /// is proof.
    fn doubt(&mut self, most: u32) {
        if let Self::MayKeep { doubts } = *self {
            *self = match doubts + 1 {
                doubts if doubts < most => Self::MayKeep { doubts },
                _ => Self::Drops,
            };
        }
    }
}

/// Where transmission resumes after a retransmission.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Resume {
    pub(super) at: Cursor,
    /// Packets to send before that.
    pub(super) after: u32,
    /// The packet to send a second time before that.
    pub(super) again: Option<Cursor>,
}

impl Resume {
    /// Returns the cursor and the remaining state after one packet has been retransmitted; `next`
    /// is the packet behind it.
    pub(super) fn sent(self, next: Cursor) -> (Cursor, Option<Self>) {
        let after = self.after - 1;
        if after > 0 && next < self.at {
            return (next, Some(Self { after, ..self }));
        }
        match self.again {
            Some(first) => {
                let once_more = Self {
                    after: 1,
                    again: None,
                    ..self
                };
                (first, Some(once_more))
            }
            None => (self.at, None),
        }
    }

    /// Returns the same positions after the first request has left the queue.
    pub(super) fn without_the_first(self) -> Self {
        Self {
            at: self.at.without_the_first(),
            again: self.again.map(Cursor::without_the_first),
            ..self
        }
    }
}

/// A loss that is being repaired; further NAKs for it are ignored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Recovery {
    None,
    /// All packets from the oldest on are retransmitted.
    FromThere,
    /// One or several packets are retransmitted.
    OfSome(Repair),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Repair {
    packet: Psn,
    /// Number of packets from `packet` on.
    packets: u32,
    /// The PSN after the last packet that had been sent when the loss was detected.
    until: Psn,
    cause: Cause,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cause {
    /// The peer has reported the packet as missing.
    Told,
    /// The packet seemed to be missing at this time.
    Missed(Instant),
}

impl Requester {
    /// Returns the time at which [`Self::handle_timeout`] must be called if nothing else happens
    /// before.
    pub fn next_timeout(&self) -> Option<Instant> {
        match self.timer {
            Timer::Idle => None,
            Timer::Acknowledgement(at) => Some(self.probe.at.map_or(at, |probe| probe.min(at))),
            Timer::ReceiverNotReady(at) => Some(at),
        }
    }

    /// Handles expired timers. Does nothing if called early.
    pub fn handle_timeout(&mut self, now: Instant, access: &mut impl ReliableRequesterAccess) {
        match self.timer {
            Timer::Acknowledgement(at) if at <= now => match self.retries.spend() {
                Ok(()) => {
                    // Earlier loss information is obsolete: a NAK after this counts as new.
                    self.recovery = Recovery::None;
                    self.congestion.lost();
                    match (self.peer.may_keep(), oldest_answer(access)) {
                        (true, Some(Answer::Acknowledgement)) => {
                            self.repair(Cause::Missed(now));
                        }
                        _ => self.go_back(),
                    }
                    self.restart_timer(now);
                }
                Err(status) => self.fail(status, access),
            },
            Timer::Acknowledgement(_) if self.probe.at.is_some_and(|at| at <= now) => {
                self.probe.sent += 1;
                match oldest_answer(access) {
                    // Response packets arrive one by one: the first says nothing about the others.
                    Some(Answer::Response) => self.rewind(1),
                    _ => self.repair(Cause::Missed(now)),
                }
                self.set_probe(now);
            }
            Timer::ReceiverNotReady(at) if at <= now => {
                self.timer = Timer::Idle;
                self.go_back();
            }
            _ => {}
        }
    }

    pub(super) fn stop_waiting(&mut self) {
        self.timer = Timer::Idle;
        self.probe = Probe::NONE;
        self.recovery = Recovery::None;
        self.resume = None;
        self.round_trip.forget();
    }

    /// Handles newly acknowledged packets: reloads the retry counters and restarts the timer.
    pub(super) fn progress(&mut self, now: Instant, access: &mut impl ReliableRequesterAccess) {
        let before = self.oldest;
        self.oldest = match access.sequence(0) {
            Some(oldest) if self.started > 0 => oldest.first.plus(self.done),
            // All that was sent is done.
            _ => self.limit,
        };
        let packets = self.oldest.ahead_of(before);
        self.congestion.acknowledged(packets, self.oldest);
        self.round_trip.acknowledged(self.oldest, now);
        if let Some(resume) = self.resume.take() {
            // The packets to retransmit have arrived already.
            self.cursor = resume.at;
        }
        if self.cursor.at == 0 && self.started > 0 {
            self.cursor.packet = self.cursor.packet.max(self.done);
        }
        if self.blocked == Some(0) {
            self.fail(Status::LocalProtection, access);
            return;
        }
        self.retries.reload();
        self.probe = Probe::NONE;
        if self.recovery == Recovery::FromThere {
            self.recovery = Recovery::None;
        }
        if !matches!(self.timer, Timer::ReceiverNotReady(_)) {
            self.restart_timer(now);
        }
    }

    /// Concludes from the acknowledgement of retransmitted packets whether the peer kept those
    /// behind them, and retransmits those that are missing.
    pub(super) fn judge_peer(&mut self, now: Instant) {
        let Recovery::OfSome(repair) = self.recovery else {
            return;
        };
        if repair.packet == self.oldest {
            return;
        }
        self.recovery = Recovery::None;
        let no_more = self.oldest == repair.packet.plus(repair.packets);
        if repair.cause == Cause::Told && !no_more {
            self.peer.has_kept();
        }
        let behind = repair.until.since(self.oldest);
        let answers = match repair.cause {
            Cause::Told => true,
            Cause::Missed(at) => self.round_trip.may_answer(at, now),
        };
        if behind <= 0 || !answers {
            return;
        }
        let next = Repair {
            packet: self.oldest,
            packets: 1,
            ..repair
        };
        if !no_more {
            self.send_again(next);
            return;
        }
        match (repair.cause, self.peer) {
            (Cause::Missed(_), Peer::MayKeep { .. }) => {
                self.congestion.lost();
                self.send_again(Repair {
                    packets: 2 * repair.packets,
                    ..next
                });
            }
            (Cause::Told, Peer::MayKeep { .. }) if behind >= TELLING => {
                let most = match self.losses.are_frequent(self.oldest) {
                    true => TELLING_FREQUENT_LOSSES,
                    false => TELLING_LOSSES,
                };
                self.peer.doubt(most);
                self.all_again();
            }
            _ => self.all_again(),
        }
    }

    pub(super) fn restart_timer(&mut self, now: Instant) {
        // The specification allows one to four times the timeout (9.7.6.1.3). A peer that did not
        // answer may be busy, and retransmissions would keep it so.
        let patience = 1 << self.retries.spent().min(2);
        self.timer = match self.configuration.ack_timeout.nanoseconds() {
            Some(wait) if self.oldest != self.limit => {
                Timer::Acknowledgement(now.plus(wait.saturating_mul(patience)))
            }
            _ => Timer::Idle,
        };
        self.set_probe(now);
    }

    fn set_probe(&mut self, now: Instant) {
        self.probe.at = match (self.timer, self.round_trip.patience()) {
            (Timer::Acknowledgement(_), Some(patience)) => {
                let doubled = 1_u64.checked_shl(self.probe.sent).unwrap_or(u64::MAX);
                Some(now.plus(patience.saturating_mul(doubled)))
            }
            _ => None,
        };
    }

    /// Retransmits missing packets after a loss, unless that is under way.
    pub(super) fn recover(
        &mut self,
        now: Instant,
        access: &mut impl ReliableRequesterAccess,
    ) -> Disposition {
        if self.mode == Mode::Failed {
            return Disposition::Failed;
        }
        // After the RNR wait everything is retransmitted.
        if self.is_under_way() || matches!(self.timer, Timer::ReceiverNotReady(_)) {
            return Disposition::Duplicate;
        }
        if let Err(status) = self.retries.spend() {
            return self.refused(status, access);
        }
        self.congestion.lost();
        match (self.peer.may_keep(), oldest_answer(access)) {
            (true, Some(Answer::Acknowledgement)) => {
                if self.is_beyond_repair() {
                    self.peer.has_kept();
                }
                self.losses.told(self.oldest);
                self.repair(Cause::Told);
            }
            // Response packets behind a gap are not kept.
            _ => self.all_again(),
        }
        self.restart_timer(now);
        Disposition::Retry
    }

    /// Returns whether recovery of the oldest packet is under way.
    fn is_under_way(&self) -> bool {
        match self.recovery {
            Recovery::None => false,
            Recovery::FromThere => true,
            Recovery::OfSome(repair) => repair.packet == self.oldest && repair.cause == Cause::Told,
        }
    }

    /// Returns whether more has arrived than was retransmitted after the peer's report of a loss.
    fn is_beyond_repair(&self) -> bool {
        match self.recovery {
            Recovery::OfSome(repair) if repair.cause == Cause::Told => {
                self.oldest.since(repair.packet.plus(repair.packets)) > 0
            }
            _ => false,
        }
    }

    /// Retransmits the oldest packet only.
    fn repair(&mut self, cause: Cause) {
        self.send_again(Repair {
            packet: self.oldest,
            packets: 1,
            until: self.limit,
            cause,
        });
    }

    fn send_again(&mut self, repair: Repair) {
        self.recovery = Recovery::OfSome(repair);
        self.rewind(repair.packets);
        let is_frequent = self.losses.are_frequent(self.oldest);
        if let (1, true, Some(resume)) = (repair.packets, is_frequent, &mut self.resume) {
            resume.again = Some(self.cursor);
        }
    }

    /// Makes `packets` packets from the oldest on the next to send; transmission then resumes at
    /// its previous position.
    fn rewind(&mut self, packets: u32) {
        self.round_trip.forget();
        let first = self.first_not_done();
        if self.cursor > first {
            let at = self.resume.map_or(self.cursor, |resume| resume.at);
            self.resume = Some(Resume {
                at,
                after: packets,
                again: None,
            });
            self.cursor = first;
        }
    }

    /// Retransmits all packets, as for a peer that drops packets behind a gap, and ignores further
    /// NAKs for this loss.
    fn all_again(&mut self) {
        self.go_back();
        self.recovery = Recovery::FromThere;
    }

    /// Sets the cursor to the first unacknowledged packet.
    fn go_back(&mut self) {
        self.round_trip.forget();
        self.recovery = Recovery::None;
        self.resume = None;
        self.cursor = self.first_not_done();
    }

    /// Returns whether the answer to this packet measures the round trip: the packet is sent for
    /// the first time, or is known to have been lost.
    pub(super) fn is_measured_by(&self, psn: Psn) -> bool {
        let is_told = |repair: Repair| repair.cause == Cause::Told && repair.packet == psn;
        !psn.precedes(self.limit)
            || matches!(self.recovery, Recovery::OfSome(repair) if is_told(repair))
    }

    fn first_not_done(&self) -> Cursor {
        let packet = self.done;
        Cursor { at: 0, packet }
    }

    /// Returns whether an RNR NAK for this packet is news.
    pub(super) fn awaits_receiver(&self, psn: Psn) -> bool {
        let waits = matches!(self.timer, Timer::ReceiverNotReady(_));
        !waits && self.oldest == psn
    }

    /// Waits for the receiver.
    pub(super) fn receiver_not_ready(&mut self, timer: RnrTimer, now: Instant) -> Disposition {
        self.timer = Timer::ReceiverNotReady(now.plus(timer.nanoseconds()));
        self.probe = Probe::NONE;
        Disposition::ReceiverNotReady
    }
}

fn oldest_answer(access: &impl ReliableRequesterAccess) -> Option<Answer> {
    access.sequence(0).map(|oldest| oldest.answer)
}
