//! Unreliable datagrams, both ways: ibv_post_send(3) of a UD queue pair, and multicast.
//!
//! A datagram is one record. It completes when it is in the channel; nobody is told when it is dropped.

use crate::cq::Completion;
use crate::memory::transfer::Runs;
use crate::process::Process;
use crate::process::link::{Acknowledge, Outbound};
use crate::qp::Qp;
use crate::qp::greeting::Datagram;
use crate::qp::message::*;
use crate::qp::requester::{Outcome, solicited};
use crate::qp::send::SendRequest;
use crate::shm::registry::Identity;
use crate::shm::ring::{Header, Record};
use std::sync::Arc;
use verbena_abi::*;

impl Qp {
    pub(super) fn send_datagram(self: &Arc<Qp>, request: &SendRequest<'_>, psn: u32) -> Outcome {
        let Some(address) = request.address else {
            return Outcome::Failed(IBV_WC_LOC_QP_OP_ERR);
        };
        let runs = match self.runs(request, 0) {
            Ok(runs) => runs,
            Err(outcome) => return outcome,
        };
        if runs.total() > u64::from(crate::device::MTU_BYTES) {
            return Outcome::Failed(IBV_WC_LOC_LEN_ERR);
        }
        // Another LID is another host, and there is none.
        let attributes = address.attributes();
        if !address.is_multicast() && attributes.dlid != crate::device::LID && !address.is_global()
        {
            return Outcome::Done;
        }
        let qkey = if request.remote_qkey >> 31 != 0 {
            self.lock_receive().qkey
        } else {
            request.remote_qkey
        };
        let grh = address
            .is_global()
            .then(|| global_route(attributes, runs.total() as u16));
        let immediate = if request.opcode == IBV_WR_SEND_WITH_IMM {
            IMMEDIATE
        } else {
            0
        };
        let multicast = if address.is_multicast() { MULTICAST } else { 0 };
        let global = if grh.is_some() { GLOBAL } else { 0 };
        let header = Header {
            kind: DATAGRAM,
            flags: FIRST | LAST | immediate | multicast | global | solicited(request),
            destination: request.remote_qpn & 0xff_ffff,
            source: self.number,
            psn,
            immediate: request.immediate,
            address: u64::from(qkey),
            word: u64::from(crate::device::LID) | u64::from(attributes.sl) << 16,
            ..Header::default()
        };
        if multicast != 0 {
            return self.send_multicast(header, grh.as_ref(), &runs);
        }
        let Some(channel) = self.process.outbound_to_number(request.remote_qpn) else {
            let owner = self
                .process
                .member
                .get()
                .and_then(|m| m.registry.owner(request.remote_qpn));
            return if owner.is_some() {
                Outcome::Seek(request.remote_qpn)
            } else {
                Outcome::Done
            };
        };
        if channel.peer.is_dead() {
            return Outcome::Done;
        }
        self.process.counters.shard().send_operations.add(1);
        match self.push_datagram(&channel, header, grh.as_ref(), &runs) {
            Outcome::Sent => Outcome::Done,
            outcome => outcome,
        }
    }

    /// To every process that has joined any group; each looks for its own members. A process whose channel is full
    /// misses it, as a congested receiver would.
    fn send_multicast(
        self: &Arc<Qp>,
        header: Header,
        grh: Option<&[u8; 40]>,
        runs: &Runs,
    ) -> Outcome {
        let Some(member) = self.process.member.get() else {
            return Outcome::Done;
        };
        self.process.counters.shard().send_operations.add(1);
        for identity in member.registry.multicast_members() {
            match self.process.outbound_to(identity) {
                _ if self.process.greetings.wait_for(identity) => {
                    self.greet(identity, header, grh, runs);
                }
                Some(channel) if !channel.peer.is_dead() => {
                    let _ = self.push_datagram(&channel, header, grh, runs);
                }
                Some(_) => (),
                None => self.greet(identity, header, grh, runs),
            }
        }
        Outcome::Done
    }

    fn greet(
        self: &Arc<Qp>,
        identity: Identity,
        header: Header,
        grh: Option<&[u8; 40]>,
        runs: &Runs,
    ) {
        let mut bytes = vec![0u8; runs.total() as usize];
        // SAFETY: `bytes` is as long as the runs; the buffers are registered or inline.
        unsafe { runs.gather(0, bytes.as_mut_ptr(), bytes.len()) };
        let datagram = Datagram {
            queue_pair: self.clone(),
            header,
            grh: grh.copied(),
            bytes,
        };
        self.process
            .greetings
            .push(&self.process, identity, datagram);
    }

