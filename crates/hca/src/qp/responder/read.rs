//! RDMA reads whose bytes go through the answer ring.

use super::explain;
use super::failure::Failure;
use super::{Call, Progress};
use crate::process::Serving;
use crate::qp::Qp;
use crate::qp::ring_message::{Answer, Remote};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use verbena_abi::*;
use verbena_hca_memory::resolve::{Piece, ResolvedRange};
use verbena_hca_os::errno::Errno;
use verbena_hca_os::refusal;
use verbena_hca_os::{copy, own_memory};
use verbena_hca_shm::channel::MAX_PAYLOAD;
use verbena_hca_shm::ring;
use verbena_transport::order::check_resources;

impl<'a> Call<'a> {
    pub(super) fn serve_read(
        &self,
        queue_pair: &Arc<Qp>,
        remote: &Remote,
        serving: &mut Serving,
    ) -> Result<Progress<'a>, Failure> {
        if self.is_dropped(queue_pair) {
            return Ok(Progress::Done(None));
        }
        self.check_fetch(queue_pair)?;
        let answers = self.inbound.channel.answers();
        let total = u64::from(remote.length);
        loop {
            let offset = serving.read_progress;
            let length = total.saturating_sub(offset).min(MAX_PAYLOAD as u64);
            let header = Answer::ReadData(offset).emit(&self.route.back());
            let cells = ring::cells_for(header.kind, length as usize);
            if !serving.answers.has_room(&answers, cells) {
                return Ok(Progress::Blocked);
            }
            if length == 0 {
                self.check_right(queue_pair, remote, IBV_ACCESS_REMOTE_READ)?;
                serving.answers.push(&answers, header, 0, |_| ());
            } else {
                let section = self.inbound.section(remote.key);
                let range =
                    self.grant(&section, queue_pair, remote, IBV_ACCESS_REMOTE_READ, total)?;
                let load = |target| self.load(range.part(offset, length), target);
                serving
                    .answers
                    .try_push(&answers, header, length as usize, load)
                    .map_err(|_| explain::unmapped())?;
            }
            serving.read_progress = offset + length;
            if serving.read_progress >= total {
                return Ok(Progress::Done(None));
            }
        }
    }

    /// Refuses reads and atomics if the responder has no resources for them (architecture
    /// specification, 9.4.4 and 11.2.5.2).
    pub(super) fn check_fetch(&self, queue_pair: &Qp) -> Result<(), Failure> {
        let record = self.memory().contexts().queue_pair(queue_pair.number);
        check_resources(record.rd_atomic.load(Ordering::Relaxed)).map_err(|fault| {
            refusal::note(format_args!(
                "max_dest_rd_atomic of the queue pair is 0, so it accepts no reads and atomics: \
                 set it with ibv_modify_qp, to RTR"
            ));
            Failure::by(fault)
        })
    }

    /// Copies from local memory, the counterpart of storing a write.
    fn load(&self, range: ResolvedRange<'_>, target: *mut u8) -> Result<(), Errno> {
        let mut to = target;
        for piece in range.pieces() {
            let length = piece.length();
            // SAFETY: the pieces add up to the room at `target`; arena offsets come from our own
            // key table.
            unsafe {
                match (piece, self.memory().arena()) {
                    (Piece::Null { .. }, _) => to.write_bytes(0, length),
                    (Piece::Arena { offset, .. }, Some(arena)) => {
                        copy::copy(arena.pointer(offset), to, length);
                    }
                    (Piece::Arena { .. }, None) => return Err(Errno::EIO),
                    (Piece::Mapping { address, .. }, _) => {
                        copy::copy(address as *const u8, to, length);
                    }
                    (Piece::Address { address, .. }, _) => {
                        own_memory::load(address, to, length)?;
                    }
                }
                to = to.add(length);
            }
        }
        Ok(())
    }
}
