//! Datagrams sent as packets: those whose address handle names a GID of another host. A datagram is
//! one packet and completes when that is made.

use super::SendQueue;
use super::single_request::SingleRequest;
use crate::ah::AddressHandle;
use crate::device;
use crate::qp::Qp;
use crate::qp::requester::outcome::Outcome;
use crate::qp::send::SendRequest;
use crate::qp::terms::status_code;
use crate::roce::path::Path;
use crate::roce::tx_batch::TxBatch;
use verbena_abi::*;
use verbena_hca_memory::transfer::Runs;
use verbena_transport::completion::Status;
use verbena_transport::unreliable::{Configuration, Requester, Service};
use verbena_wire::{Mtu, PKey, Psn, Qpn};

impl Qp {
    /// Sends a datagram with the bytes of `runs` as a packet.
    pub(in crate::qp) fn send_datagram_packet(
        &self,
        send: &mut SendQueue,
        request: &SendRequest<'_>,
        address: &AddressHandle,
        psn: u32,
        runs: &Runs<'_>,
    ) -> Outcome {
        // If the port could not be opened, or the address no longer exists, the datagram counts as
        // lost.
        let Some(port) = self.process.ports.roce() else {
            return Outcome::Done;
        };
        let Ok(path) = Path::of(&port.senders, address.attributes()) else {
            return Outcome::Done;
        };
        let path = path.towards_queue_pair(Qpn::new(request.remote_qpn), &port.probe_cache);
        let Some(mut single) = SingleRequest::of(self, send, request, psn, runs) else {
            return Outcome::Failed(IBV_WC_LOC_QP_OP_ERR);
        };
        let source = send.port;
        let datagrams = send
            .datagrams
            .get_or_insert_with(|| Box::new(requester(self.number, source, psn)));
        if datagrams.check(&single.request).is_err() {
            return Outcome::Failed(IBV_WC_LOC_LEN_ERR);
        }
        let mut tx_batch = TxBatch::new(&path);
        if let Ok(Some(length)) = datagrams.poll_transmit(&mut single, tx_batch.room()) {
            tx_batch.push(length);
        }
        drop(tx_batch);
        let status = single.status.unwrap_or(Status::LocalProtection);
        if status != Status::Success {
            // The queue pair enters the send queue error state; the requester is created anew
            // afterwards.
            send.datagrams = None;
            return Outcome::Failed(status_code(status));
        }
        let counters = self.process.counters.shard();
        counters.send_operations.add(1);
        counters.operation_bytes.add(runs.total());
        counters.udp_path_operations.add(1);
        counters.udp_path_bytes.add(runs.total());
        counters.packets_sent.add(1);
        Outcome::Done
    }
}

fn requester(number: u32, port: u8, psn: u32) -> Requester {
    Requester::new(Configuration {
        service: Service::Datagram(Qpn::new(number)),
        partition_key: PKey::DEFAULT,
        mtu: Mtu::from_code(device::active_mtu(port) as u8).unwrap_or(Mtu::B1024),
        initial_psn: Psn::new(psn),
    })
}
