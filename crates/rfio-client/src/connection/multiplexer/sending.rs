//! Turns queued subrequests into requests and sends them.

use std::io::IoSlice;

use verbena_rfio_protocol::Request;
use verbena_rfio_protocol::order::Order;
use verbena_rfio_protocol::request::{Read, ReadVector, Write};
use verbena_rfio_protocol::types::{Handle, Range, Window};

use super::{ExposedPart, Multiplexer, OutgoingFrame, RequestInFlight, WORTH_A_WINDOW};
use crate::blocks::checksums_of;
use crate::connection::operation::{Subrequest, SubrequestKind};
use crate::error::Error;
use crate::options::Checksums;

/// Number of queued subrequests that are searched for one that may be sent.
const NEXT: usize = 64;

/// Maximum number of frames per system call.
const TOGETHER: usize = 64;

impl Multiplexer {
    /// Turns queued subrequests into requests, as many as may be in flight.
    pub(super) fn start_queued(&mut self) -> Result<(), Error> {
        self.held_back = 0;
        if self.queue.is_empty() {
            return Ok(());
        }
        let subrequests = self
            .in_flight
            .values()
            .filter_map(|flight| flight.subrequest.as_ref());
        let mut reads: Vec<Order> = subrequests
            .filter(|subrequest| subrequest.kind.may_be_short())
            .map(|subrequest| subrequest.kind.order())
            .collect();
        while self.in_flight.len() < self.most
            && let Some(index) = self.next_sendable(&reads)
        {
            // If all parts are in use, the subrequest waits for a free one; later ones do not
            // overtake it.
            let Some(window) = self.window_for(index)? else {
                return Ok(());
            };
            let Some(subrequest) = self.queue.remove(index) else {
                return Ok(());
            };
            if subrequest.kind.may_be_short() {
                reads.push(subrequest.kind.order());
            }
            let (window, part) = window.unzip();
            let request = self.request_of(&subrequest, window);
            self.enqueue(&request, Some(subrequest), part);
        }
        Ok(())
    }

    /// Returns the first of the next queued subrequests that may be sent; `reads` are in flight.
    fn next_sendable(&self, reads: &[Order]) -> Option<usize> {
        let mut earlier: Vec<Order> = Vec::new();
        for (index, subrequest) in self.queue.iter().take(NEXT).enumerate() {
            let order = subrequest.kind.order();
            let free = |other: &Order| !order.must_follow(other);
            if reads.iter().all(free) && earlier.iter().all(free) {
                return Some(index);
            }
            earlier.push(order);
        }
        None
    }

    /// Opens a window for the data of a queued subrequest if they travel by RDMA; returns `None` if
    /// there is no space for it now.
    #[allow(clippy::option_option, reason = "no space, or no need of any")]
    fn window_for(&mut self, index: usize) -> Result<Option<Option<(Window, ExposedPart)>>, Error> {
        let subrequest = &self.queue[index];
        let checksums = self.session.checksums();
        let Some(data) = self.session.data_path() else {
            return Ok(Some(None));
        };
        if subrequest.length < WORTH_A_WINDOW || !subrequest.kind.moves_data() {
            return Ok(Some(None));
        }
        if matches!(subrequest.kind, SubrequestKind::Write(..)) {
            let (Some(part), Some(operation)) = (
                self.write_parts.take(),
                self.active.get(&subrequest.operation),
            ) else {
                return Ok(None);
            };
            let bytes = &operation.memory.bytes()[subrequest.at..subrequest.at + subrequest.length];
            return Ok(Some(Some((
                data.open_write_window(part, bytes)?,
                ExposedPart::Write(part),
            ))));
        }
        let Some(part) = self.read_parts.take() else {
            return Ok(None);
        };
        if checksums == Checksums::Off {
            data.post_receives()?;
        }
        let window = data.open_read_window(part, subrequest.length)?;
        Ok(Some(Some((window, ExposedPart::Read(part)))))
    }

