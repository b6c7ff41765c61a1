use super::*;
use crate::administration::record::Path;
use proptest::prelude::*;

const PARTITION: u16 = 0xffff;
const MTU: usize = 2044;

fn hardware(number: u8) -> HardwareAddress {
    let mut bytes = [0; 20];
    bytes[3] = number;
    bytes[19] = number;
    HardwareAddress::parse(&bytes)
}

fn path(number: u32) -> Path {
    Path {
        lid: number as u16,
        service_level: 0,
    }
}

fn source(number: u8) -> Source {
    let hardware = hardware(number);
    Source {
        queue_pair: hardware.queue_pair,
        path: path(number.into()),
        gid: Some(hardware.gid),
    }
}

fn v4(number: u8) -> IpAddr {
    Ipv4Addr::new(10, 0, 0, number).into()
}

fn v6(number: u8) -> IpAddr {
    Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, number.into()).into()
}

fn station(number: u8) -> Station {
    let addresses = [(v4(number), 24), (v6(number), 64)];
    Station::new(Interface {
        hardware: hardware(number),
        partition: PARTITION,
        mtu: MTU,
        datagram_mtu: MTU,
        addresses: addresses
            .map(|(address, length)| Prefixed { address, length })
            .to_vec(),
    })
}

/// A packet of this length with a number in its last bytes.
fn packet(from: IpAddr, to: IpAddr, length: usize, number: u32) -> Vec<u8> {
    let mut packet = vec![0; length];
    match (from, to) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            packet[0] = 0x45;
            packet[2..4].copy_from_slice(&(length as u16).to_be_bytes());
            packet[12..16].copy_from_slice(&from.octets());
            packet[16..20].copy_from_slice(&to.octets());
        }
        (IpAddr::V6(from), IpAddr::V6(to)) => {
            packet[0] = 0x60;
            packet[4..6].copy_from_slice(&(length as u16 - 40).to_be_bytes());
            packet[6] = 59;
            packet[8..24].copy_from_slice(&from.octets());
            packet[24..40].copy_from_slice(&to.octets());
        }
        _ => unreachable!(),
    }
    packet[length - 4..].copy_from_slice(&number.to_be_bytes());
    packet
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum To {
    Neighbour(u32, u16),
    Requester(u32),
    Group(Gid),
}

/// A link that records.
#[derive(Default)]
struct Recorder {
    sent: Vec<(To, Protocol, Vec<u8>)>,
    delivered: Vec<Vec<u8>>,
    is_busy: bool,
}

impl Link for Recorder {
    fn unicast(&mut self, to: &Neighbour, protocol: Protocol, packet: &[u8]) -> Sent {
        if self.is_busy {
            return Sent::Busy;
        }
        let to = To::Neighbour(to.hardware.queue_pair, to.path.lid);
        self.sent.push((to, protocol, packet.to_vec()));
        Sent::Done
    }

    fn answer(&mut self, to: &Neighbour, protocol: Protocol, packet: &[u8]) -> Sent {
        if self.is_busy {
            return Sent::Busy;
        }
        let to = To::Requester(to.hardware.queue_pair);
        self.sent.push((to, protocol, packet.to_vec()));
        Sent::Done
    }

    fn multicast(&mut self, group: Gid, protocol: Protocol, packet: &[u8], _: Origin) -> Sent {
        self.sent
            .push((To::Group(group), protocol, packet.to_vec()));
        Sent::Done
    }

    fn deliver(&mut self, packet: &[u8]) -> bool {
        self.delivered.push(packet.to_vec());
        true
    }

    fn connect(&mut self, message: &[u8], _: Source, _: u64) -> bool {
        !message.is_empty()
    }

    /// Everything outside of the prefixes is behind the second station.
    fn next_hop(&mut self, to: IpAddr) -> IpAddr {
        if to.is_ipv4() { v4(2) } else { v6(2) }
    }
}

