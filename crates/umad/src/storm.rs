//! Malformed datagrams from programs: nothing panics, memory stays bounded, and afterwards the
//! fabric works.

use std::time::{Duration, Instant};

use verbena_subnet::attribute::node_info;
use verbena_subnet::attribute::port_info::{self, physical};
use verbena_subnet::mad::{Mad, SIZE, class, method};
use verbena_subnet::{End, Load, Manager, Subnet, build};

use crate::files::Files;
use crate::header::{Header, LONG};
use crate::protocol::control::{ENABLE_PKEY, REGISTER_AGENT};

/// Switches of a ring, each with two hosts.
const SWITCHES: u32 = 4;
const CLASSES: [u8; 8] = [0x81, 0x01, 0x03, 0x04, 0x32, 0x21, 0x06, 0x0a];
/// Attributes of which many are known.
const ATTRIBUTES: [u16; 29] = [
    0x01, 0x02, 0x03, 0x10, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18, 0x19, 0x1b, 0x1d, 0x20,
    0x30, 0x31, 0x33, 0x35, 0x36, 0x38, 0x3a, 0xf3, 0xff90, 0x1f, 0xff, 0, 0xffff,
];
const METHODS: [u8; 12] = [
    0x01, 0x02, 0x05, 0x06, 0x07, 0x12, 0x15, 0x81, 0x86, 0x92, 0, 0xff,
];

/// A generator of numbers: xorshift, so that a run can be repeated.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, limit: u64) -> u64 {
        (self.next() >> 11) % limit
    }

    fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize]
    }
}

/// A ring of switches in ibsim's format.
fn ring() -> String {
    let mut text = String::new();
    for at in 0..SWITCHES {
        let (next, before) = ((at + 1) % SWITCHES, (at + SWITCHES - 1) % SWITCHES);
        text += &format!(
            "Switch 8 \"switch{at}\"\n[1] \"host{at}a\"[1]\n[2] \"host{at}b\"[1]\n\
             [3] \"switch{next}\"[4]\n[4] \"switch{before}\"[3]\n\n"
        );
    }
    for at in 0..SWITCHES {
        for (port, letter) in [(1, 'a'), (2, 'b')] {
            text += &format!("Hca 1 \"host{at}{letter}\"\n[1] \"switch{at}\"[{port}]\n\n");
        }
    }
    text
}

fn files() -> Files {
    let topology = verbena_topology::read(ring().as_bytes()).unwrap();
    let mut fabric = build(&topology).unwrap();
    let place = Manager::place(&fabric).unwrap();
    let manager = Manager::start(place, &mut fabric, Vec::new());
    Files::new(Subnet::new(fabric, Some(manager)))
}

/// Opens the file of each node, with agents of every class.
fn open_all(files: &mut Files) -> Vec<u64> {
    let nodes = files.subnet.fabric.nodes.len() as u32;
    for node in 0..nodes {
        let id = u64::from(node) + 1;
        files.open(id, node, 0).unwrap();
        files.control(id, ENABLE_PKEY, &mut []).unwrap();
        for class in CLASSES {
            let mut argument = [0; 28];
            // Requests of every method.
            argument[4..20].fill(0xff);
            argument[20] = u8::from(!matches!(class, 0x81 | 0x01));
            (argument[21], argument[22]) = (class, if class == class::SA { 2 } else { 1 });
            argument[26] = u8::from(class == class::SA);
            files.control(id, REGISTER_AGENT, &mut argument).unwrap();
        }
    }
    (1..=u64::from(nodes)).collect()
}

fn class_of(agent: usize) -> u8 {
    CLASSES[agent]
}

