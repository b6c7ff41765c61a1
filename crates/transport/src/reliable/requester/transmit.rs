//! Makes request packets (specification 9.7.2 and 9.7.3).

use verbena_wire::EmitError;
use verbena_wire::Psn;
use verbena_wire::bth::{self, Bth};
use verbena_wire::middles;
use verbena_wire::packet::{Extensions, Headers};
use verbena_wire::xrceth::Xrceth;

use super::recovery::Timer;
use super::{Cursor, Mode, Requester};
use crate::access::ReliableRequesterAccess;
use crate::completion::Status;
use crate::packets;
use crate::request::{Addressee, Answer, Operation, SendRequest, Sequence};
use crate::segment::Segment;
use crate::time::Instant;

/// Length of a packet's payload and its offset in the message.
struct Payload {
    offset: u32,
    length: u32,
}

impl Requester {
    /// Writes the next packet to the front of `buffer` and returns its length; `None` if there is
    /// nothing to send now.
    ///
    /// # Errors
    ///
    /// The buffer is too short for the packet. Nothing has changed.
    pub fn poll_transmit(
        &mut self,
        now: Instant,
        access: &mut impl ReliableRequesterAccess,
        buffer: &mut [u8],
    ) -> Result<Option<usize>, EmitError> {
        self.handle_timeout(now, access);
        if self.mode == Mode::Failed {
            // Requests posted since the failure.
            self.flush(access);
            return Ok(None);
        }
        let Cursor { at, packet } = self.cursor;
        let is_blocked = self.blocked.is_some_and(|blocked| blocked <= at);
        if matches!(self.timer, Timer::ReceiverNotReady(_)) || is_blocked {
            return Ok(None);
        }
        let Some(sequence) = access.sequence(at) else {
            return Ok(None);
        };
        let psn = sequence.first.plus(packet);
        let packets = if at < self.started {
            1
        } else {
            sequence.packets
        };
        if !self.within_window(psn, packets) {
            return Ok(None);
        }
        let Some(request) = access.request(at) else {
            return Ok(None);
        };
        let (mut headers, payload) = self.packet(&request, packet, psn);
        headers.bth.ack_request = self.asks_for_acknowledgement(sequence, packet, psn);

        let length = headers.packet_length(payload.length as usize);
        let place = headers.emit_around(payload.length as usize, buffer)?;
        if !place.is_empty() && access.gather(at, payload.offset, place).is_err() {
            self.block(at, access);
            return Ok(None);
        }
        self.sent(now, sequence, headers.bth.ack_request);
        Ok(Some(length))
    }

    /// Returns the length of a middle packet.
    pub fn middle_length(&self) -> usize {
        bth::LENGTH + self.configuration.mtu.bytes() as usize
    }

    /// Writes the next packets to `buffer`, one each `spacing` bytes, as many as it holds, and
    /// returns their number: those that are consecutive middle packets of one message and request
    /// no acknowledgement, as [`Self::poll_transmit`] would make them. 0 if the next packet is
    /// another one, or if there is none to send now; only [`Self::poll_transmit`] tells which.
    pub fn poll_transmit_middles(
        &mut self,
        now: Instant,
        access: &mut impl ReliableRequesterAccess,
        buffer: &mut [u8],
        spacing: usize,
    ) -> usize {
        let room = buffer.len() / spacing;
        let Cursor { at, packet } = self.cursor;
        let Some(sequence) = access.sequence(at) else {
            return 0;
        };
        let count = self.middles_to_send(sequence).min(room as u32);
        if count == 0 {
            return 0;
        }
        let Some(request) = access.request(at) else {
            return 0;
        };
        let is_of_data = matches!(
            request.operation,
            Operation::Send(_) | Operation::Write { .. }
        );
        if !is_of_data || request.addressee != Addressee::Connected {
            return 0;
        }
        let first = sequence.first.plus(packet);
        let (headers, payload) = self.packet(&request, packet, first);
        let buffer = &mut buffer[..count as usize * spacing];
        let made = middles::emit(&headers, payload.length as usize, spacing, buffer)
            .is_ok_and(|places| access.gather_each(at, payload.offset, places).is_ok());
        if !made {
            // `poll_transmit` meets the error, too, and handles it.
            return 0;
        }
        self.cursor.packet += count;
        let end = first.plus(count);
        if self.limit.precedes(end) {
            self.limit = end;
        }
        self.since_ack_request += count;
        if self.timer == Timer::Idle {
            self.restart_timer(now);
        }
        count as usize
    }

    /// Returns how many middle packets of the message at the cursor can be sent now without an
    /// acknowledgement request ([`Self::asks_for_acknowledgement`]).
    fn middles_to_send(&self, sequence: Sequence) -> u32 {
        let Cursor { at, packet } = self.cursor;
        let is_blocked = self.blocked.is_some_and(|blocked| blocked <= at);
        let waits = matches!(self.timer, Timer::ReceiverNotReady(_)) || is_blocked;
        if self.mode == Mode::Failed || waits || self.resume.is_some() || packet == 0 {
            return 0;
        }
        let ahead = sequence.first.plus(packet).ahead_of(self.oldest);
        let of_message = sequence.packets.saturating_sub(packet + 1);
        let of_interval =
            (self.configuration.acknowledge_every).saturating_sub(self.since_ack_request + 1);
        let of_window = self
            .congestion
            .window()
            .min(Psn::WINDOW)
            .saturating_sub(ahead.saturating_add(1));
        of_message.min(of_interval).min(of_window)
    }

