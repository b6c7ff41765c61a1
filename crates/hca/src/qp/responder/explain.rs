//! Explains why the responder refused a request: noted at the failed check, reported when the queue
//! pair fails. Only for error reports ([`verbena_hca_os::refusal`]).

use super::Call;
use super::failure::Failure;
use crate::qp::names::status_name;
use crate::qp::terms::status_code;
use verbena_abi::*;
use verbena_hca_memory::explain::{access_names, explain};
use verbena_hca_memory::process_memory::ProcessMemory;
use verbena_hca_memory::resolve::AccessRequest;
use verbena_hca_os::refusal;
use verbena_hca_shm::context_table::KeyRecord;
use verbena_transport::completion::Status;
use verbena_transport::fault::{Consequence, Event, Fault};

#[cold]
pub(super) fn note_right(allowed: u32, right: u32) {
    refusal::note(format_args!(
        "qp_access_flags of the queue pair are {}, and {} is needed: set it with ibv_modify_qp",
        access_names(allowed),
        access_names(right)
    ));
}

/// Notes which check of a key failed for a range.
#[cold]
pub(super) fn note_access_request(
    record: &KeyRecord,
    access_request: AccessRequest,
    address: u64,
    length: u64,
) {
    if refusal::is_reported() {
        let why = explain("rkey", record, access_request, address, length);
        let gone = || "the rkey was no longer valid when it was checked".to_owned();
        refusal::note(format_args!("{}", why.unwrap_or_else(gone)));
    }
}

/// Notes which buffer of a receive cannot hold a message.
#[cold]
pub(super) fn note_buffers(memory: &ProcessMemory, pd: u32, sges: &[ibv_sge]) {
    if !refusal::is_reported() {
        return;
    }
    let found = sges.iter().enumerate().find_map(|(index, sge)| {
        let access_request = AccessRequest::to_buffer(sge.lkey, pd, IBV_ACCESS_LOCAL_WRITE);
        let record = memory.keys().record(sge.lkey);
        let why = explain("lkey", record, access_request, sge.addr, sge.length.into())?;
        (sge.length > 0).then(|| format!("sg_list[{index}] of the receive: {why}"))
    });
    let unmapped = || {
        "each lkey of the receive allows it, but the memory of a buffer is no longer mapped: \
         deregister before munmap"
            .to_owned()
    };
    refusal::note(format_args!("{}", found.unwrap_or_else(unmapped)));
}

#[cold]
pub(super) fn note_length(message: u64, room: u64) {
    refusal::note(format_args!(
        "the message has {message} bytes, and the receive's buffers have {room}: post longer ones"
    ));
}

pub(super) fn event_name(event: Event) -> &'static str {
    match event {
        Event::InvalidRequest => "IBV_EVENT_QP_REQ_ERR",
        Event::AccessViolation => "IBV_EVENT_QP_ACCESS_ERR",
        Event::Fatal => "IBV_EVENT_QP_FATAL",
    }
}

impl Call<'_> {
    /// Reports a refused request, before the program can see the consequences.
    #[cold]
    pub(super) fn report_refused(&self, found: &Consequence, receive: Option<(u64, Status)>) {
        let why = refusal::noted();
        let is_known = found.event.is_some() || receive.is_some() || why.is_some();
        if !refusal::is_reported() || !is_known || found.fault == Fault::ReceiverNotReady {
            return;
        }
        let (own, other) = (self.route.destination.number, self.route.source.number);
        let why = why.unwrap_or_else(|| "the request violates a rule of its transport".to_owned());
        let ends = receive.map(|(wr_id, status)| {
            let status = status_name(status_code(status));
            format!("receive wr_id {wr_id:#x} ends with {status}")
        });
        let outcome = match (ends, found.event.map(event_name)) {
            (Some(ends), Some(event)) => format!("{ends}, {event}"),
            (Some(ends), None) => ends,
            (None, Some(event)) => event.to_owned(),
            (None, None) => "dropped, as the queue pair is unreliable".to_owned(),
        };
        refusal::report(format_args!(
            "queue pair {own:#x}: request of queue pair {other:#x}: {outcome}: {why}"
        ));
    }
}

/// Returns the failure of a request that the key allows, but whose memory the owner has unmapped.
#[cold]
pub(super) fn unmapped() -> Failure {
    refusal::note(format_args!(
        "the rkey allows it, but the memory is no longer mapped: deregister before munmap"
    ));
    Failure::by(Fault::Operation)
}