fn datagram(protocol: Protocol, packet: &[u8]) -> Vec<u8> {
    [&protocol.header()[..], packet].concat()
}

/// Passes every datagram between two stations until none is left. Returns the delivered packets.
fn exchange(stations: &mut [Station; 2], links: &mut [Recorder; 2], now: u64) {
    loop {
        let mut is_done = true;
        for at in 0..2 {
            for (_, protocol, packet) in std::mem::take(&mut links[at].sent) {
                is_done = false;
                let from = source(at as u8 + 1);
                let other = 1 - at;
                let bytes = datagram(protocol, &packet);
                stations[other].receive(&bytes, from, now, &mut links[other]);
            }
        }
        if is_done {
            return;
        }
    }
}

#[test]
fn packets_of_both_versions_reach_the_other_station() {
    for (from, to) in [(v4(1), v4(2)), (v6(1), v6(2))] {
        let mut stations = [station(1), station(2)];
        let mut links = [Recorder::default(), Recorder::default()];
        let first = packet(from, to, 100, 1);
        assert_eq!(stations[0].take(&first, 0, &mut links[0]), Taken::Done);
        exchange(&mut stations, &mut links, 0);
        let answer = packet(to, from, MTU, 2);
        assert_eq!(stations[1].take(&answer, 0, &mut links[1]), Taken::Done);
        // The request has taught the second station the address of the first.
        assert_eq!(links[1].sent.len(), 1);
        exchange(&mut stations, &mut links, 0);
        assert_eq!(links[1].delivered, [first]);
        assert_eq!(links[0].delivered, [answer]);
        assert_eq!(stations[0].counters().requests, 1);
        assert_eq!(stations[1].counters().answers, 1);
    }
}

#[test]
fn requests_go_to_the_groups_of_the_rfc() {
    let mut station = station(1);
    let mut link = Recorder::default();
    station.take(&packet(v4(1), v4(2), 60, 0), 0, &mut link);
    station.take(&packet(v6(1), v6(0x22), 60, 0), 0, &mut link);
    let groups: Vec<String> = link
        .sent
        .iter()
        .map(|(to, _, _)| match to {
            To::Group(gid) => gid.to_string(),
            To::Neighbour(..) | To::Requester(_) => String::new(),
        })
        .collect();
    assert_eq!(
        groups,
        ["ff12:401b:ffff::ffff:ffff", "ff12:601b:ffff::1:ff00:22"]
    );
}

#[test]
fn distant_destinations_are_reached_by_their_gateway() {
    for (from, to) in [(v4(1), "192.168.1.1"), (v6(1), "fd99::1")] {
        let mut stations = [station(1), station(2)];
        let mut links = [Recorder::default(), Recorder::default()];
        let packet = packet(from, to.parse().unwrap(), 60, 1);
        stations[0].take(&packet, 0, &mut links[0]);
        exchange(&mut stations, &mut links, 0);
        assert_eq!(links[1].delivered, [packet]);
    }
}

#[test]
fn a_new_address_is_announced_and_answered_and_an_old_one_is_not() {
    let mut stations = [station(1), station(2)];
    let mut links = [Recorder::default(), Recorder::default()];
    let kept = Prefixed {
        address: v4(2),
        length: 24,
    };
    let new = Prefixed {
        address: v4(7),
        length: 24,
    };
    stations[1].set_addresses(&[kept, new], &mut links[1]);
    assert_eq!(links[1].sent.len(), 1);
    links[1].sent.clear();
    stations[0].take(&packet(v4(1), v4(7), 60, 1), 0, &mut links[0]);
    stations[0].take(&packet(v6(1), v6(2), 60, 2), 0, &mut links[0]);
    exchange(&mut stations, &mut links, 0);
    assert_eq!(links[1].delivered.len(), 1);
}

