//! Creating and destroying queue pairs.

use super::responder::message_state::{MessageState, ReceivedByLane};
use super::send::SendQueue;
use super::{Qp, QpInit, ReceiveQueue, check, terms};
use crate::causes;
use crate::context::Context;
use crate::receive::ReceiveRing;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use verbena_abi::*;
use verbena_hca_memory::known_range::KnownRange;
use verbena_hca_memory::quota;
use verbena_hca_memory::resolve::AccessRequest;
use verbena_hca_os::errno::Result;
use verbena_hca_os::lock::Lock;
use verbena_hca_os::refused;

impl Qp {
    /// Creates a queue pair in the reset state.
    ///
    /// # Errors
    /// EINVAL for attributes that are inconsistent or exceed the device's limits; EOPNOTSUPP for
    /// types that the device lacks; ENOMEM beyond the device's number of queue pairs.
    pub fn create(context: &Arc<Context>, init: QpInit) -> Result<Arc<Qp>> {
        let cap = check::init(&init)?;
        let quota_share = quota::QUEUE_PAIRS.take()?;
        let process = context.process.clone();
        let number = process.allocate_number()?;
        let object = causes::number_queue_pair();
        let link = causes::link::QpLink::of(object);
        let rules = (init.kind == IBV_QPT_RC).then(|| causes::Receives::of(object));
        let receive_causes = rules.flatten();
        let pd_number = init.pd.as_ref().map_or(0, |pd| pd.number());
        let domain = init.srq.as_ref().map_or(pd_number, |srq| srq.pd());
        let known_range =
            KnownRange::new(AccessRequest::to_buffer(0, domain, IBV_ACCESS_LOCAL_WRITE));
        let queue_pair = Arc::new(Qp {
            events: context.events.clone(),
            device: context.device,
            process: process.clone(),
            memory: process.memory.clone(),
            number,
            kind: init.kind,
            receives_plainly: init.kind == IBV_QPT_RC && receive_causes.is_none(),
            accepted_requests: terms::accepted_requests(init.kind),
            pd: init.pd,
            send_cq: init.send_cq,
            recv_cq: init.recv_cq,
            srq: init.srq,
            xrcd: init.xrcd,
            cap,
            signal_all: init.signal_all,
            loopback: init.loopback,
            state: AtomicU32::new(IBV_QPS_RESET),
            incarnation: AtomicU32::new(process.membership.next_incarnation()),
            cookie: AtomicUsize::new(0),
            established: AtomicBool::new(false),
            destroyed: AtomicBool::new(false),
            quota_share: Mutex::new(Some(quota_share)),
            attributes: Mutex::new(ibv_qp_attr {
                cap,
                ..ibv_qp_attr::default()
            }),
            send: Lock::new(SendQueue::new(
                cap.max_send_wr,
                pd_number,
                causes::Sends::of(object, link.as_ref()),
                process.lanes,
            )),
            receive: Lock::new(ReceiveQueue {
                ring: ReceiveRing::new(cap.max_recv_wr, cap.max_recv_sge),
                message_state: MessageState::default(),
                qkey: 0,
                port: 0,
                rnr_timer: 0,
                mtu: 0,
                packets: None,
                causes: receive_causes,
                known_range,
            }),
            received_by_lane: ReceivedByLane::default(),
            link,
        });
        let retired = queue_pair.lock_send().retired.clone();
        let weak = Arc::downgrade(&queue_pair);
        queue_pair.for_each_cq(|cq| cq.attach(number, weak.clone(), &retired));
        if let Some(pd) = &queue_pair.pd {
            pd.retain();
        }
        if let Some(srq) = &queue_pair.srq {
            srq.retain();
        }
        if let Some(xrcd) = &queue_pair.xrcd {
            xrcd.retain();
        }
        process.queue_pairs.set(number, Some(queue_pair.clone()));
        Ok(queue_pair)
    }

    /// Notes that the program has got another pointer to the queue pair (ibv_open_qp(3)), to which
    /// `verbena trace` gives a number of queue pairs, too.
    pub fn note_opened(&self) {
        let _ = causes::number_queue_pair();
    }

    /// Destroys the queue pair. On return, peers have stopped acting on it and no completion names
    /// it.
    ///
    /// # Errors
    /// EBUSY while attached to a multicast group; EINVAL if it is destroyed already.
    pub fn destroy(&self) -> Result<()> {
        if self.process.groups.port_of(self.number).is_some() {
            return Err(refused!(
                EBUSY,
                "the queue pair is attached to multicast groups: ibv_detach_mcast first"
            ));
        }
        if self.destroyed.swap(true, Ordering::SeqCst) {
            return Err(refused!(EINVAL, "the queue pair is already destroyed"));
        }
        self.answer_before(IBV_QPS_RESET);
        if self.kind == IBV_QPT_UD {
            self.process.backlog.wait_until_sent(self.number);
        }
        if let Some(own) = self.process.queue_pairs.find(self.number) {
            own.execute_soon(&mut own.lock_send());
        }
        {
            let mut send = self.lock_send();
            self.reset(&mut send);
            let record = self.memory.contexts().queue_pair(self.number);
            record.state.store(0, Ordering::SeqCst);
            record.change_gate();
            self.close_lane(&mut send);
        }
        self.process.queue_pairs.set(self.number, None);
        self.process.forget_in_lanes(self.number);
        self.memory.fence();
        self.for_each_cq(|cq| cq.detach(self.number));
        if let Some(pd) = &self.pd {
            pd.release();
        }
        if let Some(srq) = &self.srq {
            srq.release();
        }
        if let Some(xrcd) = &self.xrcd {
            xrcd.release();
        }
        let cookie = self.cookie.swap(0, Ordering::SeqCst);
        self.events.forget(|event| {
            event.element == cookie
                && matches!(
                    event.kind,
                    IBV_EVENT_QP_FATAL
                        | IBV_EVENT_QP_REQ_ERR
                        | IBV_EVENT_QP_ACCESS_ERR
                        | IBV_EVENT_COMM_EST
                        | IBV_EVENT_SQ_DRAINED
                        | IBV_EVENT_QP_LAST_WQE_REACHED
                )
        });
        self.process.membership.release_number(self.number);
        *self.quota_share.lock().unwrap_or_else(|e| e.into_inner()) = None;
        Ok(())
    }
}
