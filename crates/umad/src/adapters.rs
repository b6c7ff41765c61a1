//! Adapters of programs on the fabric: they receive the state of their node's ports, and their
//! traffic is charged to the ports on its way.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::os::fd::OwnedFd;

use verbena_subnet::attribute::port_info;
use verbena_subnet::mad::{Mad, SIZE, class};
use verbena_subnet::{Delivery, End, Fabric, Kind, Load, Packet, Port};

use crate::files::{FileId, GENERAL_SERVICES};
use crate::protocol::errno::{EINVAL, ENODEV};
use crate::protocol::traffic::{ENTRIES, ENTRY, Traffic};
use crate::protocol::{Datagram, Destination, NodeState, P_KEYS, PortState};
use crate::rmpp;

/// Marks numbers of networks: not those of Ethernet interfaces, nor of ports without a fabric.
const NETWORK: u32 = 0x8000_0000;
/// Marks the number that reaches members of multicast groups.
const GROUPS: u32 = 0xc000_0000;
/// Entries that are read at once.
const CHUNK: usize = 64;
/// Maximum number of queue pairs of a program that send management datagrams.
const MOST_QUEUE_PAIRS: usize = 4096;
/// Maximum number of segments of an answer to a queue pair, which receives as many at once.
const MOST_SEGMENTS: usize = 4096;
/// Status of subnet administration: the answer exceeds resources.
pub const NO_RESOURCES: u16 = 0x0100;

/// An adapter.
#[derive(Debug)]
struct Adapter {
    node: u32,
    /// The file in which it counts.
    traffic: Option<OwnedFd>,
    /// The traffic that was charged, by entry.
    charged: Vec<Traffic>,
    /// Version of the last message.
    sent: Option<u64>,
    is_acknowledged: bool,
    /// Its queue pairs that have sent management datagrams: those receive the answers and reports.
    queue_pairs: BTreeSet<u32>,
}

/// The adapters, by connection.
#[derive(Debug)]
pub struct Adapters {
    all: BTreeMap<FileId, Adapter>,
    /// Makes the numbers of networks unlike those of other fabrics.
    seed: u32,
}

impl Default for Adapters {
    fn default() -> Adapters {
        let random = RandomState::new().build_hasher().finish() as u32;
        Adapters {
            all: BTreeMap::new(),
            seed: random & !GROUPS & !1,
        }
    }
}

impl Adapters {
    /// Adds the adapter of a program at a node, with the file in which it counts its traffic.
    ///
    /// # Errors
    ///
    /// Fails with an errno: ENODEV if the node is no adapter.
    pub fn open(
        &mut self,
        id: FileId,
        node: u32,
        traffic: Option<OwnedFd>,
        fabric: &Fabric,
    ) -> Result<(), i32> {
        let this = fabric.nodes.get(node as usize).ok_or(ENODEV)?;
        if this.kind != Kind::Adapter {
            return Err(ENODEV);
        }
        // Only files in memory have seals: reading any other might wait without end.
        let is_in_memory = |file: &OwnedFd| rustix::fs::fcntl_get_seals(file).is_ok();
        if traffic.as_ref().is_some_and(|file| !is_in_memory(file)) {
            return Err(EINVAL);
        }
        let adapter = Adapter {
            node,
            traffic,
            charged: Vec::new(),
            sent: None,
            is_acknowledged: true,
            queue_pairs: BTreeSet::new(),
        };
        self.all.insert(id, adapter);
        Ok(())
    }

    /// Charges the last traffic of an adapter and removes it. Returns its node, and its own queue
    /// pairs that had sent management datagrams: queue pair 1 belongs to all programs of the node.
    pub fn close(&mut self, id: FileId, fabric: &mut Fabric) -> Option<(u32, BTreeSet<u32>)> {
        let mut adapter = self.all.remove(&id)?;
        adapter.charge(fabric);
        adapter.queue_pairs.remove(&GENERAL_SERVICES);
        Some((adapter.node, adapter.queue_pairs))
    }

