//! Explains why a send request failed: repeats the checks when it completes. Only for error reports
//! ([`verbena_hca_os::refusal`]).

use super::SendQueue;
use super::request::{PendingRequest, SendRequest};
use crate::device;
use crate::qp::Qp;
use crate::qp::names::{opcode_name, status_name};
use crate::qp::terms::{is_answered, request_kind, right_to};
use std::sync::atomic::Ordering::Relaxed;
use verbena_abi::*;
use verbena_hca_memory::explain::{access_names, explain, range_name};
use verbena_hca_memory::resolve::AccessRequest;
use verbena_hca_os::refusal;
use verbena_hca_shm::context_table::QpRecord;
use verbena_transport::Access;
use verbena_wire::opcode::Kind;

impl Qp {
    /// Reports a failed request, before the program can see its completion.
    #[cold]
    pub(super) fn report_failed(
        &self,
        send: &SendQueue,
        one: &PendingRequest,
        status: ibv_wc_status,
    ) {
        if !refusal::is_reported() {
            return;
        }
        let request = one.request();
        let causes = send.causes.as_deref();
        let is_planted = causes
            .is_some_and(|causes| causes.planted(one.index).is_some() || causes.loses(one.index));
        let why = match status {
            _ if is_planted => refusal::BY_RULE.to_owned(),
            IBV_WC_LOC_LEN_ERR => self.too_long(send, &request),
            IBV_WC_LOC_PROT_ERR => self.unusable_buffers(&request),
            IBV_WC_LOC_QP_OP_ERR => self.not_possible(send, &request),
            IBV_WC_MW_BIND_ERR => refusal::noted().unwrap_or_else(|| {
                format!(
                    "the window or rkey {:#x} is not in the queue pair's protection domain",
                    request.immediate
                )
            }),
            IBV_WC_RETRY_EXC_ERR => no_answer_reason(send),
            IBV_WC_RNR_RETRY_EXC_ERR => format!(
                "queue pair {:#x} had no receive posted, after {} retries (rnr_retry): post \
                 receives before the sender sends, or set rnr_retry to 7 (retry forever)",
                send.destination,
                send.rnr_retries.attribute()
            ),
            IBV_WC_REM_INV_REQ_ERR | IBV_WC_REM_ACCESS_ERR | IBV_WC_REM_OP_ERR => {
                self.refused_by_peer(send, &request)
            }
            _ => "see ibv_poll_cq(3)".to_owned(),
        };
        refusal::report(format_args!(
            "queue pair {:#x}: {} wr_id {:#x}: {}: {why}",
            self.number,
            opcode_name(request.opcode),
            request.wr_id,
            status_name(status)
        ));
    }

    fn too_long(&self, send: &SendQueue, request: &SendRequest<'_>) -> String {
        let length = request.length();
        if word_of(request.opcode) && length < 8 {
            return format!("the buffers have {length} bytes, and an atomic needs 8");
        }
        let (most, of) = match self.kind {
            IBV_QPT_UD => (
                device::mtu_bytes(send.port),
                "active_mtu, as a datagram is one packet",
            ),
            _ => (device::MAX_MESSAGE, "max_msg_sz"),
        };
        format!(
            "the buffers have {length} bytes, and at most {most} are allowed ({of} of \
             ibv_query_port): send less at a time"
        )
    }

    /// Returns which buffer is unusable, by its key. If all keys are valid, memory was unmapped.
    fn unusable_buffers(&self, request: &SendRequest<'_>) -> String {
        let access = match request.opcode {
            IBV_WR_RDMA_READ | IBV_WR_ATOMIC_CMP_AND_SWP | IBV_WR_ATOMIC_FETCH_AND_ADD => {
                IBV_ACCESS_LOCAL_WRITE
            }
            _ => 0,
        };
        let found = request.sges.iter().enumerate().find_map(|(index, sge)| {
            let access_request = AccessRequest::to_buffer(sge.lkey, self.pd_number(), access);
            let record = self.memory.keys().record(sge.lkey);
            (sge.length > 0)
                .then(|| explain("lkey", record, access_request, sge.addr, sge.length.into()))
                .flatten()
                .map(|why| format!("sg_list[{index}]: {why}"))
        });
        found.unwrap_or_else(|| {
            "each lkey of sg_list allows it, but the memory of a buffer is no longer mapped: \
             deregister before munmap"
                .to_owned()
        })
    }