    fn request_of(&self, subrequest: &Subrequest, window: Option<Window>) -> Request {
        let checksums = self.session.checksums() == Checksums::On;
        let length = subrequest.length as u32;
        let read = |handle: Handle, offset: u64, window| {
            Request::Read(Read {
                handle,
                range: Range { offset, length },
                checksums,
                window,
            })
        };
        match &subrequest.kind {
            SubrequestKind::Call(request) => request.clone(),
            SubrequestKind::Read(handle, offset) | SubrequestKind::Part(handle, _, offset) => {
                read(*handle, *offset, window)
            }
            SubrequestKind::Vector(handle, _, ranges) => Request::ReadVector(ReadVector {
                handle: *handle,
                ranges: ranges.clone(),
                checksums,
                window,
            }),
            SubrequestKind::Write(handle, offset) => {
                let bytes = self
                    .active
                    .get(&subrequest.operation)
                    .map_or(&[][..], |operation| {
                        &operation.memory.bytes()[subrequest.at..subrequest.at + subrequest.length]
                    });
                Request::Write(Write {
                    handle: *handle,
                    range: Range {
                        offset: *offset,
                        length,
                    },
                    checksums: match checksums {
                        true => checksums_of(*offset, bytes, self.session.server_limits().block),
                        false => Vec::new(),
                    },
                    window,
                })
            }
        }
    }

    /// Queues a request for sending.
    pub(super) fn enqueue(
        &mut self,
        request: &Request,
        subrequest: Option<Subrequest>,
        window: Option<ExposedPart>,
    ) {
        let data = match (&subrequest, request.brings_data()) {
            (Some(subrequest), true) if subrequest.length > 0 => Some((
                subrequest.operation,
                subrequest.at..subrequest.at + subrequest.length,
            )),
            _ => None,
        };
        let length = data.as_ref().map_or(0, |(_, span)| span.len());
        let (id, head) = self.session.frame(request, length);
        if self.in_flight.is_empty() {
            self.deadline.restart();
        }
        let most = subrequest
            .as_ref()
            .map_or(0, |subrequest| subrequest.length);
        let flight = RequestInFlight {
            id,
            opcode: request.operation(),
            most: request.most_data().min(most),
            is_sent: false,
            subrequest,
            is_read_only: request.is_read_only(),
            window,
        };
        self.in_flight.insert(id, flight);
        self.outgoing.push_back(OutgoingFrame {
            id,
            head,
            data,
            sent: 0,
        });
    }

    pub(super) fn flush(&mut self) -> Result<(), Error> {
        while !self.outgoing.is_empty() {
            let mut slices = Vec::with_capacity(2 * self.outgoing.len().min(TOGETHER));
            for one in self.outgoing.iter().take(TOGETHER) {
                let operation = one.data.as_ref().and_then(|(operation, span)| {
                    Some((self.active.get(operation)?, span.clone()))
                });
                let data =
                    operation.map_or(&[][..], |(operation, span)| &operation.memory.bytes()[span]);
                let behind = one.sent.saturating_sub(one.head.len()).min(data.len());
                let rest = [&one.head[one.sent.min(one.head.len())..], &data[behind..]];
                let rest = rest.into_iter().filter(|rest| !rest.is_empty());
                slices.extend(rest.map(IoSlice::new));
            }
            if !slices.is_empty() {
                let Some(mut taken) = self.session.stream().send_some(&slices)? else {
                    return Ok(());
                };
                // A peer that takes data is not silent.
                self.deadline.count(taken);
                for one in &mut self.outgoing {
                    let now = taken.min(one.length() - one.sent);
                    taken -= now;
                    one.sent += now;
                    if one.sent < one.length() {
                        break;
                    }
                    if let Some(flight) = self.in_flight.get_mut(&one.id) {
                        flight.is_sent = true;
                    }
                }
            }
            if !self.session.stream().flush_some()? {
                return Ok(());
            }
            while self
                .outgoing
                .front()
                .is_some_and(|one| one.sent == one.length())
            {
                self.outgoing.pop_front();
            }
        }
        Ok(())
    }
}
