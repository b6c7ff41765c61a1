//! Makes a fabric of a topology.

use std::collections::{HashMap, HashSet};

use verbena_topology::{LinkEnd, NodeKind, Rate, Speed, Topology};

use crate::attribute::port_info::{self, capability, physical, state};
use crate::attribute::switch_info;
use crate::fabric::{DESCRIPTION, End, Fabric, Forwarding, Kind, Node, Port, UNICAST_LIDS};

/// Prefix of GIDs until a subnet manager sets another.
const GID_PREFIX: u64 = 0xfe80_0000_0000_0000;
/// The first GUID that is invented for nodes without one: its upper part is that of no vendor.
const INVENTED: u64 = 0x0200_0000_0010_0000;
/// The largest number of ports of a node: 255 means all ports.
const MOST_PORTS: u32 = 254;
/// The largest number of ports of a fabric: below 1 GiB of state.
const MOST_PORTS_OF_ALL: usize = 1 << 20;
/// Vendor and devices of nodes whose topology states none.
const VENDOR: u32 = 0x2c9;
const ADAPTER: u16 = 0x1017;
const SWITCH: u16 = 0xd2f0;
/// Codes of the largest MTU, 4096 bytes, and of four virtual lanes.
const MTU: u64 = 5;
const LANES: u64 = 3;
/// Second capabilities of every port: links of two lanes, HDR, NDR.
const SECOND_MASK: u64 = capability::WIDTH_2X | capability::HDR | capability::NDR;
/// Speed in Mellanox' extension.
const QDR_MASK: u64 = 7;

/// Reason why a topology is no fabric.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BuildError {
    /// A node has too many ports.
    #[error("{0} has {1} ports; a node of a fabric has at most {MOST_PORTS}")]
    Ports(String, u32),
    /// The topology does not number ports.
    #[error("{0} has a link at port 0; a fabric needs a topology with numbers of ports")]
    Number(String),
    /// There are more ports than LIDs.
    #[error("{0} ports with a LID; a subnet has at most {max}", max = UNICAST_LIDS - 1)]
    Size(usize),
    /// Two nodes have one GUID.
    #[error("{0} and another node or port have the GUID {1:#018x}")]
    Guid(String, u64),
    /// Two links end at one port.
    #[error("port {1} of {0} has two links")]
    Links(String, u32),
    /// There are too many ports, of switches above all.
    #[error("{0} ports; a fabric has at most {MOST_PORTS_OF_ALL}")]
    AllPorts(usize),
}

/// A rate as PortInfo has it: width, speed up to QDR, speed from FDR to NDR, speed from XDR on, and
/// whether it is FDR10.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Codes {
    width: u64,
    speed: u64,
    extended: u64,
    second: u64,
    is_fdr10: bool,
}

impl Codes {
    fn of(rate: Rate) -> Codes {
        let width = match rate.width {
            1 => 1,
            2 => 16,
            8 => 4,
            12 => 8,
            _ => 2,
        };
        let (speed, extended, second) = match rate.speed {
            Speed::Sdr => (1, 0, 0),
            Speed::Ddr => (2, 0, 0),
            Speed::Qdr | Speed::Fdr10 => (4, 0, 0),
            Speed::Fdr => (4, 1, 0),
            Speed::Edr => (4, 2, 0),
            Speed::Hdr => (4, 4, 0),
            Speed::Ndr => (4, 8, 0),
            Speed::Xdr => (4, 0, 1),
        };
        Codes {
            width,
            speed,
            extended,
            second,
            is_fdr10: rate.speed == Speed::Fdr10,
        }
    }

    /// Returns the codes by which speeds are compared.
    fn order(self) -> (u64, u64, u64) {
        (self.second, self.extended, self.speed)
    }

    /// Returns the mask of the speeds from FDR to NDR that a port of this speed has.
    fn extended_mask(self) -> u64 {
        match self.second {
            0 => up_to(self.extended),
            _ => port_info::EXTENDED_SUPPORTED.most(),
        }
    }
}

