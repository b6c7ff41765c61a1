//! RDMA writes, with and without immediate data.

use super::{Direct, Job, Outcome, remote_place, solicited};
use crate::memory::transfer::Granted;
use crate::qp::Qp;
use crate::qp::message::*;
use crate::qp::send::SendQueue;
use crate::shm::channel::MAX_PAYLOAD;
use crate::shm::ring::Header;
use std::sync::Arc;
use verbena_abi::*;

impl Qp {
    pub(super) fn write(
        self: &Arc<Qp>,
        send: &mut SendQueue,
        job: &Job<'_>,
        progress: &mut u64,
    ) -> Outcome {
        let request = job.request;
        let (runs, total) = match self.payload(request) {
            Ok(payload) => payload,
            Err(outcome) => return outcome,
        };
        let ordered = send.has_outstanding() || *progress > 0;
        if ordered && total > MAX_PAYLOAD as u64 && *progress == 0 && self.reaches(send, job, total)
        {
            return Outcome::Order;
        }
        if *progress == 0 {
            self.process.counters.shard().write_operations.add(1);
        }
        let notifies = request.opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
        if !ordered {
            let access = job.channel.channel.slots().enter();
            let direct = self.reach(
                send,
                job,
                total,
                IBV_ACCESS_REMOTE_WRITE,
                |peer, granted| {
                    // SAFETY: the place is granted, and stays so while the access section is open; the buffers are
                    // registered or inline.
                    unsafe { runs.store(peer, granted) }
                },
            );
            drop(access);
            match direct {
                Direct::Finished(Outcome::Done) if notifies => {
                    return self.notice(send, job, total);
                }
                Direct::Finished(outcome) => return outcome,
                Direct::ThroughChannel => (),
            }
        } else if let Err(outcome) = self.responder(send, &job.channel.peer) {
            return outcome;
        }
        let header = Header {
            flags: if notifies {
                IMMEDIATE | solicited(request)
            } else {
                0
            },
            immediate: request.immediate,
            address: request.remote_address,
            word: u64::from(request.rkey) | total << 32,
            ..self.header(WRITE, send, job)
        };
        self.send_copied(send, job, job.channel, header, &runs, progress)
    }

    /// Whether all of a write's target can be reached by ourselves, so that waiting for the right moment beats copying
    /// it through the channel.
    fn reaches(&self, send: &mut SendQueue, job: &Job<'_>, length: u64) -> bool {
        let peer = &job.channel.peer;
        let Ok(responder) = self.responder(send, peer) else {
            return false;
        };
        let Some(pd) = self.remote_domain(peer, job.request, responder) else {
            return false;
        };
        remote_place(send, job, pd, IBV_ACCESS_REMOTE_WRITE, length)
            .is_ok_and(|place| Granted::of(peer, place).is_some())
    }

    /// The bytes of a write with immediate are in place: tells the receive queue.
    fn notice(self: &Arc<Qp>, send: &SendQueue, job: &Job<'_>, total: u64) -> Outcome {
        let header = self.header(WRITE_NOTICE, send, job);
        let header = Header {
            flags: header.flags | IMMEDIATE | solicited(job.request),
            immediate: job.request.immediate,
            word: total,
            ..header
        };
        self.ask(send, job, job.channel, header, &[], 0)
    }
}
