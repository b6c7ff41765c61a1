//! Datagrams on small fabrics.

use crate::attribute::counters::Counter;
use crate::attribute::port_info::{self, physical, state};
use crate::attribute::{node_info, number, switch_info};
use crate::mad::{Mad, class, method, status};
use crate::{
    BuildError, Delivery, End, Fabric, Manager, PERMISSIVE, Packet, SMALL, Subnet, build, small,
    unusable_lids,
};

const HOST: End = End { node: 1, port: 1 };
const OTHER: End = End { node: 2, port: 1 };
const SWITCH: u32 = 0;

fn fabric() -> Fabric {
    build(&small()).unwrap()
}

fn managed() -> Subnet {
    let mut fabric = fabric();
    let place = Manager::place(&fabric).unwrap();
    let manager = Manager::start(place, &mut fabric, Vec::new());
    Subnet::new(fabric, Some(manager))
}

fn bare() -> Subnet {
    Subnet::new(fabric(), None)
}

fn packet(mad: Mad, dlid: u16, qp: u32) -> Packet {
    Packet {
        mad,
        slid: 2,
        dlid,
        sl: 0,
        source_qp: qp,
        qp,
        p_key: 0xffff,
    }
}

fn request(class: u8, method: u8, attribute: u16, modifier: u32) -> Mad {
    let mut mad = Mad::empty();
    mad.set_class(class, if class == class::SA { 2 } else { 1 });
    mad.set_method(method);
    mad.set_tid(7);
    mad.set_attribute(attribute, modifier);
    mad
}

/// Sends a directed request from the first host, and returns the answer.
fn directed(subnet: &mut Subnet, path: &[u8], mut mad: Mad) -> Option<Mad> {
    mad.set_path(path);
    let packet = Packet {
        slid: PERMISSIVE,
        ..packet(mad, PERMISSIVE, 0)
    };
    answer(subnet.transmit(HOST, packet))
}

fn answer(mut deliveries: Vec<Delivery>) -> Option<Mad> {
    assert!(deliveries.len() <= 1, "{deliveries:?}");
    let delivery = deliveries.pop()?;
    assert_eq!(delivery.at, HOST);
    Some(delivery.packet.mad)
}

fn get(attribute: u16, modifier: u32) -> Mad {
    request(class::SM_DIRECTED, method::GET, attribute, modifier)
}

/// Sets fields of the PortInfo at the end of a path, and returns the status.
fn set_port(subnet: &mut Subnet, path: &[u8], port: u32, fields: &[(crate::Field, u64)]) -> u16 {
    let before = directed(subnet, path, get(port_info::NUMBER, port)).unwrap();
    let mut mad = request(class::SM_DIRECTED, method::SET, port_info::NUMBER, port);
    mad.data_mut().copy_from_slice(before.data());
    port_info::STATE.set(mad.data_mut(), state::UNCHANGED);
    port_info::PHYSICAL_STATE.set(mad.data_mut(), 0);
    for (field, value) in fields {
        field.set(mad.data_mut(), *value);
    }
    let answer = directed(subnet, path, mad).unwrap();
    answer.status() & !status::DIRECTION
}

#[test]
fn a_directed_route_reaches_each_node_without_a_subnet_manager() {
    let mut subnet = bare();
    for (path, guid, port) in [
        (&[][..], 0x2000000000200, 1),
        (&[1], 0x2000000000100, 1),
        (&[1, 2], 0x2000000000300, 1),
    ] {
        let answer = directed(&mut subnet, path, get(node_info::NUMBER, 0)).unwrap();
        assert_eq!(answer.status(), status::DIRECTION);
        assert_eq!(node_info::NODE_GUID.get(answer.data()), guid);
        assert_eq!(node_info::LOCAL_PORT.get(answer.data()), port);
        assert_eq!(answer.hop_pointer(), 0);
    }
    // No cable, an adapter does not forward, not the port of the adapter.
    for path in [&[1, 5][..], &[1, 2, 1], &[2]] {
        assert_eq!(directed(&mut subnet, path, get(node_info::NUMBER, 0)), None);
    }
}

