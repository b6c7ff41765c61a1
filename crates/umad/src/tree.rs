//! The files of sysfs of a node, as drivers of the kernel show them. Formats: the kernel's
//! `Documentation/ABI/stable/sysfs-class-infiniband`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use verbena_fabric_protocol::rate::Rate;
use verbena_subnet::attribute::counters::Counter;
use verbena_subnet::attribute::port_info;
use verbena_subnet::{Kind, Node, Port};

use crate::adapters::speed;

/// Names of the classes of devices that a node has.
pub const CLASSES: [&str; 2] = ["infiniband", "infiniband_mad"];
/// Name of the device: that of the software adapter.
pub const DEVICE: &str = "verbena0";
/// Version of the interface that libibumad expects.
const ABI: &str = "5";
/// Partition keys that are shown.
const P_KEYS: u16 = 128;
/// Device number of the first issm.
const FIRST_ISSM: u32 = 64;

/// Files with their content, by path below a directory.
pub type Entries = BTreeMap<String, String>;

/// The files of a tree, with their content as last written.
#[derive(Debug, Default)]
pub struct Tree {
    root: PathBuf,
    written: Entries,
}

/// Writes a new file in the place of any other; never through a link.
///
/// # Errors
///
/// Fails if the old one cannot be removed, or the new one cannot be written.
pub(crate) fn write_new(path: &Path, text: &str) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = fs::File::create_new(path)?;
    file.write_all(text.as_bytes())
}

impl Tree {
    /// Returns an empty tree in a directory.
    pub fn new(root: &Path) -> Tree {
        Tree {
            root: root.to_owned(),
            written: BTreeMap::new(),
        }
    }

    /// Writes the files of a node that have changed.
    ///
    /// # Errors
    ///
    /// Fails if a file cannot be written.
    pub fn update(&mut self, node: &Node) -> io::Result<()> {
        let new = entries(node);
        if self.written.is_empty() {
            self.make_nodes(&new)?;
        }
        self.write(new)
    }

    /// Writes the files that have changed, and removes those that are not among the new ones.
    ///
    /// # Errors
    ///
    /// Fails if a file cannot be written.
    pub fn write(&mut self, new: Entries) -> io::Result<()> {
        for (path, text) in &new {
            let known = self.written.get(path);
            if known == Some(text) {
                continue;
            }
            let file = self.root.join(path);
            if known.is_none()
                && let Some(directory) = file.parent()
            {
                fs::create_dir_all(directory)?;
            }
            // Replaced whole, since programs read it meanwhile.
            let scratch = self.root.join(".scratch");
            write_new(&scratch, text)?;
            fs::rename(&scratch, &file)?;
        }
        for path in self.written.keys().filter(|path| !new.contains_key(*path)) {
            fs::remove_file(self.root.join(path))?;
        }
        self.written = new;
        Ok(())
    }

    /// Returns whether all files are there.
    pub fn is_complete(&self) -> bool {
        self.written
            .keys()
            .all(|path| self.root.join(path).exists())
    }

    /// Continues in another directory, to which the files were moved.
    pub fn moved(&mut self, root: &Path) {
        self.root = root.to_owned();
    }

    /// Makes the device nodes: links to a file that may be opened, as the shim opens the real ones.
    fn make_nodes(&self, files: &Entries) -> io::Result<()> {
        let directory = self.root.join("dev/infiniband");
        fs::create_dir_all(&directory)?;
        let own = files.keys().filter_map(|path| {
            path.strip_prefix("class/infiniband_mad/")?
                .strip_suffix("/port")
        });
        for name in own.chain(["rdma_cm", "uverbs0", DEVICE]) {
            match std::os::unix::fs::symlink("/dev/null", directory.join(name)) {
                // An earlier attempt failed later on.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                made => made?,
            }
        }
        Ok(())
    }
}

/// Returns the files of a node, by path below `/sys` or, for device nodes, below `/`.
pub fn entries(node: &Node) -> Entries {
    let mut all = BTreeMap::new();
    let mut add = |path: String, text: String| {
        all.insert(path, format!("{text}\n"));
    };
    let mad = "class/infiniband_mad";
    add(format!("{mad}/abi_version"), ABI.into());
    let device = format!("class/infiniband/{DEVICE}");
    let kind = match node.kind {
        Kind::Adapter => "1: CA",
        Kind::Switch => "2: switch",
        Kind::Router => "3: router",
    };
    for (name, text) in [
        ("node_type", kind.to_owned()),
        ("node_guid", colons(node.guid)),
        ("sys_image_guid", colons(node.system_guid)),
        ("node_desc", node.text()),
        ("fw_ver", "0.0.0".to_owned()),
        ("hw_rev", "a0".to_owned()),
        ("hca_type", format!("MT{}", node.device)),
        ("board_id", "VERBENA_FABRIC".to_owned()),
    ] {
        add(format!("{device}/{name}"), text);
    }
    let ports = node
        .numbered()
        .take_while(|(number, _)| node.kind != Kind::Switch || *number == 0);
    for (index, (number, port)) in (0u32..).zip(ports) {
        for (class, first) in [("umad", 0), ("issm", FIRST_ISSM)] {
            let directory = format!("{mad}/{class}{index}");
            add(format!("{directory}/ibdev"), DEVICE.into());
            add(format!("{directory}/port"), number.to_string());
            add(format!("{directory}/dev"), format!("231:{}", first + index));
        }
        for (name, text) in of_port(port) {
            add(format!("{device}/ports/{number}/{name}"), text);
        }
    }
    all
}

