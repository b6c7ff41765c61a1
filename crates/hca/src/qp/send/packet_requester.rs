//! Requester of a queue pair that uses packets: `verbena-transport`'s state machine on top of the
//! send queue's requests, the program's buffers and a [`Path`]. [`super::packets`] runs it.
//!
//! The state machine keeps positions in the send queue only. A request's packets are made from its
//! entry there, also for retransmission, so the buffers of a complete request are not accessed.

use crate::roce::packet::ReceivedPacket;
use crate::roce::path::Path;
use crate::roce::tx_batch::{self, TxBatch};
use verbena_abi::*;
use verbena_hca_os::clock;
use verbena_transport::reliable::{Reliable, Requester, requester};
use verbena_transport::request::SendRequest as Request;
use verbena_transport::retry::{RetryCount, RnrRetry};
use verbena_transport::unreliable;
use verbena_transport::{Instant, ReliableRequesterAccess};
use verbena_wire::icrc;
use verbena_wire::{AckTimeout, EmitError, Mtu, PKey, Psn, Qpn};

/// Most packets between acknowledgement requests, and half of the unacknowledged ones in flight, as
/// in Linux' rxe.
const ACKNOWLEDGE_EVERY: u32 = 64;

/// Returns the number of packets between acknowledgement requests, in whole TX batches: an
/// acknowledgement permits as many further packets, and an incomplete batch costs a system call.
pub(super) fn acknowledge_every(mtu: Mtu) -> u32 {
    let batch = tx_batch::packets(mtu);
    ACKNOWLEDGE_EVERY / batch * batch
}

/// Returns the limit of packets in flight to another Verbena adapter while none is lost. It is
/// within the distance of packets that this keeps behind a missing one; earlier versions keep 128.
fn wide_window(mtu: Mtu) -> u32 {
    4 * acknowledge_every(mtu)
}

/// Requester state of a queue pair whose peer is on another host.
pub(crate) struct PacketRequester {
    pub(super) path: Path,
    pub(super) machine: RequesterMachine,
    mtu: Mtu,
    /// Expiry of the timer that is set.
    pub(super) alarm: Option<u64>,
    /// Whether the peer has ever answered on this path.
    pub(super) is_answered: bool,
}

/// The state machine.
pub(super) enum RequesterMachine {
    Reliable(Box<Requester>),
    Unreliable(unreliable::Requester),
}

impl PacketRequester {
    /// Creates the requester of a connected queue pair that becomes ready to send. None for a type
    /// without one.
    pub(crate) fn connect(
        kind: ibv_qp_type,
        attributes: &ibv_qp_attr,
        path: Path,
    ) -> Option<PacketRequester> {
        let destination = Qpn::new(attributes.dest_qp_num);
        let mtu = mtu_of(attributes);
        let initial_psn = Psn::new(attributes.sq_psn);
        let service = match kind {
            IBV_QPT_RC => Reliable::Rc,
            IBV_QPT_XRC_SEND => Reliable::Xrc,
            IBV_QPT_UC => {
                let machine = unreliable::Requester::new(unreliable::Configuration {
                    service: unreliable::Service::Connected(destination),
                    partition_key: PKey::DEFAULT,
                    mtu,
                    initial_psn,
                });
                return Some(PacketRequester {
                    path,
                    machine: RequesterMachine::Unreliable(machine),
                    mtu,
                    alarm: None,
                    is_answered: false,
                });
            }
            _ => return None,
        };
        let (ack_timeout, retry_count, rnr_retry) = retries_of(attributes);
        let machine = Requester::new(requester::Configuration {
            service,
            destination,
            partition_key: PKey::DEFAULT,
            mtu,
            initial_psn,
            ack_timeout,
            retry_count,
            rnr_retry,
            window: 2 * acknowledge_every(mtu),
            acknowledge_every: acknowledge_every(mtu),
        });
        Some(PacketRequester {
            path,
            machine: RequesterMachine::Reliable(Box::new(machine)),
            mtu,
            alarm: None,
            is_answered: false,
        })
    }

    /// Applies attributes that may change while the queue pair is connected.
    pub(crate) fn configure(&mut self, attributes: &ibv_qp_attr) {
        if let RequesterMachine::Reliable(requester) = &mut self.machine {
            let (timeout, count, rnr) = retries_of(attributes);
            requester.set_retries(timeout, count, rnr);
        }
    }

    /// Leaves the send queue error state.
    pub(crate) fn resume(&mut self) {
        if let RequesterMachine::Unreliable(requester) = &mut self.machine
            && requester.has_failed()
        {
            requester.resume();
        }
    }