#[test]
fn routes_by_lid_follow_the_tables_that_were_set() {
    let mut subnet = bare();
    let ask = |subnet: &mut Subnet| {
        let mad = request(class::SM_LID, method::GET, node_info::NUMBER, 0);
        answer(subnet.transmit(HOST, packet(mad, 3, 0)))
    };
    assert_eq!(ask(&mut subnet), None);
    let mut mad = request(class::SM_DIRECTED, method::SET, switch_info::NUMBER, 0);
    switch_info::LINEAR_TOP.set(mad.data_mut(), 3);
    assert!(directed(&mut subnet, &[1], mad).is_some());
    let mut mad = request(class::SM_DIRECTED, method::SET, number::LINEAR_TABLE, 0);
    mad.data_mut()[..4].copy_from_slice(&[255, 0, 1, 2]);
    assert!(directed(&mut subnet, &[1], mad).is_some());
    let answer = ask(&mut subnet).unwrap();
    assert_eq!(node_info::NODE_GUID.get(answer.data()), 0x2000000000300);
}

#[test]
fn a_combined_route_goes_by_lid_to_its_directed_part() {
    let mut subnet = managed();
    let mut mad = get(node_info::NUMBER, 0);
    mad.set_path(&[2]);
    // The directed part begins at the switch, LID 1; the answer comes back to LID 2.
    mad.bytes_mut()[32..34].copy_from_slice(&2u16.to_be_bytes());
    let answer = answer(subnet.transmit(HOST, packet(mad, 1, 0))).unwrap();
    assert_eq!(node_info::NODE_GUID.get(answer.data()), 0x2000000000300);
}

#[test]
fn port_states_rise_one_by_one() {
    let mut subnet = bare();
    let mut set = |wanted| set_port(&mut subnet, &[1], 1, &[(port_info::STATE, wanted)]);
    assert_eq!(set(state::ACTIVE), status::INVALID);
    assert_eq!(set(state::ARMED), 0);
    assert_eq!(set(state::INIT), status::INVALID);
    assert_eq!(set(state::ACTIVE), 0);
    let port = subnet
        .fabric
        .port(End {
            node: SWITCH,
            port: 1,
        })
        .unwrap();
    assert_eq!(port.state(), state::ACTIVE);
}

#[test]
fn invalid_values_change_nothing() {
    for (port, field, value) in [
        (1, port_info::NEIGHBOR_MTU, 6),
        (1, port_info::OPERATIONAL_VLS, 9),
        (1, port_info::WIDTH_ENABLED, 8),
        (0, port_info::LID, 0),
        (0, port_info::LID, 0xc000),
        (200, port_info::SM_LID, 9),
    ] {
        let mut subnet = bare();
        let before = subnet.fabric.nodes[0].ports.clone();
        let mut mad = request(class::SM_DIRECTED, method::SET, port_info::NUMBER, port);
        if let Some(this) = subnet.fabric.nodes[0].port(port as u8) {
            mad.data_mut()[..64].copy_from_slice(&this.info);
            port_info::STATE.set(mad.data_mut(), 0);
        }
        field.set(mad.data_mut(), value);
        let answer = directed(&mut subnet, &[1], mad).unwrap();
        assert_eq!(
            answer.status(),
            status::DIRECTION | status::INVALID,
            "{field:?}"
        );
        for (one, other) in before.iter().zip(&subnet.fabric.nodes[0].ports) {
            assert_eq!(one.info, other.info);
        }
    }
}

