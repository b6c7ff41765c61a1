//! Queue pairs on a fabric: paths, and partitions (specification 10.9).

use super::Qp;
use super::send::{SendQueue, SendRequest};
use crate::capture;
use crate::link;
use crate::roce::path::{NOWHERE, interface_towards};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use verbena_abi::*;
use verbena_hca_shm::context_table::{Interfaces, QpRecord};
use verbena_wire::PKey;

/// The queue pair of a port's management agents and programs.
pub(in crate::qp) const GENERAL_SERVICES: u32 = 1;
/// The queue key of that queue pair (specification, 10.2.5).
pub(in crate::qp) const GENERAL_SERVICES_KEY: u32 = 0x8001_0000;

impl Qp {
    /// Returns the partition key.
    pub(in crate::qp) fn p_key(&self) -> PKey {
        key_of(self.memory.contexts().queue_pair(self.number))
    }

    /// Returns whether packets between this queue pair and that of a record pass their partition
    /// keys.
    #[inline]
    pub(in crate::qp) fn is_in_partition_of(&self, record: &QpRecord) -> bool {
        self.p_key().admits(key_of(record))
    }

    /// Returns whether the fabric carries a request to its destination, if it is a datagram for one
    /// queue pair. Other requests find that out from the peer's record.
    pub(in crate::qp) fn passes_fabric(&self, request: &SendRequest<'_>) -> bool {
        let Some(address) = request.address.filter(|address| !address.is_multicast()) else {
            return true;
        };
        if link::fabric().is_none() {
            return true;
        }
        let number = request.remote_qpn & 0xff_ffff;
        let channel = self.process.outbound_to_number(number);
        let record = channel
            .as_ref()
            .map(|channel| channel.peer.contexts.queue_pair(number));
        address.interface() != NOWHERE
            && record.is_none_or(|record| self.is_in_partition_of(record))
    }

    /// Returns whether a request may take a fast path although requests are observed: if it is not
    /// captured. Counts it.
    #[inline(never)]
    pub(in crate::qp) fn may_be_fast(
        &self,
        send: &mut SendQueue,
        request: &SendRequest<'_>,
    ) -> bool {
        if capture::is_on() {
            return false;
        }
        let (index, mtu) = (send.posted(), send.mtu);
        // The fast paths are those of connected queue pairs.
        let vector = &send.vector;
        let is_counted = match &mut send.counting {
            Some(counting) => counting.count_one(mtu, vector, request, index),
            None => true,
        };
        if !is_counted {
            self.count(send, request, index);
        }
        true
    }

    /// Counts the packets of the request with this index for the ports of the fabric, unless it was
    /// counted before.
    pub(in crate::qp) fn count(&self, send: &mut SendQueue, request: &SendRequest<'_>, index: u64) {
        let vector = match request.address {
            Some(address) if address.is_multicast() => return,
            // The fabric counts management datagrams itself.
            Some(_) if request.remote_qpn & 0xff_ffff == GENERAL_SERVICES => return,
            Some(address) => *address.attributes(),
            None => send.vector,
        };
        if send.counting.is_none() && self.kind == IBV_QPT_UD {
            send.begin_counting(&vector, index);
        }
        let mtu = send.mtu;
        if let Some(counting) = &mut send.counting {
            counting.count(self.kind, mtu, &vector, request, index);
        }
    }

    /// Handles a change of the fabric. Returns whether packets are lost now.
    pub(crate) fn fabric_changed(self: &Arc<Qp>) -> bool {
        let attributes = self.lock_attributes();
        let mut send = self.lock_send();
        if self.is_destroyed() || matches!(self.state(), IBV_QPS_RESET | IBV_QPS_ERR) {
            return false;
        }
        let is_connected = self.kind != IBV_QPT_UD && attributes.ah_attr.port_num != 0;
        if is_connected {
            send.interfaces = Interfaces {
                own: link::interface_number(attributes.port_num),
                peer: interface_towards(&attributes.ah_attr),
            };
        }
        self.show_attributes(&attributes, send.interfaces);
        send.is_lost = self.loses_packets(&send);
        self.show_state(&mut send);
        send.is_lost
    }

    /// Returns whether the packets of this queue pair are lost: without a path to the peer, without
    /// a partition key, or with one that the peer's does not admit.
    pub(in crate::qp) fn loses_packets(&self, send: &SendQueue) -> bool {
        let own = self.p_key();
        if send.interfaces.peer == NOWHERE || !own.admits(PKey(own.0 | 0x8000)) {
            return true;
        }
        let (Some(channel), Some(incarnation)) = (&send.channel, send.responder) else {
            // The first request looks at the peer.
            return false;
        };
        let record = channel.peer.contexts.queue_pair(send.destination);
        record.incarnation.load(Ordering::Relaxed) == incarnation
            && (record.interfaces.load(Ordering::Relaxed) != send.interfaces.turned().as_word()
                || !self.is_in_partition_of(record))
    }
}

fn key_of(record: &QpRecord) -> PKey {
    PKey(record.p_key.load(Ordering::Relaxed) as u16)
}
