//! Fast path for plain messages: sends of one buffer over an established reliable connection, short
//! enough to be copied into the channel whole, with no earlier request waiting.
//!
//! The fast path never refuses a message: one that is not plain in every respect is left unchanged
//! for the general path ([`super::send`]).

use crate::capture;
use crate::process::link::{Acknowledge, ChannelPush};
use crate::qp::Qp;
use crate::qp::requester::outcome::Outcome;
use crate::qp::ring_message::Plain;
use crate::qp::send::{SendQueue, SendRequest};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use verbena_abi::*;
use verbena_hca_memory::resolve::{AccessRequest, Piece, grant};
use verbena_hca_os::copy;

/// Most bytes of a plain message that is not inline: the limit up to which messages are always
/// copied.
const COPIED: u32 = super::send::COPIED as u32;
const FLAGS: u32 = IBV_SEND_SIGNALED | IBV_SEND_INLINE | IBV_SEND_SOLICITED;

impl Qp {
    /// Sends a plain message as work request `index`. Returns None, without effect, if it must take
    /// the general path.
    #[inline]
    pub(in crate::qp) fn send_plain(
        self: &Arc<Qp>,
        send: &mut SendQueue,
        request: &SendRequest<'_>,
        index: u64,
        psn: u32,
    ) -> Option<Outcome> {
        let [buffer] = request.sges else {
            return None;
        };
        let length = buffer.length;
        let is_inline = request.is_inline();
        let most = if is_inline {
            self.cap.max_inline_data
        } else {
            COPIED
        };
        if request.opcode != IBV_WR_SEND
            || self.kind != IBV_QPT_RC
            || request.flags & !FLAGS != 0
            || length > most.min(send.mtu)
            || length == 0
            || send.is_cut
            || capture::is_on()
        {
            return None;
        }
        let via = send.channel.as_ref().filter(|via| !via.peer.is_dead())?;
        via.prefetch();
        let record = via.peer.contexts.queue_pair(send.destination);
        if !self.is_answered_by(&via.peer, record)
            || send.responder != Some(record.incarnation.load(Ordering::Relaxed))
        {
            return None;
        }
        let message = Plain {
            total: length,
            solicited: request.is_solicited(),
        };
        let header = message.emit(&self.route(send, psn));
        let acknowledge = Some(Acknowledge {
            index,
            epoch: send.epoch,
        });
        let fill = |from: *const u8| {
            move |target: *mut u8| {
                // SAFETY: the callers below pass a `from` with `length` readable bytes; the ring
                // provides space for `length` bytes.
                unsafe { copy::copy(from, target, length as usize) };
                Ok(())
            }
        };
        let pushed = if is_inline {
            // The application keeps inline data valid while it posts.
            let from = buffer.addr as *const u8;
            via.push(self, header, length as usize, acknowledge, fill(from))
        } else {
            let arena = self.memory.arena()?;
            let section = via.section(0);
            let access_request = AccessRequest::to_buffer(buffer.lkey, self.pd_number(), 0);
            let key = self.memory.keys().record(buffer.lkey);
            let range = grant(&section, key, access_request, buffer.addr, length.into()).ok()?;
            let Some(Piece::Arena { offset, .. }) = range.sole() else {
                return None;
            };
            // A granted piece lies inside the arena, as long as the section is open.
            let from = arena.pointer(offset);
            via.push(self, header, length as usize, acknowledge, fill(from))
        };
        let counters = self.process.counters.shard();
        counters.send_operations.add(1);
        if pushed != ChannelPush::Stored {
            return Some(self.pushed(via, pushed, length.into()));
        }
        counters.count_stored(length.into());
        send.owes_wake = true;
        Some(Outcome::Sent)
    }
}