#[test]
fn a_disabled_port_takes_the_link_down_at_both_ends_and_traps() {
    let mut subnet = bare();
    // The switch knows its subnet manager: the first host.
    set_port(&mut subnet, &[1], 0, &[(port_info::SM_LID, 2)]);
    let forwarding = subnet.fabric.nodes[0].forwarding.as_mut().unwrap();
    switch_info::LINEAR_TOP.set(&mut forwarding.info, 3);
    forwarding.set_port(2, 1);
    let end = End {
        node: SWITCH,
        port: 2,
    };
    let deliveries = subnet.change_link(end, physical::DISABLED);
    let trap = &deliveries[0];
    assert_eq!((trap.at, trap.packet.mad.method()), (HOST, method::TRAP));
    assert_eq!(&trap.packet.mad.data()[4..6], &[0, 128]);
    assert_eq!(subnet.fabric.port(OTHER).unwrap().state(), state::DOWN);
    let info = directed(&mut subnet, &[1], get(switch_info::NUMBER, 0)).unwrap();
    assert_eq!(switch_info::PORT_STATE_CHANGE.get(info.data()), 1);
    assert_eq!(
        directed(&mut subnet, &[1, 2], get(node_info::NUMBER, 0)),
        None
    );
    subnet.change_link(end, physical::POLLING);
    assert_eq!(subnet.fabric.port(OTHER).unwrap().state(), state::INIT);
    let downed = subnet
        .fabric
        .port(OTHER)
        .unwrap()
        .counters
        .get(Counter::LinkDowned);
    assert_eq!(downed, 1);
}

#[test]
fn a_wrong_management_key_is_dropped_and_counted() {
    let mut subnet = bare();
    let keyed = [(port_info::M_KEY, 5), (port_info::M_KEY_PROTECTION, 1)];
    assert_eq!(set_port(&mut subnet, &[1, 2], 1, &keyed), 0);
    let path = [1, 2];
    let info = directed(&mut subnet, &path, get(port_info::NUMBER, 1)).unwrap();
    assert_eq!(port_info::M_KEY.get(info.data()), 0);
    let mut set = request(class::SM_DIRECTED, method::SET, port_info::NUMBER, 1);
    set.data_mut().copy_from_slice(info.data());
    assert_eq!(directed(&mut subnet, &path, set.clone()), None);
    let port = subnet.fabric.port(OTHER).unwrap();
    assert_eq!(port_info::M_KEY_VIOLATIONS.get(&port.info), 1);
    set.bytes_mut()[24..32].copy_from_slice(&5u64.to_be_bytes());
    port_info::STATE.set(set.data_mut(), 0);
    port_info::PHYSICAL_STATE.set(set.data_mut(), 0);
    assert!(directed(&mut subnet, &path, set).is_some());
}

#[test]
fn unknown_requests_get_the_specified_status() {
    let mut subnet = managed();
    let mut ask = |mad: Mad, qp| {
        answer(subnet.transmit(HOST, packet(mad, 1, qp)))
            .unwrap()
            .status()
    };
    let pm = |method, attribute| request(class::PM, method, attribute, 0);
    assert_eq!(ask(pm(method::GET, 0x7777), 1), status::ATTRIBUTE);
    assert_eq!(ask(pm(0x30, 0x12), 1), status::METHOD);
    assert_eq!(
        ask(request(class::SM_LID, method::GET, 0x7777, 0), 0),
        status::ATTRIBUTE
    );
    assert_eq!(
        ask(request(class::SA, method::GET, 0x7777, 0), 1),
        status::ATTRIBUTE
    );
    assert_eq!(ask(request(class::SA, 0x30, 0x11, 0), 1), status::METHOD);
    let mut old = request(class::SA, method::GET, 0x11, 0);
    old.set_class(class::SA, 1);
    assert_eq!(ask(old, 1), status::VERSION);
}

#[test]
fn counters_count_each_packet_at_each_port() {
    let mut subnet = managed();
    let mad = request(class::PM, method::GET, 0x12, 0);
    let mut one = mad.clone();
    one.data_mut()[1] = 1;
    answer(subnet.transmit(HOST, packet(one, 3, 1))).unwrap();
    for (end, packets) in [
        (HOST, 1),
        (
            End {
                node: SWITCH,
                port: 1,
            },
            1,
        ),
        (
            End {
                node: SWITCH,
                port: 2,
            },
            1,
        ),
        (OTHER, 1),
    ] {
        let counters = &subnet.fabric.port(end).unwrap().counters;
        assert_eq!(counters.get(Counter::TransmitPackets), packets, "{end:?}");
        assert_eq!(counters.get(Counter::ReceivePackets), packets, "{end:?}");
        assert_eq!(counters.get(Counter::TransmitData), 72 * packets, "{end:?}");
    }
}

