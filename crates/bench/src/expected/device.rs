//! Identifies the system of a measured adapter by its part number and link.

use std::collections::BTreeMap;
use verbena_model::profile::Library;

/// Vendor ids of Mellanox and NVIDIA adapters: IEEE and PCI.
const VENDORS: [&str; 2] = ["0x02c9", "0x15b3"];
/// Part numbers and the adapters' profiles. Source: the PCI ID repository, devices of 15b3, with
/// their virtual functions.
const PARTS: [(u32, &str); 18] = [
    (0x5a44, "infinihost"),
    (0x6278, "infinihost3-mem"),
    (0x6282, "infinihost3-memfree"),
    (0x6274, "infinihost3-memfree"),
    (0x634a, "connectx"),
    (0x6732, "connectx"),
    (0x673c, "connectx-2009"),
    (0x1003, "connectx3"),
    (0x1013, "connectx4"),
    (0x1014, "connectx4"),
    (0x1015, "connectx4lx"),
    (0x1016, "connectx4lx"),
    (0x1017, "connectx5"),
    (0x1018, "connectx5"),
    (0x101b, "connectx6"),
    (0x101c, "connectx6"),
    (0x101d, "connectx6dx"),
    (0x1021, "connectx7"),
];
/// Largest relative difference between rates of the same link type: EDR is 25.78 or 25 Gbit/s per
/// lane.
const SAME_RATE: f64 = 0.05;

/// A run's description of the measured adapter.
#[derive(Debug, PartialEq)]
struct Device {
    adapter: &'static str,
    is_ethernet: bool,
    /// Bytes per second.
    rate: f64,
}

/// Returns the system with the adapter and link described by a run.
///
/// # Errors
///
/// States why no single system matches.
pub fn system<'a>(
    library: &'a Library,
    fabric: &str,
    known: &BTreeMap<String, String>,
) -> Result<&'a str, String> {
    match fabric {
        "hardware" => {}
        "import" => return Err("the output does not name its adapter".to_owned()),
        _ => return Err("no hardware adapter was measured".to_owned()),
    }
    let device = device(known)?;
    let is_it = |name: &&str| {
        let system = library.system(name);
        let names = library.system_names(name);
        names.is_ok_and(|names| names.adapter == device.adapter)
            && system.is_ok_and(|system| {
                if !system.has_verbs() {
                    return false;
                }
                let rate = system.link.rate.0;
                let is_ethernet = system.link.about.contains("Ethernet");
                is_ethernet == device.is_ethernet && (device.rate / rate - 1.0).abs() < SAME_RATE
            })
    };
    let found: Vec<&str> = library.systems().filter(is_it).collect();
    // `connectx-qdr` is the plain variant of `connectx-qdr-fibre` and others.
    let plain = found.iter().min_by_key(|name| name.len());
    match plain {
        None => Err(format!(
            "no known system has the adapter {} at {:.0} Gbit/s",
            device.adapter,
            device.rate * 8.0 / 1e9
        )),
        Some(plain) if found.iter().all(|name| name.starts_with(plain)) => Ok(plain),
        Some(_) => Err(format!("it may be any of {}", found.join(", "))),
    }
}

