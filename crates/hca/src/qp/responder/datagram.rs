//! Receiving unreliable datagrams.

use super::Call;
use super::failure::Failure;
use super::why;
use crate::cq::Completion;
use crate::link;
use crate::qp::Qp;
use crate::qp::ring_message::Datagram;
use crate::receive::Receive;
use crate::roce::header::destination;
use verbena_abi::*;
use verbena_hca_memory::transfer::Runs;

/// Bytes of a global route header, and of the room for one at the beginning of every receive.
const ROUTE: usize = 40;

impl Call<'_> {
    /// Delivers a datagram to one queue pair, or to all members of a group. Drops it silently if it
    /// cannot be received.
    pub(super) fn serve_datagram(&self, datagram: &Datagram) {
        let Some(port) = link::port_of(datagram.interface) else {
            return;
        };
        let route = if datagram.has_route { ROUTE } else { 0 };
        if usize::from(self.record.header.length) < route {
            return;
        }
        if !datagram.is_multicast {
            let number = self.route.destination.number;
            if let Some(queue_pair) = self.process.queue_pairs.find(number) {
                self.take_datagram(&queue_pair, port, datagram, route);
            }
            return;
        }
        if route == 0 {
            return;
        }
        let mut header = [0u8; ROUTE];
        // SAFETY: the record holds at least the 40 bytes of the route.
        unsafe {
            header
                .as_mut_ptr()
                .copy_from_nonoverlapping(self.record.payload, ROUTE)
        };
        let group = destination(&header).octets();
        for port in link::ports_that_receive(port) {
            for queue_pair in self.process.groups.members(port, &group) {
                self.take_datagram(&queue_pair, port, datagram, route);
            }
        }
    }

    fn take_datagram(&self, queue_pair: &Qp, port: u8, datagram: &Datagram, route: usize) {
        // A thread that is posting pushes its completion first: this datagram may be an answer to
        // that request.
        queue_pair.let_posting_finish();
        let mut receive_queue = queue_pair.lock_receive();
        if queue_pair.kind != IBV_QPT_UD
            || !queue_pair.receives()
            || receive_queue.qkey != datagram.qkey
            || receive_queue.port != port
            || link::is_down(port)
        {
            return;
        }
        let data = usize::from(self.record.header.length) - route;
        let needed = (ROUTE + data) as u64;
        // Class D: a datagram that does not fit is dropped silently and consumes no receive.
        let fits = |length: Option<u64>| length.is_some_and(|length| length >= needed);
        let (taken, pd) = match &queue_pair.srq {
            Some(srq) if fits(srq.next_length()) => (srq.take(), srq.pd()),
            None if fits(receive_queue.ring.next_length()) => {
                (receive_queue.ring.take(), queue_pair.pd_number())
            }
            _ => return,
        };
        let Some(receive) = taken else { return };
        if let Some(srq) = &queue_pair.srq {
            srq.note_used();
        }
        let status = self.place_datagram(&receive, pd, route, data);
        if status != IBV_WC_SUCCESS {
            let failure = Failure::of_datagram(receive.wr_id, status);
            self.report_refused(&failure, true);
        }
        let mut wc = ibv_wc {
            wr_id: receive.wr_id,
            status,
            opcode: IBV_WC_RECV,
            byte_len: needed as u32,
            qp_num: queue_pair.number,
            src_qp: self.route.source.number,
            slid: datagram.lid,
            sl: datagram.service_level,
            vendor_err: if status == IBV_WC_SUCCESS {
                0
            } else {
                0x80 | status
            },
            ..ibv_wc::default()
        };
        if let Some(imm_data) = datagram.immediate {
            wc.wc_flags |= IBV_WC_WITH_IMM;
            wc.imm = ibv_wc_imm { imm_data };
        }
        if route > 0 {
            wc.wc_flags |= IBV_WC_GRH;
        }
        let counters = self.process.counters.shard();
        counters.receive_operations.add(1);
        counters.receive_bytes.add(data as u64);
        if let Some(cq) = &queue_pair.recv_cq {
            cq.push(Completion::received(wc), datagram.solicited);
        }
        drop(receive_queue);
        if status != IBV_WC_SUCCESS {
            queue_pair.fail_as_responder(Some(IBV_EVENT_QP_FATAL));
        }
    }

    fn place_datagram(
        &self,
        receive: &Receive,
        pd: u32,
        route: usize,
        data: usize,
    ) -> ibv_wc_status {
        let section = self.inbound.section(0);
        let runs = Runs::resolve(
            &section,
            self.memory(),
            pd,
            receive.sges.as_slice(),
            IBV_ACCESS_LOCAL_WRITE,
        );
        let unusable = || {
            why::note_buffers(self.memory(), pd, receive.sges.as_slice());
            IBV_WC_LOC_PROT_ERR
        };
        let Ok(runs) = runs else {
            return unusable();
        };
        // SAFETY: the record holds route and data; the buffers are long enough, because the
        // receive's length was checked.
        let placed = unsafe {
            runs.scatter(0, self.record.payload, route)
                .and_then(|()| runs.scatter(ROUTE, self.record.payload.add(route), data))
        };
        match placed {
            Ok(()) => IBV_WC_SUCCESS,
            Err(_) => unusable(),
        }
    }
}