    /// Returns the packet of a message with a datagram, and the port that it leaves by; `None` if
    /// it is no such message, or is not to queue pair 1 from a queue pair of the program, or a
    /// request of its connection manager to subnet administration from queue pair 1.
    pub fn sent(&mut self, id: FileId, message: &[u8], fabric: &Fabric) -> Option<(End, Packet)> {
        let datagram = Datagram::of(message)?;
        let adapter = self.all.get_mut(&id)?;
        let end = End {
            node: adapter.node,
            port: datagram.port,
        };
        let port = fabric.port(end)?;
        let packet = Packet {
            mad: Mad::of(&datagram.data)?,
            slid: port.lid(),
            dlid: datagram.lid,
            sl: datagram.service_level,
            source_qp: datagram.queue_pair,
            qp: datagram.peer,
            p_key: datagram.p_key,
        };
        // The table may have changed since.
        if !port.p_keys().contains(&packet.p_key) {
            return None;
        }
        let known = &mut adapter.queue_pairs;
        let is_known = known.len() < MOST_QUEUE_PAIRS || known.contains(&packet.source_qp);
        let is_allowed = match packet.source_qp {
            0 => false,
            // Transactions of device files lack the highest bit.
            GENERAL_SERVICES => {
                let is_request = !packet.mad.is_response();
                is_request && packet.mad.class() == class::SA && packet.mad.tid() >> 63 == 1
            }
            _ => true,
        };
        if packet.qp != GENERAL_SERVICES || !is_allowed || !is_known {
            return None;
        }
        known.insert(packet.source_qp);
        Some((end, packet))
    }

    /// Returns the messages with a datagram for a queue pair at a port, for the adapter whose queue
    /// pair has sent one before. An answer that is too large becomes a refusal.
    pub fn received(&self, delivery: &Delivery) -> Vec<(FileId, Vec<u8>)> {
        let packet = &delivery.packet;
        let here = |(id, adapter): (&FileId, &Adapter)| {
            let is_its = adapter.queue_pairs.contains(&packet.qp);
            (adapter.node == delivery.at.node && is_its).then_some(*id)
        };
        let ids: Vec<FileId> = self.all.iter().filter_map(here).collect();
        let mut all = Vec::new();
        if ids.is_empty() {
            return all;
        }
        let mut segments = rmpp::segments(&packet.mad);
        if segments.len() > MOST_SEGMENTS {
            segments.truncate(1);
            segments[0].set_segment(1, true, rmpp::SHORTEST);
            segments[0].set_status(NO_RESOURCES);
        }
        for segment in segments {
            let mut data = [0; SIZE];
            data.copy_from_slice(&segment.bytes()[..SIZE]);
            let message = Datagram {
                port: delivery.at.port,
                service_level: packet.sl,
                lid: packet.slid,
                queue_pair: packet.qp,
                peer: packet.source_qp,
                p_key: packet.p_key,
                data,
            };
            all.extend(ids.iter().map(|id| (*id, message.bytes().to_vec())));
        }
        all
    }

    /// Handles the acknowledgement of a message.
    pub fn acknowledged(&mut self, id: FileId, message: &[u8]) {
        let version = message.try_into().map(u64::from_ne_bytes);
        if let Some(adapter) = self.all.get_mut(&id) {
            adapter.is_acknowledged |= version.is_ok_and(|version| adapter.sent == Some(version));
        }
    }

    /// Returns the messages that are due: the state of the node for each adapter that has not got
    /// the present one, and has acknowledged the one before.
    pub fn due(&mut self, fabric: &Fabric) -> Vec<(FileId, Vec<u8>)> {
        let mut all = Vec::new();
        for (id, adapter) in &mut self.all {
            if adapter.is_acknowledged && adapter.sent != Some(fabric.version) {
                adapter.is_acknowledged = false;
                adapter.sent = Some(fabric.version);
                all.push((*id, state(self.seed, adapter.node, fabric).bytes()));
            }
        }
        all
    }

    /// Charges the traffic since the last call to the ports on its way, which must not have changed
    /// meanwhile.
    pub fn charge(&mut self, fabric: &mut Fabric) {
        for adapter in self.all.values_mut() {
            adapter.charge(fabric);
        }
    }

    /// Returns the number of the network that packets of an adapter reach.
    ///
    /// # Errors
    ///
    /// Fails with an errno if they are lost.
    pub fn reach(
        &self,
        id: FileId,
        destination: Destination,
        fabric: &mut Fabric,
    ) -> Result<u32, i32> {
        let adapter = self.all.get(&id).ok_or(ENODEV)?;
        let end = fabric.carry_data(adapter.end(destination), destination.lid, Load::default());
        end.map(|end| network(self.seed, end)).ok_or(ENODEV)
    }
}

impl Adapter {
    fn end(&self, destination: Destination) -> End {
        End {
            node: self.node,
            port: destination.port,
        }
    }

    fn charge(&mut self, fabric: &mut Fabric) {
        let Some(file) = &self.traffic else {
            return;
        };
        let mut buffer = [0; ENTRY * CHUNK];
        let mut word = [0; 8];
        if rustix::io::pread(file, &mut word, 0) != Ok(word.len()) {
            return;
        }
        let used = (u64::from_ne_bytes(word) as usize).min(ENTRIES);
        self.charged
            .resize(used.max(self.charged.len()), Traffic::default());
        for first in (1..used).step_by(CHUNK) {
            let count = CHUNK.min(used - first);
            let part = &mut buffer[..count * ENTRY];
            let Ok(length) = rustix::io::pread(file, &mut *part, (first * ENTRY) as u64) else {
                return;
            };
            for (entry, at) in part[..length].as_chunks::<ENTRY>().0.iter().zip(first..) {
                let Some((destination, traffic)) = Traffic::of(entry) else {
                    continue;
                };
                let earlier = std::mem::replace(&mut self.charged[at], traffic);
                if traffic != earlier {
                    charge(
                        fabric,
                        self.end(destination),
                        destination.lid,
                        traffic.since(earlier),
                    );
                }
            }
        }
    }
}