    /// Returns whether a packet fits the congestion window, and all PSNs of its message fit the PSN
    /// window: half the number space, beyond which the responder cannot tell new packets from
    /// duplicates.
    fn within_window(&self, psn: Psn, packets: u32) -> bool {
        // Unsigned: at half the number space a signed distance would be negative.
        let ahead = psn.ahead_of(self.oldest);
        ahead < self.congestion.window() && ahead + packets <= Psn::WINDOW
    }

    /// Ends a request whose bytes cannot be read, after all earlier ones.
    fn block(&mut self, at: usize, access: &mut impl ReliableRequesterAccess) {
        match at {
            0 => self.fail(Status::LocalProtection, access),
            _ => self.blocked = Some(at),
        }
    }

    /// Updates the state after a packet was made.
    fn sent(&mut self, now: Instant, sequence: Sequence, ack_request: bool) {
        let Cursor { at, packet } = self.cursor;
        self.started = self.started.max(at + 1);
        // A request that is answered by data uses all its PSNs with one packet.
        let whole = sequence.answer == Answer::Response || packet + 1 == sequence.packets;
        let psn = sequence.first.plus(packet);
        let end = if whole { sequence.end() } else { psn.next() };
        if ack_request && self.is_measured_by(psn) {
            self.round_trip.sent(end, now);
        }
        if self.limit.precedes(end) {
            self.limit = end;
        }
        let next = if whole {
            Cursor {
                at: at + 1,
                packet: 0,
            }
        } else {
            Cursor {
                at,
                packet: packet + 1,
            }
        };
        (self.cursor, self.resume) = match self.resume {
            Some(resume) => resume.sent(next),
            None => (next, None),
        };
        self.since_ack_request = if ack_request {
            self.requested = Some(psn);
            0
        } else {
            self.since_ack_request + 1
        };
        if self.timer == Timer::Idle {
            self.restart_timer(now);
        }
    }

    /// Returns whether the packet requests an acknowledgement: at the end of each message, every
    /// `acknowledge_every` packets, at the end of the window, where transmission stops without an
    /// answer, and at the end of a retransmission.
    ///
    /// At the end of the window an earlier request suffices if less than half of the window is
    /// behind it: its answer opens the window even if congestion halves it meanwhile. A further
    /// request would split this interval and all later ones.
    fn asks_for_acknowledgement(&self, sequence: Sequence, packet: u32, psn: Psn) -> bool {
        self.resume.is_some_and(|resume| resume.after == 1)
            || sequence.answer == Answer::Response
            || packet + 1 == sequence.packets
            || self.since_ack_request + 1 >= self.configuration.acknowledge_every
            || (!self.within_window(psn.next(), 1) && !self.awaits_answer_near(psn))
    }

    /// Returns whether less than half of the window is between `psn` and an unanswered request.
    fn awaits_answer_near(&self, psn: Psn) -> bool {
        self.requested.is_some_and(|requested| {
            !requested.precedes(self.oldest)
                && psn.ahead_of(requested) < self.congestion.window() / 2
        })
    }

    fn packet(&self, request: &SendRequest, packet: u32, psn: Psn) -> (Headers, Payload) {
        let mut extensions = Extensions::NONE;
        let mut solicits = false;
        let (operation, payload) = match request.operation {
            Operation::Send(tail) => {
                let segment = self.segments(request).get(0, packet);
                solicits = segment.ends();
                (
                    packets::send(segment.place, tail, &mut extensions),
                    Payload::from(segment),
                )
            }
            Operation::Write { remote, immediate } => {
                let segment = self.segments(request).get(0, packet);
                solicits = segment.ends() && immediate.is_some();
                let (place, length) = (segment.place, request.length);
                let wire = packets::write(place, remote, length, immediate, &mut extensions);
                (wire, Payload::from(segment))
            }
            Operation::Read { remote } => {
                // The part that was received already is skipped.
                let skipped = packet * self.configuration.mtu.bytes();
                let wire = packets::read(remote, skipped, request.length, &mut extensions);
                (wire, Payload::NONE)
            }
            Operation::Atomic { remote, operation } => (
                packets::atomic(remote, operation, &mut extensions),
                Payload::NONE,
            ),
            Operation::AtomicWrite { remote } => {
                let wire = packets::atomic_write(remote, &mut extensions);
                (
                    wire,
                    Payload {
                        offset: 0,
                        length: 8,
                    },
                )
            }
            Operation::Flush { remote, feth } => (
                packets::flush(remote, request.length, feth, &mut extensions),
                Payload::NONE,
            ),
        };
        if let Addressee::SharedReceiveQueue(srq) = request.addressee {
            extensions.xrceth = Some(Xrceth { srq });
        }
        let opcode = self.configuration.service.opcode(operation);
        let mut bth = Bth::new(opcode, self.configuration.destination, psn);
        bth.partition_key = self.configuration.partition_key;
        // In the last packet of a message that completes a receive (specification 9.2.3).
        bth.solicited_event = request.solicited && solicits;
        (Headers { bth, extensions }, payload)
    }
}

impl Payload {
    const NONE: Self = Self {
        offset: 0,
        length: 0,
    };
}

impl From<Segment> for Payload {
    fn from(segment: Segment) -> Self {
        Self {
            offset: segment.offset,
            length: segment.length,
        }
    }
}