#[test]
fn groups_and_broadcasts_need_no_neighbour() {
    let mut station = station(1);
    let mut link = Recorder::default();
    let targets = ["224.0.0.251", "255.255.255.255", "10.0.0.255"];
    for target in targets {
        station.take(&packet(v4(1), target.parse().unwrap(), 60, 0), 0, &mut link);
    }
    station.take(
        &packet(v6(1), "ff02::fb".parse().unwrap(), 60, 0),
        0,
        &mut link,
    );
    let broadcast = To::Group(group::broadcast(PARTITION));
    let to: Vec<To> = link.sent.into_iter().map(|(to, _, _)| to).collect();
    assert_eq!(
        to[0],
        To::Group(group::of("224.0.0.251".parse().unwrap(), PARTITION))
    );
    assert_eq!(to[1..3], [broadcast.clone(), broadcast]);
    assert_eq!(
        to[3],
        To::Group(group::of("ff02::fb".parse().unwrap(), PARTITION))
    );
    assert_eq!(station.counters().multicast, 4);
}

#[test]
fn a_restarted_neighbour_replaces_its_entry_by_its_announcement() {
    let mut link = Recorder::default();
    let mut one = station(1);
    let mut old = station(2);
    let mut stations = [one, old];
    let mut links = [Recorder::default(), Recorder::default()];
    stations[0].take(&packet(v4(1), v4(2), 60, 0), 0, &mut links[0]);
    exchange(&mut stations, &mut links, 0);
    [one, old] = stations;
    drop(old);
    let mut new = Station::new(Interface {
        hardware: hardware(9),
        ..station(2).interface
    });
    new.announce(&mut link);
    for (_, protocol, packet) in link.sent.drain(..) {
        one.receive(&datagram(protocol, &packet), source(9), 1, &mut links[0]);
    }
    one.take(&packet(v4(1), v4(2), 60, 0), 2, &mut links[0]);
    assert_eq!(links[0].sent.last().unwrap().0, To::Neighbour(9, 9));
}

#[test]
fn bad_packets_from_the_link_are_counted_by_reason() {
    let mut station = station(1);
    let mut link = Recorder::default();
    let arp = arp::Message {
        operation: arp::Operation::Request,
        sender: hardware(2),
        sender_ip: Ipv4Addr::new(10, 0, 0, 2),
        target: [0; 20],
        target_ip: Ipv4Addr::new(10, 0, 0, 1),
    };
    let solicitation = ndp::Message {
        kind: Kind::Solicitation,
        source: Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 2),
        destination: group::solicited_node(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1)),
        target: Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1),
        hardware: Some(hardware(2)),
    };
    let mut broken = solicitation.packet();
    broken[42] ^= 1;
    let whole = packet(v4(2), v4(1), 60, 0);
    let bad = [
        (vec![8, 0, 0], 2, Drop::Short),
        (vec![0x88, 0xcc, 0, 0], 2, Drop::UnknownType),
        (datagram(Protocol::Ipv4, &whole[..59]), 2, Drop::BadIp),
        (datagram(Protocol::Ipv6, &whole), 2, Drop::BadIp),
        (datagram(Protocol::Arp, &arp.bytes()[..55]), 2, Drop::BadArp),
        (datagram(Protocol::Arp, &arp.bytes()), 3, Drop::Forged),
        (datagram(Protocol::Ipv6, &broken), 2, Drop::BadNeighbour),
        (
            datagram(Protocol::Ipv6, &solicitation.packet()),
            3,
            Drop::Forged,
        ),
    ];
    let count = bad.len() as u64;
    for (bytes, from, reason) in bad {
        let before = station.counters().dropped(reason);
        station.receive(&bytes, source(from), 0, &mut link);
        assert_eq!(station.counters().dropped(reason), before + 1, "{reason:?}");
    }
    assert!(link.sent.is_empty() && link.delivered.is_empty());
    assert_eq!(
        (station.counters().received, station.counters().messages),
        (count, 0)
    );
}