/// Makes the fabric of a topology. Its links are up, and its ports have the LIDs that the topology
/// states; everything else is as after power-on: a subnet manager makes the ports active.
///
/// # Errors
///
/// Returns [`BuildError`] if the topology is no single subnet of valid nodes.
pub fn build(topology: &Topology) -> Result<Fabric, BuildError> {
    let rates = rates(topology)?;
    let mut fabric = Fabric::default();
    let lids = lids(topology);
    let stated = stated_guids(topology);
    check_size(topology, &rates)?;
    let mut guids = HashSet::new();
    for (at, node) in topology.nodes.iter().enumerate() {
        let count = rates.last.get(&at).copied().unwrap_or(0);
        let count = node.ports.unwrap_or(0).max(count);
        if count > MOST_PORTS {
            return Err(BuildError::Ports(node.name().to_owned(), count));
        }
        let kind = match node.kind {
            NodeKind::Switch => Kind::Switch,
            NodeKind::Router => Kind::Router,
            NodeKind::Adapter | NodeKind::Aggregation => Kind::Adapter,
        };
        let best = rates.best.get(&at).copied();
        let best = best.unwrap_or(Codes::of(Rate {
            width: 4,
            speed: Speed::Qdr,
        }));
        let guid = node_guid(&node.id).unwrap_or(INVENTED + ((at as u64) << 8));
        let mut made = Node {
            kind,
            guid: node.hardware.node_guid.unwrap_or(guid),
            system_guid: node.hardware.system_guid.unwrap_or(0),
            vendor: node.hardware.vendor.unwrap_or(VENDOR),
            device: node.hardware.device.unwrap_or(match kind {
                Kind::Switch => SWITCH,
                _ => ADAPTER,
            }),
            description: description(match node_guid(&node.id) {
                Some(_) => &node.description,
                None => node.name(),
            }),
            // Most nodes have one.
            ports: Vec::with_capacity(count as usize + usize::from(kind == Kind::Switch)),
            forwarding: (kind == Kind::Switch).then(|| forwarding(node.hardware.is_enhanced)),
        };
        let mut own = HashSet::from([made.guid]);
        for number in u32::from(made.first_port())..=count {
            let end = LinkEnd {
                node: at,
                port: number,
            };
            let addressed = match kind {
                Kind::Switch => LinkEnd { node: at, port: 0 },
                _ => end,
            };
            let (lid, port_guid) = lids.get(&addressed).copied().unwrap_or_default();
            let port_guid = port_guid.unwrap_or(match kind {
                Kind::Switch => made.guid,
                _ => {
                    // Of adapters with one port, the next GUID may be that of another adapter.
                    let next = made.guid.wrapping_add(number.into());
                    match stated.contains(&next) {
                        true => made.guid,
                        false => next,
                    }
                }
            });
            own.insert(port_guid);
            let rate = rates.of.get(&end).copied();
            let lid = (number == addressed.port).then_some(lid);
            let mut port = port(kind, number, rate, best, lid.unwrap_or(0));
            port.guid = port_guid;
            if let Some(lanes) = topology.lanes.get(&end) {
                port_info::VL_CAP.set(&mut port.info, (*lanes).into());
            }
            let lmc = node.hardware.lmc.unwrap_or(0);
            if lid.is_some() {
                port_info::LMC.set(&mut port.info, lmc.into());
            }
            made.ports.push(port);
            let end = End {
                node: at as u32,
                port: number as u8,
            };
            fabric.by_guid.entry(port_guid).or_insert(end);
        }
        for guid in own {
            if !guids.insert(guid) {
                return Err(BuildError::Guid(node.name().to_owned(), guid));
            }
        }
        let first = End {
            node: at as u32,
            port: made.first_port(),
        };
        fabric.by_guid.entry(made.guid).or_insert(first);
        fabric.nodes.push(made);
    }
    for link in &topology.links {
        let [one, other] = link.ends.map(|end| End {
            node: end.node as u32,
            port: end.port as u8,
        });
        for (end, peer) in [(one, other), (other, one)] {
            if let Some(port) = fabric.port_mut(end)
                && port.peer.replace(peer).is_some_and(|before| before != peer)
            {
                let name = topology.nodes[end.node as usize].name();
                return Err(BuildError::Links(name.to_owned(), end.port.into()));
            }
        }
    }
    Ok(fabric)
}

/// Checks the number of ports before memory is taken for them.
fn check_size(topology: &Topology, rates: &Rates) -> Result<(), BuildError> {
    let (mut ports, mut addressed) = (0, 0);
    for (at, node) in topology.nodes.iter().enumerate() {
        let last = rates.last.get(&at).copied().unwrap_or(0);
        let own = node.ports.unwrap_or(0).max(last) as usize;
        ports += own;
        addressed += match node.kind {
            NodeKind::Switch => 1,
            _ => own,
        };
    }
    match (addressed < UNICAST_LIDS, ports <= MOST_PORTS_OF_ALL) {
        (true, true) => Ok(()),
        (false, _) => Err(BuildError::Size(addressed)),
        (_, false) => Err(BuildError::AllPorts(ports)),
    }
}

/// Rates of the linked ports.
#[derive(Default)]
struct Rates {
    of: HashMap<LinkEnd, Codes>,
    /// The best of each node.
    best: HashMap<usize, Codes>,
    /// The last linked port of each node.
    last: HashMap<usize, u32>,
}

