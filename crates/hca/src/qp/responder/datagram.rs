//! Receiving unreliable datagrams.

use super::Call;
use super::explain;
use crate::causes;
use crate::cq::Completion;
use crate::link;
use crate::process::Process;
use crate::qp::fabric::GENERAL_SERVICES_KEY;
use crate::qp::ring_message::Datagram;
use crate::qp::terms::{event_code, state_of, status_code, vendor_error};
use crate::qp::{Qp, ReceiveQueue};
use crate::receive::Receive;
use crate::roce::header::destination;
use verbena_abi::*;
use verbena_hca_memory::transfer::Runs;
use verbena_hca_shm::section::Section;
use verbena_transport::assembly;
use verbena_transport::completion::Status;
use verbena_transport::datagram::{self, Receiver};
use verbena_transport::fault::{Consequence, Fault, Next, ReceiveFate, Responder};
use verbena_wire::QKey;

/// The bits of a partition key in which full and limited members of a partition agree.
const MEMBERS: u16 = 0x7fff;
/// Bytes of a global route header, and of the room for one at the beginning of every receive.
const ROUTE: usize = 40;

impl Call<'_> {
    /// Delivers a datagram to one queue pair, or to all members of a group. Drops it silently if it
    /// cannot be received.
    pub(super) fn serve_datagram(&self, datagram: &Datagram) {
        let route = if datagram.has_route { ROUTE } else { 0 };
        if usize::from(self.record.header.length) < route {
            return;
        }
        if !datagram.is_multicast {
            let number = self.route.destination.number;
            if let Some(port) = link::port_of(datagram.interface)
                && let Some(queue_pair) = self.process.queue_pairs.find(number)
            {
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
        for port in link::ports_that_receive(datagram.interface)
            .into_iter()
            .flatten()
        {
            for queue_pair in self.process.groups.members(port, &group) {
                self.take_datagram(&queue_pair, port, datagram, route);
            }
        }
    }

    fn take_datagram(&self, queue_pair: &Qp, port: u8, datagram: &Datagram, route: usize) {
        let arrived = Arrived {
            datagram,
            source: self.route.source.number,
            bytes: self.record.payload,
            route,
            data: usize::from(self.record.header.length) - route,
        };
        let section = || self.inbound.section(0);
        self.process.take_datagram(
            queue_pair,
            port,
            &arrived,
            section,
            |consequence, receive| {
                self.report_refused(consequence, receive);
            },
        );
    }
}

/// A datagram that has arrived: `bytes` has the route and the data.
struct Arrived<'a> {
    datagram: &'a Datagram,
    /// Queue pair of the sender.
    source: u32,
    bytes: *const u8,
    /// Bytes of the route.
    route: usize,
    /// Bytes of data.
    data: usize,
}

impl Process {
    /// Delivers a management datagram of the fabric to the queue pair that it is for, if that is of
    /// this process.
    pub(crate) fn take_management_datagram(&self, received: &verbena_fabric_protocol::Datagram) {
        let Some(queue_pair) = self.queue_pairs.find(received.queue_pair) else {
            return;
        };
        // The key is the port's own; the queue pair may be in another partition.
        if (queue_pair.p_key().0 ^ received.p_key) & MEMBERS != 0 {
            return;
        }
        let datagram = Datagram {
            qkey: GENERAL_SERVICES_KEY,
            immediate: None,
            solicited: false,
            has_route: false,
            is_multicast: false,
            lid: received.lid,
            service_level: received.service_level,
            interface: link::interface_number(received.port),
        };
        let arrived = Arrived {
            datagram: &datagram,
            source: received.peer,
            bytes: received.data.as_ptr(),
            route: 0,
            data: received.data.len(),
        };
        let section = || self.memory.own_marks().enter(0);
        self.take_datagram(&queue_pair, received.port, &arrived, section, |_, _| ());
    }