#[test]
fn a_message_without_route_must_come_from_its_queue_pair() {
    let mut source = source(2);
    source.gid = None;
    assert_eq!(is_genuine(&hardware(2), source), Ok(()));
    assert_eq!(is_genuine(&hardware(3), source), Err(Drop::Forged));
}

#[test]
fn a_flood_of_requests_costs_one_answer_each_and_a_bounded_table() {
    let mut station = station(1);
    let mut link = Recorder::default();
    for number in 0..10_000u32 {
        let arp = arp::Message {
            operation: arp::Operation::Request,
            sender: hardware(2),
            sender_ip: Ipv4Addr::from_bits(0x0a01_0000 + number),
            target: [0; 20],
            target_ip: Ipv4Addr::new(10, 0, 0, 1),
        };
        station.receive(
            &datagram(Protocol::Arp, &arp.bytes()),
            source(2),
            0,
            &mut link,
        );
    }
    assert_eq!(link.sent.len(), 10_000);
    assert_eq!(station.counters().answers, 10_000);
    assert!(!station.is_waiting());
}

#[test]
fn answers_are_no_packets_of_the_interface_and_count_only_if_sent() {
    let mut station = station(1);
    let mut link = Recorder::default();
    let arp = arp::Message {
        operation: arp::Operation::Request,
        sender: hardware(2),
        sender_ip: Ipv4Addr::new(10, 0, 0, 2),
        target: [0; 20],
        target_ip: Ipv4Addr::new(10, 0, 0, 1),
    };
    let solicitation = ndp::Message {
        kind: Kind::Solicitation,
        source: Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 2),
        destination: group::solicited_node(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1)),
        target: Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1),
        hardware: Some(hardware(2)),
    };
    let requests = [
        datagram(Protocol::Arp, &arp.bytes()),
        datagram(Protocol::Ipv6, &solicitation.packet()),
    ];
    for request in &requests {
        station.receive(request, source(2), 0, &mut link);
        assert_eq!(link.sent.pop().unwrap().0, To::Requester(2));
    }
    link.is_busy = true;
    for request in &requests {
        station.receive(request, source(2), 0, &mut link);
    }
    let counters = station.counters();
    assert_eq!((counters.answers, counters.unicast), (2, 0));
}

#[test]
fn a_conflict_is_counted_and_defended_once_in_ten_seconds() {
    let mut station = station(1);
    let mut link = Recorder::default();
    let arp = arp::Message {
        operation: arp::Operation::Request,
        sender: hardware(2),
        sender_ip: Ipv4Addr::new(10, 0, 0, 1),
        target: [0; 20],
        target_ip: Ipv4Addr::new(10, 0, 0, 1),
    };
    for now in [0, 1, DEFENCE_PAUSE] {
        station.receive(
            &datagram(Protocol::Arp, &arp.bytes()),
            source(2),
            now,
            &mut link,
        );
    }
    assert_eq!(station.counters().conflicts, 3);
    assert_eq!(link.sent.len(), 2);
}

#[test]
fn each_address_is_defended() {
    let other = Prefixed {
        address: v4(7),
        length: 24,
    };
    let mut station = station(1);
    let mut link = Recorder::default();
    let both = [station.interface.addresses[0], other];
    station.set_addresses(&both, &mut link);
    link.sent.clear();
    for number in [1, 7] {
        let arp = arp::Message {
            operation: arp::Operation::Request,
            sender: hardware(2),
            sender_ip: Ipv4Addr::new(10, 0, 0, number),
            target: [0; 20],
            target_ip: Ipv4Addr::new(10, 0, 0, number),
        };
        let bytes = datagram(Protocol::Arp, &arp.bytes());
        station.receive(&bytes, source(2), 0, &mut link);
    }
    assert_eq!(link.sent.len(), 2);
    station.set_addresses(&both[..1], &mut link);
    assert_eq!(station.defences.len(), 1);
}

