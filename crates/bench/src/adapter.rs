//! Describes a measured adapter and its port for the record (rule 19), so that a figure can later
//! be attributed.

use crate::host::Host;
use crate::resolved::Resolved;
use std::collections::BTreeMap;
use std::fs;
use verbena_measure::bus::{Bus, directory_of, numa_node};
use verbena_verbs::{Context, Library, Result};

/// Returns the adapter's attributes, as far as it reports them.
pub fn describe(
    host: &dyn Host,
    target: &Resolved,
    gid_index: Option<u8>,
) -> BTreeMap<String, String> {
    if !target.is_adapter() {
        return BTreeMap::new();
    }
    let ask = || -> Result<BTreeMap<String, String>> {
        let device = Library::open(&target.library)?.device(Some(target.device()))?;
        of_port(target, gid_index, &*device.open()?)
    };
    // An adapter that cannot be opened cannot be measured either, and the measurement reports the
    // reason.
    let mut known = ask().unwrap_or_default();
    known.extend(library().map(|path| ("libibverbs".to_owned(), path)));
    let directory = directory_of(target.device());
    if target.kind == "hardware" {
        let bus = Bus::of(&directory).map(|bus| bus.to_string());
        known.extend(bus.map(|bus| ("bus".to_owned(), bus)));
        let node = numa_node(&directory).map(|node| node.to_string());
        known.extend(node.map(|node| ("NUMA node of the adapter".to_owned(), node)));
    }
    if target.kind == "software" {
        // The port must state a rate, but is not limited to it.
        known.remove("rate");
        let interfaces = target
            .ports
            .iter()
            .filter_map(|port| host.interface(port.number));
        let names: Vec<String> = interfaces.collect();
        let link = match names.is_empty() {
            false => format!("Ethernet, {}", names.join(", ")),
            true => "memory of this host".to_owned(),
        };
        known.insert("link".to_owned(), link);
        let forced = std::env::var("VERBENA_PATH").ok();
        known.extend(forced.map(|path| ("path".to_owned(), path)));
    }
    known
}

fn of_port(
    target: &Resolved,
    gid_index: Option<u8>,
    context: &Context,
) -> Result<BTreeMap<String, String>> {
    let attributes = context.attributes()?;
    let port = context.port(target.port())?;
    let index = gid_index.map_or_else(|| context.routed_gid_index(target.port()), Ok)?;
    let gid = context.gid(target.port(), index)?;
    let kind = context.gid_kind(target.port(), index);
    let kind = kind.map_or(String::new(), |kind| format!(", {kind}"));
    let layer = if port.ethernet {
        "Ethernet"
    } else {
        "InfiniBand"
    };
    let gigabits = f64::from(port.lanes) * f64::from(port.lane_megabits) / 1e3;
    let device: Vec<String> = target.ports.iter().map(ToString::to_string).collect();
    let device = device.join(", ");
    let known = [
        ("device", device),
        (
            "part",
            format!("{:#06x}:{}", attributes.vendor, attributes.part),
        ),
        ("firmware", attributes.firmware),
        ("link", layer.to_owned()),
        ("rate", format!("{gigabits} Gb/s, {} lanes", port.lanes)),
        ("MTU", format!("{} B", port.mtu)),
        ("GID", format!("{gid} (index {index}{kind})")),
    ];
    let known = known.into_iter().filter(|(_, value)| !value.is_empty());
    Ok(known
        .map(|(name, value)| (name.to_owned(), value))
        .collect())
}

/// Returns the path of the loaded libibverbs; its file name includes the version.
fn library() -> Option<String> {
    let maps = fs::read_to_string("/proc/self/maps").ok()?;
    let paths = maps
        .lines()
        .filter_map(|line| line.find('/').map(|at| &line[at..]));
    let mut found = paths.filter(|path| path.contains("/libibverbs.so"));
    found.next().map(str::to_owned)
}
