//! The content of the tree by relative path: files with their text, and links; directories follow
//! from them.
//!
//! The first device is `devices/platform/verbena.0`, with `infiniband/verbena0` and
//! `infiniband_verbs/uverbs0` below it, as a kernel driver of a platform device would show it;
//! `class/` has links to them. The others have their index instead of 0. Formats: the kernel's
//! `Documentation/ABI/stable/sysfs-class-infiniband`.

use std::collections::BTreeMap;
use std::fmt::Write;

use verbena_abi::IBV_PORT_ACTIVE;
use verbena_hca::emulation;
use verbena_hca::process::watch::look_at_ports;
use verbena_hca_net::device::{self, Device, gid_at};
use verbena_hca_net::link::{self, FIRST_PORT, GIDS};

use super::counters::{self, Totals};
use crate::attributes::BOARD;

/// An entry of the tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Entry {
    /// A file with this text.
    File(String),
    /// A symbolic link with this target.
    Link(String),
}

/// The directory of device nodes.
pub const NODES: &str = "dev/infiniband";

/// Returns all files and links, by path.
pub fn entries(totals: &Totals) -> BTreeMap<String, Entry> {
    // It has printed the reason if it fails, and opening a device fails as well.
    let _ = emulation::begin();
    look_at_ports();
    let mut all = BTreeMap::new();
    for device in Device::all() {
        let directory = format!("devices/platform/{}", bus_name(device));
        for (name, text) in files(device, totals) {
            all.insert(
                format!("{directory}/{name}"),
                Entry::File(format!("{text}\n")),
            );
        }
        all.extend(links(device, &directory));
    }
    let node = |name: &str| (format!("{NODES}/{name}"), Entry::Link("/dev/null".into()));
    let names = Device::all().flat_map(|device| [device.name(), verbs_name(device)]);
    all.extend(names.map(|name| node(&name)));
    all.extend([node("rdma_cm")]);
    let version = Entry::File("6\n".into());
    all.insert("class/infiniband_verbs/abi_version".into(), version);
    all
}

fn bus_name(device: Device) -> String {
    format!("verbena.{}", device.index())
}

fn verbs_name(device: Device) -> String {
    format!("uverbs{}", device.index())
}

/// Returns the links of the device with the given directory, by path.
fn links(device: Device, directory: &str) -> Vec<(String, Entry)> {
    let mut links = vec![];
    let mut link = |path: String, target: String| links.push((path, Entry::Link(target)));
    let (bus, verbs) = (bus_name(device), verbs_name(device));
    for (class, name) in [("infiniband", &device.name()), ("infiniband_verbs", &verbs)] {
        let place = format!("{class}/{name}");
        link(
            format!("{directory}/{place}/device"),
            format!("../../../{bus}"),
        );
        let subsystem = format!("../../../../../class/{class}");
        link(format!("{directory}/{place}/subsystem"), subsystem);
        link(
            format!("class/{place}"),
            format!("../../{directory}/{place}"),
        );
    }
    // Also under ibv_device's name, which is that of the node in /dev/infiniband.
    link(format!("class/infiniband_verbs/{}", device.name()), verbs);
    link(
        format!("{directory}/subsystem"),
        "../../../bus/platform".into(),
    );
    link(
        format!("bus/platform/devices/{bus}"),
        format!("../../../{directory}"),
    );
    links
}