/// Charges traffic to the ports between a port and a LID, both ways.
fn charge(fabric: &mut Fabric, from: End, to: u16, traffic: Traffic) {
    let forth = Load {
        packets: traffic.packets,
        words: traffic.words,
    };
    let back = Load {
        packets: traffic.packets_back,
        words: traffic.words_back,
    };
    let reached = fabric.carry_data(from, to, forth);
    let lid = fabric.port(from).map_or(0, Port::lid);
    if let Some(reached) = reached.filter(|_| back != Load::default()) {
        fabric.carry_data(reached, lid, back);
    }
}

fn network(seed: u32, end: End) -> u32 {
    // A fabric has at most 2^20 nodes.
    NETWORK | seed ^ (end.node << 8 | u32::from(end.port))
}

/// Returns the state of a node as its adapter sees it.
fn state(seed: u32, node: u32, fabric: &Fabric) -> NodeState {
    let this = &fabric.nodes[node as usize];
    let ports = this.numbered();
    NodeState {
        version: fabric.version,
        groups: GROUPS | seed,
        guid: this.guid,
        system_guid: this.system_guid,
        ports: ports
            .map(|(number, port)| of_port(network(seed, End { node, port: number }), port))
            .collect(),
    }
}

fn of_port(network: u32, port: &Port) -> PortState {
    let info = &port.info;
    let byte = |field: verbena_subnet::Field| field.get(info) as u8;
    let guids = 0..port_info::GUID_CAP.get(info) as usize;
    PortState {
        network,
        reregistrations: port.reregistrations,
        lid: port.lid(),
        lmc: port.lmc(),
        sm_lid: port_info::SM_LID.get(info) as u16,
        sm_sl: byte(port_info::SM_SL),
        state: byte(port_info::STATE),
        physical: byte(port_info::PHYSICAL_STATE),
        width: byte(port_info::WIDTH_ACTIVE),
        speed: speed(port),
        mtu_cap: byte(port_info::MTU_CAP),
        mtu: byte(port_info::NEIGHBOR_MTU),
        lanes: byte(port_info::VL_CAP),
        subnet_timeout: byte(port_info::SUBNET_TIMEOUT),
        init_type: byte(port_info::INIT_TYPE),
        capabilities: port_info::CAPABILITIES.get(info) as u32,
        capabilities_2: port_info::CAPABILITIES_2.get(info) as u16,
        p_key_violations: port_info::P_KEY_VIOLATIONS.get(info) as u16,
        q_key_violations: port_info::Q_KEY_VIOLATIONS.get(info) as u16,
        prefix: port_info::GID_PREFIX.get(info),
        guids: guids.map(|index| port.guid_at(index)).collect(),
        p_keys: (0..P_KEYS as u16).map(|index| port.p_key(index)).collect(),
    }
}