#[test]
fn tables_of_subnet_administration_are_complete() {
    let mut subnet = managed();
    for (attribute, size, count) in [(0x11, 112, 3), (0x12, 72, 11), (0x20, 8, 4), (0x35, 64, 9)] {
        let mad = request(class::SA, method::GET_TABLE, attribute, 0);
        let answer = answer(subnet.transmit(HOST, packet(mad, 1, 1))).unwrap();
        assert_eq!(answer.status(), 0);
        assert_eq!(
            answer.bytes().len(),
            (56 + size * count).max(256),
            "{attribute:#x}"
        );
    }
}

#[test]
fn a_port_takes_less_than_a_kilobyte() {
    assert!(
        size_of::<crate::Port>() < 1024,
        "{}",
        size_of::<crate::Port>()
    );
}

/// A source of numbers that is the same in each run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// Mostly one of the usual values, else any.
    fn of<T: Copy>(&mut self, usual: &[T], any: impl Fn(u64) -> T) -> T {
        let number = self.next();
        match number % 5 {
            0 => any(number >> 8),
            _ => usual[(number >> 8) as usize % usual.len()],
        }
    }

    fn mad(&mut self) -> Mad {
        let mut mad = Mad::empty();
        for part in mad.bytes_mut().as_chunks_mut::<8>().0 {
            *part = self.next().to_be_bytes();
        }
        if self.next().is_multiple_of(8) {
            return mad;
        }
        let class = self.of(&[1, 0x81, 3, 4], |any| any as u8);
        mad.set_class(class, if class == class::SA { 2 } else { 1 });
        mad.set_method(self.of(&[1, 2, 0x12, 0x15], |any| any as u8));
        let attribute = self.next() as u16 % 0x40;
        let modifier = self.of(&[0, 1, 2, 3], |any| any as u32);
        mad.set_attribute(self.of(&[attribute, 0xff90], |any| any as u16), modifier);
        if class == class::SM_DIRECTED {
            let ports: Vec<u8> = (0..self.next() % 4)
                .map(|_| self.next() as u8 % 3)
                .collect();
            mad.set_status(0);
            mad.set_path(&ports);
        }
        // Mostly few components, so that records match.
        let components = self.next() >> (self.next() % 64);
        mad.bytes_mut()[48..56].copy_from_slice(&components.to_be_bytes());
        mad
    }
}

#[test]
fn a_hundred_thousand_hostile_datagrams_are_answered_or_dropped() {
    let mut random = Random(0x5eed);
    let mut subnet = managed();
    let mut answered = 0;
    for number in 0..100_000 {
        if number % 1000 == 0 {
            subnet = managed();
        }
        let qp = random.of(&[0, 1], |any| any as u32);
        let packet = packet(random.mad(), random.of(&[1, 2, 3, 4], |any| any as u16), qp);
        let from = [
            HOST,
            End {
                node: SWITCH,
                port: 0,
            },
        ][number % 2];
        for delivery in subnet.transmit(from, packet) {
            assert!(subnet.fabric.port(delivery.at).is_some());
            assert!(delivery.packet.mad.bytes().len() <= 1 << 16);
            answered += 1;
        }
    }
    // Most have a valid class and destination, so that the test reaches the agents.
    assert!(answered > 20_000, "{answered}");
}

#[test]
fn too_many_ports_are_refused_before_memory_is_taken() {
    let mut text = String::new();
    for guid in 1..6000u64 {
        text +=
            &format!("Switch\t254 \"S-{guid:016x}\"\t\t# \"s{guid}\" base port 0 lid 0 lmc 0\n\n");
    }
    let topology = verbena_topology::read(text.as_bytes()).unwrap();
    let found = build(&topology).unwrap_err();
    assert_eq!(found, BuildError::AllPorts(5999 * 254));
}

