//! Sending bytes through the channel, in as many records as it takes.

use super::{Job, Outcome};
use crate::process::link::{Acknowledge, Outbound};
use crate::qp::Qp;
use crate::qp::message::{Part, Request};
use crate::qp::send::{Advance, SendQueue};
use crate::shm::channel::MAX_PAYLOAD;
use std::sync::Arc;

impl Qp {
    /// Copies a request's bytes into the channel, from where it was left. `request` says what the record of a part that
    /// begins at an offset is.
    pub(super) fn send_parts(
        self: &Arc<Qp>,
        send: &SendQueue,
        job: &Job<'_>,
        via: &Arc<Outbound>,
        advance: &mut Advance,
        request: impl Fn(Part, u64) -> Request,
    ) -> Outcome {
        let total = job.request.length();
        let route = self.route(send, job.psn);
        loop {
            let offset = advance.bytes;
            let length = (total - offset).min(MAX_PAYLOAD as u64);
            let part = Part {
                is_first: offset == 0,
                is_last: offset + length == total,
            };
            let acknowledge = part.is_last.then_some(Acknowledge {
                index: job.index,
                epoch: send.epoch,
            });
            let section = via.section(0);
            let runs = match self.runs(&section, job.request, 0) {
                Ok(runs) => runs,
                Err(outcome) => return outcome,
            };
            let header = request(part, offset).emit(&route);
            let pushed = via.push(self, header, length as usize, acknowledge, |target| {
                // SAFETY: the ring gave room for `length` bytes.
                unsafe { runs.gather(offset as usize, target, length as usize) }
            });
            drop(section);
            match self.pushed(via, pushed, length) {
                Outcome::Sent if !part.is_last => advance.bytes += length,
                outcome => return outcome,
            }
        }
    }
}