#[test]
fn an_advertisement_without_override_replaces_no_known_address() {
    let mut station = station(1);
    let mut link = Recorder::default();
    station.take(&packet(v6(1), v6(2), 60, 0), 0, &mut link);
    let mut advertise = |station: &mut Station, number: u8, replaces: bool| {
        let message = ndp::Message {
            kind: Kind::Advertisement {
                is_solicited: false,
                replaces,
            },
            source: Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 2),
            destination: group::ALL_IPV6,
            target: Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 2),
            hardware: Some(hardware(number)),
        };
        let bytes = datagram(Protocol::Ipv6, &message.packet());
        station.receive(&bytes, source(number), 0, &mut link);
        station.take(&packet(v6(1), v6(2), 60, 0), 0, &mut link);
        link.sent.last().unwrap().0.clone()
    };
    // The first one resolves the address.
    assert_eq!(advertise(&mut station, 3, false), To::Neighbour(3, 3));
    assert_eq!(advertise(&mut station, 4, false), To::Neighbour(3, 3));
    assert_eq!(advertise(&mut station, 5, true), To::Neighbour(5, 5));
}

#[test]
fn the_copy_of_a_datagram_of_its_own_is_ignored() {
    let mut station = station(1);
    let mut link = Recorder::default();
    let bytes = datagram(
        Protocol::Ipv4,
        &packet(v4(1), "224.0.0.1".parse().unwrap(), 60, 0),
    );
    station.receive(&bytes, source(1), 0, &mut link);
    assert_eq!(station.counters().received, 0);
    assert!(link.delivered.is_empty());
}

#[test]
fn a_packet_that_a_busy_link_refuses_is_offered_again() {
    let mut stations = [station(1), station(2)];
    let mut links = [Recorder::default(), Recorder::default()];
    stations[0].take(&packet(v4(1), v4(2), 60, 0), 0, &mut links[0]);
    exchange(&mut stations, &mut links, 0);
    links[0].is_busy = true;
    let next = packet(v4(1), v4(2), 60, 1);
    assert_eq!(stations[0].take(&next, 0, &mut links[0]), Taken::Busy);
    assert_eq!(stations[0].counters().taken, 1);
    links[0].is_busy = false;
    assert_eq!(stations[0].take(&next, 0, &mut links[0]), Taken::Done);
    stations[0].discard(1);
    let counters = stations[0].counters();
    assert_eq!(
        (
            counters.taken,
            counters.unicast,
            counters.dropped(Drop::Stalled)
        ),
        (2, 1, 1)
    );
}

/// A link whose neighbours take packets of 100 bytes.
struct Short(Recorder);

impl Link for Short {
    fn unicast(&mut self, to: &Neighbour, protocol: Protocol, packet: &[u8]) -> Sent {
        match packet.len() {
            101.. => Sent::TooLong(100),
            _ => self.0.unicast(to, protocol, packet),
        }
    }

    fn answer(&mut self, to: &Neighbour, protocol: Protocol, packet: &[u8]) -> Sent {
        self.0.answer(to, protocol, packet)
    }

    fn multicast(&mut self, group: Gid, protocol: Protocol, packet: &[u8], from: Origin) -> Sent {
        self.0.multicast(group, protocol, packet, from)
    }

    fn deliver(&mut self, packet: &[u8]) -> bool {
        self.0.deliver(packet)
    }

    fn connect(&mut self, message: &[u8], source: Source, now: u64) -> bool {
        self.0.connect(message, source, now)
    }

    fn next_hop(&mut self, to: IpAddr) -> IpAddr {
        to
    }
}