#[test]
fn invalid_and_doubled_lids_are_found() {
    let topology = small();
    assert!(unusable_lids(&topology).is_empty());
    for (text, wrong) in [("lid 3 ", 3), ("lid 49152 ", 0xc000)] {
        let changed = SMALL.replace("lid 2 ", text);
        let topology = verbena_topology::read(changed.as_bytes()).unwrap();
        assert_eq!(unusable_lids(&topology), [wrong]);
    }
}

#[test]
fn answers_are_not_for_the_manager_of_the_fabric() {
    let mut subnet = managed();
    let manager = subnet.manager.as_ref().unwrap().at;
    let mut answer = request(class::SA, method::GET, 0x11, 0);
    answer.set_method(method::GET | method::RESPONSE);
    let dlid = subnet.fabric.port(manager).unwrap().lid();
    let found = subnet.transmit(OTHER, packet(answer, dlid, 1));
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].at.node, manager.node);
}

const MEMBER: u16 = 0x38;
const PATH: u16 = 0x35;
const DEFAULT_KEY: u16 = 0xffff;
/// The GUIDs of the hosts' ports.
const GUIDS: [u64; 2] = [0x0002_0000_0000_0201, 0x0002_0000_0000_0301];

/// Joins a group of a partition as a full member, and makes it; returns the answer.
fn join(subnet: &mut Subnet, mgid: [u8; 16], guid: u64, p_key: u16) -> Mad {
    join_as(subnet, mgid, guid, p_key, 1)
}

/// Joins a group of a partition with a join state, and makes it; returns the answer.
fn join_as(subnet: &mut Subnet, mgid: [u8; 16], guid: u64, p_key: u16, state: u8) -> Mad {
    let mut mad = request(class::SA, method::SET, MEMBER, 0);
    let record = &mut mad.bytes_mut()[56..];
    record[..16].copy_from_slice(&mgid);
    record[16..18].copy_from_slice(&[0xfe, 0x80]);
    record[24..32].copy_from_slice(&guid.to_be_bytes());
    record[40..42].copy_from_slice(&p_key.to_be_bytes());
    record[48] = 0x20 | state;
    // GIDs, Q_Key, traffic class, P_Key, service level, flow label, join state.
    let mask: u64 = 0x10003 | 1 << 2 | 1 << 6 | 1 << 7 | 1 << 12 | 1 << 13;
    mad.bytes_mut()[48..56].copy_from_slice(&mask.to_be_bytes());
    answer(subnet.transmit(HOST, packet(mad, 1, 1))).unwrap()
}

#[test]
fn groups_without_an_address_get_different_ones() {
    let mut subnet = managed();
    let mut found = Vec::new();
    for guid in [GUIDS[0], GUIDS[1], GUIDS[1]] {
        let made = join(&mut subnet, [0; 16], guid, DEFAULT_KEY);
        assert_eq!(made.status(), 0);
        let mgid: [u8; 16] = made.bytes()[56..72].try_into().unwrap();
        assert_eq!(mgid[..6], [0xff, 0x12, 0xa0, 0x1b, 0xfe, 0x80]);
        let lid = [made.bytes()[92], made.bytes()[93]];
        assert!(!found.contains(&(mgid, lid)));
        found.push((mgid, lid));
    }
    // The other host joins the first of them by its address.
    let joined = join(&mut subnet, found[0].0, GUIDS[1], DEFAULT_KEY);
    assert_eq!(joined.status(), 0);
    assert_eq!(joined.bytes()[92..94], found[0].1);
}

#[test]
fn the_lowest_free_lid_is_taken_after_a_group_has_ended() {
    let mut subnet = managed();
    let mut lids = Vec::new();
    for number in 0..3 {
        let mut mgid = [0; 16];
        (mgid[0], mgid[1], mgid[15]) = (0xff, 0x12, number);
        let made = join(&mut subnet, mgid, GUIDS[0], DEFAULT_KEY);
        lids.push([made.bytes()[92], made.bytes()[93]]);
        if number == 1 {
            let mut leave = request(class::SA, method::DELETE, MEMBER, 0);
            leave.bytes_mut()[48..].copy_from_slice(&made.bytes()[48..]);
            let left = answer(subnet.transmit(HOST, packet(leave, 1, 1))).unwrap();
            assert_eq!(left.status(), 0);
        }
    }
    assert_eq!(lids, [[0xc0, 1], [0xc0, 2], [0xc0, 2]]);
}