    /// Delivers a datagram to a queue pair; calls `refused` if its receive cannot be used.
    fn take_datagram<'a>(
        &self,
        queue_pair: &Qp,
        port: u8,
        arrived: &Arrived<'_>,
        section: impl FnOnce() -> Section<'a>,
        refused: impl FnOnce(&Consequence, Option<(u64, Status)>),
    ) {
        let datagram = arrived.datagram;
        // A thread that is posting pushes its completion first: this datagram may be an answer to
        // that request.
        queue_pair.let_posting_finish();
        let mut receive_queue = queue_pair.lock_receive();
        let data = arrived.data as u64;
        let queue_key = QKey(datagram.qkey);
        if !queue_pair.admits_datagram(&receive_queue, port, queue_key, data) {
            return;
        }
        let (taken, pd) = match &queue_pair.srq {
            Some(srq) => (srq.take(), srq.pd()),
            None => (receive_queue.ring.take(), queue_pair.pd_number()),
        };
        let Some(receive) = taken else { return };
        if let Some(srq) = &queue_pair.srq {
            // Another queue pair may have taken the receive whose length was checked.
            if assembly::fits(datagram::length(data), receive.sges.length()).is_err() {
                srq.put_back(receive);
                return;
            }
            srq.note_used();
        }
        let failed = self
            .place_datagram(&receive, pd, arrived, &section())
            .err()
            .map(|fault| fault.consequence(Responder::Datagram));
        let status = match failed.map(|consequence| consequence.receive) {
            Some(ReceiveFate::Completed(status)) => status,
            _ => Status::Success,
        };
        if let Some(consequence) = &failed {
            refused(consequence, Some((receive.wr_id, status)));
        }
        let status = status_code(status);
        let mut wc = ibv_wc {
            wr_id: receive.wr_id,
            status,
            opcode: IBV_WC_RECV,
            byte_len: datagram::length(data) as u32,
            qp_num: queue_pair.number,
            src_qp: arrived.source,
            slid: datagram.lid,
            sl: datagram.service_level,
            vendor_err: vendor_error(status),
            ..ibv_wc::default()
        };
        if let Some(imm_data) = datagram.immediate {
            wc.wc_flags |= IBV_WC_WITH_IMM;
            wc.imm = ibv_wc_imm { imm_data };
        }
        if arrived.route > 0 {
            wc.wc_flags |= IBV_WC_GRH;
        }
        let counters = self.counters.shard();
        counters.receive_operations.add(1);
        counters.receive_bytes.add(data);
        if let Some(cq) = &queue_pair.recv_cq {
            cq.push(Completion::received(wc), datagram.solicited);
        }
        drop(receive_queue);
        if let Some(consequence) = failed.filter(|one| one.next == Next::ErrorState) {
            queue_pair.fail_as_responder(consequence.event.map(event_code));
        }
    }

    fn place_datagram(
        &self,
        receive: &Receive,
        pd: u32,
        arrived: &Arrived<'_>,
        section: &Section<'_>,
    ) -> Result<(), Fault> {
        let runs = Runs::resolve(
            section,
            &self.memory,
            pd,
            receive.sges.as_slice(),
            IBV_ACCESS_LOCAL_WRITE,
        );
        let unusable = || {
            explain::note_buffers(&self.memory, pd, receive.sges.as_slice());
            Fault::ReceiveProtection
        };
        let runs = runs.map_err(|_| unusable())?;
        let (route, data) = (arrived.route, arrived.data);
        // SAFETY: `bytes` holds route and data; the buffers are long enough, because the receive's
        // length was checked.
        unsafe {
            runs.scatter(0, arrived.bytes, route)
                .and_then(|()| runs.scatter(ROUTE, arrived.bytes.add(route), data))
        }
        .map_err(|_| unusable())
    }
}

impl Qp {
    /// Returns whether the queue pair receives a datagram with `payload` bytes that has arrived at
    /// a port.
    pub(super) fn admits_datagram(
        &self,
        queue: &ReceiveQueue,
        port: u8,
        queue_key: QKey,
        payload: u64,
    ) -> bool {
        let receiver = Receiver {
            state: state_of(self.state()),
            queue_key: QKey(queue.qkey),
            receive: match &self.srq {
                Some(srq) => srq.next_length(),
                None => queue.ring.next_length(),
            },
        };
        self.kind == IBV_QPT_UD
            && queue.port == port
            && !link::is_down(port)
            && !causes::link::is_cut(port)
            && datagram::admit(receiver, queue_key, payload).is_ok()
    }
}
