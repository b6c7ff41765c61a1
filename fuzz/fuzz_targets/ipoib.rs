//! Fuzzes an interface of IP over InfiniBand with datagrams from the link and packets of its
//! programs: each is delivered, used, sent, or dropped with a reason, and joined packets are whole.
//!
//! The input is a list of records: a byte with the kind and the sender, a byte with the time that
//! passes, two bytes with the length, the bytes.
#![no_main]

use std::net::IpAddr;

use libfuzzer_sys::fuzz_target;
use verbena_ipoib::address::Prefixed;
use verbena_ipoib::counters::Drop;
use verbena_ipoib::encapsulation::Protocol;
use verbena_ipoib::hardware_address::HardwareAddress;
use verbena_ipoib::join::Joiner;
use verbena_ipoib::neighbour::Neighbour;
use verbena_ipoib::station::{Interface, Link, Sent, Source, Station};
use verbena_verbs::Gid;

const MTU: usize = 2044;

/// Joins delivered packets, and refuses some datagrams.
#[derive(Default)]
struct Recorder {
    joiner: Joiner,
    delivered: u64,
    written: u64,
    calls: u32,
}

impl Link for Recorder {
    fn unicast(&mut self, _: &Neighbour, _: Protocol, packet: &[u8]) -> Sent {
        assert!(packet.len() <= MTU);
        self.calls += 1;
        match self.calls % 16 {
            14 => Sent::Stalled,
            15 => Sent::Refused,
            _ => Sent::Done,
        }
    }

    fn answer(&mut self, to: &Neighbour, protocol: Protocol, packet: &[u8]) -> Sent {
        self.unicast(to, protocol, packet)
    }

    fn multicast(&mut self, _: Gid, _: Protocol, packet: &[u8]) -> Sent {
        assert!(packet.len() <= MTU);
        Sent::Done
    }

    fn deliver(&mut self, packet: &[u8]) -> bool {
        self.delivered += 1;
        let written = &mut self.written;
        self.joiner.take(packet, |bytes, packets| {
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
    HardwareAddress::parse(&bytes)
}

fuzz_target!(|input: &[u8]| {
    let prefixed = |text: &str| -> Prefixed { text.parse().unwrap_or_else(|_| unreachable!()) };
    let mut station = Station::new(Interface {
        hardware: hardware(1),
        partition: 0xffff,
        mtu: MTU,
        datagram_mtu: MTU,
        addresses: vec![prefixed("10.0.0.1/24"), prefixed("fd00::1/64")],
    });
    let (mut link, mut rest, mut now, mut taken, mut received) =
        (Recorder::default(), input, 0, 0, 0);
    while let Some((&[kind, time, high, low], tail)) = rest.split_first_chunk::<4>() {
        let length = usize::from(u16::from_be_bytes([high, low])).min(tail.len());
        let (bytes, tail) = tail.split_at(length);
        rest = tail;
        now += u64::from(time) * 100;
        station.tick(now, &mut link);
        if kind & 1 == 0 {
            taken += u64::from(station.take(bytes, now, &mut link));
            continue;
        }
        let address = hardware(2 + (kind >> 2 & 3));
        let source = Source {
            queue_pair: address.queue_pair,
            lid: 1,
            gid: (kind & 2 == 0).then_some(address.gid),
        };
        station.receive(bytes, source, now, &mut link);
        received += 1;
    }
    station.end(false);
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
        Drop::Forged,
    ];
    assert_eq!(counters.taken, taken);
    assert_eq!(taken, counters.unicast + counters.multicast + sum(&sent));
    assert_eq!(counters.received, received);
    assert_eq!(
        received,
        counters.delivered + counters.messages + sum(&of_link)
    );
});
