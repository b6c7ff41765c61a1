//! Fuzzes the memberships and paths of an interface of IP over InfiniBand with answers of subnet
//! administration: everything that waits comes back once, only valid LIDs are used, and nothing
//! waits after the end.
//!
//! The input is a list of records: a byte with the kind, a byte with its object, a byte with the
//! time that passes, a byte with the length, the bytes.
#![no_main]

use std::collections::VecDeque;

use libfuzzer_sys::fuzz_target;
use verbena_ipoib::Path;
use verbena_ipoib::administration::record::{Datagram, Local};
use verbena_ipoib::administration::{Administration, Event, Lookup, Waiting};
use verbena_ipoib::encapsulation::Protocol;
use verbena_ipoib::hardware_address::HardwareAddress;
use verbena_ipoib::neighbour::Neighbour;
use verbena_ipoib::station::{Origin, Sent};
use verbena_verbs::Gid;

/// Requests that are kept, to answer them.
const KEPT: usize = 64;
/// Offset of the method in a datagram, and its bit in answers.
const METHOD: usize = 3;
const RESPONSE: u8 = 0x80;

fn group(number: u8) -> Gid {
    let mut bytes = [0; 16];
    (bytes[0], bytes[1], bytes[15]) = (0xff, 0x12, number % 8);
    Gid(bytes)
}

fn port(number: u8) -> Gid {
    let mut bytes = [0; 16];
    (bytes[0], bytes[1], bytes[15]) = (0xfe, 0x80, number % 8);
    Gid(bytes)
}

fn neighbour(number: u8) -> Neighbour {
    let mut bytes = [0; 20];
    bytes[4..].copy_from_slice(&port(number).0);
    Neighbour {
        hardware: HardwareAddress::parse(&bytes),
        path: Path {
            lid: 0,
            service_level: 0,
        },
    }
}

/// Returns the answer to a request, with bytes of the input over it: the first says where.
fn answer(request: &Datagram, bytes: &[u8]) -> Datagram {
    let mut answer = *request;
    answer[METHOD] |= RESPONSE;
    if let Some((&at, over)) = bytes.split_first() {
        for (to, byte) in answer.iter_mut().skip(usize::from(at)).zip(over) {
            *to = *byte;
        }
    }
    answer
}

/// The interface and everything that waits.
struct Interface {
    administration: Administration,
    requests: VecDeque<Datagram>,
    held: usize,
    returned: usize,
}

impl Interface {
    fn hold(&mut self, one: Waiting) {
        if self.administration.hold(one) == Sent::Waits {
            self.held += 1;
        }
    }

    /// Takes the requests to send and the events, and checks them.
    fn drain(&mut self) {
        while let Some(datagram) = self.administration.next_datagram() {
            self.requests.push_back(*datagram);
            self.administration.note_sent();
            if self.requests.len() > KEPT {
                self.requests.pop_front();
            }
        }
        for event in self.administration.take_events() {
            match event {
                Event::Ready(all) | Event::Failed(all, _) => self.returned += all.len(),
                Event::Joined(_, lid) => assert!((0xc000..0xffff).contains(&lid)),
                Event::Changed(properties) => assert!(properties.is_valid()),
                Event::Left(_) | Event::Refused(..) => {}
            }
        }
        assert_eq!(self.held, self.returned + self.administration.waiting());
    }
}

fuzz_target!(|input: &[u8]| {
    let local = Local {
        gid: port(1),
        partition: 0xffff,
    };
    let mut interface = Interface {
        administration: Administration::new(local, group(0), 7, 0),
        requests: VecDeque::new(),
        held: 0,
        returned: 0,
    };
    interface.drain();
    let (mut rest, mut now) = (input, 0);
    while let Some((&[kind, object, time, length], tail)) = rest.split_first_chunk::<4>() {
        let (bytes, tail) = tail.split_at(usize::from(length).min(tail.len()));
        rest = tail;
        now += u64::from(time) * 100;
        let administration = &mut interface.administration;
        match kind % 8 {
            0 => match administration.group(group(object), now) {
                Lookup::Known(properties) => assert!(properties.is_valid()),
                Lookup::Waits => interface.hold(Waiting::Multicast(
                    group(object),
                    Protocol::Ipv4,
                    bytes.to_vec(),
                    Origin::Program,
                )),
                Lookup::Failed(_) => {}
            },
            1 => match administration.path(port(object), now) {
                Lookup::Known(path) => assert!(path.is_valid()),
                Lookup::Waits => interface.hold(Waiting::Unicast(
                    neighbour(object),
                    Protocol::Ipv4,
                    bytes.to_vec(),
                )),
                Lookup::Failed(_) => {}
            },
            2 => {
                let wanted = (0..8).filter(|bit| object >> bit & 1 == 1).map(group);
                administration.set_members(&wanted.collect(), now);
            }
            3 => administration.hear(port(object), u16::from(length), now),
            4 => administration.receive(bytes, now),
            5 | 6 => {
                let count = interface.requests.len().max(1);
                let request = interface.requests.get(usize::from(object) % count);
                if let Some(answer) = request.map(|request| answer(request, bytes)) {
                    administration.receive(&answer, now);
                }
            }
            _ => administration.renew(now),
        }
        interface.administration.tick(now);
        interface.drain();
    }
    interface.administration.end();
    interface.drain();
    assert_eq!(interface.administration.waiting(), 0);
});
