//! Evaluates replies: locates and verifies their data, and requests the rest of short ones.

use verbena_rfio_protocol::Reply;
use verbena_rfio_protocol::reply::{ReadDone, ReadVectorDone, Refusal};
use verbena_rfio_protocol::types::{Handle, Range};

use super::errand::{Piece, What};
use super::traffic::{Flight, Lent, Traffic, memory, taken_back};
use crate::blocks::{check, check_ranges};
use crate::error::Error;
use crate::options::Checksums;
use crate::session::{too_much, unexpected};

impl Traffic {
    /// Handles the reply of a request, whose data have arrived.
    pub(super) fn answered(
        &mut self,
        flight: Flight,
        outcome: Result<Reply, Refusal>,
        streamed: usize,
    ) -> Result<(), Error> {
        let Some(piece) = flight.piece else {
            self.quiet.restart();
            return Ok(());
        };
        let landed = match &outcome {
            Ok(Reply::ReadDone(done)) => done.length as usize,
            Ok(Reply::ReadVectorDone(done)) => {
                let lengths = done.lengths.iter().map(|&length| length as usize);
                lengths.fold(0, usize::saturating_add)
            }
            _ => 0,
        };
        let place = self.place(flight.id, flight.window, streamed, landed)?;
        let judged = match outcome {
            Ok(reply) => self.judge(&piece, reply, streamed, landed, place),
            Err(refusal) => Err(Error::Refused(refusal)),
        };
        let number = piece.errand;
        if let Some(part) = place
            && self
                .under_way
                .get(&number)
                .is_none_or(|errand| errand.landed != Some(part))
        {
            self.landing.free(part);
        }
        // Many short answers may take no longer than one long one.
        if !matches!(judged, Ok(Some(_))) {
            self.quiet.restart();
        }
        match judged {
            Ok(None) => self.piece_ended(number, None),
            // The rest of a short answer is requested before operations that were begun later.
            Ok(Some(rest)) if self.is_wanted(number) => self.queue.push_front(rest),
            Ok(Some(_)) => self.piece_ended(number, Some(taken_back())),
            Err(error @ (Error::Protocol(_) | Error::Fabric(_))) => return Err(error),
            Err(error) => self.piece_ended(number, Some(error)),
        }
        Ok(())
    }

    /// Ends the loan of a request's window. Returns the part of the landing area that holds the
    /// data, if any; it stays reserved.
    fn place(
        &mut self,
        request: u64,
        window: Option<Lent>,
        streamed: usize,
        landed: usize,
    ) -> Result<Option<usize>, Error> {
        let checksums = self.session.checksums();
        let Some(data) = self.session.data_path() else {
            return Ok(None);
        };
        match window {
            None => Ok(None),
            Some(Lent::Offering(part)) => {
                data.close_offering(part)?;
                self.offering.free(part);
                Ok(None)
            }
            Some(Lent::Landing(part)) => {
                let has_landed = streamed == 0 && landed > 0;
                // With checksums there is no immediate: they show whether the data have arrived.
                if has_landed && checksums == Checksums::Off {
                    data.landed(request)?;
                }
                data.close_landing(part)?;
                if !has_landed {
                    self.landing.free(part);
                }
                Ok(has_landed.then_some(part))
            }
        }
    }

    /// Evaluates a reply: returns `None` if the subrequest has ended, or the rest of it.
    fn judge(
        &mut self,
        piece: &Piece,
        reply: Reply,
        streamed: usize,
        announced: usize,
        place: Option<usize>,
    ) -> Result<Option<Piece>, Error> {
        if announced > piece.length {
            return Err(too_much());
        }
        match (&piece.what, reply) {
            (What::Call(_), reply) => {
                if let Some(errand) = self.under_way.get_mut(&piece.errand) {
                    errand.replied(reply, streamed);
                }
                Ok(None)
            }
            (What::Write(..), Reply::Written(written)) => match written.length as usize {
                length if length == piece.length => Ok(None),
                _ => Err(Error::Protocol("not everything was written".into())),
            },
            (What::Read(handle, offset) | What::Part(handle, _, offset), Reply::ReadDone(done)) => {
                let errand = self.under_way.get(&piece.errand);
                if errand.is_some_and(|errand| !errand.takes_version(done.version)) {
                    return Err(Error::Changed);
                }
                let is_all = piece.at == 0 && (announced == piece.length || done.end);
                self.fetch(piece, place, streamed, announced, is_all, |data, block| {
                    check(*offset, data, &done.checksums, block)
                })?;
                self.after_read(piece, *handle, *offset, &done)
            }
            (What::Vector(_, first, ranges), Reply::ReadVectorDone(done)) => self
                .after_vector(piece, *first, ranges, &done, place, streamed, announced)
                .map(|()| None),
            (_, other) => Err(unexpected(&other)),
        }
    }

