//! Evaluates replies: locates and verifies their data, and requests the rest of short ones.

use verbena_rfio_protocol::Reply;
use verbena_rfio_protocol::reply::{ReadDone, ReadVectorDone, Refusal};
use verbena_rfio_protocol::types::{Handle, Range};

use super::multiplexer::{ExposedPart, Multiplexer, RequestInFlight, canceled, memory};
use super::operation::{Subrequest, SubrequestKind};
use crate::blocks::{check, check_ranges};
use crate::error::{Error, too_much};
use crate::options::Checksums;

impl Multiplexer {
    /// Handles the reply of a request, whose data have arrived.
    pub(super) fn handle_reply(
        &mut self,
        flight: RequestInFlight,
        outcome: Result<Reply, Refusal>,
        streamed: usize,
    ) -> Result<(), Error> {
        let Some(subrequest) = flight.subrequest else {
            self.deadline.restart();
            return Ok(());
        };
        let announced = match &outcome {
            Ok(Reply::ReadDone(done)) => done.length as usize,
            Ok(Reply::ReadVectorDone(done)) => {
                let lengths = done.lengths.iter().map(|&length| length as usize);
                lengths.fold(0, usize::saturating_add)
            }
            _ => 0,
        };
        let part = self.release_window(flight.id, flight.window, streamed, announced)?;
        let evaluated = match outcome {
            Ok(reply) => self.evaluate(&subrequest, reply, streamed, announced, part),
            Err(refusal) => Err(Error::Refused(refusal)),
        };
        let number = subrequest.operation;
        if let Some(part) = part
            && self
                .active
                .get(&number)
                .is_none_or(|operation| operation.read_part != Some(part))
        {
            self.read_parts.free(part);
        }
        // Many short answers may take no longer than one long one.
        if !matches!(evaluated, Ok(Some(_))) {
            self.deadline.restart();
        }
        match evaluated {
            Ok(None) => self.subrequest_ended(number, None),
            // The rest of a short answer is requested before operations that were begun later.
            Ok(Some(rest)) if self.is_wanted(number) => self.queue.push_front(rest),
            Ok(Some(_)) => self.subrequest_ended(number, Some(canceled())),
            Err(error @ (Error::Protocol(_) | Error::Fabric(_))) => return Err(error),
            Err(error) => self.subrequest_ended(number, Some(error)),
        }
        Ok(())
    }

    /// Revokes the access through a request's window. Returns the part of the read area that holds
    /// the data, if any; it stays reserved.
    fn release_window(
        &mut self,
        request: u64,
        window: Option<ExposedPart>,
        streamed: usize,
        announced: usize,
    ) -> Result<Option<usize>, Error> {
        let checksums = self.session.checksums();
        let Some(data) = self.session.data_path() else {
            return Ok(None);
        };
        match window {
            None => Ok(None),
            Some(ExposedPart::Write(part)) => {
                data.close_write_window(part)?;
                self.write_parts.free(part);
                Ok(None)
            }
            Some(ExposedPart::Read(part)) => {
                let is_in_part = streamed == 0 && announced > 0;
                // With checksums there is no immediate: they show whether the data have arrived.
                if is_in_part && checksums == Checksums::Off {
                    data.wait_for_immediate(request)?;
                }
                data.close_read_window(part)?;
                if !is_in_part {
                    self.read_parts.free(part);
                }
                Ok(is_in_part.then_some(part))
            }
        }
    }

    /// Evaluates a reply: returns `None` if the subrequest has ended, or the rest of it.
    fn evaluate(
        &mut self,
        subrequest: &Subrequest,
        reply: Reply,
        streamed: usize,
        announced: usize,
        part: Option<usize>,
    ) -> Result<Option<Subrequest>, Error> {
        if announced > subrequest.length {
            return Err(too_much());
        }
        match (&subrequest.kind, reply) {
            (SubrequestKind::Call(_), reply) => {
                if let Some(operation) = self.active.get_mut(&subrequest.operation) {
                    operation.replied(reply, streamed);
                }
                Ok(None)
            }
            (SubrequestKind::Write(..), Reply::Written(written)) => match written.length as usize {
                length if length == subrequest.length => Ok(None),
                _ => Err(Error::Protocol("not everything was written".into())),
            },
            (
                SubrequestKind::Read(handle, offset) | SubrequestKind::Part(handle, _, offset),
                Reply::ReadDone(done),
            ) => {
                let operation = self.active.get(&subrequest.operation);
                if operation.is_some_and(|operation| !operation.takes_version(done.version)) {
                    return Err(Error::Changed);
                }
                let is_all = subrequest.at == 0 && (announced == subrequest.length || done.end);
                self.take_data(
                    subrequest,
                    part,
                    streamed,
                    announced,
                    is_all,
                    |data, block| check(*offset, data, &done.checksums, block),
                )?;
                self.after_read(subrequest, *handle, *offset, &done)
            }
            (SubrequestKind::Vector(_, first, ranges), Reply::ReadVectorDone(done)) => self
                .after_vector(subrequest, *first, ranges, &done, part, streamed, announced)
                .map(|()| None),
            (_, other) => Err(Error::unexpected(&other)),
        }
    }

