//! Fuzzes an interface of IP over InfiniBand in connected mode with datagrams from the link,
//! messages of connections among them, and packets of its programs: each is delivered, used, sent,
//! or dropped with a reason, joined packets are whole, and no queue pair of a connection is lost.
//!
//! The input is a list of records: a byte with the kind and the sender, a byte with the time that
//! passes, two bytes with the length, the bytes.
#![no_main]

use std::collections::HashSet;
use std::net::IpAddr;

use libfuzzer_sys::fuzz_target;
use verbena_ipoib::Path;
use verbena_ipoib::address::Prefixed;
use verbena_ipoib::connection::message::Message;
use verbena_ipoib::connection::{Connections, End, Pairs, Side, Way};
use verbena_ipoib::counters::Drop;
use verbena_ipoib::encapsulation::Protocol;
use verbena_ipoib::fragment;
use verbena_ipoib::hardware_address::{self, HardwareAddress};
use verbena_ipoib::join::Joiner;
use verbena_ipoib::neighbour::Neighbour;
use verbena_ipoib::station::{Interface, Link, Origin, Sent, Source, Station, Taken};
use verbena_verbs::Gid;

const MTU: usize = 65_520;
const DATAGRAM_MTU: usize = 2044;

/// Queue pairs of connections.
#[derive(Default)]
struct FakePairs(HashSet<u32>);

impl Pairs for FakePairs {
    fn create(&mut self, id: u32, _: Side) -> Option<u32> {
        assert!(self.0.insert(id));
        Some(id)
    }

    fn connect(&mut self, id: u32, _: &Neighbour, _: &End, psn: u32, _: Side) -> bool {
        assert!(self.0.contains(&id));
        !psn.is_multiple_of(8)
    }

    fn destroy(&mut self, id: u32) {
        self.0.remove(&id);
    }

    fn send(&mut self, id: u32, _: Protocol, packet: &[u8]) -> Sent {
        assert!(self.0.contains(&id) && packet.len() <= MTU);
        Sent::Done
    }

    fn tell(&mut self, _: &Neighbour, message: &Message) {
        assert!(Message::parse(&message.bytes()).is_some());
    }
}

/// Joins delivered packets, and refuses some datagrams.
struct Recorder {
    connections: Connections,
    pairs: FakePairs,
    joiner: Joiner,
    delivered: u64,
    written: u64,
    calls: u32,
}

impl Link for Recorder {
    fn unicast(&mut self, to: &Neighbour, protocol: Protocol, packet: &[u8]) -> Sent {
        self.calls += 1;
        let now = u64::from(self.calls);
        match self.connections.way(to, now, &mut self.pairs) {
            Way::Connection(_, end) if packet.len() > end.mtu as usize => {
                return Sent::TooLong(end.mtu as usize);
            }
            Way::Connection(id, _) => return self.pairs.send(id, protocol, packet),
            Way::Waits if self.connections.wait(to, protocol, packet) => return Sent::Done,
            Way::Waits => return Sent::Stalled,
            Way::Datagram if packet.len() > DATAGRAM_MTU => return Sent::TooLong(DATAGRAM_MTU),
            Way::Datagram => {}
        }
        match self.calls % 16 {
            14 => Sent::Stalled,
            15 => Sent::Refused,
            _ => Sent::Done,
        }
    }

    fn answer(&mut self, _: &Neighbour, _: Protocol, packet: &[u8]) -> Sent {
        assert!(packet.len() <= DATAGRAM_MTU);
        Sent::Done
    }

    fn connect(&mut self, message: &[u8], source: Source, now: u64) -> bool {
        self.connections
            .receive(message, source, now, &mut self.pairs)
    }

    fn multicast(&mut self, _: Gid, _: Protocol, packet: &[u8], _: Origin) -> Sent {
        assert!(packet.len() <= DATAGRAM_MTU);
        Sent::Done
    }