    fn not_possible(&self, send: &SendQueue, request: &SendRequest<'_>) -> String {
        if let Some(address) = request.address {
            let port = address.attributes().port_num;
            if port != send.port {
                return format!(
                    "the address handle is of {}, and the queue pair at {}: create one for that \
                     port",
                    device::port_name(port),
                    device::port_name(send.port)
                );
            }
        }
        match send.outstanding.limit() {
            0 => "max_rd_atomic of the queue pair is 0, so it cannot send reads and atomics: set \
                  it with ibv_modify_qp, to RTS"
                .to_owned(),
            _ => format!(
                "a queue pair of type {} does not support it in this state",
                self.kind
            ),
        }
    }

    /// Returns the responder's reason, if its state can be read from here. On another host, only
    /// the responder itself reports it.
    fn refused_by_peer(&self, send: &SendQueue, request: &SendRequest<'_>) -> String {
        let (key, length) = (request.rkey, self.length_there(request));
        let asked = format!(
            "the responder, queue pair {:#x}, refused rkey {key:#x} and {}",
            send.destination,
            range_name(request.remote_address, length)
        );
        let Some(right) = right_of(request) else {
            return format!(
                "the responder, queue pair {:#x}, refused a message of {length} bytes: longer \
                 than the receive's buffers, or these are not accessible; its process reports \
                 which, with VERBENA_LOG=info",
                send.destination
            );
        };
        let Some(channel) = &send.channel else {
            return format!("{asked}; its process reports why, with VERBENA_LOG=info");
        };
        let contexts = &channel.peer.contexts;
        let responder: &QpRecord = contexts.queue_pair(send.destination);
        let allowed = responder.access.load(Relaxed);
        if request.opcode != IBV_WR_FLUSH && allowed & right == 0 {
            return format!(
                "{asked}: its qp_access_flags are {}, and {} is needed: \
                 set it with ibv_modify_qp there",
                access_names(allowed),
                access_names(right)
            );
        }
        if responder.rd_atomic.load(Relaxed) == 0 && is_answered(request.opcode) {
            return format!(
                "{asked}: its max_dest_rd_atomic is 0, so it accepts no reads and atomics"
            );
        }
        if word_of(request.opcode) && !request.remote_address.is_multiple_of(8) {
            return format!("{asked}: the address of an atomic must be a multiple of 8");
        }
        let access_request = AccessRequest {
            key,
            pd: responder.pd.load(Relaxed),
            queue_pair: send.destination,
            access: right,
        };
        let found = explain(
            "rkey",
            contexts.key(key),
            access_request,
            request.remote_address,
            length,
        );
        let found = found.filter(|_| self.kind != IBV_QPT_XRC_SEND);
        match found {
            Some(why) => format!(
                "the responder, queue pair {:#x}, refused it: {why}",
                send.destination
            ),
            None => format!("{asked}; its process reports why, with VERBENA_LOG=info"),
        }
    }

    fn length_there(&self, request: &SendRequest<'_>) -> u64 {
        match request.opcode {
            IBV_WR_FLUSH => request.flush_length(),
            opcode if word_of(opcode) => 8,
            _ => request.length(),
        }
    }
}

fn no_answer_reason(send: &SendQueue) -> String {
    format!(
        "queue pair {:#x} did not answer: timeout is {} (4.096 us times 2 to that power) and \
         retry_cnt {}; it does not exist, its process has ended, it is not in RTR or RTS, or it \
         is connected to another queue pair, port or packet number",
        send.destination,
        send.timeout.code(),
        send.retry_count.value()
    )
}

/// Returns whether a request concerns one word of 8 bytes.
fn word_of(opcode: ibv_wr_opcode) -> bool {
    matches!(request_kind(opcode), Some(Kind::Atomic | Kind::AtomicWrite))
}

/// Returns the right that a request needs to the responder's memory; None if it names none.
fn right_of(request: &SendRequest<'_>) -> Option<u32> {
    match request_kind(request.opcode)? {
        Kind::Flush => Some(request.flush().access()),
        kind => Access::needed_by(kind).map(right_to),
    }
}