/// Returns the files of a device, by path relative to its directory.
fn files(device: Device, totals: &Totals) -> Vec<(String, String)> {
    let mut files = vec![];
    let mut of_bus = |name: &str, text: String| files.push((name.to_owned(), text));
    let attributes = device.attributes();
    let [vendor, part] = device.on_bus();
    of_bus("vendor", format!("{vendor:#06x}"));
    of_bus("device", format!("{part:#06x}"));
    of_bus("subsystem_vendor", format!("{vendor:#06x}"));
    of_bus("subsystem_device", "0x0000".into());
    of_bus("revision", format!("{:#04x}", attributes.hw_ver));
    // Class of an InfiniBand controller (PCI code and ID assignment).
    of_bus("class", "0x020700".into());
    of_bus("numa_node", numa_node().into());
    for name in ["local_cpulist", "local_cpus"] {
        if let Some(text) = processors(name) {
            of_bus(name, text);
        }
    }
    of_bus("modalias", "platform:verbena".into());
    of_bus("uevent", "DRIVER=verbena\nMODALIAS=platform:verbena".into());
    for (name, index) in interfaces(device) {
        of_bus(&format!("net/{name}/ifindex"), index.to_string());
    }

    let guid = colons(device.guid());
    let own_name = device.name();
    let mut of_device = |name: &str, text: String| {
        files.push((format!("infiniband/{own_name}/{name}"), text));
    };
    of_device("node_type", "1: CA".into());
    of_device("node_guid", guid.clone());
    of_device("sys_image_guid", guid);
    of_device("node_desc", format!("Verbena {own_name}"));
    of_device("fw_ver", env!("CARGO_PKG_VERSION").into());
    of_device("hw_rev", format!("{:x}", attributes.hw_ver));
    of_device("hca_type", "Verbena".into());
    of_device("board_id", BOARD.into());
    of_device("uevent", format!("NAME={own_name}"));
    for (number, port) in (1..).zip(device.host_ports()) {
        for (name, text) in files_of_port(port, totals) {
            of_device(&format!("ports/{number}/{name}"), text);
        }
    }
    // Minor numbers of verbs devices start at 192 (IB_UVERBS_BASE_MINOR).
    let (minor, verbs) = (192 + u32::from(device.index()), verbs_name(device));
    for (name, text) in [
        ("ibdev", own_name),
        ("abi_version", "1".into()),
        ("dev", format!("231:{minor}")),
        (
            "uevent",
            format!("MAJOR=231\nMINOR={minor}\nDEVNAME=infiniband/{verbs}"),
        ),
    ] {
        files.push((format!("infiniband_verbs/{verbs}/{name}"), text));
    }
    files
}

/// Returns the network interfaces of a device, with their indexes.
fn interfaces(device: Device) -> Vec<(String, u32)> {
    let of_ports = device.host_ports().filter_map(link::interface);
    let mut all: Vec<_> = of_ports
        .map(|interface| (interface.name.clone(), interface.index))
        .collect();
    if !link::is_ethernet() && loopback_is_up() {
        // The interface that exists on every host, of all those whose addresses lead to the
        // adapter. Its index in the kernel is 1 (LOOPBACK_IFINDEX).
        all.push(("lo".into(), 1));
    }
    all
}

/// Returns the only NUMA node, or -1 if there are several.
fn numa_node() -> &'static str {
    let nodes = std::fs::read_to_string("/sys/devices/system/node/online");
    match nodes.as_deref().map(str::trim) {
        Ok("0") => "0",
        _ => "-1",
    }
}

/// Returns all processors, as each is local to the device.
fn processors(name: &str) -> Option<String> {
    let list = std::fs::read_to_string("/sys/devices/system/cpu/online").ok()?;
    let list = list.trim();
    match name {
        "local_cpulist" => Some(list.to_owned()),
        _ => mask(list),
    }
}

/// Converts a list of processors such as `0-3,8` to a bitmap of 32-bit words, the highest first.
fn mask(list: &str) -> Option<String> {
    let mut words = vec![0u32];
    for range in list.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        for cpu in first.parse::<usize>().ok()?..=last.parse().ok()? {
            words.resize(words.len().max(cpu / 32 + 1), 0);
            words[cpu / 32] |= 1 << (cpu % 32);
        }
    }
    let words: Vec<_> = words
        .iter()
        .rev()
        .map(|word| format!("{word:08x}"))
        .collect();
    Some(words.join(","))
}

