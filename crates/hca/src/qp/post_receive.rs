//! Posting receive requests, and flushing them.

use super::{Qp, ReceiveQueue, check, terms};
use crate::cq::Completion;
use crate::receive::Receive;
use verbena_abi::*;
use verbena_hca_memory::planted::{self, Bug};
use verbena_hca_os::errno::Result;
use verbena_transport::completion::Status;
use verbena_transport::state::Receives;

impl Qp {
    /// Posts a receive request.
    ///
    /// # Errors
    /// EINVAL in the reset state, with a shared receive queue, or for too many buffers; ENOMEM when
    /// the queue is full.
    #[inline]
    pub fn post_receive(&self, wr_id: u64, sges: &[ibv_sge]) -> Result<()> {
        if self.srq.is_some() || matches!(self.kind, IBV_QPT_XRC_SEND | IBV_QPT_XRC_RECV) {
            return Err(check::no_receive_queue());
        }
        let mut receive = self.lock_receive();
        let receives = match self.state() {
            IBV_QPS_RTS => Receives::Kept,
            other => terms::state_of(other).receives(),
        };
        match receives {
            Receives::Refused => return Err(check::reset()),
            Receives::Flushed => {
                if sges.len() > self.cap.max_recv_sge as usize {
                    return Err(check::too_many_buffers(
                        "max_recv_sge",
                        sges.len(),
                        self.cap.max_recv_sge,
                    ));
                }
                // The thread that changed the state may not have flushed the earlier receives yet.
                self.flush_receives_of(&mut receive);
                self.complete_flushed_receive(wr_id);
                return Ok(());
            }
            Receives::Kept => (),
        }
        receive.ring.post(wr_id, sges)
    }

    /// Returns the number of posted receives; with a shared receive queue, of all its queue pairs.
    pub fn receives_waiting(&self) -> usize {
        match &self.srq {
            Some(srq) => srq.waiting(),
            None => self.lock_receive().ring.waiting(),
        }
    }

    pub(super) fn flush_receives(&self) {
        self.flush_receives_of(&mut self.lock_receive());
    }

    fn flush_receives_of(&self, receive: &mut ReceiveQueue) {
        let begun = receive
            .message_state
            .current
            .take()
            .map(|current| current.receive);
        let packets = receive.packets.take();
        let taken = packets.and_then(|packets| packets.into_receive());
        let mut posted: Vec<Receive> = begun.into_iter().chain(taken).collect();
        while let Some(next) = receive.ring.take() {
            posted.push(next);
        }
        if planted::is(Bug::FlushOrder) {
            posted.reverse();
        }
        for flushed in posted {
            self.complete_flushed_receive(flushed.wr_id);
        }
    }

    fn complete_flushed_receive(&self, wr_id: u64) {
        if let Some(cq) = &self.recv_cq {
            let wc = terms::failed_receive(self.number, wr_id, Status::Flushed);
            cq.push(Completion::received(wc), true);
        }
    }
}
