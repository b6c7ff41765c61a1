//! Fast paths for plain requests: short sends and RDMA writes over an established reliable
//! connection, with no earlier request waiting.
//!
//! [`Qp::plain_length`] decides which requests are plain; each path then checks its own needs. A
//! fast path never refuses a request: one that is not plain in every respect is left unchanged for
//! the general path ([`super::send`], [`super::write`]).

use super::Job;
use super::direct::{CHUNK, Span};
use crate::observed;
use crate::process::channel_ends::{Acknowledge, ChannelPush};
use crate::qp::Qp;
use crate::qp::inline_data::gather_inline;
use crate::qp::requester::outcome::Outcome;
use crate::qp::ring_message::Plain;
use crate::qp::send::{SendQueue, SendRequest};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use verbena_abi::*;
use verbena_hca_memory::known_range::KnownRange;
use verbena_hca_memory::peer::Direction;
use verbena_hca_memory::resolve::{Piece, grant};
use verbena_hca_os::copy;
use verbena_hca_shm::context_table::KeyRecord;
use verbena_hca_shm::section::Section;

/// Most bytes of a plain message that is not inline: the limit up to which messages are always
/// copied.
const COPIED: u32 = super::send::COPIED as u32;
const FLAGS: u32 = IBV_SEND_SIGNALED | IBV_SEND_INLINE | IBV_SEND_SOLICITED;

impl Qp {
    /// Returns the bytes of a request if it may be plain: some bytes, inline or at most `longest`
    /// in one buffer, without flags that order it after others, and not to be captured.
    #[inline]
    fn plain_length(
        &self,
        send: &mut SendQueue,
        request: &SendRequest<'_>,
        longest: u32,
    ) -> Option<u32> {
        let (buffers, is_inline) = (request.sges.len(), request.is_inline());
        if buffers != 1 && (!is_inline || buffers > self.cap.max_send_sge as usize) {
            return None;
        }
        let most = match is_inline {
            true => self.cap.max_inline_data,
            false => longest,
        };
        let length = request.length();
        let is_plain = self.kind == IBV_QPT_RC
            && request.flags & !FLAGS == 0
            && length != 0
            && length <= most.into()
            && (!observed::is_any() || self.may_be_fast(send, request));
        is_plain.then_some(length as u32)
    }

    /// Returns the bytes of a request for the peer's memory if it may be plain.
    #[inline]
    pub(in crate::qp) fn plain_access_length(
        &self,
        send: &mut SendQueue,
        request: &SendRequest<'_>,
    ) -> Option<u32> {
        self.plain_length(send, request, CHUNK as u32)
    }

    /// Returns the address of a buffer in the local arena, valid while the section is open; None
    /// for other buffers.
    #[inline]
    pub(in crate::qp) fn plain_source(
        &self,
        section: &Section<'_>,
        buffer: &ibv_sge,
        known: &mut KnownRange,
    ) -> Option<*const u8> {
        let arena = self.memory.arena()?;
        let (key, address, length) = (buffer.lkey, buffer.addr, buffer.length.into());
        let record = self.memory.keys().record(key);
        let offset = match known.find(section, record, key, address, length) {
            Some(offset) => offset,
            None => grant_source(section, record, buffer, known)?,
        };
        Some(arena.pointer(offset).cast_const())
    }

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
        let length = self.plain_length(send, request, COPIED)?;
        if length > send.mtu {
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
        let section = (!request.is_inline()).then(|| via.section(0));
        let granted = match &section {
            Some(section) => {
                Some(self.plain_source(section, request.sges.first()?, &mut send.known.source)?)
            }
            None => None,
        };
        let pushed = via.push(self, header, length as usize, acknowledge, |target| {
            // SAFETY: the ring provides space for `length` bytes, the sum of the buffers. A granted
            // piece of `length` bytes lies inside the arena as long as the section is open; the
            // application keeps inline data valid while it posts.
            unsafe {
                match granted {
                    Some(source) => copy::copy(source, target, length as usize),
                    None => gather_inline(request.sges, 0, target, length as usize),
                }
            }
            Ok(())
        });
        drop(section);
        let counters = self.process.counters.shard();
        counters.send_operations.add(1);
        if pushed != ChannelPush::Stored {
            return Some(self.pushed(via, pushed, length.into()));
        }
        counters.count_stored(length.into());
        send.owes_wake = true;
        Some(Outcome::Sent)
    }

    /// Executes a plain RDMA write of one buffer to known memory, while no earlier request is in
    /// flight. Returns its bytes, or None if it must take another path, which then writes all bytes
    /// anew.
    #[inline(always)]
    pub(in crate::qp) fn write_known(
        &self,
        send: &mut SendQueue,
        request: &SendRequest<'_>,
    ) -> Option<u32> {
        let [buffer] = request.sges else {
            return None;
        };
        let length = self.plain_access_length(send, request)?;
        self.store_known(send, request, buffer)?;
        let counters = self.process.counters.shard();
        counters.write_operations.add(1);
        counters.count_mapped(length.into());
        Some(length)
    }

    /// Executes work request `index`, a plain RDMA write of one buffer into one piece of the peer's
    /// arena, while no earlier request is in flight. Returns its bytes, or None if it must take the
    /// general path, which then writes all bytes anew.
    #[inline]
    pub(in crate::qp) fn write_plain(
        self: &Arc<Qp>,
        send: &mut SendQueue,
        request: &SendRequest<'_>,
        index: u64,
        psn: u32,
    ) -> Option<u32> {
        let [buffer] = request.sges else {
            return None;
        };
        let length = self.plain_access_length(send, request)?;
        if send.channel.as_ref()?.peer.is_dead() {
            return None;
        }
        // Taken rather than cloned: reference counting costs as much as checking a key.
        let channel = send.channel.take()?;
        let job = Job {
            channel: &channel,
            request,
            index,
            psn,
        };
        let stored = self.store_plain(send, &job, buffer);
        if stored.is_some() {
            self.note_target(send, &job);
        }
        send.channel = Some(channel);
        stored?;
        self.process.counters.shard().write_operations.add(1);
        self.count_direct(length.into(), false);
        Some(length)
    }

    #[inline]
    fn store_plain(&self, send: &mut SendQueue, job: &Job<'_>, buffer: &ibv_sge) -> Option<()> {
        let section = job.channel.section(job.request.rkey);
        let span = Span::whole(buffer.length.into(), Direction::Store);
        let right = self.right(&section, send, job, IBV_ACCESS_REMOTE_WRITE, span);
        let right = right.ok()?;
        let target = right.granted.as_ref()?.pointer()?;
        let source = match job.request.is_inline() {
            // The application keeps inline data valid while it posts.
            true => buffer.addr as *const u8,
            false => self.plain_source(&section, buffer, &mut send.known.source)?,
        };
        // SAFETY: both ranges were granted, and the section is open.
        unsafe { copy::ordered_copy(source, target, buffer.length as usize) };
        self.has_held(&right).then_some(())
    }
}

/// Returns the offset in the arena of a buffer that lies there in one piece, if it may be read, and
/// notes the range.
#[cold]
#[inline(never)]
fn grant_source(
    section: &Section<'_>,
    record: &KeyRecord,
    buffer: &ibv_sge,
    known: &mut KnownRange,
) -> Option<u64> {
    let (key, address, length) = (buffer.lkey, buffer.addr, buffer.length.into());
    let granted = grant(section, record, known.request(key), address, length).ok()?;
    let Piece::Arena { offset, .. } = granted.sole()? else {
        return None;
    };
    known.note(section, record, key, address, length);
    Some(offset)
}