fn rates(topology: &Topology) -> Result<Rates, BuildError> {
    let mut rates = Rates::default();
    for link in &topology.links {
        for (end, stated) in link.ends.into_iter().zip(link.stated) {
            let name = || topology.nodes[end.node].name().to_owned();
            if end.port == 0 {
                return Err(BuildError::Number(name()));
            }
            let last = rates.last.entry(end.node).or_default();
            *last = end.port.max(*last);
            let rate = stated.or(link.rate).unwrap_or(Rate {
                width: 4,
                speed: Speed::Qdr,
            });
            let codes = Codes::of(rate);
            rates.of.insert(end, codes);
            let best = rates.best.entry(end.node).or_insert(codes);
            if codes.order() > best.order() {
                *best = codes;
            }
        }
    }
    Ok(rates)
}

/// Returns the LIDs and GUIDs that the topology states, without LIDs that are not for unicast.
fn lids(topology: &Topology) -> HashMap<LinkEnd, (u16, Option<u64>)> {
    let mut stated = HashMap::new();
    for address in &topology.addresses {
        let lid = address
            .lid
            .and_then(|lid| u16::try_from(lid).ok())
            .unwrap_or(0);
        let is_valid = usize::from(lid) < UNICAST_LIDS;
        stated.insert(address.end, (if is_valid { lid } else { 0 }, address.guid));
    }
    stated
}

/// Returns the LIDs of a topology that no port gets: those that are not for unicast, and those
/// that an earlier port has.
pub fn unusable_lids(topology: &Topology) -> Vec<u32> {
    let mut owners = HashMap::new();
    let mut unusable = Vec::new();
    for address in &topology.addresses {
        let Some(lid) = address.lid else {
            continue;
        };
        let of_node = topology.nodes[address.end.node].kind == NodeKind::Switch;
        let owner = (address.end.node, if of_node { 0 } else { address.end.port });
        let first = *owners.entry(lid).or_insert(owner);
        if lid as usize >= UNICAST_LIDS || first != owner {
            unusable.push(lid);
        }
    }
    unusable
}

/// Returns the GUIDs of nodes and ports that the topology states.
fn stated_guids(topology: &Topology) -> HashSet<u64> {
    let nodes = topology.nodes.iter().flat_map(|node| {
        let of_hardware = node.hardware.node_guid;
        [of_hardware, node_guid(&node.id)].into_iter().flatten()
    });
    let ports = topology.addresses.iter().filter_map(|one| one.guid);
    nodes.chain(ports).collect()
}

fn node_guid(id: &str) -> Option<u64> {
    let (letter, digits) = id.split_once('-')?;
    // Other ids are names.
    if !matches!(letter, "S" | "H" | "R") || digits.len() != 16 {
        return None;
    }
    u64::from_str_radix(digits, 16)
        .ok()
        .filter(|guid| *guid != 0)
}

fn description(text: &str) -> [u8; DESCRIPTION] {
    let mut description = [0; DESCRIPTION];
    for (to, from) in description.iter_mut().zip(text.bytes()) {
        *to = from;
    }
    description
}

fn forwarding(is_enhanced: bool) -> Box<Forwarding> {
    let mut forwarding = Forwarding::default();
    let info = &mut forwarding.info;
    switch_info::LINEAR_CAP.set(info, UNICAST_LIDS as u64);
    switch_info::MULTICAST_CAP.set(info, 4096);
    switch_info::LIFE_TIME.set(info, 18);
    switch_info::ENFORCEMENT_CAP.set(info, crate::agent::SWITCH_PARTITIONS.into());
    switch_info::ENFORCEMENT.set(info, 0b1100);
    switch_info::ENHANCED.set(info, is_enhanced.into());
    Box::new(forwarding)
}

/// Returns the mask of all speeds up to one.
fn up_to(speed: u64) -> u64 {
    (speed << 1).saturating_sub(1)
}

