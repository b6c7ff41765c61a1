//! Fuzzes both sides of a CM connection with arbitrary datagrams: neither side panics or answers
//! one datagram with several, and everything that one side sends parses.
//!
//! The input is a sequence of steps: a byte selects the event, and the event's data follow.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::net::Ipv4Addr;
use verbena_hca_net::roce::management::CmMad;
use verbena_hca_net::roce::udp_port::UdpPort;
use verbena_hca_os::errno::Errno;
use verbena_rdmacm::address;
use verbena_rdmacm::mad;
use verbena_rdmacm::message::{Message, MessageKind};
use verbena_rdmacm::path::Path;
use verbena_rdmacm::state_machine::{Due, ReceiveOutcome, StateMachine};
use verbena_wire::mad::cm::ip;

const SERVICE: u64 = ip::service_id(0x0106, 7174);
/// ECONNREFUSED.
const REFUSED: Errno = Errno(111);
const KINDS: [MessageKind; 8] = [
    MessageKind::Req,
    MessageKind::Rep,
    MessageKind::Rtu,
    MessageKind::Rej,
    MessageKind::Dreq,
    MessageKind::Drep,
    MessageKind::SidrReq,
    MessageKind::SidrRep,
];

fn path(source: [u8; 4], destination: [u8; 4]) -> Path {
    let gid = |ip: [u8; 4]| Ipv4Addr::from(ip).to_ipv6_mapped().octets();
    Path {
        port: 1,
        source: gid(source),
        index: 1,
        pkey_index: 0,
        destination: gid(destination),
        lid: 0,
        mtu: 5,
        ack_timeout: 15,
    }
}

fn message(kind: MessageKind) -> Message {
    Message {
        source: address::encode(Some(([10, 9, 0, 2], 40000).into())),
        destination: address::encode(Some(([10, 9, 0, 1], 7174).into())),
        queue_pair: 0x101,
        ..Message::bare(kind)
    }
}

/// The two sides and the CM MADs in flight.
struct World {
    sides: [StateMachine; 2],
    network: Vec<(usize, CmMad)>,
    now: u64,
}

impl World {
    fn receive(&mut self, to: usize, cm_mad: &CmMad) {
        let Some((transaction, read)) = mad::read(&cm_mad.mad) else {
            return;
        };
        let _ = mad::request(transaction, &read);
        match self.sides[to].receive(cm_mad.source, transaction, &read, self.now) {
            ReceiveOutcome::Again(answer) => self.network.push((1 - to, *answer)),
            ReceiveOutcome::Elsewhere(due) => self.carry_out(to, *due),
            ReceiveOutcome::Message(_) | ReceiveOutcome::Nothing => (),
        }
    }

    fn send(&mut self, from: usize, kind: MessageKind) {
        if let Ok(cm_mad) = self.sides[from].send(&message(kind), self.now) {
            assert!(mad::read(&cm_mad.mad).is_some(), "{kind:?}");
            self.network.push((1 - from, cm_mad));
        }
    }

    fn wait(&mut self, side: usize) {
        if let Some(deadline) = self.sides[side].deadline() {
            self.now = self.now.max(deadline);
        }
        let due = self.sides[side].due(self.now);
        self.carry_out(side, due);
    }

    fn carry_out(&mut self, side: usize, due: Due) {
        if let Due::Again(cm_mad) | Due::SearchPorts(Some(cm_mad)) = due {
            self.network.push((1 - side, *cm_mad));
        }
    }

    /// Reports private UDP ports of the peer's host, whether a port probe was sent or not.
    fn find(&mut self, side: usize, which: u8) {
        let private = UdpPort::all().filter(|residence| residence.is_private());
        let found = private
            .enumerate()
            .filter(|(at, _)| which >> at & 1 == 1)
            .map(|(_, residence)| residence);
        let due = self.sides[side].try_private_ports(found.collect(), self.now);
        self.carry_out(side, due);
    }

    /// Reports a delivery failure.
    fn fail(&mut self, side: usize) {
        let due = self.sides[side].note_failure(REFUSED, self.now);
        self.carry_out(side, due);
    }
}

fuzz_target!(|input: &[u8]| {
    let there = path([10, 9, 0, 2], [10, 9, 0, 1]);
    let mut caller = StateMachine::to(0x1_0041, SERVICE, there);
    let request = caller
        .send(&message(MessageKind::Req), 0)
        .expect("it has addresses");
    let (transaction, read) = mad::read(&request.mad).expect("it is a request");
    let asked = mad::request(transaction, &read).expect("it is a request for a port");
    let back = path([10, 9, 0, 1], [10, 9, 0, 2]);
    let called = StateMachine::of(0x2_0042, &asked, SERVICE, back);
    let mut world = World {
        sides: [caller, called],
        network: Vec::new(),
        now: 0,
    };
    let mut rest = input;
    while let Some((&step, more)) = rest.split_first() {
        rest = more;
        let side = usize::from(step >> 7);
        match step & 3 {
            0 => world.send(side, KINDS[usize::from(step >> 2 & 7)]),
            1 if !world.network.is_empty() => {
                let at = usize::from(step >> 2 & 31) % world.network.len();
                let (to, cm_mad) = world.network.remove(at);
                world.receive(to, &cm_mad);
            }
            2 => match step >> 2 & 31 {
                0..8 => world.find(side, step >> 2 & 7),
                8..16 => world.fail(side),
                _ => world.wait(side),
            },
            // Alters a MAD in flight, or makes one of the next input bytes.
            3 => {
                let (patch, more) = rest.split_at(rest.len().min(4));
                rest = more;
                let peer: [u8; 16] = world.sides[side].path().destination;
                let mut cm_mad = match world.network.last() {
                    Some((_, cm_mad)) => cm_mad.clone(),
                    None => CmMad {
                        interface: 0,
                        source: peer.into(),
                        destination: world.sides[side].path().source.into(),
                        udp_port: UdpPort::PUBLIC,
                        mad: [0; 256],
                    },
                };
                if let [at, bytes @ ..] = patch {
                    for (offset, byte) in bytes.iter().enumerate() {
                        cm_mad.mad[(usize::from(*at) + offset) % 256] = *byte;
                    }
                }
                cm_mad.source = peer.into();
                world.receive(side, &cm_mad);
            }
            _ => (),
        }
        // Each side sends at most one answer per event.
        assert!(world.network.len() <= input.len());
    }
});