/// Parses the description written by [`crate::adapter`].
fn device(known: &BTreeMap<String, String>) -> Result<Device, String> {
    let part = known.get("part").map_or("", String::as_str);
    let number = part
        .split_once(':')
        .filter(|(vendor, _)| VENDORS.contains(vendor));
    let number = number.and_then(|(_, part)| part.parse::<u32>().ok());
    let adapter = PARTS.iter().find(|(one, _)| Some(*one) == number);
    let Some((_, adapter)) = adapter else {
        return Err(match part {
            "" => "the run lacks the part number of its adapter".to_owned(),
            part => format!("no known system has an adapter with part number {part}"),
        });
    };
    // Format: "200 Gb/s, 4 lanes".
    let rate = known.get("rate").and_then(|rate| rate.split(' ').next());
    let rate = rate.and_then(|rate| rate.parse::<f64>().ok());
    Ok(Device {
        adapter,
        is_ethernet: known.get("link").is_some_and(|link| link == "Ethernet"),
        rate: rate.ok_or("the run lacks the rate of its link")? * 1e9 / 8.0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use verbena_model::profile::Overrides;

    fn found(part: &str, link: &str, rate: &str) -> Result<String, String> {
        let library = Library::shipped(&Overrides::none()).expect("shipped profiles are sound");
        let known = [("part", part), ("link", link), ("rate", rate)];
        let known = known.map(|(name, value)| (name.to_owned(), value.to_owned()));
        system(&library, "hardware", &known.into()).map(str::to_owned)
    }

    #[test]
    fn parts_and_links_make_a_system() {
        for (part, link, rate, name) in [
            (
                "0x02c9:4123",
                "InfiniBand",
                "200 Gb/s, 4 lanes",
                "connectx6-hdr",
            ),
            (
                "0x02c9:4124",
                "InfiniBand",
                "200 Gb/s, 4 lanes",
                "connectx6-hdr",
            ),
            (
                "0x02c9:4119",
                "InfiniBand",
                "100 Gb/s, 4 lanes",
                "connectx5-edr",
            ),
            (
                "0x02c9:4119",
                "Ethernet",
                "100 Gb/s, 4 lanes",
                "connectx5-100gbe",
            ),
            (
                "0x02c9:4117",
                "Ethernet",
                "25 Gb/s, 1 lane",
                "connectx4lx-25gbe",
            ),
            (
                "0x15b3:4129",
                "InfiniBand",
                "400 Gb/s, 4 lanes",
                "connectx7-ndr",
            ),
            (
                "0x02c9:26428",
                "InfiniBand",
                "32 Gb/s, 4 lanes",
                "connectx-qdr",
            ),
        ] {
            assert_eq!(found(part, link, rate).as_deref(), Ok(name), "{part}");
        }
    }

    #[test]
    fn unknown_parts_and_rates_are_named() {
        let failed = |part, rate| found(part, "InfiniBand", rate).unwrap_err();
        assert!(failed("0x8086:5522", "100 Gb/s, 4 lanes").contains("0x8086:5522"));
        assert!(failed("", "100 Gb/s").contains("lacks the part number"));
        assert!(failed("0x02c9:4123", "").contains("lacks the rate"));
        assert!(failed("0x02c9:4123", "10 Gb/s, 1 lanes").contains("connectx6 at 10 Gbit/s"));
        assert!(failed("0x02c9:23108", "8 Gb/s, 4 lanes").contains("infinihost-xeon"));
        let library = Library::shipped(&Overrides::none()).expect("shipped profiles are sound");
        assert!(system(&library, "software", &BTreeMap::new()).is_err());
    }

    #[test]
    fn each_adapter_s_own_part_is_known() {
        let library = Library::shipped(&Overrides::none()).expect("shipped profiles are sound");
        for name in library.systems() {
            let adapter = &library.system_names(name).expect("sound").adapter;
            let system = library.system(name).expect("sound");
            let device = system
                .adapter
                .device
                .as_ref()
                .expect("shipped adapters have one");
            let known = PARTS.iter().find(|(part, _)| *part == device.part);
            assert_eq!(known.map(|(_, adapter)| *adapter), Some(adapter.as_str()));
        }
    }

    #[test]
    fn every_part_is_a_profile() {
        let library = Library::shipped(&Overrides::none()).expect("shipped profiles are sound");
        let adapters: Vec<String> = library
            .systems()
            .filter_map(|name| Some(library.system_names(name).ok()?.adapter.clone()))
            .collect();
        for (part, adapter) in PARTS {
            assert!(adapters.iter().any(|one| one == adapter), "{part:#x}");
        }
    }
}