#[test]
fn a_packet_that_is_too_long_for_a_neighbour_is_cut_or_answered() {
    let mut station = station(1);
    let mut link = Short(Recorder::default());
    let (v4_packet, v6_packet) = (packet(v4(1), v4(2), 500, 1), packet(v6(1), v6(2), 500, 1));
    let mut fixed = v4_packet.clone();
    fixed[6] = 0x40;
    for (address, waiting) in [(v4(2), &v4_packet), (v6(2), &v6_packet)] {
        assert_eq!(station.take(waiting, 0, &mut link), Taken::Done);
        let hardware = hardware(2);
        let at = Neighbour {
            hardware,
            path: path(2),
        };
        station.confirm(address, at, false, 1, &mut link);
    }
    // The packets that waited: one in fragments, one answered.
    let lengths = |sent: &[(To, Protocol, Vec<u8>)]| -> Vec<usize> {
        let to_neighbour = sent
            .iter()
            .filter(|(to, ..)| matches!(to, To::Neighbour(..)));
        to_neighbour.map(|(_, _, packet)| packet.len()).collect()
    };
    assert_eq!(lengths(&link.0.sent), [100; 6]);
    assert_eq!(link.0.delivered.len(), 1);
    assert_eq!(station.take(&v4_packet, 2, &mut link), Taken::Cut(100));
    assert_eq!(station.take(&v6_packet, 2, &mut link), Taken::Done);
    assert_eq!(station.take(&fixed, 2, &mut link), Taken::Done);
    let sources = link
        .0
        .delivered
        .iter()
        .map(|one| ip::addresses(one).unwrap().source);
    assert_eq!(sources.collect::<Vec<_>>(), [v6(2), v6(2), v4(2)]);
    let counters = station.counters();
    assert_eq!(counters.dropped(Drop::TooLongForNeighbour), 3);
    assert_eq!(counters.taken, counters.unicast + 3);
}

#[test]
fn a_packet_that_is_longer_than_the_interface_takes_is_cut_or_answered() {
    let mut station = station(1);
    let mut link = Recorder::default();
    let mut v4_packet = packet(v4(1), v4(2), MTU + 1, 1);
    assert_eq!(station.take(&v4_packet, 0, &mut link), Taken::Cut(MTU));
    v4_packet[6] = 0x40;
    let v6_packet = packet(v6(1), v6(2), MTU + 1, 1);
    for packet in [&v4_packet, &v6_packet] {
        assert_eq!(
            station.known(packet, (packet.len(), packet.len()), 0, &mut link),
            None
        );
        assert_eq!(station.take(packet, 0, &mut link), Taken::Done);
    }
    assert_eq!(link.delivered.len(), 2);
    assert!(link.sent.is_empty());
    assert_eq!(station.counters().dropped(Drop::TooLong), 2);
}

#[test]
fn errors_to_programs_are_limited_for_each_destination() {
    let mut station = station(1);
    let mut link = Recorder::default();
    for _ in 0..100 {
        for to in [2, 3] {
            station.take(&packet(v6(1), v6(to), MTU + 1, 1), 0, &mut link);
        }
    }
    assert_eq!(link.delivered.len(), 12);
    assert_eq!(station.counters().limited, 188);
    assert_eq!(station.counters().dropped(Drop::TooLong), 200);
    assert!(station.counters().to_string().contains("rate limit"));
    station.take(&packet(v6(1), v6(2), MTU + 1, 1), 1_000, &mut link);
    assert_eq!(link.delivered.len(), 13);
}

#[test]
fn packets_for_groups_are_cut_to_datagrams() {
    let mut station = station(1);
    station.interface.mtu = 65_520;
    let mut link = Recorder::default();
    for to in ["239.1.2.3", "10.0.0.255", "255.255.255.255"] {
        let packet = packet(v4(1), to.parse().unwrap(), MTU + 1, 1);
        assert_eq!(station.take(&packet, 0, &mut link), Taken::Cut(MTU));
    }
    let packet = packet(v6(1), "ff02::1".parse().unwrap(), MTU + 1, 1);
    assert_eq!(station.take(&packet, 0, &mut link), Taken::Cut(MTU));
    assert_eq!(station.counters().taken, 0);
}

