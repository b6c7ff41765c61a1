//! The timed requests of a send queue ([`super::timed`]).

use super::request::SendRequest;
use crate::causes::link::Medium;
use crate::causes::passage::{Executed, Posted};
use crate::emulation::Emulation;
use crate::emulation::schedule::{Due, Posting};
use crate::emulation::work::Work;
use crate::qp::terms::is_answered;
use std::collections::VecDeque;
use verbena_abi::*;
use verbena_emulation::operation::{Operation, Placement};
use verbena_emulation::table::Times;

/// Most bytes of inline data: longer requests become pending ones.
pub(super) const INLINE: usize = 64;

/// A request that is not complete.
pub(super) struct TimedRequest {
    pub(super) index: u64,
    pub(super) psn: u32,
    pub(super) wr_id: u64,
    pub(super) opcode: ibv_wr_opcode,
    pub(super) flags: u32,
    pub(super) length: u32,
    /// Its buffer, unless it is inline.
    pub(super) address: u64,
    pub(super) lkey: u32,
    pub(super) remote_address: u64,
    pub(super) rkey: u32,
    pub(super) is_signalled: bool,
    pub(super) due: Due,
    /// Nanoseconds from posting to completion.
    pub(super) time: u64,
    pub(super) executed: Option<Executed>,
    pub(super) inline: [u8; INLINE],
}

impl TimedRequest {
    pub(super) fn buffer(&self) -> ibv_sge {
        let is_inline = self.flags & IBV_SEND_INLINE != 0;
        ibv_sge {
            addr: match is_inline {
                true => self.inline.as_ptr() as u64,
                false => self.address,
            },
            length: self.length,
            lkey: self.lkey,
        }
    }

    pub(super) fn request<'a>(&self, buffers: &'a [ibv_sge]) -> SendRequest<'a> {
        SendRequest {
            wr_id: self.wr_id,
            opcode: self.opcode,
            flags: self.flags,
            sges: buffers,
            remote_address: self.remote_address,
            rkey: self.rkey,
            ..SendRequest::default()
        }
    }

    /// Returns its passage over the link from a port.
    pub(super) fn posted(&self, port: u8) -> Posted {
        let is_fetch = is_answered(self.opcode);
        let length = u64::from(self.length);
        Posted {
            index: self.index,
            now: self.due.arrival,
            port,
            medium: Medium::Request,
            bytes: if is_fetch { 0 } else { length },
            answer_bytes: if is_fetch { length } else { 0 },
            is_fetch,
            // Without rules nothing is repeated.
            retries: None,
            completion: self.due.completion,
            time: self.time,
            lead: self.due.lead,
            work: Work::Copy,
            is_signalled: self.is_signalled,
        }
    }
}

/// The operation, placement and size of a request, on which its times depend.
type Key = (Operation, Placement, u64);

/// Those of a send queue.
#[derive(Default)]
pub(super) struct TimedRequests {
    /// In the order of posting; those executed come first.
    pub(super) waiting: VecDeque<TimedRequest>,
    pub(super) executed: usize,
    /// The times of the last one.
    pub(super) times: Option<(Key, Times)>,
}

impl TimedRequests {
    /// Returns the times of a request.
    pub(super) fn times(&mut self, emulation: &Emulation, posting: &Posting) -> Times {
        let (operation, placement) = posting.kind();
        let key = (operation, placement, posting.bytes);
        match self.times {
            Some((known, times)) if known == key => times,
            _ => {
                let times = emulation.times(posting);
                self.times = Some((key, times));
                times
            }
        }
    }

    /// Returns the time of the next execution or completion; u64::MAX if there is none.
    pub(super) fn next(&self) -> u64 {
        let next = self.waiting.get(self.executed);
        let first = self.waiting.front().and_then(|one| one.executed);
        let arrival = next.map_or(u64::MAX, |one| one.due.arrival);
        arrival.min(first.map_or(u64::MAX, |one| one.completion))
    }
}