    /// Notes that the peer has answered from a source port of a Verbena adapter. A match permits
    /// only packets that any adapter may be sent ([`crate::roce::sender::is_ours`]), and as many in
    /// flight are.
    pub(super) fn note_peer_is_like_us(&mut self) {
        if let RequesterMachine::Reliable(requester) = &mut self.machine {
            requester.set_wide_window(wide_window(self.mtu));
        }
    }

    /// Handles a congestion notification. Only a reliable connection knows its packets in flight.
    pub(crate) fn congested(&mut self, received: &ReceivedPacket<'_>) {
        let is_of_peer = self.path.is_path_of(received);
        if let (RequesterMachine::Reliable(requester), true) = (&mut self.machine, is_of_peer) {
            requester.congested();
        }
    }

    /// Returns whether the service can execute a request.
    pub(super) fn accepts(&self, request: &Request) -> bool {
        match &self.machine {
            RequesterMachine::Reliable(requester) => requester.check(request).is_ok(),
            RequesterMachine::Unreliable(requester) => requester.check(request).is_ok(),
        }
    }

    pub(super) fn make(
        &mut self,
        now: Instant,
        access: &mut impl ReliableRequesterAccess,
        room: &mut [u8],
    ) -> Result<Option<usize>, EmitError> {
        match &mut self.machine {
            RequesterMachine::Reliable(requester) => requester.poll_transmit(now, access, room),
            RequesterMachine::Unreliable(requester) => requester.poll_transmit(access, room),
        }
    }

    /// Adds the middle packets that are next and fit the batch to it. Returns their number.
    pub(super) fn make_middles(
        &mut self,
        now: Instant,
        access: &mut impl ReliableRequesterAccess,
        tx_batch: &mut TxBatch<'_>,
    ) -> u64 {
        let RequesterMachine::Reliable(requester) = &mut self.machine else {
            return 0;
        };
        let length = requester.middle_length();
        let room = tx_batch.room_for_equal(length);
        let made = requester.poll_transmit_middles(now, access, room, length + icrc::LENGTH);
        tx_batch.push_equal(made, length);
        made as u64
    }

    /// Returns the PSN after the last packet sent, if the peer acknowledges packets.
    pub(crate) fn sent_until(&self) -> Option<Psn> {
        match &self.machine {
            RequesterMachine::Reliable(requester) => Some(requester.sent_until()),
            RequesterMachine::Unreliable(_) => None,
        }
    }

    /// Returns whether packets before this PSN are unacknowledged.
    pub(crate) fn awaits_acknowledgement(&self, until: Psn) -> bool {
        match &self.machine {
            RequesterMachine::Reliable(requester) => requester.awaits_acknowledgement(until),
            RequesterMachine::Unreliable(_) => false,
        }
    }

    /// Returns whether the first packets were not answered in time, so that possibly none arrives.
    pub(super) fn is_unanswered(&self) -> bool {
        !self.is_answered && self.next_timeout().is_some_and(|at| at <= clock::now())
    }

    pub(super) fn next_timeout(&self) -> Option<u64> {
        match &self.machine {
            RequesterMachine::Reliable(requester) => requester.next_timeout().map(|at| at.0),
            RequesterMachine::Unreliable(_) => None,
        }
    }
}

pub(crate) fn mtu_of(attributes: &ibv_qp_attr) -> Mtu {
    // The code was checked when the attribute was set.
    Mtu::from_code(attributes.path_mtu as u8).unwrap_or(Mtu::B1024)
}

/// Checked when the attributes were set, so the defaults are never used.
pub(super) fn retries_of(attributes: &ibv_qp_attr) -> (AckTimeout, RetryCount, RnrRetry) {
    (
        AckTimeout::from_code(attributes.timeout).unwrap_or(AckTimeout::INFINITE),
        RetryCount::new(attributes.retry_cnt).unwrap_or(const { RetryCount::new(7).unwrap() }),
        RnrRetry::new(attributes.rnr_retry).unwrap_or(RnrRetry::Infinite),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::qp::responder::packet_responder::EARLY;

    #[test]
    fn acknowledgements_are_requested_after_whole_batches() {
        let every = Mtu::ALL.map(acknowledge_every);
        assert_eq!(every, [64, 64, 62, 62, 60]);
        assert!(Mtu::ALL.into_iter().all(|mtu| wide_window(mtu) <= EARLY));
    }
}
