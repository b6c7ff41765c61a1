//! What a requester does when something was lost, or seems to be (specification 9.7.5.1, 9.7.6).
//!
//! **What is sent again.** First only the packet that is missing. What is acknowledged then tells what the peer has done
//! with those behind it: if it kept them, the acknowledgement covers them up to the next that is missing, which is sent
//! again at once; if it covers the one packet and no more, they are gone. Where the peer had told of the loss by what came
//! behind it, it drops such packets: all are sent again (go-back-N), and if that is so for several losses in succession it is
//! remembered ([`Peer`]); once may be by chance, where the next packet and the word of it are lost too. Where nobody had
//! told of it, twice as many are sent again as before. Where losses are frequent the one packet is sent twice ([`Losses`]).
//!
//! **When.** At once where the peer says so (NAK), or implies it by acknowledging what is behind a response. Where nobody
//! says anything there are two timers:
//! - the program's (`timeout`): each time it runs out costs a retry, and what is missing is sent again;
//! - a shorter one of measured round trips, the *probe*: the oldest packet is sent again, which every responder answers as
//!   a duplicate if it has it. It costs no retry, and its time doubles until there is progress. Adapters do the same and
//!   call it adaptive retransmission.

use verbena_wire::{Psn, RnrTimer};

use super::{Cursor, Mode, Requester};
use crate::access::RequesterAccess;
use crate::completion::Status;
use crate::disposition::Disposition;
use crate::request::Answer;
use crate::time::Instant;

/// So many packets behind a lost one are not all lost by chance.
const TELLING: i32 = 8;
/// Of two packets side by side that are lost, the word of the second is lost so rarely that it does not happen twice in
/// succession; where losses are frequent, not so often.
const TELLING_LOSSES: u32 = 2;
const TELLING_FREQUENT_LOSSES: u32 = 8;

/// What is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Timer {
    Idle,
    Acknowledgement(Instant),
    ReceiverNotReady(Instant),
}

/// The next look whether the oldest packet has arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Probe {
    at: Option<Instant>,
    /// How often since the last progress.
    sent: u32,
}

impl Probe {
    pub(super) const NONE: Self = Self { at: None, sent: 0 };
}

/// What the peer does with packets behind one that is missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Peer {
    /// Of so many losses in succession it seemed to have kept nothing behind them.
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

    /// It has acknowledged more than came again: what was doubted was wrong.
    fn has_kept(&mut self) {
        if self.may_keep() {
            *self = Self::UNKNOWN;
        }
    }

    /// Nothing behind a loss seems to be there; for the `most`-th time that is no chance.
    fn doubt(&mut self, most: u32) {
        if let Self::MayKeep { doubts } = *self {
            *self = match doubts + 1 {
                doubts if doubts < most => Self::MayKeep { doubts },
                _ => Self::Drops,
            };
        }
    }
}

/// Where to go on when what is missing has been sent again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Resume {
    pub(super) at: Cursor,
    /// Packets before that.
    pub(super) after: u32,
    /// What is sent a second time before that.
    pub(super) again: Option<Cursor>,
}

impl Resume {
    /// A packet has been sent again, and `next` would be next.
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

    /// The same when the first request has left the queue.
    pub(super) fn without_the_first(self) -> Self {
        Self {
            at: self.at.without_the_first(),
            again: self.again.map(Cursor::without_the_first),
            ..self
        }
    }
}

