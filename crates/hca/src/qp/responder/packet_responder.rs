//! Responder of a queue pair that uses packets: `verbena-transport`'s state machine, with the
//! receive that it has taken. It is part of the receive queue, under its lock; [`super::packets`]
//! runs it.

use crate::device::active_mtu;
use crate::qp::notification_timer::NotificationTimer;
use crate::qp::send::packet_requester::mtu_of;
use crate::receive::Receive;
use crate::roce::path::Path;
use crate::srq::Srq;
use std::sync::Arc;
use verbena_abi::*;
use verbena_faults::status::Status;
use verbena_transport::reliable::{Reliable, Responder, responder};
use verbena_transport::unreliable::{
    ConnectedConfiguration, ConnectedResponder, DatagramConfiguration, DatagramResponder,
    ReceiveQueue as ReceiveQueueKind,
};
use verbena_wire::{Mtu, PKey, Psn, QKey, Qpn, RnrTimer};

/// Largest distance of a kept packet behind a missing one: no less than our wide window, and more
/// than the window of Linux' rxe and of earlier versions, which is 128.
pub(in crate::qp) const EARLY: u32 = 256;

/// Responder state of a queue pair that uses packets.
pub(crate) struct PacketResponder {
    pub(super) machine: ResponderMachine,
    pub(super) taken: TakenReceive,
    notification_timer: NotificationTimer,
    /// Whether the peer seems to process acknowledgements before the requests that precede them in
    /// a batch ([`crate::roce::sender::is_ours`]).
    pub(super) peer_is_like_us: bool,
}

/// The state machine.
pub(super) enum ResponderMachine {
    Reliable(Path, Responder),
    Connected(Path, ConnectedResponder),
    Datagram(DatagramResponder),
}

/// The receive taken for the current message.
#[derive(Default)]
pub(super) struct TakenReceive {
    pub(super) receive: Option<Receive>,
    /// Shared receive queue that an XRC request names.
    pub(super) shared: Option<Arc<Srq>>,
    /// The peer's queue pair number.
    pub(super) source: u32,
    /// Whether the packet is of a send, and has bytes.
    pub(super) is_of_send: bool,
    /// The status with which the receive is to end, by a rule.
    pub(super) planted: Option<Status>,
}

impl PacketResponder {
    /// Creates the responder of a connected queue pair that becomes ready to receive. None for a
    /// type without one.
    pub(crate) fn connect(
        kind: ibv_qp_type,
        shares_receives: bool,
        attributes: &ibv_qp_attr,
        path: Path,
    ) -> Option<PacketResponder> {
        let mtu = mtu_of(attributes);
        let initial_psn = Psn::new(attributes.rq_psn);
        let partition_key = PKey::DEFAULT;
        let service = match kind {
            IBV_QPT_RC => Reliable::Rc,
            IBV_QPT_XRC_RECV => Reliable::Xrc,
            IBV_QPT_UC => {
                let machine = ConnectedResponder::new(ConnectedConfiguration {
                    partition_key,
                    mtu,
                    initial_psn,
                    receive_queue: match shares_receives {
                        true => ReceiveQueueKind::Shared,
                        false => ReceiveQueueKind::Own,
                    },
                });
                let machine = ResponderMachine::Connected(path, machine);
                return Some(PacketResponder::new(machine, attributes.dest_qp_num));
            }
            _ => return None,
        };
        let machine = Responder::new(responder::Configuration {
            service,
            destination: Qpn::new(attributes.dest_qp_num),
            partition_key,
            mtu,
            initial_psn,
            min_rnr_timer: rnr_timer(attributes),
            max_dest_rd_atomic: attributes.max_dest_rd_atomic.into(),
            early: EARLY,
        });
        let machine = ResponderMachine::Reliable(path, machine);
        Some(PacketResponder::new(machine, attributes.dest_qp_num))
    }

    /// Creates the responder of a datagram queue pair.
    pub(crate) fn datagram(attributes: &ibv_qp_attr) -> PacketResponder {
        let machine = DatagramResponder::new(DatagramConfiguration {
            partition_key: PKey::DEFAULT,
            queue_key: QKey(attributes.qkey),
            mtu: Mtu::from_code(active_mtu(attributes.port_num) as u8).unwrap_or(Mtu::B1024),
        });
        // Each datagram names its source.
        PacketResponder::new(ResponderMachine::Datagram(machine), 0)
    }

    fn new(machine: ResponderMachine, source: u32) -> PacketResponder {
        let taken = TakenReceive {
            source,
            ..TakenReceive::default()
        };
        PacketResponder {
            machine,
            taken,
            notification_timer: NotificationTimer::default(),
            peer_is_like_us: false,
        }
    }

    /// Returns a connection's path, peer and congestion notification state.
    pub(crate) fn connection(&mut self) -> Option<(&Path, Qpn, &mut NotificationTimer)> {
        match &self.machine {
            ResponderMachine::Reliable(path, _) | ResponderMachine::Connected(path, _) => Some((
                path,
                Qpn::new(self.taken.source),
                &mut self.notification_timer,
            )),
            ResponderMachine::Datagram(_) => None,
        }
    }

    pub(super) fn owes_no_response(&self) -> bool {
        match &self.machine {
            ResponderMachine::Reliable(_, responder) => !responder.owes_response(),
            ResponderMachine::Connected(..) | ResponderMachine::Datagram(_) => true,
        }
    }

    /// Applies attributes that may change while the queue pair is connected.
    pub(crate) fn configure(&mut self, attributes: &ibv_qp_attr) {
        match &mut self.machine {
            ResponderMachine::Reliable(_, responder) => {
                responder.set_min_rnr_timer(rnr_timer(attributes))
            }
            ResponderMachine::Connected(..) => (),
            ResponderMachine::Datagram(_) => *self = PacketResponder::datagram(attributes),
        }
    }

    /// Ends the responder. Returns the receive of an incomplete message.
    pub(crate) fn into_receive(self) -> Option<Receive> {
        self.taken.receive
    }
}

/// The code was checked when the attribute was set.
fn rnr_timer(attributes: &ibv_qp_attr) -> RnrTimer {
    const SHORTEST: u8 = 1;
    RnrTimer::from_code(attributes.min_rnr_timer)
        .or_else(|| RnrTimer::from_code(SHORTEST))
        .unwrap_or(const { RnrTimer::from_code(0).unwrap() })
}