/// Returns the speed of a lane as verbs number it.
pub(crate) fn speed(port: &Port) -> u16 {
    let of = |field: verbena_subnet::Field| field.get(&port.info) as u16;
    match (
        of(port_info::EXTENDED_2_ACTIVE),
        of(port_info::EXTENDED_ACTIVE),
        of(port_info::SPEED_ACTIVE),
    ) {
        (1, _, _) => 256,
        (_, extended @ (1 | 2 | 4 | 8), _) => extended << 4,
        (_, _, 4) if port.is_fdr10 => 8,
        (_, _, speed) => speed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::traffic::{COUNTS, DESTINATION};
    use rustix::fs::{MemfdFlags, memfd_create};
    use verbena_subnet::attribute::counters::Counter;
    use verbena_subnet::{Manager, build, small};

    /// Nodes of the small fabric: a switch, two hosts.
    const SWITCH: u32 = 0;
    const HOST: u32 = 1;
    const OTHER: u32 = 2;

    fn fabric() -> Fabric {
        let mut fabric = build(&small()).unwrap();
        Manager::start(Manager::place(&fabric).unwrap(), &mut fabric, Vec::new());
        fabric
    }

    fn write(file: &OwnedFd, at: usize, word: u64) {
        let bytes = word.to_ne_bytes();
        assert_eq!(rustix::io::pwrite(file, &bytes, at as u64), Ok(8));
    }

    fn packets(fabric: &Fabric, node: u32, port: u8) -> (u64, u64) {
        let counters = &fabric.port(End { node, port }).unwrap().counters;
        let of = |counter| counters.get(counter);
        (of(Counter::TransmitPackets), of(Counter::ReceivePackets))
    }

    #[test]
    fn traffic_is_charged_once_to_each_port_on_its_way() {
        let mut fabric = fabric();
        let mut adapters = Adapters::default();
        let file = memfd_create("traffic", MemfdFlags::CLOEXEC).unwrap();
        let destination = Destination { port: 1, lid: 3 };
        write(&file, 0, 2);
        write(&file, ENTRY + DESTINATION, destination.word().into());
        for (at, count) in [60, 10, 8, 2].into_iter().enumerate() {
            write(&file, ENTRY + COUNTS + 8 * at, count);
        }
        write(&file, 2 * ENTRY - 8, 0);
        let copy = file.try_clone().unwrap();
        adapters.open(1, HOST, Some(copy), &fabric).unwrap();
        adapters.charge(&mut fabric);
        adapters.charge(&mut fabric);
        assert_eq!(packets(&fabric, HOST, 1), (10, 2));
        assert_eq!(packets(&fabric, SWITCH, 1), (2, 10));
        assert_eq!(packets(&fabric, SWITCH, 2), (10, 2));
        assert_eq!(packets(&fabric, OTHER, 1), (2, 10));
        let counters = &fabric.nodes[OTHER as usize].ports[0].counters;
        assert_eq!(counters.get(Counter::ReceiveData), 60);
        write(&file, ENTRY + COUNTS + 8, 11);
        adapters.close(1, &mut fabric);
        assert_eq!(packets(&fabric, OTHER, 1), (2, 11));
    }

    #[test]
    fn a_state_follows_each_change_once_the_last_was_acknowledged() {
        let mut fabric = fabric();
        let mut adapters = Adapters::default();
        assert_eq!(adapters.open(1, SWITCH, None, &fabric), Err(ENODEV));
        adapters.open(1, HOST, None, &fabric).unwrap();
        let first = adapters.due(&fabric);
        let state = NodeState::of(&first[0].1).unwrap();
        assert_eq!((state.ports[0].lid, state.ports[0].p_keys[0]), (2, 0xffff));
        fabric.set_link(
            End {
                node: HOST,
                port: 1,
            },
            3,
        );
        assert_eq!(adapters.due(&fabric), []);
        adapters.acknowledged(1, &state.version.to_ne_bytes());
        let second = NodeState::of(&adapters.due(&fabric)[0].1).unwrap();
        assert_eq!((state.ports[0].state, second.ports[0].state), (4, 1));
    }

    #[test]
    fn a_datagram_goes_to_the_program_that_has_sent_from_its_queue_pair() {
        let fabric = fabric();
        let mut adapters = Adapters::default();
        adapters.open(1, HOST, None, &fabric).unwrap();
        adapters.open(2, HOST, None, &fabric).unwrap();
        let datagram = Datagram {
            port: 1,
            service_level: 0,
            lid: 1,
            queue_pair: 7,
            peer: GENERAL_SERVICES,
            p_key: 0xffff,
            data: [0; SIZE],
        };
        let (at, sent) = adapters.sent(1, &datagram.bytes(), &fabric).unwrap();
        let back = |qp| Delivery {
            at,
            packet: Packet {
                qp,
                source_qp: GENERAL_SERVICES,
                ..sent.clone()
            },
        };
        let ids = |delivery| {
            let all = adapters.received(&delivery).into_iter();
            all.map(|(id, _)| id).collect::<Vec<_>>()
        };
        assert_eq!((ids(back(7)), ids(back(8))), (vec![1], vec![]));
        let closed = adapters.close(1, &mut fabric.clone());
        assert_eq!(closed, Some((HOST, BTreeSet::from([7]))));
    }

    #[test]
    fn a_destination_is_reached_over_active_links_alone() {
        let mut fabric = fabric();
        let mut adapters = Adapters::default();
        adapters.open(1, HOST, None, &fabric).unwrap();
        let there = Destination { port: 1, lid: 3 };
        let network = network(
            adapters.seed,
            End {
                node: OTHER,
                port: 1,
            },
        );
        assert_eq!(adapters.reach(1, there, &mut fabric), Ok(network));
        let nowhere = Destination { lid: 99, ..there };
        assert_eq!(adapters.reach(1, nowhere, &mut fabric), Err(ENODEV));
        fabric.set_link(
            End {
                node: SWITCH,
                port: 2,
            },
            3,
        );
        assert_eq!(adapters.reach(1, there, &mut fabric), Err(ENODEV));
        assert_eq!(packets(&fabric, HOST, 1), (0, 0));
    }
}