fn port(kind: Kind, number: u32, rate: Option<Codes>, best: Codes, lid: u16) -> Port {
    let mut info = [0; port_info::SIZE];
    let is_linked = rate.is_some();
    let is_own = kind == Kind::Switch && number == 0;
    let codes = rate.unwrap_or(best);
    let mut capabilities = capability::SYSTEM_IMAGE | capability::VENDOR_CLASS;
    capabilities |= capability::TRAP | capability::SL_MAP | capability::MASK_NOTICE;
    capabilities |= capability::SECOND_MASK | capability::CLIENT_REREGISTER;
    capabilities |= match kind {
        Kind::Switch => capability::MULTICAST_TOP,
        _ => capability::CM | capability::OTHER_CHANGES,
    };
    if best.extended != 0 || best.second != 0 {
        capabilities |= capability::EXTENDED_SPEEDS;
    }
    let mut second_mask = SECOND_MASK;
    if best.second != 0 {
        second_mask |= capability::EXTENDED_SPEEDS_2 | capability::XDR;
    }
    if kind == Kind::Switch && number != 0 {
        // External ports of a switch have none; those of port 0 count.
        capabilities = 0;
    }
    let widths = match codes.width {
        8 => 0b1011,
        width => width | 0b11,
    };
    let (logical, physical) = match (is_own, is_linked) {
        (true, _) => (state::ACTIVE, physical::LINK_UP),
        (_, true) => (state::INIT, physical::LINK_UP),
        _ => (state::DOWN, physical::POLLING),
    };
    let has_lid = kind != Kind::Switch || is_own;
    for (field, value) in [
        (port_info::GID_PREFIX, if has_lid { GID_PREFIX } else { 0 }),
        (port_info::LID, lid.into()),
        (port_info::CAPABILITIES, capabilities),
        (port_info::WIDTH_ENABLED, widths),
        (port_info::WIDTH_SUPPORTED, widths),
        (port_info::WIDTH_ACTIVE, codes.width),
        (port_info::SPEED_SUPPORTED, up_to(codes.speed) & QDR_MASK),
        (port_info::SPEED_ENABLED, up_to(codes.speed) & QDR_MASK),
        // A port without a link is at the lowest speed.
        (
            port_info::SPEED_ACTIVE,
            if is_linked { codes.speed } else { 1 },
        ),
        (port_info::EXTENDED_SUPPORTED, codes.extended_mask()),
        (port_info::EXTENDED_ENABLED, codes.extended_mask()),
        (port_info::EXTENDED_2_SUPPORTED, up_to(codes.second)),
        (port_info::EXTENDED_2_ENABLED, up_to(codes.second)),
        (
            port_info::EXTENDED_2_ACTIVE,
            if is_linked { codes.second } else { 0 },
        ),
        (
            port_info::EXTENDED_ACTIVE,
            if is_linked { codes.extended } else { 0 },
        ),
        (port_info::STATE, logical),
        (port_info::PHYSICAL_STATE, physical),
        (port_info::DOWN_DEFAULT, physical::POLLING),
        (port_info::NEIGHBOR_MTU, if is_linked { 1 } else { MTU }),
        (port_info::VL_CAP, LANES),
        (port_info::VL_HIGH_CAP, 8),
        (port_info::VL_LOW_CAP, 8),
        (port_info::MTU_CAP, MTU),
        (port_info::QUEUE_LIFE, 0xf0),
        (port_info::OPERATIONAL_VLS, 1),
        (port_info::GUID_CAP, if has_lid { 8 } else { 0 }),
        (port_info::SUBNET_TIMEOUT, 18),
        (port_info::RESPONSE_TIME, 16),
        (port_info::THRESHOLDS, 0x88),
        (
            port_info::CAPABILITIES_2,
            if capabilities == 0 { 0 } else { second_mask },
        ),
    ] {
        field.set(&mut info, value);
    }
    Port {
        guid: 0,
        peer: None,
        info,
        is_cut: false,
        is_fdr10: is_linked && codes.is_fdr10,
        counters: Default::default(),
        tables: None,
        reregistrations: 0,
    }
}

/// A fabric of one switch and two hosts, for programs that need any fabric.
pub const SMALL: &str = "\
vendid=0x2c9
devid=0xd2f0
sysimgguid=0x2000000000100
switchguid=0x2000000000100(2000000000100)
Switch\t8 \"S-0002000000000100\"\t\t# \"switch1\" enhanced port 0 lid 1 lmc 0
[1]\t\"H-0002000000000200\"[1](2000000000201) \t\t# \"host1 mlx5_0\" lid 2 4xHDR
[2]\t\"H-0002000000000300\"[1](2000000000301) \t\t# \"host2 mlx5_0\" lid 3 4xHDR

vendid=0x2c9
devid=0x101b
sysimgguid=0x2000000000200
caguid=0x2000000000200
Ca\t1 \"H-0002000000000200\"\t\t# \"host1 mlx5_0\"
[1](2000000000201) \t\"S-0002000000000100\"[1]\t\t# lid 2 lmc 0 \"switch1\" lid 1 4xHDR

vendid=0x2c9
devid=0x101b
sysimgguid=0x2000000000300
caguid=0x2000000000300
Ca\t1 \"H-0002000000000300\"\t\t# \"host2 mlx5_0\"
[1](2000000000301) \t\"S-0002000000000100\"[2]\t\t# lid 3 lmc 0 \"switch1\" lid 1 4xHDR
";

/// Returns the topology of [`SMALL`].
///
/// # Panics
///
/// Never: a test reads the constant.
pub fn small() -> Topology {
    verbena_topology::read(SMALL.as_bytes()).expect("the constant is a topology")
}
