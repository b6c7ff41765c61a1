//! Sending bytes through the channel, in one record or several.

use super::Job;
use super::outcome::Outcome;
use crate::process::Outbound;
use crate::process::channel_ends::Acknowledge;
use crate::qp::Qp;
use crate::qp::inline_data::gather_inline;
use crate::qp::ring_message::Request;
use crate::qp::send::{RequestProgress, SendQueue};
use std::sync::Arc;
use verbena_hca_shm::channel::MAX_PAYLOAD;
use verbena_wire::opcode::Place;

impl Qp {
    /// Copies a request's bytes into the channel, continuing where it was interrupted. `request`
    /// returns the record for the part at an offset.
    pub(super) fn send_parts(
        self: &Arc<Qp>,
        send: &SendQueue,
        job: &Job<'_>,
        via: &Arc<Outbound>,
        progress: &mut RequestProgress,
        request: impl Fn(Place, u64) -> Request,
    ) -> Outcome {
        let total = job.request.length();
        let route = self.route(send, job.psn);
        loop {
            let offset = progress.bytes;
            let length = (total - offset).min(MAX_PAYLOAD as u64);
            let place = Place::new(offset == 0, offset + length == total);
            let acknowledge = place.ends().then_some(Acknowledge {
                index: job.index,
                epoch: send.epoch,
            });
            let header = request(place, offset).emit(&route);
            let pushed = if job.request.is_inline() {
                // The application keeps inline data valid while it posts; later our copy is read.
                via.push(self, header, length as usize, acknowledge, |target| {
                    let sges = job.request.sges;
                    // SAFETY: the ring provides space for `length` bytes, and the buffers hold the
                    // request's whole inline data.
                    unsafe { gather_inline(sges, offset as usize, target, length as usize) };
                    Ok(())
                })
            } else {
                let section = via.section(0);
                let runs = match self.runs(&section, job.request, 0) {
                    Ok(runs) => runs,
                    Err(outcome) => return outcome,
                };
                via.push(self, header, length as usize, acknowledge, |target| {
                    // SAFETY: the ring provides space for `length` bytes.
                    unsafe { runs.gather(offset as usize, target, length as usize) }
                })
            };
            match self.pushed(via, pushed, length) {
                Outcome::Sent if !place.ends() => progress.bytes += length,
                outcome => return outcome,
            }
        }
    }
}