/// A loss that was acted upon: more words of the same one mean nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Recovery {
    None,
    /// Everything from there on is sent again.
    FromThere,
    /// One packet was sent again, or some.
    OfSome(Repair),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Repair {
    packet: Psn,
    /// How many from there on.
    packets: u32,
    /// What had been sent when the loss was seen ends here.
    until: Psn,
    cause: Cause,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cause {
    /// The peer has said that the packet is missing.
    Told,
    /// It seemed to be, at this time.
    Missed(Instant),
}

impl Requester {
    /// When [`Self::handle_timeout`] must be called, if nothing happens before.
    pub fn next_timeout(&self) -> Option<Instant> {
        match self.timer {
            Timer::Idle => None,
            Timer::Acknowledgement(at) => Some(self.probe.at.map_or(at, |probe| probe.min(at))),
            Timer::ReceiverNotReady(at) => Some(at),
        }
    }

    /// Does what is due. Called too early it does nothing.
    pub fn handle_timeout(&mut self, now: Instant, access: &mut impl RequesterAccess) {
        match self.timer {
            Timer::Acknowledgement(at) if at <= now => match self.retries.spend() {
                Ok(()) => {
                    // Whatever was known of losses is old: a NAK after this one is new again.
                    self.recovery = Recovery::None;
                    match (self.peer.may_keep(), self.front_answer()) {
                        (true, Some(Answer::Acknowledgement)) => {
                            self.repair(Cause::Missed(now));
                        }
                        _ => self.go_back(),
                    }
                    self.restart_timer(now);
                }
                Err(_) => self.fail(Status::RetryExceeded, access),
            },
            Timer::Acknowledgement(_) if self.probe.at.is_some_and(|at| at <= now) => {
                self.probe.sent += 1;
                match self.front_answer() {
                    // Its packets come one by one: the first says nothing of the others.
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

    /// Packets are acknowledged that were not: counters are full again, the timer begins anew.
    pub(super) fn progress(&mut self, now: Instant, access: &mut impl RequesterAccess) {
        let before = self.oldest;
        self.oldest = match self.queue.front() {
            Some(front) if self.started > 0 => front.position(),
            _ => self.next_psn,
        };
        let packets = self.oldest.ahead_of(before);
        self.congestion.acknowledged(packets, self.oldest);
        self.round_trip.acknowledged(self.oldest, now);
        if let Some(resume) = self.resume.take() {
            // What was to be sent again has arrived before it was.
            self.cursor = resume.at;
        }
        if let Some(front) = self.queue.front() {
            if self.cursor.entry == 0 && self.started > 0 {
                self.cursor.packet = self.cursor.packet.max(front.done);
            }
            if let Some(status) = front.blocked {
                self.fail(status, access);
                return;
            }
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

    /// What the acknowledgement of a packet that was sent again alone says of those behind it.
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
            (Cause::Missed(_), Peer::MayKeep { .. }) => self.send_again(Repair {
                packets: 2 * repair.packets,
                ..next
            }),
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
        // From one to four times the timeout are allowed (9.7.6.1.3). Who was silent once may be busy, and what is sent
        // again would keep it so.
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

    /// Something was lost: what is missing is sent again, unless that is under way.
    pub(super) fn recover(
        &mut self,
        now: Instant,
        access: &mut impl RequesterAccess,
    ) -> Disposition {
        if self.mode == Mode::Failed {
            return Disposition::Failed;
        }
        // What waits for a receiver sends all again when it has waited.
        if self.is_under_way() || matches!(self.timer, Timer::ReceiverNotReady(_)) {
            return Disposition::Duplicate;
        }
        if self.retries.spend().is_err() {
            return self.refused(Status::RetryExceeded, access);
        }
        match (self.peer.may_keep(), self.front_answer()) {
            (true, Some(Answer::Acknowledgement)) => {
                if self.is_beyond_repair() {
                    self.peer.has_kept();
                }
                self.losses.told(self.oldest);
                self.repair(Cause::Told);
            }
            // What of a response came behind a gap is not kept.
            _ => self.all_again(),
        }
        self.restart_timer(now);
        Disposition::Retry
    }

    /// Whether the loss of the oldest packet is acted upon already.
    fn is_under_way(&self) -> bool {
        match self.recovery {
            Recovery::None => false,
            Recovery::FromThere => true,
            Recovery::OfSome(repair) => repair.packet == self.oldest && repair.cause == Cause::Told,
        }
    }

    /// Whether more has arrived than what was sent again when the peer had told of a loss.
    fn is_beyond_repair(&self) -> bool {
        match self.recovery {
            Recovery::OfSome(repair) if repair.cause == Cause::Told => {
                self.oldest.since(repair.packet.plus(repair.packets)) > 0
            }
            _ => false,
        }
    }

    /// The oldest packet, and for now no other, is sent again.
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

    /// So many packets from the oldest on are next, and then it goes on where it was.
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

    /// Everything is sent again, as for a peer that keeps nothing behind a gap; more words of this loss mean nothing.
    fn all_again(&mut self) {
        self.go_back();
        self.recovery = Recovery::FromThere;
    }

    /// Everything from the first packet that is not acknowledged is sent again.
    fn go_back(&mut self) {
        self.round_trip.forget();
        self.recovery = Recovery::None;
        self.resume = None;
        self.cursor = self.first_not_done();
    }

    /// Whether the answer to the packet at the cursor measures the way there and back: it is sent for the first time, or is
    /// known to have been lost.
    pub(super) fn is_measured_by(&self, psn: Psn) -> bool {
        let is_told = |repair: Repair| repair.cause == Cause::Told && repair.packet == psn;
        !psn.precedes(self.limit)
            || matches!(self.recovery, Recovery::OfSome(repair) if is_told(repair))
    }

    fn front_answer(&self) -> Option<Answer> {
        self.queue.front().map(|front| front.answer())
    }

    fn first_not_done(&self) -> Cursor {
        let packet = self.queue.front().map_or(0, |front| front.done);
        Cursor { entry: 0, packet }
    }

    pub(super) fn receiver_not_ready(
        &mut self,
        timer: RnrTimer,
        psn: Psn,
        now: Instant,
        access: &mut impl RequesterAccess,
    ) -> Disposition {
        if self.mode == Mode::Failed {
            return Disposition::Failed;
        }
        let waits = matches!(self.timer, Timer::ReceiverNotReady(_));
        if waits || self.oldest != psn {
            return Disposition::Duplicate;
        }
        if self.retries.spend_rnr().is_err() {
            return self.refused(Status::RnrRetryExceeded, access);
        }
        self.timer = Timer::ReceiverNotReady(now.plus(timer.nanoseconds()));
        self.probe = Probe::NONE;
        Disposition::ReceiverNotReady
    }
}
