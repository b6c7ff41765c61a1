//! Routes of datagrams through the fabric: directed (14.2.2) and by LID. Every port that a packet
//! passes counts it.

use crate::attribute::counters::Counter;
use crate::attribute::port_info::{self, state};
use crate::counters::Load;
use crate::fabric::{End, Fabric, Kind};
use crate::mad::Mad;
use crate::{notice, partitions};

/// LID of the next node, whichever it is.
pub const PERMISSIVE: u16 = 0xffff;
/// The longest route by LID; a packet on a longer one exceeds its lifetime.
const MOST_HOPS: usize = 64;
/// Headers of a datagram's packet that counters include: LRH, BTH, DETH and ICRC.
const HEADERS: usize = 8 + 12 + 8 + 4;

/// A datagram on its way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Packet {
    /// The datagram.
    pub mad: Mad,
    /// LID of the sender.
    pub slid: u16,
    /// LID of the destination.
    pub dlid: u16,
    /// Service level.
    pub sl: u8,
    /// Queue pair of the sender.
    pub source_qp: u32,
    /// Queue pair of the destination: 0 for subnet management, 1 for the other classes.
    pub qp: u32,
    /// Partition key: the sender's, then that of the port that has received the packet. Packets to
    /// queue pair 0 have none.
    pub p_key: u16,
}

impl Packet {
    /// Returns the packet that carries an answer back to the sender.
    pub fn answer(&self, mad: Mad, from: u16) -> Packet {
        Packet {
            mad,
            slid: from,
            dlid: self.slid,
            sl: self.sl,
            source_qp: self.qp,
            qp: self.source_qp,
            p_key: self.p_key,
        }
    }

    fn load(&self) -> Load {
        // Segments of RMPP are packets of their own.
        Load {
            packets: 1,
            words: ((self.mad.bytes().len() + HEADERS) / 4) as u64,
        }
    }
}

impl Fabric {
    /// Carries a packet from a port to its destination; `None` if it is lost on the way. A port
    /// drops packets to other queue pairs than 0 whose partition key it lacks.
    pub fn carry(&mut self, from: End, packet: &mut Packet) -> Option<End> {
        if packet.mad.is_directed() {
            return self.carry_directed(from, packet);
        }
        let (to, is_management) = (packet.dlid, packet.qp == 0);
        if !is_management && packet.p_key & partitions::DEFAULT == 0 {
            // An adapter sends nothing with an invalid key.
            return None;
        }
        let at = self.carry_by_lid(from, to, packet.load(), is_management)?;
        (is_management || self.admit(at, packet)).then_some(at)
    }

    /// Returns whether the port at which a packet arrives has a partition key that matches the
    /// packet's (10.9.3), which becomes the packet's. Otherwise the port counts a violation and
    /// sends trap 257 (10.9.4, 14.2.5.1).
    fn admit(&mut self, at: End, packet: &mut Packet) -> bool {
        let Some(node) = self.nodes.get(at.node as usize) else {
            return false;
        };
        let own = End {
            node: at.node,
            port: node.addressed(at.port),
        };
        let kind = node.kind;
        let Some(port) = self.port_mut(own) else {
            return false;
        };
        if let Some(key) = port.matching_p_key(packet.p_key) {
            packet.p_key = key;
            return true;
        }
        let violations = port_info::P_KEY_VIOLATIONS.get(&port.info) + 1;
        let most = port_info::P_KEY_VIOLATIONS.most();
        port_info::P_KEY_VIOLATIONS.set(&mut port.info, violations.min(most));
        let lid = port.lid();
        let mut content = notice::generic(notice::SECURITY, notice::BAD_P_KEY, lid, kind);
        content[12..14].copy_from_slice(&packet.slid.to_be_bytes());
        content[14..16].copy_from_slice(&packet.dlid.to_be_bytes());
        content[16..20].copy_from_slice(&u32::from(packet.p_key).to_be_bytes());
        let levels = u32::from(packet.sl) << 28;
        content[20..24].copy_from_slice(&(levels | packet.source_qp).to_be_bytes());
        content[24..28].copy_from_slice(&packet.qp.to_be_bytes());
        self.traps.push((own, content));
        self.version += 1;
        false
    }

    /// Carries packets of an adapter's programs from its port to a LID, and returns the port that
    /// they reach; `None` if they are lost on the way. Without packets, it only looks up that port.
    pub fn carry_data(&mut self, from: End, to: u16, load: Load) -> Option<End> {
        let is_active = |port: &crate::fabric::Port| port.state() == state::ACTIVE;
        self.port(from).filter(|port| is_active(port))?;
        self.carry_by_lid(from, to, load, false)
    }

    fn carry_directed(&mut self, from: End, packet: &mut Packet) -> Option<End> {
        let load = packet.load();
        let (before, behind) = packet.mad.directed_lids();
        if packet.mad.is_returning() {
            // The directed part comes first if the request's came last.
            let at = match behind {
                PERMISSIVE => from,
                _ => self.carry_by_lid(from, packet.dlid, load, true)?,
            };
            let at = self.walk_back(at, packet, load)?;
            return match before {
                PERMISSIVE => Some(at),
                _ => self.carry_by_lid(at, before, load, true),
            };
        }
        let at = match before {
            PERMISSIVE => from,
            _ => self.carry_by_lid(from, packet.dlid, load, true)?,
        };
        let at = self.walk(at, packet, load)?;
        if behind == PERMISSIVE {
            return Some(at);
        }
        // The answer comes back to the node at which the directed part ended.
        let node = self.nodes.get(at.node as usize)?;
        packet.slid = node.port(node.addressed(at.port))?.lid();
        self.carry_by_lid(at, behind, load, true)
    }