/// Returns a write of any length: mostly a datagram that is partly as it should be.
fn write(random: &mut Random) -> Vec<u8> {
    let agent = random.below(CLASSES.len() as u64) as usize;
    let length = match random.below(16) {
        0 => random.below(600) as usize,
        1 => random.below(5000) as usize,
        _ => SIZE,
    };
    let mut bytes = vec![0; length.max(SIZE)];
    // Half of them are empty but for the header, so that more of it has a meaning.
    if random.below(2) == 0 {
        bytes
            .iter_mut()
            .for_each(|byte| *byte = random.next() as u8);
    }
    let mut mad = Mad::of(&bytes).unwrap();
    if random.below(32) != 0 {
        let class = class_of(agent);
        mad.set_class(class, if class == class::SA { 2 } else { 1 });
        mad.set_method(random.of(&METHODS));
        let modifier = match random.below(3) {
            0 => random.next() as u32,
            _ => random.below(9) as u32,
        };
        mad.set_attribute(random.of(&ATTRIBUTES), modifier);
        mad.set_tid(random.next());
        if random.below(2) == 0 {
            let hops = random.below(6) as usize;
            let path: Vec<u8> = (0..hops).map(|_| random.below(6) as u8).collect();
            mad.set_path(&path);
            if random.below(4) == 0 {
                mad.set_hop_pointer(random.next() as u8);
                mad.set_status(random.next() as u16);
            }
        }
    }
    let header = Header {
        agent: match random.below(16) {
            0 => random.next() as u32,
            _ => agent as u32,
        },
        status: 0,
        timeout: random.below(3) as u32 * 20,
        retries: random.below(3) as u32,
        length: random.next() as u32,
        qp: match random.below(16) {
            0 => random.next() as u32,
            _ => u32::from(agent > 1),
        },
        lid: match random.below(4) {
            0 => random.next() as u16,
            1 => 0xffff,
            _ => random.below(14) as u16,
        },
        sl: random.next() as u8,
        path_bits: random.next() as u8,
        p_key_index: random.next() as u16,
    };
    let mut message = header.message(LONG, &mad, mad.bytes().len());
    message.truncate(match random.below(16) {
        0 => random.below(LONG as u64 + 64) as usize,
        _ => LONG + length,
    });
    message
}

/// Brings the fabric back: cables, keys and addresses may have changed, as any program at a node
/// may change them.
fn recover(files: &mut Files) {
    let fabric = &mut files.subnet.fabric;
    let ends: Vec<End> = fabric.ends().collect();
    for &end in &ends {
        let Some(port) = fabric.port_mut(end) else {
            continue;
        };
        port_info::M_KEY.set(&mut port.info, 0);
        port.tables = None;
    }
    for &end in &ends {
        let is_down = |port: &verbena_subnet::Port| port.peer.is_some() && !port.is_linked();
        if end.port != 0 && fabric.port(end).is_some_and(is_down) {
            fabric.set_link(end, physical::POLLING);
        }
    }
    // A port that is down keeps both ends down until each was asked to come up.
    for &end in &ends {
        let deliveries = files.subnet.change_link(end, physical::POLLING);
        files.deliver(deliveries);
    }
    files.take_outputs();
}

fn storm(datagrams: u64, seed: u64) {
    let mut files = files();
    let ids = open_all(&mut files);
    let mut random = Random(seed);
    let mut most = 0;
    for number in 0..datagrams {
        let id = random.of(&ids);
        let bytes = write(&mut random);
        files.needs_counts(id, &bytes);
        let _ = files.write(id, &bytes);
        files.take_for_adapters();
        most = most.max(files.take_outputs().len());
        if number % 1000 == 0 {
            // All requests that wait are over.
            let now = Instant::now();
            for seconds in 1..=4 {
                files.expire(now + Duration::from_secs(seconds));
            }
            files.take_outputs();
            assert_eq!(files.next_deadline(), None);
        }
    }
    // Answers, traps and reports of one datagram: a report for each subscription.
    assert!(most < 100_000, "{most} messages for one datagram");
    recover(&mut files);
    let fabric = &mut files.subnet.fabric;
    let hosts: Vec<End> = fabric
        .ends()
        .filter(|end| fabric.nodes[end.node as usize].forwarding.is_none())
        .collect();
    for &from in &hosts {
        for &to in &hosts {
            let lid = fabric.port(to).unwrap().lid();
            assert_eq!(fabric.carry_data(from, lid, Load::default()), Some(to));
        }
    }
    // Each host asks its switch.
    for &host in &hosts {
        let mut mad = Mad::empty();
        mad.set_class(class::SM_DIRECTED, 1);
        mad.set_method(method::GET);
        mad.set_attribute(node_info::NUMBER, 0);
        mad.set_tid(1);
        mad.set_path(&[1]);
        let header = Header {
            agent: 0,
            status: 0,
            timeout: 1000,
            retries: 0,
            length: 0,
            qp: 0,
            lid: 0xffff,
            sl: 0,
            path_bits: 0,
            p_key_index: 0,
        };
        let id = u64::from(host.node) + 1;
        let message = header.message(LONG, &mad, SIZE);
        files.write(id, &message).unwrap();
        let outputs = files.take_outputs();
        assert_eq!(outputs.len(), 1, "host {host:?}");
        assert_eq!(outputs[0].0, id);
    }
}

#[test]
fn malformed_datagrams_do_not_break_the_fabric() {
    storm(20_000, 0x9e37_79b9_7f4a_7c15);
}

#[test]
#[ignore = "seconds: a million datagrams, by night"]
fn a_million_malformed_datagrams_do_not_break_the_fabric() {
    for seed in 1..=4u64 {
        storm(250_000, seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    }
}