/// Returns the files of a port, by path below its directory.
fn of_port(port: &Port) -> Vec<(String, String)> {
    let info = &port.info;
    let mut all = Vec::new();
    let mut add = |name: &str, text: String| all.push((name.to_owned(), text));
    let state = match port.state() {
        port_info::state::INIT => "2: INIT",
        port_info::state::ARMED => "3: ARMED",
        port_info::state::ACTIVE => "4: ACTIVE",
        _ => "1: DOWN",
    };
    let physical = match port_info::PHYSICAL_STATE.get(info) {
        1 => "1: Sleep",
        port_info::physical::DISABLED => "3: Disabled",
        port_info::physical::LINK_UP => "5: LinkUp",
        _ => "2: Polling",
    };
    add("lid", format!("{:#x}", port.lid()));
    add("lid_mask_count", port.lmc().to_string());
    add("sm_lid", format!("{:#x}", port_info::SM_LID.get(info)));
    add("sm_sl", port_info::SM_SL.get(info).to_string());
    add("state", state.into());
    add("phys_state", physical.into());
    add("rate", rate(port));
    add(
        "cap_mask",
        format!("{:#010x}", port_info::CAPABILITIES.get(info)),
    );
    add("link_layer", "InfiniBand".into());
    let prefix = colons(port_info::GID_PREFIX.get(info));
    for index in 0..port_info::GUID_CAP.get(info) as usize {
        let guid = colons(port.guid_at(index));
        add(&format!("gids/{index}"), format!("{prefix}:{guid}"));
    }
    for index in 0..P_KEYS {
        add(
            &format!("pkeys/{index}"),
            format!("{:#06x}", port.p_key(index)),
        );
    }
    for (name, counter) in COUNTERS {
        add(
            &format!("counters/{name}"),
            port.counters.get(counter).to_string(),
        );
    }
    all
}

/// Files of `counters`.
pub(crate) const COUNTERS: [(&str, Counter); 21] = [
    ("VL15_dropped", Counter::Vl15Dropped),
    ("excessive_buffer_overrun_errors", Counter::BufferOverruns),
    ("link_downed", Counter::LinkDowned),
    ("link_error_recovery", Counter::LinkRecoveries),
    ("local_link_integrity_errors", Counter::LocalIntegrity),
    ("multicast_rcv_packets", Counter::MulticastReceive),
    ("multicast_xmit_packets", Counter::MulticastTransmit),
    ("port_rcv_constraint_errors", Counter::ReceiveConstraint),
    ("port_rcv_data", Counter::ReceiveData),
    ("port_rcv_errors", Counter::ReceiveErrors),
    ("port_rcv_packets", Counter::ReceivePackets),
    (
        "port_rcv_remote_physical_errors",
        Counter::RemotePhysicalErrors,
    ),
    ("port_rcv_switch_relay_errors", Counter::SwitchRelayErrors),
    ("port_xmit_constraint_errors", Counter::TransmitConstraint),
    ("port_xmit_data", Counter::TransmitData),
    ("port_xmit_discards", Counter::Discards),
    ("port_xmit_packets", Counter::TransmitPackets),
    ("port_xmit_wait", Counter::TransmitWait),
    ("symbol_error", Counter::SymbolErrors),
    ("unicast_rcv_packets", Counter::UnicastReceive),
    ("unicast_xmit_packets", Counter::UnicastTransmit),
];

/// Returns the text of `rate`: `40 Gb/sec (4X QDR)`.
fn rate(port: &Port) -> String {
    let width = port_info::WIDTH_ACTIVE.get(&port.info);
    let rate = Rate {
        speed: speed(port),
        width: u8::try_from(width).unwrap_or_default(),
    };
    rate.to_string()
}

/// Formats a GUID as in sysfs: four groups of four hexadecimal digits.
fn colons(guid: u64) -> String {
    let mut text = String::new();
    for part in 0..4 {
        let separator = if part == 0 { "" } else { ":" };
        let _ = write!(text, "{separator}{:04x}", guid >> (48 - 16 * part) & 0xffff);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_has_files_for_its_port() {
        let fabric = verbena_subnet::build(&verbena_subnet::small()).unwrap();
        let all = entries(&fabric.nodes[1]);
        let port = "class/infiniband/verbena0/ports/1";
        assert_eq!(all[&format!("{port}/rate")], "200 Gb/sec (4X HDR)\n");
        assert_eq!(all[&format!("{port}/state")], "2: INIT\n");
        assert_eq!(all[&format!("{port}/lid")], "0x2\n");
        let gid = "fe80:0000:0000:0000:0002:0000:0000:0201\n";
        assert_eq!(all[&format!("{port}/gids/0")], gid);
        assert_eq!(all["class/infiniband_mad/issm0/dev"], "231:64\n");
        assert!(!all.contains_key("class/infiniband_mad/umad1/port"));
    }

    #[test]
    fn the_rate_of_xdr_is_that_of_linux() {
        let text = verbena_subnet::SMALL.replace("4xHDR", "4xXDR");
        let topology = verbena_topology::read(text.as_bytes()).unwrap();
        let all = entries(&verbena_subnet::build(&topology).unwrap().nodes[1]);
        let port = "class/infiniband/verbena0/ports/1";
        assert_eq!(all[&format!("{port}/rate")], "800 Gb/sec (4X XDR)\n");
    }

    #[test]
    fn a_switch_has_files_for_port_0_alone() {
        let fabric = verbena_subnet::build(&verbena_subnet::small()).unwrap();
        let all = entries(&fabric.nodes[0]);
        assert!(all.contains_key("class/infiniband/verbena0/ports/0/lid"));
        assert!(!all.contains_key("class/infiniband/verbena0/ports/1/lid"));
    }
}