    /// Copies received data to their location in memory and verifies them, or verifies those that
    /// came with the reply. Data that are all of a chunk stay where they landed, if possible.
    #[allow(
        clippy::too_many_arguments,
        reason = "a request, its reply, and where its data are"
    )]
    fn fetch(
        &mut self,
        piece: &Piece,
        place: Option<usize>,
        streamed: usize,
        announced: usize,
        is_all: bool,
        right: impl Fn(&[u8], u32) -> Result<(), Error>,
    ) -> Result<(), Error> {
        if place.is_none() && streamed != announced {
            return Err(Error::Protocol(format!(
                "{streamed} bytes arrived, {announced} were announced"
            )));
        }
        let (checksums, block) = (self.session.checksums(), self.session.terms().block);
        let verdict = |data: &[u8]| match checksums {
            Checksums::On => right(data, block),
            Checksums::Off => Ok(()),
        };
        let Some(errand) = self.under_way.get_mut(&piece.errand) else {
            return Ok(());
        };
        let span = piece.at..piece.at + announced;
        match (place, self.session.data_path()) {
            (Some(part), Some(data)) => {
                if is_all && errand.may_stay() && data.stays(part, announced, verdict)? {
                    errand.landed = Some(part);
                    return Ok(());
                }
                data.copy_out(part, &mut memory(errand, &mut self.spare)[span], verdict)
            }
            _ => verdict(&memory(errand, &mut self.spare)[span]),
        }
    }

    fn after_read(
        &mut self,
        piece: &Piece,
        handle: Handle,
        offset: u64,
        done: &ReadDone,
    ) -> Result<Option<Piece>, Error> {
        let length = done.length as usize;
        let is_short = length < piece.length;
        if length == 0 && !done.end && piece.length > 0 {
            return Err(Error::Protocol("an empty reply before the end".into()));
        }
        if let Some(errand) = self.under_way.get_mut(&piece.errand) {
            match piece.what {
                What::Part(_, range, _) => {
                    errand.lengths_are(range, &[done.length]);
                    if is_short && done.end {
                        errand.range_ends_at(range, offset + length as u64);
                    }
                }
                _ if is_short && done.end => errand.ends_at(piece.at + length),
                _ => {}
            }
        }
        let at = offset + length as u64;
        Ok((is_short && !done.end).then(|| Piece {
            errand: piece.errand,
            at: piece.at + length,
            length: piece.length - length,
            what: match piece.what {
                What::Part(_, range, _) => What::Part(handle, range, at),
                _ => What::Read(handle, at),
            },
        }))
    }

    #[allow(
        clippy::too_many_arguments,
        reason = "a request, its reply, and where its data are"
    )]
    fn after_vector(
        &mut self,
        piece: &Piece,
        first: usize,
        ranges: &[Range],
        done: &ReadVectorDone,
        place: Option<usize>,
        streamed: usize,
        announced: usize,
    ) -> Result<(), Error> {
        let lengths = done.lengths.iter().zip(ranges);
        let fits = lengths
            .clone()
            .all(|(&length, range)| length <= range.length);
        let has_sums = match self.session.checksums() {
            Checksums::On => done.checksums.len() == ranges.len(),
            Checksums::Off => true,
        };
        if done.lengths.len() != ranges.len() || !fits || !has_sums {
            return Err(Error::Protocol(
                "the lengths of a vector do not fit the request".into(),
            ));
        }
        self.fetch(piece, place, streamed, announced, false, |data, _| {
            check_ranges(ranges, &done.lengths, &done.checksums, data)
        })?;
        let Some(errand) = self.under_way.get_mut(&piece.errand) else {
            return Ok(());
        };
        // The data arrived packed; each range is moved to its own location, the last one first.
        let memory = &mut errand.memory.bytes_mut()[piece.at..piece.at + piece.length];
        let (mut from, mut to) = (announced, piece.length);
        for (&length, range) in lengths.rev() {
            from -= length as usize;
            to -= range.length as usize;
            if from != to {
                memory.copy_within(from..from + length as usize, to);
            }
        }
        errand.lengths_are(first, &done.lengths);
        Ok(())
    }
}
