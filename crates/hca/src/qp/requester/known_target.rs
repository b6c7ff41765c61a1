//! The responder's memory that the last plain writes went to: later ones need two comparisons
//! instead of the checks of queue pair and key.

use super::Job;
use crate::process::lane_ends::OpenGate;
use crate::qp::Qp;
use crate::qp::send::known_memory::KnownTarget;
use crate::qp::send::{SendQueue, SendRequest};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use verbena_abi::*;
use verbena_hca_memory::known_range::KnownRange;
use verbena_hca_memory::peer::{AccessMethod, Direction};
use verbena_hca_memory::resolve::AccessRequest;
use verbena_hca_os::copy;
use verbena_hca_shm::context_table::EndOfOwner;

impl Qp {
    /// Stores the bytes of a write to known memory. Returns None if it must take another path,
    /// which then writes all bytes anew.
    #[inline(always)]
    pub(super) fn store_known(
        &self,
        send: &mut SendQueue,
        request: &SendRequest<'_>,
        buffer: &ibv_sge,
    ) -> Option<()> {
        let target = send.known.target.as_deref()?;
        let via = send.channel.as_deref()?;
        let peer = &target.peer;
        if !Arc::ptr_eq(peer, &via.peer) {
            return None;
        }
        let section = via.section(request.rkey);
        // SYNC POINT gate, known range: loaded inside the section.
        if !target.is_open() {
            return None;
        }
        let (key, length) = (peer.contexts.key(request.rkey), buffer.length.into());
        let address = request.remote_address;
        let part = target
            .range
            .find_part(&section, key, request.rkey, address, length)?;
        let to = (target.first + part as usize) as *mut u8;
        let from = match request.is_inline() {
            // The application keeps inline data valid while it posts.
            true => buffer.addr as *const u8,
            false => self.plain_source(&section, buffer, &mut send.known.source)?,
        };
        // SAFETY: both ranges were granted, and the section is open.
        unsafe { copy::ordered_copy(from, to, buffer.length as usize) };
        // If not, this thread was stopped inside its section, and the peer did not wait for it.
        if !(target.range.has_held(key) && target.is_open()) {
            return None;
        }
        send.known.missed = 0;
        Some(())
    }

    /// Notes a write that succeeded outside of known memory. After two in a row with the same key,
    /// the range of the key around the second one is known.
    #[inline]
    pub(super) fn note_target(&self, send: &mut SendQueue, job: &Job<'_>) {
        if send.known.missed != job.request.rkey {
            send.known.missed = job.request.rkey;
            return;
        }
        if let Some(target) = self.target_around(send, job) {
            send.known.target = Some(Box::new(target));
            send.known.missed = 0;
        }
    }

    #[cold]
    #[inline(never)]
    fn target_around(&self, send: &mut SendQueue, job: &Job<'_>) -> Option<KnownTarget> {
        let peer = &job.channel.peer;
        // SYNC POINT gate: loaded before the words that are checked.
        let gate = OpenGate::of(&peer.contexts, send.destination);
        let section = job.channel.section(job.request.rkey);
        let (responder, access) = (gate.record(), IBV_ACCESS_REMOTE_WRITE);
        // Not another incarnation than that of the write, which has to expect this connection.
        if !self.is_answered_by(peer, responder)
            || Some(responder.incarnation.load(Ordering::Relaxed)) != send.responder
            || responder.access.load(Ordering::Relaxed) & access == 0
        {
            return None;
        }
        let pd = self.remote_domain(peer, job.request, responder)?;
        let key = job.request.rkey;
        let mut range = KnownRange::new(AccessRequest {
            key,
            pd,
            queue_pair: send.destination,
            access,
        });
        let (record, address) = (peer.contexts.key(key), job.request.remote_address);
        if !range.set(&section, record, key, address, job.request.length()) {
            return None;
        }
        let AccessMethod::Pointer(first) = peer.access_method(range.piece(), Direction::Store)
        else {
            return None;
        };
        Some(KnownTarget {
            peer: peer.clone(),
            end: EndOfOwner::of(&peer.contexts),
            gate,
            range,
            first: first as usize,
        })
    }
}
