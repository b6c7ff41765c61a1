//! Conversion between messages and the MADs exchanged with other hosts (`verbena_wire::mad::cm`).

use crate::address;
use crate::message::{Kind, Message};
use crate::path::{HOP_LIMIT, Path};
use std::net::{IpAddr, SocketAddr};
use verbena_hca_os::errno::{Errno, Result};
use verbena_wire::mad::cm::ip::{self, Addresses};
use verbena_wire::mad::cm::{
    self, Drep, Dreq, Mra, Rej, Rejected, Rep, Req, Rtu, SidrRep, SidrReq,
};
use verbena_wire::mad::{DATA, LENGTH, Mad};
use verbena_wire::{AckTimeout, Gid, Lid, Mtu, PKey, Psn, QKey, Qpn};

/// A MAD.
pub type Bytes = [u8; LENGTH];

/// Timeout exponent for an answer, as in Linux' rdma_cm: 4.096 us * 2^20, 4.3 s.
pub const RESPONSE_TIMEOUT: u8 = 20;
/// Number of retransmissions of an unanswered message, as in Linux' rdma_cm.
pub const RETRIES: u8 = 15;
/// Timeout exponent of an MRA: 4.096 us * 2^18, 1.1 s. If a program takes longer, the next
/// retransmission is answered with another MRA.
pub const SERVICE_TIMEOUT: u8 = 18;

/// The communication IDs of both sides, and the transaction ID of the first messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Numbers {
    /// The local ID.
    pub local: u32,
    /// The peer's ID; 0 until it is known.
    pub remote: u32,
    /// The transaction ID.
    pub transaction: u64,
}

/// Header fields of a message that do not come from the program.
pub struct CmHeader<'a> {
    /// The IDs.
    pub numbers: Numbers,
    /// The path.
    pub path: &'a Path,
    /// The service ID.
    pub service: u64,
    /// The kind of message that a REJ refuses or an MRA delays.
    pub refused: Rejected,
    /// The receiver's queue pair, in a DREQ.
    pub remote_queue_pair: u32,
}