    pub(super) fn push_datagram(
        self: &Arc<Qp>,
        channel: &Arc<Outbound>,
        header: Header,
        grh: Option<&[u8; 40]>,
        runs: &Runs,
    ) -> Outcome {
        let route = grh.map_or(0, |grh| grh.len());
        let data = runs.total() as usize;
        let pushed = channel.push(header, route + data, Acknowledge::Nothing, |target| {
            // SAFETY: the ring gave room for route and data; the buffers are registered or inline.
            unsafe {
                if let Some(grh) = grh {
                    target.copy_from_nonoverlapping(grh.as_ptr(), grh.len());
                }
                runs.gather(0, target.add(route), data);
            }
        });
        self.pushed(channel, pushed, data as u64)
    }
}

/// The 40 bytes of a global route header (architecture specification, 8.3).
fn global_route(attributes: &ibv_ah_attr, data: u16) -> [u8; 40] {
    const IB_TRANSPORT: u8 = 0x1b;
    let grh = &attributes.grh;
    let mut bytes = [0; 40];
    let version = 6u32 << 28 | u32::from(grh.traffic_class) << 20 | grh.flow_label & 0xf_ffff;
    bytes[..4].copy_from_slice(&version.to_be_bytes());
    // Base and datagram headers, payload, pad to four bytes, invariant CRC.
    let payload = 12 + 8 + data.next_multiple_of(4) + 4;
    bytes[4..6].copy_from_slice(&payload.to_be_bytes());
    bytes[6] = IB_TRANSPORT;
    bytes[7] = grh.hop_limit;
    bytes[8..24].copy_from_slice(&crate::device::gid().bytes());
    bytes[24..].copy_from_slice(&grh.dgid.bytes());
    bytes
}

/// A datagram: to one queue pair, or to all members of a group. Nobody is told when it is dropped.
pub(super) fn serve_datagram(process: &Process, record: &Record) {
    let header = &record.header;
    let route = if header.flags & GLOBAL != 0 { 40 } else { 0 };
    if (header.length as usize) < route {
        return;
    }
    if header.flags & MULTICAST == 0 {
        if let Some(queue_pair) = process.queue_pairs.find(header.destination) {
            queue_pair.take_datagram(record, route);
        }
        return;
    }
    if route == 0 {
        return;
    }
    let mut group = [0u8; 16];
    // SAFETY: the record holds at least the 40 bytes of the route, of which the last 16 are the group.
    unsafe {
        group
            .as_mut_ptr()
            .copy_from_nonoverlapping(record.payload.add(24), 16)
    };
    for queue_pair in process.groups.members(&group) {
        queue_pair.take_datagram(record, route);
    }
}

impl Qp {
    fn take_datagram(&self, record: &Record, route: usize) {
        const ROUTE: u64 = 40;
        let header = &record.header;
        let ready = matches!(
            self.state(),
            IBV_QPS_RTR | IBV_QPS_RTS | IBV_QPS_SQD | IBV_QPS_SQE
        );
        if self.kind != IBV_QPT_UD || !ready {
            return;
        }
        let mut receive_queue = self.lock_receive();
        if u64::from(receive_queue.qkey) != header.address {
            return;
        }
        let taken = match &self.srq {
            Some(srq) => srq.take(),
            None => receive_queue.ring.take(),
        };
        let Some(receive) = taken else { return };
        let data = header.length as usize - route;
        let needed = ROUTE + data as u64;
        let pd = self.srq.as_ref().map_or(self.pd_number(), |srq| srq.pd());
        let status = if receive.sges.length() < needed {
            IBV_WC_LOC_LEN_ERR
        } else {
            match Runs::resolve(
                &self.process,
                pd,
                receive.sges.as_slice(),
                IBV_ACCESS_LOCAL_WRITE,
            ) {
                Err(_) => IBV_WC_LOC_PROT_ERR,
                Ok(runs) => {
                    // SAFETY: the record holds route and data; the buffers are registered and long enough.
                    unsafe {
                        runs.scatter(0, record.payload, route);
                        runs.scatter(ROUTE as usize, record.payload.add(route), data);
                    }
                    IBV_WC_SUCCESS
                }
            }
        };
        drop(receive_queue);
        let mut wc = ibv_wc {
            wr_id: receive.wr_id,
            status,
            opcode: IBV_WC_RECV,
            byte_len: needed as u32,
            qp_num: self.number,
            src_qp: header.source,
            slid: header.word as u16,
            sl: (header.word >> 16) as u8 & 15,
            vendor_err: if status == IBV_WC_SUCCESS {
                0
            } else {
                0x80 | status
            },
            ..ibv_wc::default()
        };
        if header.flags & IMMEDIATE != 0 {
            wc.wc_flags |= IBV_WC_WITH_IMM;
            wc.imm = ibv_wc_imm {
                imm_data: header.immediate,
            };
        }
        if route > 0 {
            wc.wc_flags |= IBV_WC_GRH;
        }
        self.process.counters.shard().receive_operations.add(1);
        self.process.counters.shard().receive_bytes.add(data as u64);
        self.let_posting_finish();
        if let Some(cq) = &self.recv_cq {
            let solicited = header.flags & SOLICITED != 0;
            cq.push(Completion::received(wc), solicited);
        }
    }
}