/// Returns the files of one of the host's ports, by path relative to its directory.
fn files_of_port(number: u8, totals: &Totals) -> Vec<(String, String)> {
    let port = device::port_attributes(number);
    let mut files = vec![];
    let mut of_port = |name: &str, text: String| files.push((name.to_owned(), text));
    of_port("lid", format!("{:#x}", port.lid));
    of_port("lid_mask_count", port.lmc.to_string());
    of_port("sm_lid", format!("{:#x}", port.sm_lid));
    of_port("sm_sl", port.sm_sl.to_string());
    let (state, phys_state) = match port.state {
        IBV_PORT_ACTIVE => ("4: ACTIVE", "5: LinkUp"),
        _ => ("1: DOWN", "3: Disabled"),
    };
    of_port("state", state.into());
    of_port("phys_state", phys_state.into());
    of_port("rate", device::rate(number).to_string());
    of_port("cap_mask", format!("{:#010x}", port.port_cap_flags));
    let interface = link::interface(number);
    let (link_layer, kind) = match interface {
        Some(_) => ("Ethernet", "RoCE v2"),
        None => ("InfiniBand", "IB/RoCE v1"),
    };
    of_port("link_layer", link_layer.into());
    for (index, gid) in (0..GIDS).filter_map(|index| Some((index, gid_at(number, index)?))) {
        of_port(&format!("gids/{index}"), format!("{gid:?}"));
        of_port(&format!("gid_attrs/types/{index}"), kind.into());
        if let Some(interface) = interface {
            of_port(&format!("gid_attrs/ndevs/{index}"), interface.name.clone());
        }
    }
    of_port("pkeys/0", format!("{:#06x}", device::PKEY));
    // The adapter counts for all its ports together; the first port shows the counts.
    let none = Totals::new();
    let counted = if number == FIRST_PORT { totals } else { &none };
    for (name, value) in counters::of_port(counted) {
        of_port(&format!("counters/{name}"), value.to_string());
    }
    for (name, value) in counters::of_hardware(counted) {
        of_port(&format!("hw_counters/{name}"), value.to_string());
    }
    files
}

fn loopback_is_up() -> bool {
    std::net::UdpSocket::bind((std::net::Ipv4Addr::LOCALHOST, 0)).is_ok()
}

/// Formats a GUID as in sysfs: four groups of four hexadecimal digits.
fn colons(guid: u64) -> String {
    let mut text = String::new();
    for (i, pair) in guid.to_be_bytes().as_chunks::<2>().0.iter().enumerate() {
        let separator = if i == 0 { "" } else { ":" };
        let _ = write!(text, "{separator}{:02x}{:02x}", pair[0], pair[1]);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_link_resolves() {
        let all = entries(&Totals::new());
        for (path, entry) in &all {
            let Entry::Link(target) = entry else { continue };
            if target.starts_with('/') {
                continue;
            }
            let mut parts: Vec<&str> = path.split('/').collect();
            parts.pop();
            for part in target.split('/') {
                match part {
                    ".." => drop(parts.pop()),
                    name => parts.push(name),
                }
            }
            let place = parts.join("/");
            let below = format!("{place}/");
            let exists = all
                .keys()
                .any(|key| *key == place || key.starts_with(&below));
            assert!(exists, "{path} -> {target}");
        }
    }

    #[test]
    fn cpu_lists_become_masks() {
        assert_eq!(mask("0-3").as_deref(), Some("0000000f"));
        assert_eq!(mask("1,32-33").as_deref(), Some("00000003,00000002"));
        assert_eq!(mask("x"), None);
    }

    #[test]
    fn guids_are_formatted_like_sysfs() {
        assert_eq!(colons(0x0200_1234_5678_9abc), "0200:1234:5678:9abc");
    }

    #[test]
    fn the_network_interface_is_listed_while_it_is_up() {
        let all = entries(&Totals::new());
        let is_there = all.contains_key("devices/platform/verbena.0/net/lo/ifindex");
        assert_eq!(is_there, loopback_is_up());
    }
}