    /// Follows the directed part from its first node.
    fn walk(&mut self, from: End, packet: &mut Packet, load: Load) -> Option<End> {
        let hops = packet.mad.hop_count();
        if usize::from(hops) >= crate::mad::PATH || packet.mad.hop_pointer() > hops {
            return None;
        }
        let mut at = from;
        for hop in packet.mad.hop_pointer() + 1..=hops {
            let port = packet.mad.outgoing(hop);
            // Only switches forward, and an adapter sends by the port that the program opened.
            let is_switch = self.nodes.get(at.node as usize)?.kind == Kind::Switch;
            if !is_switch && (hop > 1 || port != at.port) {
                return None;
            }
            at = self.cross(
                End {
                    node: at.node,
                    port,
                },
                load,
                true,
            )?;
            packet.mad.set_incoming(hop, at.port);
        }
        packet.mad.set_hop_pointer(hops + 1);
        Some(at)
    }

    /// Follows the directed part back.
    fn walk_back(&mut self, from: End, packet: &mut Packet, load: Load) -> Option<End> {
        let hops = packet.mad.hop_count();
        if usize::from(hops) >= crate::mad::PATH {
            return None;
        }
        let mut at = from;
        for hop in (1..=hops).rev() {
            let port = packet.mad.incoming(hop);
            at = self.cross(
                End {
                    node: at.node,
                    port,
                },
                load,
                true,
            )?;
        }
        packet.mad.set_hop_pointer(0);
        Some(at)
    }

    /// Sends a packet out of a port and takes it in at the peer.
    fn cross(&mut self, out: End, load: Load, is_management: bool) -> Option<End> {
        let port = self.port_mut(out)?;
        let peer = port.peer?;
        let passes =
            |linked: bool, logical: u64| linked && (is_management || logical == state::ACTIVE);
        if !passes(port.is_linked(), port.state()) {
            if port.is_linked() {
                port.counters.add(Counter::Discards, load.packets);
            }
            return None;
        }
        port.counters.sent(load);
        let port = self.port_mut(peer)?;
        port.counters.received(load);
        passes(port.is_linked(), port.state()).then_some(peer)
    }

    fn carry_by_lid(&mut self, from: End, to: u16, load: Load, is_management: bool) -> Option<End> {
        let node = self.nodes.get(from.node as usize)?;
        let own = node.addressed(from.port);
        let is_own = node.port(own)?.has_lid(to);
        if is_own {
            return Some(End {
                node: from.node,
                port: own,
            });
        }
        let is_switch = node.kind == Kind::Switch;
        let mut at = match (is_switch, to) {
            (true, _) => from,
            // A LID of zero is no address.
            (false, 0) => return None,
            (false, _) => self.cross(from, load, is_management)?,
        };
        if to == PERMISSIVE {
            return is_management.then_some(at);
        }
        for _ in 0..MOST_HOPS {
            let node = self.nodes.get(at.node as usize)?;
            let Some(forwarding) = &node.forwarding else {
                return node.port(at.port)?.has_lid(to).then_some(at);
            };
            let is_own = node.port(0)?.has_lid(to);
            match forwarding.port(to) {
                _ if is_own => return Some(at),
                Some(0) => return None,
                Some(port) => {
                    at = self.cross(
                        End {
                            node: at.node,
                            port,
                        },
                        load,
                        is_management,
                    )?
                }
                None => {
                    let port = self.port_mut(at)?;
                    port.counters.add(Counter::SwitchRelayErrors, load.packets);
                    return None;
                }
            }
        }
        None
    }
}

impl Fabric {
    /// Returns the codes of MTU and rate of the narrowest link on the path that the tables give
    /// between two ports; `None` if they do not lead there.
    pub(crate) fn narrowest(&self, source: End, target: End) -> Option<(u64, u64)> {
        use crate::attribute::port_info::{MTU_CAP, NEIGHBOR_MTU};
        use crate::sa::rate_code;

        let to = self.port(target)?.lid();
        let mut least = (u64::MAX, usize::MAX, 0);
        let mut take = |port: &crate::fabric::Port, mtu: u64| {
            let code = rate_code(port);
            let order = RATES.iter().position(|rate| *rate == code).unwrap_or(0);
            least.0 = least.0.min(mtu);
            if order < least.1 {
                (least.1, least.2) = (order, code);
            }
        };
        let first = self.port(source)?;
        if source == target {
            take(first, MTU_CAP.get(&first.info));
            return Some((least.0, least.2));
        }
        let mut at = source;
        for hop in 0..MOST_HOPS {
            let node = self.nodes.get(at.node as usize)?;
            if at.node == target.node && node.addressed(at.port) == target.port {
                return Some((least.0, least.2));
            }
            let port = match &node.forwarding {
                Some(forwarding) => forwarding.port(to).filter(|port| *port != 0)?,
                None if hop == 0 => at.port,
                None => return None,
            };
            let out = node.port(port).filter(|port| port.is_linked())?;
            take(out, NEIGHBOR_MTU.get(&out.info));
            at = out.peer?;
        }
        None
    }
}

/// Codes of rates, from the lowest to the highest.
const RATES: [u64; 24] = [
    2, 5, 3, 11, 19, 6, 15, 4, 7, 20, 12, 8, 9, 16, 13, 10, 14, 17, 18, 21, 22, 23, 24, 25,
];