impl CmHeader<'_> {
    /// Encodes a message. Returns `None` for a request without addresses.
    pub fn write(&self, message: &Message) -> Option<Bytes> {
        match message.kind {
            Kind::Req => self.request(message),
            Kind::SidrReq => self.service_request(message),
            Kind::Rep => self.reply(message),
            Kind::SidrRep => self.service_reply(message),
            Kind::Rej => self.rejection(message.status as u16, &[], &message.private_data),
            Kind::Rtu => self.finish(cm::Message::Rtu(Rtu {
                local_comm_id: self.numbers.local,
                remote_comm_id: self.numbers.remote,
                private_data: &[0; 224],
            })),
            Kind::Dreq => self.finish(cm::Message::Dreq(Dreq {
                local_comm_id: self.numbers.local,
                remote_comm_id: self.numbers.remote,
                remote_qpn: Qpn::new(self.remote_queue_pair),
                private_data: &[0; 220],
            })),
            Kind::Drep => self.finish(cm::Message::Drep(Drep {
                local_comm_id: self.numbers.local,
                remote_comm_id: self.numbers.remote,
                private_data: &[0; 224],
            })),
        }
    }

    fn finish(&self, message: cm::Message<'_>) -> Option<Bytes> {
        let mut data = [0; DATA];
        let mad = message.emit(self.numbers.transaction, &mut data).ok()?;
        let mut bytes = [0; LENGTH];
        mad.emit(&mut bytes).ok()?;
        Some(bytes)
    }

    fn request(&self, message: &Message) -> Option<Bytes> {
        let mut private_data = [0; 92];
        self.address(message, &mut private_data)?;
        let path = cm::Path {
            // Packets may leave the subnet, so LIDs are meaningless.
            local_lid: Lid::PERMISSIVE,
            remote_lid: Lid::PERMISSIVE,
            local_gid: Gid(self.path.source),
            remote_gid: Gid(self.path.destination),
            flow_label: 0,
            rate: 0,
            traffic_class: 0,
            hop_limit: HOP_LIMIT,
            service_level: 0,
            subnet_local: false,
            ack_timeout: AckTimeout::from_code(self.path.ack_timeout)
                .unwrap_or(AckTimeout::INFINITE),
        };
        self.finish(cm::Message::Req(Req {
            local_comm_id: self.numbers.local,
            service_id: self.service,
            ca_guid: self.path.device().0.guid(),
            queue_key: QKey(0),
            qpn: Qpn::new(message.queue_pair),
            responder_resources: message.responder_resources,
            initiator_depth: message.initiator_depth,
            remote_response_timeout: RESPONSE_TIMEOUT,
            transport: message.transport,
            flow_control: message.flow_control != 0,
            starting_psn: Psn::new(message.psn),
            local_response_timeout: RESPONSE_TIMEOUT,
            retry_count: message.retry_count,
            partition_key: PKey::DEFAULT,
            path_mtu: Mtu::from_code(self.path.mtu)?,
            rnr_retry_count: message.rnr_retry_count,
            cm_retries: RETRIES,
            shared_receive_queue: message.srq,
            primary: path,
            alternate: cm::Path::NONE,
            private_data: &private_data,
        }))
    }

    fn service_request(&self, message: &Message) -> Option<Bytes> {
        let mut private_data = [0; 216];
        self.address(message, &mut private_data)?;
        self.finish(cm::Message::SidrReq(SidrReq {
            request_id: self.numbers.local,
            partition_key: PKey::DEFAULT,
            service_id: self.service,
            private_data: &private_data,
        }))
    }

    /// Writes the addresses of a request in front of the program's private data.
    fn address(&self, message: &Message, private_data: &mut [u8]) -> Option<()> {
        let source = address::parse(&message.source).ok()??;
        let destination = address::parse(&message.destination).ok()??;
        let (front, rest) = private_data.split_first_chunk_mut()?;
        Addresses {
            source_port: source.port(),
            source: source.ip(),
            destination: destination.ip(),
        }
        .emit(front);
        rest.copy_from_slice(&message.private_data[..rest.len()]);
        Some(())
    }

    fn reply(&self, message: &Message) -> Option<Bytes> {
        self.finish(cm::Message::Rep(Rep {
            local_comm_id: self.numbers.local,
            remote_comm_id: self.numbers.remote,
            queue_key: QKey(0),
            qpn: Qpn::new(message.queue_pair),
            starting_psn: Psn::new(message.psn),
            responder_resources: message.responder_resources,
            initiator_depth: message.initiator_depth,
            target_ack_delay: self.path.device().0.attributes().local_ca_ack_delay,
            failover_accepted: 0,
            flow_control: message.flow_control != 0,
            rnr_retry_count: message.rnr_retry_count,
            shared_receive_queue: message.srq,
            ca_guid: self.path.device().0.guid(),
            private_data: message.private_data.first_chunk()?,
        }))
    }

    fn service_reply(&self, message: &Message) -> Option<Bytes> {
        self.finish(cm::Message::SidrRep(SidrRep {
            request_id: self.numbers.remote,
            status: message.status as u8,
            information_length: 0,
            qpn: Qpn::new(message.queue_pair),
            service_id: self.service,
            queue_key: QKey(message.queue_key),
            information: &[0; 72],
            private_data: message.private_data.first_chunk()?,
        }))
    }

    /// Encodes a REJ with additional reject information.
    pub fn rejection(&self, reason: u16, helpful: &[u8], private_data: &[u8]) -> Option<Bytes> {
        let mut information = [0; 72];
        information[..helpful.len()].copy_from_slice(helpful);
        self.finish(cm::Message::Rej(Rej {
            local_comm_id: self.numbers.local,
            remote_comm_id: self.numbers.remote,
            message: self.refused,
            information_length: helpful.len() as u8,
            reason,
            information: &information,
            private_data: private_data.first_chunk().unwrap_or(&[0; 148]),
        }))
    }

    /// Encodes an MRA for the kind of message in `refused`.
    pub fn mra(&self) -> Option<Bytes> {
        self.finish(cm::Message::Mra(Mra {
            local_comm_id: self.numbers.local,
            remote_comm_id: self.numbers.remote,
            message: self.refused,
            service_timeout: SERVICE_TIMEOUT,
            private_data: &[0; 222],
        }))
    }
}

/// A received request.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// The message, with both addresses.
    pub message: Message,
    /// The requested port space.
    pub space: u16,
    /// The requested address.
    pub destination: SocketAddr,
    /// The peer's communication ID.
    pub number: u32,
    /// The transaction ID.
    pub transaction: u64,
    /// The fields that only a REQ has.
    pub connection: Option<Proposal>,
}

impl Request {
    /// Returns the request as received through a local interface: link-local addresses get its
    /// scope.
    pub fn on_link(mut self, interface: u32) -> Request {
        self.destination = address::on_link(self.destination, interface);
        for end in [&mut self.message.source, &mut self.message.destination] {
            if let Ok(Some(address)) = address::parse(end) {
                *end = address::encode(Some(address::on_link(address, interface)));
            }
        }
        self
    }

    /// Returns the path of a request, from its receiver's side.
    ///
    /// # Errors
    /// Those of [`Path::remote`], and EINVAL for a request without a source address.
    pub fn path(&self) -> Result<Path> {
        let source: Option<SocketAddr> = address::parse(&self.message.source)?;
        let path = Path::remote(self.destination, source.ok_or(Errno::EINVAL)?)?;
        Ok(match self.connection {
            Some(proposal) => Path {
                mtu: proposal.mtu,
                ack_timeout: proposal.ack_timeout,
                ..path
            },
            None => path,
        })
    }
}