#[test]
fn messages_of_connections_are_delivered_by_their_front() {
    let mut station = station(1);
    let whole = datagram(Protocol::Ipv4, &packet(v4(2), v4(1), 9000, 1));
    assert_eq!(station.receive_front(&whole[..192], 9004), Front::Deliver);
    // One that is cut, another type, a message of neighbour discovery.
    assert_eq!(station.receive_front(&whole[..192], 9003), Front::Whole);
    let other = datagram(Protocol::Connection, &packet(v6(2), v6(1), 9000, 1));
    assert_eq!(station.receive_front(&other[..192], 9004), Front::Whole);
    let mut solicitation = packet(v6(2), v6(1), 9000, 1);
    (solicitation[6], solicitation[40]) = (58, 135);
    let solicitation = datagram(Protocol::Ipv6, &solicitation);
    assert_eq!(
        station.receive_front(&solicitation[..192], 9004),
        Front::Whole
    );
    assert_eq!(station.receive_front(&[], 0), Front::Whole);
    let counters = station.counters();
    assert_eq!((counters.received, counters.delivered), (1, 1));
}

#[test]
fn messages_of_connections_are_given_to_them_and_counted() {
    let mut station = station(1);
    let mut link = Recorder::default();
    for message in [&b"some"[..], &[]] {
        let message = datagram(Protocol::Connection, message);
        station.receive(&message, source(2), 0, &mut link);
    }
    let counters = station.counters();
    assert_eq!(counters.messages, 1);
    assert_eq!(counters.dropped(Drop::BadConnection), 1);
}

proptest! {
    /// Packets of any length to any neighbour, with silent ones among them: each is sent, dropped
    /// with a reason, or waits, and the other station delivers those sent to it in their order.
    #[test]
    fn every_packet_is_delivered_in_order_or_counted(
        steps in prop::collection::vec((2u8..4, 44usize..2100, any::<bool>(), 0u64..2_000), 0..200),
    ) {
        let mut stations = [station(1), station(2)];
        let mut links = [Recorder::default(), Recorder::default()];
        let mut now = 0;
        for (number, (to, length, is_v6, pause)) in steps.iter().enumerate() {
            let (from, to) = if *is_v6 { (v6(1), v6(*to)) } else { (v4(1), v4(*to)) };
            let mut bytes = packet(from, to, *length, number as u32);
            // "Don't fragment" of IPv4.
            bytes[6] |= if *is_v6 { 0 } else { 0x40 };
            prop_assert_eq!(stations[0].take(&bytes, now, &mut links[0]), Taken::Done);
            now += pause;
            stations[0].tick(now, &mut links[0]);
            exchange(&mut stations, &mut links, now);
        }
        stations[0].end(0);
        let counters = stations[0].counters();
        let dropped = [Drop::TooLong, Drop::QueueFull, Drop::Unresolved]
            .map(|reason| counters.dropped(reason));
        prop_assert_eq!(counters.taken, steps.len() as u64);
        prop_assert_eq!(counters.taken, counters.unicast + dropped.iter().sum::<u64>());
        prop_assert_eq!(stations[1].counters().delivered, counters.unicast);
        let numbers = links[1].delivered.iter().map(|packet| {
            u32::from_be_bytes(*packet.last_chunk::<4>().unwrap())
        });
        prop_assert!(numbers.clone().zip(numbers.skip(1)).all(|(a, b)| a < b));
    }

    #[test]
    fn any_datagram_is_delivered_or_counted(bytes: Vec<u8>, protocol in 0usize..4) {
        let mut station = station(1);
        let mut link = Recorder::default();
        let bytes = match [Protocol::Ipv4, Protocol::Arp, Protocol::Ipv6].get(protocol) {
            Some(protocol) => datagram(*protocol, &bytes),
            None => bytes,
        };
        station.receive(&bytes, source(2), 0, &mut link);
        let counters = station.counters();
        let reasons = [
            Drop::Short, Drop::UnknownType, Drop::BadIp, Drop::BadArp, Drop::BadNeighbour,
            Drop::Forged,
        ];
        let dropped: u64 = reasons.map(|reason| counters.dropped(reason)).iter().sum();
        prop_assert_eq!(counters.received, 1);
        prop_assert_eq!(counters.received, counters.delivered + counters.messages + dropped);
    }
}