#[test]
fn a_full_member_that_only_sends_makes_and_keeps_a_group() {
    const FULL: u8 = 1;
    const SEND_ONLY: [u8; 2] = [4, 8];
    let mut subnet = managed();
    let mgid = std::array::from_fn(|at| [0xff, 0x12, 0x40, 0x1b].get(at).copied().unwrap_or(7));
    let mut ask = |guid, state, method| {
        let mut mad = join_as(&mut subnet, mgid, guid, DEFAULT_KEY, state);
        if method == method::DELETE {
            mad = request(class::SA, method, MEMBER, 0);
            let record = &mut mad.bytes_mut()[56..];
            record[..16].copy_from_slice(&mgid);
            record[16..18].copy_from_slice(&[0xfe, 0x80]);
            record[24..32].copy_from_slice(&guid.to_be_bytes());
            record[48] = state;
            mad = answer(subnet.transmit(HOST, packet(mad, 1, 1))).unwrap();
        }
        mad.status()
    };
    assert_ne!(ask(GUIDS[0], SEND_ONLY[0], method::SET), 0);
    assert_eq!(ask(GUIDS[0], SEND_ONLY[1], method::SET), 0);
    assert_eq!(ask(GUIDS[1], FULL, method::SET), 0);
    assert_eq!(ask(GUIDS[1], FULL, method::DELETE), 0);
    // The first member has kept it, so that others may join without making it.
    assert_eq!(ask(GUIDS[1], SEND_ONLY[0], method::SET), 0);
    assert_eq!(ask(GUIDS[0], SEND_ONLY[1], method::DELETE), 0);
    assert_ne!(ask(GUIDS[1], SEND_ONLY[0], method::SET), 0);
}

/// Returns the number of paths to all ports in a partition, or in any, from the second host.
fn paths(subnet: &mut Subnet, p_key: Option<u16>) -> Vec<(u64, u16)> {
    let mut mad = request(class::SA, method::GET_TABLE, PATH, 0);
    let record = &mut mad.bytes_mut()[56..];
    record[24..26].copy_from_slice(&[0xfe, 0x80]);
    record[32..40].copy_from_slice(&GUIDS[1].to_be_bytes());
    record[50..52].copy_from_slice(&p_key.unwrap_or(0).to_be_bytes());
    let mask: u64 = 1 << 3 | if p_key.is_some() { 1 << 13 } else { 0 };
    mad.bytes_mut()[48..56].copy_from_slice(&mask.to_be_bytes());
    let answer = answer(subnet.transmit(HOST, packet(mad, 1, 1))).unwrap();
    let field = |record: &[u8], at: usize, bytes: usize| {
        let bytes = record[at..at + bytes].iter();
        bytes.fold(0, |all, byte| all << 8 | u64::from(*byte))
    };
    let records = answer.bytes()[56..].as_chunks::<64>().0.iter();
    let records = records.map(|record| (field(record, 16, 8), field(record, 50, 2) as u16));
    records.filter(|(guid, _)| *guid != 0).collect()
}

