//! Datagrams sent as packets: those whose address handle names a GID of another host. A datagram is
//! one packet and completes when that is made.

use super::SendQueue;
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
use verbena_transport::completion::{SendCompletion, Status};
use verbena_transport::request::{
    Addressee, Fence, Operation, SendRequest as Request, SendTail, WorkId,
};
use verbena_transport::unreliable::Requester;
use verbena_transport::unreliable::{Configuration, Service};
use verbena_transport::{LocalError, RequesterAccess};
use verbena_wire::immediate::Immediate;
use verbena_wire::{Mtu, PKey, Psn, QKey, Qpn};

impl Qp {
    /// Sends a datagram with the bytes of `runs` as a packet.
    pub(in crate::qp) fn send_datagram_packet(
        &self,
        send: &mut SendQueue,
        request: &SendRequest<'_>,
        address: &AddressHandle,
        queue_key: u32,
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
        let source = send.port;
        let datagrams = send
            .datagrams
            .get_or_insert_with(|| Box::new(requester(self.number, source, psn)));
        let tail = match request.opcode {
            IBV_WR_SEND_WITH_IMM => SendTail::Immediate(Immediate(request.immediate.to_ne_bytes())),
            _ => SendTail::Nothing,
        };
        let posted = datagrams.post(Request {
            id: WorkId(0),
            operation: Operation::Send(tail),
            length: runs.total() as u32,
            addressee: Addressee::Datagram {
                queue_pair: match address.is_multicast() {
                    true => Qpn::MULTICAST,
                    false => Qpn::new(request.remote_qpn),
                },
                queue_key: QKey(queue_key),
            },
            fence: Fence::Off,
            solicited: request.is_solicited(),
        });
        if posted.is_err() {
            return Outcome::Failed(IBV_WC_LOC_LEN_ERR);
        }
        let mut access = DatagramBuffers {
            runs,
            status: Status::LocalProtection,
        };
        let mut tx_batch = TxBatch::new(&path);
        if let Ok(Some(made)) = datagrams.poll_transmit(&mut access, tx_batch.room()) {
            tx_batch.push(made.length);
        }
        drop(tx_batch);
        if access.status != Status::Success {
            // The queue pair enters the send queue error state; the requester is created anew
            // afterwards.
            send.datagrams = None;
            return Outcome::Failed(status_code(access.status));
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
        capacity: 1,
    })
}

struct DatagramBuffers<'a> {
    runs: &'a Runs<'a>,
    status: Status,
}

impl RequesterAccess for DatagramBuffers<'_> {
    fn gather(&mut self, _: WorkId, offset: u32, into: &mut [u8]) -> Result<(), LocalError> {
        // SAFETY: `into` is writable for its length.
        unsafe {
            self.runs
                .gather(offset as usize, into.as_mut_ptr(), into.len())
        }
        .map_err(|_| LocalError)
    }

    fn scatter(&mut self, _: WorkId, _: u32, _: &[u8]) -> Result<(), LocalError> {
        // Datagrams have no answers.
        Err(LocalError)
    }

    fn complete(&mut self, completion: SendCompletion) {
        self.status = completion.status;
    }
}