    /// Copies received data to their location in memory and verifies them, or verifies those that
    /// came with the reply. Data that are all of a chunk stay where they landed, if possible.
    #[allow(
        clippy::too_many_arguments,
        reason = "a request, its reply, and where its data are"
    )]
    fn take_data(
        &mut self,
        subrequest: &Subrequest,
        part: Option<usize>,
        streamed: usize,
        announced: usize,
        is_all: bool,
        right: impl Fn(&[u8], u32) -> Result<(), Error>,
    ) -> Result<(), Error> {
        if part.is_none() && streamed != announced {
            return Err(Error::Protocol(format!(
                "{streamed} bytes arrived, {announced} were announced"
            )));
        }
        let (checksums, block) = (self.session.checksums(), self.session.server_limits().block);
        let verdict = |data: &[u8]| match checksums {
            Checksums::On => right(data, block),
            Checksums::Off => Ok(()),
        };
        let Some(operation) = self.active.get_mut(&subrequest.operation) else {
            return Ok(());
        };
        let span = subrequest.at..subrequest.at + announced;
        match (part, self.session.data_path()) {
            (Some(part), Some(data)) => {
                if is_all
                    && operation.may_use_in_place()
                    && data.verify_in_place(part, announced, verdict)?
                {
                    operation.read_part = Some(part);
                    return Ok(());
                }
                data.copy_out(part, &mut memory(operation, &mut self.spare)[span], verdict)
            }
            _ => verdict(&memory(operation, &mut self.spare)[span]),
        }
    }

    fn after_read(
        &mut self,
        subrequest: &Subrequest,
        handle: Handle,
        offset: u64,
        done: &ReadDone,
    ) -> Result<Option<Subrequest>, Error> {
        let length = done.length as usize;
        let is_short = length < subrequest.length;
        if length == 0 && !done.end && subrequest.length > 0 {
            return Err(Error::Protocol("an empty reply before the end".into()));
        }
        if let Some(operation) = self.active.get_mut(&subrequest.operation) {
            match subrequest.kind {
                SubrequestKind::Part(_, range, _) => {
                    operation.add_lengths(range, &[done.length]);
                    if is_short && done.end {
                        operation.range_ends_at(range, offset + length as u64);
                    }
                }
                _ if is_short && done.end => operation.ends_at(subrequest.at + length),
                _ => {}
            }
        }
        let at = offset + length as u64;
        Ok((is_short && !done.end).then(|| Subrequest {
            operation: subrequest.operation,
            at: subrequest.at + length,
            length: subrequest.length - length,
            kind: match subrequest.kind {
                SubrequestKind::Part(_, range, _) => SubrequestKind::Part(handle, range, at),
                _ => SubrequestKind::Read(handle, at),
            },
        }))
    }

    #[allow(
        clippy::too_many_arguments,
        reason = "a request, its reply, and where its data are"
    )]
    fn after_vector(
        &mut self,
        subrequest: &Subrequest,
        first: usize,
        ranges: &[Range],
        done: &ReadVectorDone,
        part: Option<usize>,
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
        self.take_data(subrequest, part, streamed, announced, false, |data, _| {
            check_ranges(ranges, &done.lengths, &done.checksums, data)
        })?;
        let Some(operation) = self.active.get_mut(&subrequest.operation) else {
            return Ok(());
        };
        // The data arrived packed; each range is moved to its own location, the last one first.
        let memory =
            &mut operation.memory.bytes_mut()[subrequest.at..subrequest.at + subrequest.length];
        let (mut from, mut to) = (announced, subrequest.length);
        for (&length, range) in lengths.rev() {
            from -= length as usize;
            to -= range.length as usize;
            if from != to {
                memory.copy_within(from..from + length as usize, to);
            }
        }
        operation.add_lengths(first, &done.lengths);
        Ok(())
    }
}
