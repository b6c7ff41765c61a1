//! Fuzzes both sides of a CM connection with arbitrary datagrams: neither side panics or answers
//! one datagram with several, and everything that one side sends parses.
//!
//! The input is a sequence of steps: a byte selects the event, and the event's data follow.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::net::Ipv4Addr;
use verbena_hca::errno::Errno;
use verbena_hca::roce::management::Letter;
use verbena_hca::roce::residence::Residence;
use verbena_rdmacm::address;
use verbena_rdmacm::correspondence::{Correspondence, Due, Heard};
use verbena_rdmacm::mad;
use verbena_rdmacm::message::{Kind, Message};
use verbena_rdmacm::way::Way;
use verbena_wire::mad::cm::ip;

const SERVICE: u64 = ip::service_id(0x0106, 7174);
/// ECONNREFUSED.
const REFUSED: Errno = Errno(111);
const KINDS: [Kind; 8] = [
    Kind::Req,
    Kind::Rep,
    Kind::Rtu,
    Kind::Rej,
    Kind::Dreq,
    Kind::Drep,
    Kind::SidrReq,
    Kind::SidrRep,
];

fn way(source: [u8; 4], destination: [u8; 4]) -> Way {
    let gid = |ip: [u8; 4]| Ipv4Addr::from(ip).to_ipv6_mapped().octets();
    Way {
        port: 1,
        source: gid(source),
        index: 1,
        destination: gid(destination),
        lid: 0,
        mtu: 5,
        ack_timeout: 15,
    }
}

fn message(kind: Kind) -> Message {
    Message {
        source: address::encode(Some(([10, 9, 0, 2], 40000).into())),
        destination: address::encode(Some(([10, 9, 0, 1], 7174).into())),
        queue_pair: 0x101,
        ..Message::bare(kind)
    }
}

/// The two sides and the CM MADs in flight.
struct World {
    sides: [Correspondence; 2],
    network: Vec<(usize, Letter)>,
    now: u64,
}

impl World {
    fn hear(&mut self, to: usize, letter: &Letter) {
        let Some((transaction, read)) = mad::read(&letter.mad) else {
            return;
        };
        let _ = mad::request(transaction, &read);
        match self.sides[to].hear(letter.source, transaction, &read, self.now) {
            Heard::Again(answer) => self.network.push((1 - to, *answer)),
            Heard::Elsewhere(due) => self.carry_out(to, *due),
            Heard::Message(_) | Heard::Nothing => (),
        }
    }

    fn say(&mut self, from: usize, kind: Kind) {
        if let Ok(letter) = self.sides[from].say(&message(kind), self.now) {
            assert!(mad::read(&letter.mad).is_some(), "{kind:?}");
            self.network.push((1 - from, letter));
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
        if let Due::Again(letter) | Due::Seek(Some(letter)) = due {
            self.network.push((1 - side, *letter));
        }
    }

    /// Reports private UDP ports of the peer's host, whether a port probe was sent or not.
    fn find(&mut self, side: usize, which: u8) {
        let private = Residence::all().filter(|residence| residence.is_private());
        let found = private
            .enumerate()
            .filter(|(at, _)| which >> at & 1 == 1)
            .map(|(_, residence)| residence);
        let due = self.sides[side].try_doors(found.collect(), self.now);
        self.carry_out(side, due);
    }

    /// Reports a delivery failure.
    fn fail(&mut self, side: usize) {
        let due = self.sides[side].note_failure(REFUSED, self.now);
        self.carry_out(side, due);
    }
}

fuzz_target!(|input: &[u8]| {
    let there = way([10, 9, 0, 2], [10, 9, 0, 1]);
    let mut caller = Correspondence::to(0x1_0041, SERVICE, there);
    let request = caller
        .say(&message(Kind::Req), 0)
        .expect("it has addresses");
    let (transaction, read) = mad::read(&request.mad).expect("it is a request");
    let asked = mad::request(transaction, &read).expect("it is a request for a port");
    let back = way([10, 9, 0, 1], [10, 9, 0, 2]);
    let called = Correspondence::of(0x2_0042, &asked, SERVICE, back);
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
            0 => world.say(side, KINDS[usize::from(step >> 2 & 7)]),
            1 if !world.network.is_empty() => {
                let at = usize::from(step >> 2 & 31) % world.network.len();
                let (to, letter) = world.network.remove(at);
                world.hear(to, &letter);
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
                let peer: [u8; 16] = world.sides[side].way().destination;
                let mut letter = match world.network.last() {
                    Some((_, letter)) => letter.clone(),
                    None => Letter {
                        interface: 0,
                        source: peer.into(),
                        destination: world.sides[side].way().source.into(),
                        residence: Residence::PUBLIC,
                        mad: [0; 256],
                    },
                };
                if let [at, bytes @ ..] = patch {
                    for (offset, byte) in bytes.iter().enumerate() {
                        letter.mad[(usize::from(*at) + offset) % 256] = *byte;
                    }
                }
                letter.source = peer.into();
                world.hear(side, &letter);
            }
            _ => (),
        }
        // Each side sends at most one answer per event.
        assert!(world.network.len() <= input.len());
    }
});