#[test]
fn paths_and_groups_keep_to_partitions() {
    let mut fabric = fabric();
    let place = Manager::place(&fabric).unwrap();
    let text = "A=0x10, ipoib : 0x0002000000000201=full, 0x0002000000000301=limited;\n\
                B=0x11 : 0x0002000000000201=full;";
    let partitions = crate::partitions::read(text).unwrap();
    let manager = Manager::start(place, &mut fabric, partitions);
    let mut subnet = Subnet::new(fabric, Some(manager));
    let switch = subnet.fabric.port(place).unwrap().guid;
    // Both hosts are limited members of the default partition, whose full member is the switch.
    let own = (GUIDS[1], 0x7fff);
    let mut all = paths(&mut subnet, None);
    all.sort_unstable();
    let mut wanted = [own, (GUIDS[0], 0x0010), (switch, 0x7fff)];
    wanted.sort_unstable();
    assert_eq!(all, wanted);
    assert_eq!(paths(&mut subnet, Some(0x8010)).len(), 2);
    assert_eq!(paths(&mut subnet, Some(0x0011)), []);
    let group = |number: u8| {
        let mut mgid = [0; 16];
        (mgid[0], mgid[1], mgid[15]) = (0xff, 0x12, number);
        mgid
    };
    for (guid, p_key, is_member) in [
        (GUIDS[0], 0x8011, true),
        (GUIDS[1], 0x8011, false),
        (GUIDS[1], 0x8010, true),
        (GUIDS[1], 0, false),
    ] {
        let joined = join(&mut subnet, group(p_key as u8), guid, p_key);
        assert_eq!(joined.status() == 0, is_member, "{guid:#x} {p_key:#x}");
    }
    // The file gives the default partition no broadcast group.
    let mad = request(class::SA, method::GET_TABLE, MEMBER, 0);
    let answer = answer(subnet.transmit(HOST, packet(mad, 1, 1))).unwrap();
    let records = answer.bytes()[56..].as_chunks::<56>().0.iter();
    let broadcast = records.filter(|record| record[12..16] == [0xff; 4]);
    let keys: Vec<_> = broadcast
        .map(|record| (record[4], record[5], record[40], record[41]))
        .collect();
    assert_eq!(keys, [(0x80, 0x10, 0x80, 0x10)]);
}

#[test]
fn xdr_is_in_the_second_set_of_extended_speeds() {
    let text = SMALL.replace("4xHDR", "4xXDR");
    let fabric = build(&verbena_topology::read(text.as_bytes()).unwrap()).unwrap();
    let mut subnet = Subnet::new(fabric, None);
    for (path, port) in [(&[][..], 1), (&[1], 2)] {
        let answer = directed(&mut subnet, path, get(port_info::NUMBER, port)).unwrap();
        let info = answer.data();
        // Reserved bit, active, supported, enabled.
        assert_eq!(info[56], 0b0010_1001);
        assert_eq!(port_info::EXTENDED_ACTIVE.get(info), 0);
        assert_eq!(port_info::EXTENDED_SUPPORTED.get(info), 15);
    }
    // Of a switch, the capabilities of port 0 count.
    let answer = directed(&mut subnet, &[1], get(port_info::NUMBER, 0)).unwrap();
    assert_eq!(port_info::CAPABILITIES_2.get(answer.data()), 0x1c30);
    let end = End { node: 1, port: 1 };
    let port = subnet.fabric.port(end).unwrap();
    assert_eq!(crate::sa::rate_code(port), 23);
}

#[test]
fn adapters_with_consecutive_guids_have_different_ports() {
    // As of dumps with one port's GUID for adapter and port, whose blocks are missing.
    let text = "Switch 4 \"S-0000000000000001\"\n[1] \"H-0000000000000010\"[1]\n\
                [2] \"H-0000000000000011\"[1]\n[3] \"H-0000000000000020\"[1]\n";
    let fabric = build(&verbena_topology::read(text.as_bytes()).unwrap()).unwrap();
    let guids = fabric.nodes[1..].iter().map(|node| node.ports[0].guid);
    assert_eq!(guids.collect::<Vec<_>>(), [0x10, 0x12, 0x21]);
}

/// Sends a performance query of the first host to the second, with a partition key.
fn send_query(subnet: &mut Subnet, p_key: u16) -> Vec<Delivery> {
    let mad = request(class::PM, method::GET, 0x12, 0);
    let packet = Packet {
        p_key,
        ..packet(mad, 3, 1)
    };
    subnet.transmit(HOST, packet)
}

/// Returns the answers to such a query.
fn query_other(subnet: &mut Subnet, p_key: u16) -> Vec<Delivery> {
    let mut deliveries = send_query(subnet, p_key);
    deliveries.retain(|one| one.packet.mad.class() == class::PM);
    deliveries
}

fn set_keys(subnet: &mut Subnet, end: End, keys: &[u16]) {
    let port = subnet.fabric.port_mut(end).unwrap();
    port.tables_mut().p_keys = keys.to_vec();
}

