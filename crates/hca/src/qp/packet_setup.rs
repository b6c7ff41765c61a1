//! Decides which queue pairs use packets, and starts their state machines.

use super::Qp;
use super::responder::packet_responder::PacketResponder;
use super::send::SendQueue;
use super::send::packet_requester::PacketRequester;
use crate::link;
use crate::roce::fallback::thread::learn_reachability;
use crate::roce::path::{Path, leads_elsewhere};
use verbena_abi::*;
use verbena_hca_os::errno::{Errno, Result};
use verbena_hca_os::refusal;
use verbena_wire::Qpn;

impl Qp {
    /// Returns the path to the peer of a queue pair that is being connected, if the peer is on
    /// another host.
    ///
    /// # Errors
    /// EINVAL for an address vector whose two GIDs are of different kinds; EADDRNOTAVAIL for a
    /// source GID that is not an address (any more); ENETDOWN if the port could not be opened.
    pub(super) fn path_of_packets(
        &self,
        new: &ibv_qp_attr,
        from: ibv_qp_state,
        to: ibv_qp_state,
    ) -> Result<Option<Path>> {
        let connects = from == IBV_QPS_INIT && to == IBV_QPS_RTR && self.kind != IBV_QPT_UD;
        if !connects || !leads_elsewhere(&new.ah_attr) {
            return Ok(None);
        }
        let port = self.process.ports.roce().ok_or_else(|| {
            refusal::keep_reason(
                Errno(libc::ENETDOWN),
                format_args!(
                    "the port could not be opened: see the message at the opening of the device"
                ),
            )
        })?;
        let number = Qpn::new(new.dest_qp_num);
        let path = Path::of(&port.senders, &new.ah_attr)?.that_may_be_marked();
        let path = path.towards_queue_pair(number, &port.probe_cache);
        if self.kind == IBV_QPT_UC {
            // UC has no acknowledgements that would reveal an unreachable peer.
            learn_reachability(&self.process, &path, number);
        }
        Ok(Some(path))
    }

    /// Starts the state machines that a state needs, or passes changed attributes to them.
    pub(super) fn prepare_packets(
        &self,
        send: &mut SendQueue,
        attributes: &ibv_qp_attr,
        to: ibv_qp_state,
        path: Option<Path>,
    ) {
        if !link::is_ethernet() {
            return;
        }
        match (to, path) {
            (IBV_QPS_RTR, Some(path)) => {
                let responder = PacketResponder::connect(
                    self.kind,
                    self.srq.is_some(),
                    attributes,
                    path.clone(),
                );
                self.lock_receive().packets = responder.map(Box::new);
                send.path = Some(path);
            }
            (IBV_QPS_RTR, None) if self.kind == IBV_QPT_UD => {
                let responder = PacketResponder::datagram(attributes);
                self.lock_receive().packets = Some(Box::new(responder));
            }
            (IBV_QPS_RTS, _) if send.packets.is_none() => {
                let connected = |path| PacketRequester::connect(self.kind, attributes, path);
                send.packets = send.path.clone().and_then(connected).map(Box::new);
            }
            _ => {
                if let Some(packets) = &mut send.packets {
                    packets.configure(attributes);
                    packets.resume();
                }
                if let Some(packets) = &mut self.lock_receive().packets {
                    packets.configure(attributes);
                }
            }
        }
    }

    /// Acknowledges received requests before a state without answers: the program has seen the
    /// messages, so the peer must see them acknowledged.
    pub(super) fn answer_before(&self, to: ibv_qp_state) {
        if link::is_ethernet() && matches!(to, IBV_QPS_RESET | IBV_QPS_ERR) {
            self.answer_by_packets();
        }
    }

    /// Returns whether the peer is on another host.
    pub(super) fn goes_by_packets(&self) -> bool {
        self.lock_send().path.is_some()
    }
}
