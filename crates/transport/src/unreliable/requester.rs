//! The requester of an unreliable queue pair: a request completes when its last packet is made.

use verbena_wire::bth::Bth;
use verbena_wire::deth::Deth;
use verbena_wire::opcode::{self, Opcode, Place};
use verbena_wire::packet::{Extensions, Headers};
use verbena_wire::{EmitError, Mtu, PKey, Psn, Qpn};

use crate::access::RequesterAccess;
use crate::completion::Status;
use crate::packets;
use crate::request::{self, Addressee, MOST_LENGTH, Operation, SendRequest};
use crate::segment::Segments;
use crate::state;

/// The service and its queue pair number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Service {
    /// Unreliable connection, to this queue pair.
    Connected(Qpn),
    /// Unreliable datagram, from this queue pair.
    Datagram(Qpn),
}

/// Configuration of a requester, set at the transition to ready to send.
#[derive(Debug, Clone)]
pub struct Configuration {
    /// UC or UD.
    pub service: Service,
    /// The partition.
    pub partition_key: PKey,
    /// The path MTU, or for datagrams the port's.
    pub mtu: Mtu,
    /// The PSN of the first packet.
    pub initial_psn: Psn,
}

/// Why a requester cannot execute a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum PostError {
    /// The message is too long.
    #[error("a message of {found} bytes, of at most {most}")]
    Length {
        /// Requested length in bytes.
        found: u32,
        /// Maximum length in bytes.
        most: u32,
    },
    /// The service does not have the operation.
    #[error("the service does not have the operation")]
    Operation,
    /// The addressee does not fit the service.
    #[error("the addressee does not fit the service")]
    Addressee,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Sending,
    Failed,
}

/// The requester of an unreliable queue pair.
#[derive(Debug)]
pub struct Requester {
    configuration: Configuration,
    /// The next packet of the oldest request.
    packet: u32,
    psn: Psn,
    mode: Mode,
}

impl Requester {
    /// Returns a requester that has sent nothing.
    pub fn new(configuration: Configuration) -> Self {
        let psn = configuration.initial_psn;
        Self {
            packet: 0,
            psn,
            mode: Mode::Sending,
            configuration,
        }
    }

    /// Checks a request before it is appended to the send queue. In the send queue error state the
    /// next `poll_transmit` flushes it.
    ///
    /// # Errors
    ///
    /// The operation, addressee or length is invalid for this queue pair.
    pub fn check(&self, request: &SendRequest) -> Result<(), PostError> {
        let (kind, most) = match (self.configuration.service, request.addressee) {
            (Service::Connected(_), Addressee::Connected) => (state::Kind::Uc, MOST_LENGTH),
            (Service::Datagram(_), Addressee::Datagram { .. }) => {
                (state::Kind::Ud, self.configuration.mtu.bytes())
            }
            _ => return Err(PostError::Addressee),
        };
        if !request.operation.is_of(kind) {
            return Err(PostError::Operation);
        }
        if request::check_message(request.length.into(), most).is_err() {
            return Err(PostError::Length {
                found: request.length,
                most,
            });
        }
        Ok(())
    }

    /// Leaves the send queue error state.
    pub fn resume(&mut self) {
        self.mode = Mode::Sending;
    }

    /// Returns whether it is in the send queue error state: a request has failed, those after it
    /// were flushed.
    pub fn has_failed(&self) -> bool {
        self.mode == Mode::Failed
    }

    /// Completes every request with a flush error, in order.
    pub fn flush(&mut self, access: &mut impl RequesterAccess) {
        self.mode = Mode::Failed;
        self.packet = 0;
        while access.request(0).is_some() {
            access.complete(Status::Flushed);
        }
    }

    /// Writes the next packet to the front of `buffer` and returns its length; `None` if there is
    /// nothing to send.
    ///
    /// # Errors
    ///
    /// The buffer is too short for the packet. Nothing has changed.
    pub fn poll_transmit(
        &mut self,
        access: &mut impl RequesterAccess,
        buffer: &mut [u8],
    ) -> Result<Option<usize>, EmitError> {
        if self.mode == Mode::Failed {
            self.flush(access);
            return Ok(None);
        }
        let Some(request) = access.request(0) else {
            return Ok(None);
        };
        let segments = Segments {
            mtu: self.configuration.mtu,
            length: request.length,
        };
        let segment = segments.get(0, self.packet);
        let headers = self.headers(&request, segment.place);
        let payload = headers.emit_around(segment.length as usize, buffer)?;
        if !payload.is_empty() && access.gather(0, segment.offset, payload).is_err() {
            access.complete(Status::LocalProtection);
            self.flush(access);
            return Ok(None);
        }
        self.psn = self.psn.next();
        self.packet += 1;
        if segment.ends() {
            self.packet = 0;
            access.complete(Status::Success);
        }
        Ok(Some(headers.packet_length(segment.length as usize)))
    }

    fn headers(&self, request: &SendRequest, place: Place) -> Headers {
        let mut extensions = Extensions::NONE;
        let ends = matches!(place, Place::Last | Place::Only);
        let (operation, ends_receive) = match request.operation {
            Operation::Write { remote, immediate } => {
                let length = request.length;
                let wire = packets::write(place, remote, length, immediate, &mut extensions);
                (wire, ends && immediate.is_some())
            }
            Operation::Send(tail) => (packets::send(place, tail, &mut extensions), ends),
            // `check` accepts no other operation.
            _ => (opcode::Operation::SendOnly, false),
        };
        let (service, destination) = match (self.configuration.service, request.addressee) {
            (
                Service::Datagram(source),
                Addressee::Datagram {
                    queue_pair,
                    queue_key,
                },
            ) => {
                extensions.deth = Some(Deth { queue_key, source });
                (opcode::Service::Ud, queue_pair)
            }
            (Service::Connected(destination) | Service::Datagram(destination), _) => {
                (opcode::Service::Uc, destination)
            }
        };
        let opcode = Opcode::new(service, operation).unwrap_or(Opcode::CNP);
        let mut bth = Bth::new(opcode, destination, self.psn);
        bth.partition_key = self.configuration.partition_key;
        bth.solicited_event = request.solicited && ends_receive;
        Headers { bth, extensions }
    }
}