/// The path and timing fields of a REQ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Proposal {
    /// The sender's CA GUID.
    pub guid: u64,
    /// The path's MTU, as its code.
    pub mtu: u8,
    /// The sender's acknowledgement timeout, as its code.
    pub ack_timeout: u8,
    /// The sender's response time: 4.096 us * 2^n.
    pub response_timeout: u8,
    /// Number of retransmissions.
    pub retries: u8,
}

/// Parses a request. Returns `None` if its service ID is no IP port, or it lacks addresses.
pub fn request(transaction: u64, message: &cm::Message<'_>) -> Option<Request> {
    match message {
        cm::Message::Req(req) => {
            let proposal = Proposal {
                guid: req.ca_guid,
                mtu: req.path_mtu.code(),
                ack_timeout: req.primary.ack_timeout.code(),
                response_timeout: req.local_response_timeout,
                retries: req.cm_retries,
            };
            let told = Message {
                queue_pair: req.qpn.value(),
                psn: req.starting_psn.value(),
                responder_resources: req.responder_resources,
                initiator_depth: req.initiator_depth,
                flow_control: req.flow_control.into(),
                retry_count: req.retry_count,
                rnr_retry_count: req.rnr_retry_count,
                srq: req.shared_receive_queue,
                transport: req.transport,
                ..Message::bare(Kind::Req)
            };
            Some(Request {
                number: req.local_comm_id,
                connection: Some(proposal),
                ..asked(told, req.service_id, req.private_data, transaction)?
            })
        }
        cm::Message::SidrReq(req) => {
            let told = Message::bare(Kind::SidrReq);
            Some(Request {
                number: req.request_id,
                ..asked(told, req.service_id, req.private_data, transaction)?
            })
        }
        _ => None,
    }
}

fn asked(told: Message, service: u64, private_data: &[u8], transaction: u64) -> Option<Request> {
    let (space, port) = ip::space_and_port(service)?;
    let (addresses, rest) = Addresses::parse(private_data).ok()?;
    let destination = SocketAddr::new(scopeless(addresses.destination), port);
    let source = SocketAddr::new(scopeless(addresses.source), addresses.source_port);
    let mut message = Message {
        source: address::encode(Some(source)),
        destination: address::encode(Some(destination)),
        ..told
    };
    message.private_data[..rest.len()].copy_from_slice(rest);
    Some(Request {
        message,
        space,
        destination,
        number: 0,
        transaction,
        connection: None,
    })
}

/// Converts an IPv4-mapped address to IPv4.
fn scopeless(ip: IpAddr) -> IpAddr {
    ip.to_canonical()
}

/// Parses an answer. Returns `None` for a request, and for an MRA, which programs do not see.
pub fn answer(message: &cm::Message<'_>) -> Option<Message> {
    let mut told = match message {
        cm::Message::Rep(rep) => Message {
            queue_pair: rep.qpn.value(),
            psn: rep.starting_psn.value(),
            responder_resources: rep.responder_resources,
            initiator_depth: rep.initiator_depth,
            flow_control: rep.flow_control.into(),
            rnr_retry_count: rep.rnr_retry_count,
            srq: rep.shared_receive_queue,
            ..Message::bare(Kind::Rep)
        },
        cm::Message::SidrRep(rep) => Message {
            queue_pair: rep.qpn.value(),
            queue_key: rep.queue_key.0,
            status: rep.status.into(),
            ..Message::bare(Kind::SidrRep)
        },
        cm::Message::Rej(rej) => Message {
            status: rej.reason.into(),
            ..Message::bare(Kind::Rej)
        },
        cm::Message::Rtu(_) => Message::bare(Kind::Rtu),
        cm::Message::Dreq(_) => Message::bare(Kind::Dreq),
        cm::Message::Drep(_) => Message::bare(Kind::Drep),
        cm::Message::Req(_) | cm::Message::SidrReq(_) | cm::Message::Mra(_) => return None,
    };
    let private_data: &[u8] = match message {
        cm::Message::Rep(rep) => rep.private_data,
        cm::Message::SidrRep(rep) => rep.private_data,
        cm::Message::Rej(rej) => rej.private_data,
        _ => &[],
    };
    told.private_data[..private_data.len()].copy_from_slice(private_data);
    Some(told)
}

/// Parses a CM MAD, and returns its transaction ID. Returns `None` for any other MAD.
pub fn read(bytes: &Bytes) -> Option<(u64, cm::Message<'_>)> {
    let mad = Mad::parse(bytes).ok()?;
    let transaction = mad.header.transaction;
    // The data borrows from `bytes`, not from `mad`.
    cm::Message::parse(&mad)
        .ok()
        .map(|message| (transaction, message))
}
