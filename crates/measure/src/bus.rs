//! The I/O bus of an adapter, read from sysfs: PCI Express generation, width and peak payload rate.

use crate::bound::Bound;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

/// Bytes of payload in a bus packet (512 is the largest size that hosts commonly allow, because
/// this is an upper bound) and of overhead: framing and sequence number 4, header with a 64-bit
/// address 16, LCRC 4 (PCI Express Base Specification, 2.2, 3.6, 4.2).
const PAYLOAD: f64 = 512.0;
const OVERHEAD: f64 = 24.0;

/// Returns the sysfs directory of a hardware adapter's device.
pub fn directory_of(adapter: &str) -> PathBuf {
    Path::new("/sys/class/infiniband")
        .join(adapter)
        .join("device")
}

/// A PCI Express link.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bus {
    /// Rate per lane in gigatransfers per second.
    pub gigatransfers: f64,
    /// Number of lanes.
    pub lanes: u32,
}

impl Bus {
    /// Reads the bus from a device's sysfs directory (`/sys/class/infiniband/DEVICE/device`);
    /// `None` if the device is not on PCI Express.
    pub fn of(directory: &Path) -> Option<Bus> {
        let read = |name: &str| fs::read_to_string(directory.join(name)).ok();
        let number = |text: String| text.split_whitespace().next()?.parse().ok();
        let gigatransfers = number(read("current_link_speed")?)?;
        let lanes = read("current_link_width")?.trim().parse().ok()?;
        let is_plausible = (2.5..=1024.0).contains(&gigatransfers) && (1..=32).contains(&lanes);
        is_plausible.then_some(Bus {
            gigatransfers,
            lanes,
        })
    }

    /// Returns the generation of the specification that introduced this rate.
    pub fn generation(self) -> u32 {
        let rates = [2.5, 5.0, 8.0, 16.0, 32.0, 64.0];
        let slower = rates.iter().filter(|rate| **rate < self.gigatransfers);
        1 + slower.count() as u32
    }

    /// Returns the peak payload rate in one direction, in bytes per second, after encoding and
    /// packet overhead.
    pub fn bound(self) -> Bound {
        let encoding = match self.generation() {
            1 | 2 => 8.0 / 10.0,
            3..=5 => 128.0 / 130.0,
            // Flits of 256 bytes, of which 236 carry packets.
            _ => 236.0 / 256.0,
        };
        let raw = self.gigatransfers * 1e9 * f64::from(self.lanes) / 8.0 * encoding;
        Bound {
            value: raw * PAYLOAD / (PAYLOAD + OVERHEAD),
            reason: format!("{self}, packets of {PAYLOAD} bytes"),
        }
    }
}

impl fmt::Display for Bus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "PCI Express {}.0, {} lanes of {} GT/s",
            self.generation(),
            self.lanes,
            self.gigatransfers
        )
    }
}

/// Returns the NUMA node nearest to a device, given its sysfs directory; `None` on a host with a
/// single node.
pub fn numa_node(directory: &Path) -> Option<u32> {
    // The kernel writes -1 for "no node", which does not parse.
    let text = fs::read_to_string(directory.join("numa_node")).ok()?;
    text.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(files: &[(&str, &str)], test: impl FnOnce(&Path)) {
        static NEXT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let number = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let name = format!("verbena-bus-{}-{number}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        fs::create_dir_all(&directory).unwrap();
        for (file, text) in files {
            fs::write(directory.join(file), text).unwrap();
        }
        test(&directory);
        fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn generation_and_width_are_read() {
        let files = [
            ("current_link_speed", "8.0 GT/s PCIe\n"),
            ("current_link_width", "8\n"),
            ("numa_node", "1\n"),
        ];
        with(&files, |directory| {
            let bus = Bus::of(directory).unwrap();
            assert_eq!(bus.to_string(), "PCI Express 3.0, 8 lanes of 8 GT/s");
            // 64 Gbit/s, less 1.5 % for encoding and 4.5 % for packet overhead.
            assert!(
                (bus.bound().value / 1e9 - 7.52).abs() < 0.01,
                "{:?}",
                bus.bound()
            );
            assert_eq!(numa_node(directory), Some(1));
        });
        // The format of older kernels.
        let files = [
            ("current_link_speed", "2.5 GT/s"),
            ("current_link_width", "8"),
        ];
        with(&files, |directory| {
            let bus = Bus::of(directory).unwrap();
            assert_eq!(bus.generation(), 1);
            assert!(
                (bus.bound().value / 1e9 - 1.91).abs() < 0.01,
                "{:?}",
                bus.bound()
            );
        });
    }

    #[test]
    fn devices_without_pci_attributes_have_no_bus() {
        with(&[("numa_node", "-1\n")], |directory| {
            assert_eq!(Bus::of(directory), None);
            assert_eq!(numa_node(directory), None);
        });
        for (speed, width) in [
            ("Unknown", "8"),
            ("8.0 GT/s", "0"),
            ("8.0 GT/s", "255"),
            ("NaN GT/s", "8"),
            ("", ""),
        ] {
            with(
                &[("current_link_speed", speed), ("current_link_width", width)],
                |directory| {
                    assert_eq!(Bus::of(directory), None, "{speed} {width}");
                },
            );
        }
    }
}