fn violations(subnet: &Subnet, end: End) -> u64 {
    port_info::P_KEY_VIOLATIONS.get(&subnet.fabric.port(end).unwrap().info)
}

#[test]
fn a_datagram_with_a_partition_key_that_the_port_lacks_is_dropped_and_counted() {
    let mut subnet = managed();
    set_keys(&mut subnet, OTHER, &[0x7fff, 0x8010]);
    // Full and limited members reach each other, and the answer comes in the key of the responder.
    for (sent, answered) in [(0xffff, 0x7fff), (0x8010, 0x8010), (0x0010, 0x8010)] {
        set_keys(&mut subnet, HOST, &[sent]);
        let deliveries = query_other(&mut subnet, sent);
        let keys: Vec<u16> = deliveries.iter().map(|one| one.packet.p_key).collect();
        assert_eq!(keys, [sent], "{sent:#x} {answered:#x}");
    }
    assert_eq!(violations(&subnet, OTHER), 0);
    // Two limited members do not, nor do others reach a port that lacks the key.
    set_keys(&mut subnet, HOST, &[0x7fff]);
    for (number, key) in (1..).zip([0x7fff, 0x8011]) {
        let version = subnet.fabric.version;
        assert_eq!(query_other(&mut subnet, key), []);
        assert_eq!(violations(&subnet, OTHER), number);
        // Programs learn of the counter, and the manager does not sweep.
        assert_eq!(subnet.fabric.version, version + 1);
    }
    // Nothing is sent with an invalid key.
    assert_eq!(query_other(&mut subnet, 0x8000), []);
    assert_eq!(violations(&subnet, OTHER), 2);
    let info = &mut subnet.fabric.port_mut(OTHER).unwrap().info;
    port_info::P_KEY_VIOLATIONS.set(info, 0xffff);
    assert_eq!(query_other(&mut subnet, 0x7fff), []);
    assert_eq!(violations(&subnet, OTHER), 0xffff);
}

#[test]
fn an_answer_to_a_port_that_lost_the_key_is_a_violation_there() {
    let mut subnet = managed();
    set_keys(&mut subnet, HOST, &[0x8010]);
    assert_eq!(query_other(&mut subnet, 0xffff), []);
    assert_eq!(
        (violations(&subnet, HOST), violations(&subnet, OTHER)),
        (1, 0)
    );
}

#[test]
fn trap_257_names_the_key_and_both_queue_pairs() {
    let mut subnet = bare();
    for end in [
        End {
            node: SWITCH,
            port: 0,
        },
        HOST,
        OTHER,
    ] {
        let info = &mut subnet.fabric.port_mut(end).unwrap().info;
        port_info::SM_LID.set(info, 2);
        port_info::STATE.set(info, state::ACTIVE);
    }
    for port in [1, 2] {
        let end = End { node: SWITCH, port };
        let info = &mut subnet.fabric.port_mut(end).unwrap().info;
        port_info::STATE.set(info, state::ACTIVE);
    }
    let forwarding = subnet.fabric.nodes[SWITCH as usize].forwarding.as_mut();
    let forwarding = forwarding.unwrap();
    switch_info::LINEAR_TOP.set(&mut forwarding.info, 3);
    forwarding.set_port(2, 1);
    forwarding.set_port(3, 2);
    let traps = send_query(&mut subnet, 0x8011);
    let [Delivery { at, packet }] = &traps[..] else {
        panic!("{traps:?}");
    };
    assert_eq!(
        (*at, packet.qp, packet.mad.method()),
        (HOST, 0, method::TRAP)
    );
    let notice = packet.mad.data();
    // Security, of a channel adapter, trap 257 of LID 3; LIDs, key, queue pairs.
    assert_eq!(notice[..8], [0x82, 0, 0, 1, 1, 1, 0, 3]);
    assert_eq!(notice[12..20], [0, 2, 0, 3, 0, 0, 0x80, 0x11]);
    assert_eq!(notice[20..28], [0, 0, 0, 1, 0, 0, 0, 1]);
}
