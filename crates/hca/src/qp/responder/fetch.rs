//! Fetching a message from the requester's buffers.

use super::Call;
use crate::qp::ring_message::Source;
use crate::qp::terms::state_of;
use std::ops::Range;
use std::sync::atomic::Ordering;
use verbena_hca_memory::peer::Direction;
use verbena_hca_memory::resolve::{AccessRequest, grant};
use verbena_hca_memory::transfer::{Granted, Runs};
use verbena_hca_os::errno::Errno;
use verbena_hca_shm::context_table::QpRecord;
use verbena_hca_shm::section::Section;
use verbena_transport::state::Sends;

/// Bytes copied between two checks whether the request still exists.
const CHUNK: u64 = 1 << 20;
/// Attempts to follow pages that were moved during the copy.
const MOVES: u32 = 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NotFetched {
    /// The requester has ended the request or died; handled as lost packets.
    Ended,
    /// The requester's buffers are being moved; the message must be repeated.
    Moving,
    /// The requester's buffers cannot be read.
    Source,
    /// The local buffers cannot be written, or are too short.
    Target,
}

impl Call<'_> {
    /// Copies the buffers that the payload lists, one after another, into `runs`.
    pub(super) fn fetch(&self, section: &Section<'_>, runs: &Runs<'_>) -> Result<(), NotFetched> {
        let mut offset = 0;
        for source in self.sources().filter(|source| source.length > 0) {
            let length = u64::from(source.length);
            if offset + length > runs.total() {
                return Err(NotFetched::Target);
            }
            let mut done = 0;
            while done < length {
                let part = (length - done).min(CHUNK);
                self.fetch_part(section, &source, done..done + part, runs, offset + done)?;
                done += part;
            }
            offset += length;
        }
        Ok(())
    }

    /// Copies a part of a buffer to `offset` in `runs`.
    ///
    /// The requester may end the request in between and reuse its buffers; it does not wait for a
    /// stopped responder. So the copy counts only if the request still exists afterwards. Even
    /// then, the pages may have moved under their key, and are copied again from their new
    /// location.
    fn fetch_part(
        &self,
        section: &Section<'_>,
        source: &Source,
        part: Range<u64>,
        runs: &Runs<'_>,
        offset: u64,
    ) -> Result<(), NotFetched> {
        let peer = &self.inbound.peer;
        let pd = self.requester().pd.load(Ordering::Relaxed);
        let access_request = AccessRequest::to_buffer(source.key, pd, 0);
        let record = peer.contexts.key(source.key);
        let address = source.address.wrapping_add(part.start);
        for _ in 0..MOVES {
            if !self.is_still_asked() {
                return Err(NotFetched::Ended);
            }
            let range = grant(
                section,
                record,
                access_request,
                address,
                part.end - part.start,
            )
            .map_err(|_| self.unless_ended(NotFetched::Source))?;
            // Pages that are being moved can only be reached by their address, which not every
            // process can use.
            let granted = Granted::of(peer, range, Direction::Load).ok_or(NotFetched::Moving)?;
            let copied = runs.exchange(offset as usize, peer, granted);
            if copied == Err(Errno(libc::ESRCH)) || !self.is_still_asked() {
                return Err(NotFetched::Ended);
            }
            match copied {
                _ if !range.has_held() => (),
                Ok(()) => return Ok(()),
                // The kernel does not report on which side the page was missing.
                Err(_) if runs.are_adapters_own() => return Err(NotFetched::Source),
                Err(_) => return Err(NotFetched::Target),
            }
        }
        Err(NotFetched::Moving)
    }

    fn sources(&self) -> impl Iterator<Item = Source> + '_ {
        let count = usize::from(self.record.header.length) / Source::LENGTH;
        (0..count).map(|index| {
            let mut bytes = [0; Source::LENGTH];
            // SAFETY: the record holds `length` bytes of payload, checked by the ring.
            unsafe {
                let from = self.record.payload.add(index * Source::LENGTH);
                bytes
                    .as_mut_ptr()
                    .copy_from_nonoverlapping(from, Source::LENGTH);
            }
            Source::parse(&bytes)
        })
    }

    /// Returns whether the requester's queue pair is in the same incarnation, and in a state in
    /// which the request is still pending.
    fn is_still_asked(&self) -> bool {
        let record = self.requester();
        let state = record.state.load(Ordering::SeqCst);
        state & QpRecord::PRESENT != 0
            && matches!(state_of(state).sends(), Sends::Start | Sends::Wait)
            && record.incarnation.load(Ordering::Relaxed) == self.route.source.incarnation
    }

    fn unless_ended(&self, reason: NotFetched) -> NotFetched {
        if self.is_still_asked() {
            reason
        } else {
            NotFetched::Ended
        }
    }
}