/// A link whose packets wait until its paths and groups are known.
#[derive(Default)]
struct Asking {
    known: Recorder,
    held: Vec<Waiting>,
    is_known: bool,
    heard: Vec<u16>,
}

impl Asking {
    fn pass(&mut self, one: Waiting, send: impl FnOnce(&mut Recorder) -> Sent) -> Sent {
        if self.is_known {
            return send(&mut self.known);
        }
        self.held.push(one);
        Sent::Waits
    }
}

impl Link for Asking {
    fn unicast(&mut self, to: &Neighbour, protocol: Protocol, packet: &[u8]) -> Sent {
        let one = Waiting::Unicast(*to, protocol, packet.to_vec());
        self.pass(one, |known| known.unicast(to, protocol, packet))
    }

    fn answer(&mut self, to: &Neighbour, protocol: Protocol, packet: &[u8]) -> Sent {
        let one = Waiting::Answer(*to, protocol, packet.to_vec());
        self.pass(one, |known| known.answer(to, protocol, packet))
    }

    fn multicast(&mut self, group: Gid, protocol: Protocol, packet: &[u8], from: Origin) -> Sent {
        let one = Waiting::Multicast(group, protocol, packet.to_vec(), from);
        self.pass(one, |known| known.multicast(group, protocol, packet, from))
    }

    fn hear(&mut self, from: Source) {
        self.heard.push(from.path.lid);
    }

    fn deliver(&mut self, packet: &[u8]) -> bool {
        self.known.deliver(packet)
    }

    fn connect(&mut self, message: &[u8], source: Source, now: u64) -> bool {
        self.known.connect(message, source, now)
    }

    fn next_hop(&mut self, to: IpAddr) -> IpAddr {
        to
    }
}

#[test]
fn packets_that_wait_for_paths_and_groups_are_counted_when_they_are_sent_or_dropped() {
    for is_found in [true, false] {
        let mut station = station(1);
        let mut link = Asking::default();
        let neighbour = Neighbour {
            hardware: hardware(2),
            path: path(2),
        };
        station.confirm(v4(2), neighbour, true, 0, &mut link);
        let group = Ipv4Addr::new(239, 1, 2, 3).into();
        for to in [v4(2), group] {
            station.take(&packet(v4(1), to, 100, 1), 0, &mut link);
        }
        station.take(&packet(v6(1), v6(3), 100, 1), 0, &mut link);
        let request = arp::Message {
            operation: arp::Operation::Request,
            sender: hardware(2),
            sender_ip: Ipv4Addr::new(10, 0, 0, 2),
            target: [0; hardware_address::LENGTH],
            target_ip: Ipv4Addr::new(10, 0, 0, 1),
        };
        let request = datagram(Protocol::Arp, &request.bytes());
        station.receive(&request, source(2), 0, &mut link);
        assert_eq!(link.heard, [2]);
        // Two packets of programs, a solicitation, and the answer to the request.
        let held = std::mem::take(&mut link.held);
        assert_eq!(held.len(), 4);
        let counters = station.counters();
        assert_eq!(
            (counters.taken, counters.unicast, counters.multicast),
            (3, 0, 0)
        );
        link.is_known = true;
        for one in &held {
            match is_found {
                true => station.resume(one, 1, &mut link),
                false => station.fail(one, Drop::NoPath),
            }
        }
        let counters = station.counters();
        let (sent, dropped) = (u64::from(is_found), 2 * u64::from(!is_found));
        assert_eq!((counters.unicast, counters.multicast), (sent, sent));
        assert_eq!(
            (counters.dropped(Drop::NoPath), counters.answers),
            (dropped, sent)
        );
        assert_eq!(link.known.sent.len(), 4 * usize::from(is_found));
    }
}