    fn deliver(&mut self, packet: &[u8]) -> bool {
        self.delivered += 1;
        let written = &mut self.written;
        self.joiner.take_whole(packet, |bytes, packets| {
            assert!(bytes.len() > 10);
            *written += packets;
        });
        true
    }

    fn next_hop(&mut self, to: IpAddr) -> IpAddr {
        to
    }
}

fn hardware(number: u8) -> HardwareAddress {
    let mut bytes = [0; 20];
    (bytes[3], bytes[4], bytes[19]) = (number, 0xfe, number);
    // One of the neighbours has no connections.
    bytes[0] = if number < 5 { hardware_address::RC } else { 0 };
    HardwareAddress::parse(&bytes)
}

fuzz_target!(|input: &[u8]| {
    let prefixed = |text: &str| -> Prefixed { text.parse().unwrap_or_else(|_| unreachable!()) };
    let own = hardware(1);
    let mut station = Station::new(Interface {
        hardware: own,
        partition: 0xffff,
        mtu: MTU,
        datagram_mtu: DATAGRAM_MTU,
        addresses: vec![prefixed("10.0.0.1/24"), prefixed("fd00::1/64")],
    });
    let mut link = Recorder {
        connections: Connections::new(own, MTU as u32, 5, 0),
        pairs: FakePairs::default(),
        joiner: Joiner::default(),
        delivered: 0,
        written: 0,
        calls: 0,
    };
    let (mut rest, mut now, mut received) = (input, 0, 0);
    while let Some((&[kind, time, high, low], tail)) = rest.split_first_chunk::<4>() {
        let length = usize::from(u16::from_be_bytes([high, low])).min(tail.len());
        let (bytes, tail) = tail.split_at(length);
        rest = tail;
        now += u64::from(time) * 100;
        station.tick(now, &mut link);
        link.connections.tick(now, &mut link.pairs);
        station.discard(link.connections.take_dropped());
        let returned = link.connections.take_returned();
        station.take_back(returned.len() as u64);
        let mut packets = returned;
        if kind & 1 == 0 {
            packets.push(bytes.to_vec());
        }
        while let Some(packet) = packets.pop() {
            if let Taken::Cut(mtu) = station.take(&packet, now, &mut link) {
                match fragment::cut(&packet, mtu, 1) {
                    Some(fragments) => packets.extend(fragments),
                    None => station.take_uncuttable(),
                }
            }
        }
        if kind & 1 == 0 {
            continue;
        }
        let address = hardware(2 + (kind >> 2 & 3));
        let source = Source {
            queue_pair: address.queue_pair,
            path: Path {
                lid: 1,
                service_level: 0,
            },
            gid: (kind & 2 == 0).then_some(address.gid),
        };
        station.receive(bytes, source, now, &mut link);
        received += 1;
    }
    link.connections.close_all(&mut link.pairs);
    station.discard(link.connections.take_dropped());
    assert!(link.pairs.0.is_empty());
    station.end(0);
    let Recorder {
        joiner, written, ..
    } = &mut link;
    joiner.flush(|_, packets| *written += packets);
    assert_eq!(link.written, link.delivered);
    let counters = station.counters();
    let sum = |reasons: &[Drop]| -> u64 { reasons.iter().map(|one| counters.dropped(*one)).sum() };
    let sent = [
        Drop::NotIp,
        Drop::NoSource,
        Drop::TooLong,
        Drop::TooLongForNeighbour,
        Drop::QueueFull,
        Drop::Unresolved,
        Drop::Stalled,
        Drop::Refused,
    ];
    let of_link = [
        Drop::Short,
        Drop::UnknownType,
        Drop::BadIp,
        Drop::BadArp,
        Drop::BadNeighbour,
        Drop::BadConnection,
        Drop::Forged,
    ];
    assert_eq!(
        counters.taken,
        counters.unicast + counters.multicast + sum(&sent)
    );
    assert_eq!(counters.received, received);
    assert_eq!(
        received,
        counters.delivered + counters.messages + sum(&of_link)
    );
});
