//! Lists the devices of the libibverbs that is loaded, with their attributes and ports:
//!
//! ```text
//! verbena run -- target/debug/examples/devices
//! ```

use std::error::Error;
use verbena_verbs::Library;

fn main() -> Result<(), Box<dyn Error>> {
    for device in Library::system()?.devices()? {
        let context = device.open()?;
        let attributes = context.attributes()?;
        println!("{}, firmware {}", device.name(), attributes.firmware);
        println!(
            "  at most {} queue pairs of {} requests, {} bytes in a region",
            attributes.max_pairs, attributes.max_depth, attributes.max_region_bytes
        );
        let support = |name, has| if has { name } else { "" };
        println!(
            "  supports: {}{}{}",
            support("atomics ", attributes.has_atomics()),
            support("windows ", attributes.has_windows()),
            support("XRC ", attributes.has_xrc())
        );
        for number in 1..=attributes.ports {
            let port = context.port(number)?;
            let gid = context.gid(number, context.routed_gid_index(number)?)?;
            println!(
                "  port {number}: {}, LID {}, MTU {}, {} Mbit/s, GID {gid}",
                if port.active { "active" } else { "down" },
                port.lid,
                port.mtu,
                port.lanes * port.lane_megabits
            );
        }
    }
    Ok(())
}
