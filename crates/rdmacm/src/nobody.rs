//! The no-listener handler: answers requests for an unknown service and messages of an unknown
//! exchange in the host's name.

use crate::mad::{self, Envelope, Numbers};
use crate::message::{self, Kind, Message};
use crate::post::send;
use crate::way::Way;
use verbena_hca::roce::management::CmMad;
use verbena_hca::roce::udp_port::UdpPort;
use verbena_wire::Qpn;
use verbena_wire::mad::cm::{self, Rejected};

/// Answers a message of an unknown exchange: a DREQ with a DREP, a REP with a REJ.
pub fn answer_for_nobody(letter: &CmMad, transaction: u64, message: &cm::Message<'_>) {
    match *message {
        cm::Message::Dreq(dreq) => {
            let numbers = Numbers {
                local: dreq.remote_comm_id,
                remote: dreq.local_comm_id,
                transaction,
            };
            let answer = Message::bare(Kind::Drep);
            reply(letter, 0, numbers, Rejected::Other, &answer);
        }
        cm::Message::Rep(rep) => {
            let numbers = Numbers {
                local: rep.remote_comm_id,
                remote: rep.local_comm_id,
                transaction,
            };
            reply(
                letter,
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
pub fn decline(letter: &CmMad) {
    refuse(letter, message::INVALID_SERVICE, &[]);
}

/// Refuses a request, with a REJ reason and additional reject information. A SIDR request is always
/// refused as an unknown service.
pub fn refuse(letter: &CmMad, reason: u32, helpful: &[u8]) {
    let Some((transaction, request)) = mad::read(&letter.mad) else {
        return;
    };
    match request {
        cm::Message::Req(req) => {
            let numbers = Numbers {
                local: 0,
                remote: req.local_comm_id,
                transaction,
            };
            let way = Way::home();
            let envelope = envelope(numbers, &way, Rejected::Req);
            if let Some(mad) = envelope.rejection(reason as u16, helpful, &[]) {
                send(&back(letter, req.qpn.value(), mad));
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
                ..Message::bare(Kind::SidrRep)
            };
            reply(letter, 0, numbers, Rejected::Req, &unsupported);
        }
        _ => (),
    }
}

fn reply(letter: &CmMad, queue_pair: u32, numbers: Numbers, refused: Rejected, message: &Message) {
    let way = Way::home();
    if let Some(mad) = envelope(numbers, &way, refused).write(message) {
        send(&back(letter, queue_pair, mad));
    }
}

fn envelope(numbers: Numbers, way: &Way, refused: Rejected) -> Envelope<'_> {
    Envelope {
        numbers,
        way,
        service: 0,
        refused,
        remote_queue_pair: 0,
    }
}

fn rejection(reason: u32) -> Message {
    Message {
        status: reason,
        ..Message::bare(Kind::Rej)
    }
}

/// Returns a MAD to the sender of `letter`, about queue pair `queue_pair` of the sender; 0 if none
/// was named, and the UDP port comes from `letter`.
fn back(letter: &CmMad, queue_pair: u32, mad: mad::Bytes) -> CmMad {
    CmMad {
        interface: letter.interface,
        source: letter.destination,
        destination: letter.source,
        udp_port: match queue_pair {
            0 => letter.udp_port,
            number => UdpPort::of_number(Qpn::new(number)),
        },
        mad,
    }
}
