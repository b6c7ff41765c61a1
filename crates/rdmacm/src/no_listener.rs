//! The no-listener handler: answers requests for an unknown service and messages of an unknown
//! exchange in the host's name.

use crate::mad::{self, CmHeader, Numbers};
use crate::message::{self, Message, MessageKind};
use crate::outbox::send;
use crate::path::Path;
use verbena_hca_net::roce::management::CmMad;
use verbena_hca_net::roce::udp_port::UdpPort;
use verbena_wire::Qpn;
use verbena_wire::mad::cm::{self, Rejected};

/// Answers a message of an unknown exchange: a DREQ with a DREP, a REP with a REJ.
pub fn answer_unknown_exchange(cm_mad: &CmMad, transaction: u64, message: &cm::Message<'_>) {
    match *message {
        cm::Message::Dreq(dreq) => {
            let numbers = Numbers {
                local: dreq.remote_comm_id,
                remote: dreq.local_comm_id,
                transaction,
            };
            let answer = Message::bare(MessageKind::Drep);
            reply(cm_mad, 0, numbers, Rejected::Other, &answer);
        }
        cm::Message::Rep(rep) => {
            let numbers = Numbers {
                local: rep.remote_comm_id,
                remote: rep.local_comm_id,
                transaction,
            };
            reply(
                cm_mad,
                rep.qpn.value(),
                numbers,
                Rejected::Rep,
                &rejection(message::INVALID_NUMBER),
            );
        }
        _ => (),
    }
}

/// Answers a request without a listener.
pub fn decline(cm_mad: &CmMad) {
    refuse(cm_mad, message::INVALID_SERVICE, &[]);
}

/// Refuses a request, with a REJ reason and additional reject information. A SIDR request is always
/// refused as an unknown service.
pub fn refuse(cm_mad: &CmMad, reason: u32, helpful: &[u8]) {
    let Some((transaction, request)) = mad::read(&cm_mad.mad) else {
        return;
    };
    match request {
        cm::Message::Req(req) => {
            let numbers = Numbers {
                local: 0,
                remote: req.local_comm_id,
                transaction,
            };
            let path = Path::loopback();
            let header = header(numbers, &path, Rejected::Req);
            if let Some(mad) = header.rejection(reason as u16, helpful, &[]) {
                send(&back(cm_mad, req.qpn.value(), mad));
            }
        }
        cm::Message::SidrReq(req) => {
            let numbers = Numbers {
                local: 0,
                remote: req.request_id,
                transaction,
            };
            let unsupported = Message {
                status: message::SIDR_UNSUPPORTED,
                ..Message::bare(MessageKind::SidrRep)
            };
            reply(cm_mad, 0, numbers, Rejected::Req, &unsupported);
        }
        _ => (),
    }
}

fn reply(cm_mad: &CmMad, queue_pair: u32, numbers: Numbers, refused: Rejected, message: &Message) {
    let path = Path::loopback();
    if let Some(mad) = header(numbers, &path, refused).write(message) {
        send(&back(cm_mad, queue_pair, mad));
    }
}

fn header(numbers: Numbers, path: &Path, refused: Rejected) -> CmHeader<'_> {
    CmHeader {
        numbers,
        path,
        service: 0,
        refused,
        remote_queue_pair: 0,
    }
}

fn rejection(reason: u32) -> Message {
    Message {
        status: reason,
        ..Message::bare(MessageKind::Rej)
    }
}

/// Returns a MAD to the sender of `cm_mad`, about queue pair `queue_pair` of the sender; 0 if none
/// was named, and the UDP port comes from `cm_mad`.
fn back(cm_mad: &CmMad, queue_pair: u32, mad: mad::Bytes) -> CmMad {
    CmMad {
        interface: cm_mad.interface,
        source: cm_mad.destination,
        destination: cm_mad.source,
        udp_port: match queue_pair {
            0 => cm_mad.udp_port,
            number => UdpPort::of_number(Qpn::new(number)),
        },
        mad,
    }
}
