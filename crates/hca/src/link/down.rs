//! InfiniBand ports that were taken down (`verbena port`). An Ethernet port goes down with its
//! interface.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use super::{PortChange, is_ethernet, ports};
use crate::device::{Device, FIRST_PORT};
use crate::process::socket_message;
use verbena_hca_os::errno::Result;
use verbena_hca_shm::registry::Registry;

/// A bit for each port, the first in the lowest, as this process has last read it.
static DOWN: AtomicU64 = AtomicU64::new(0);

/// Returns whether an InfiniBand port was taken down.
#[inline]
pub fn is_down(port: u8) -> bool {
    DOWN.load(Ordering::Relaxed) & bit(port) != 0
}

/// Returns the bit of a port in the registry's word.
pub fn bit(port: u8) -> u64 {
    1u64.checked_shl(u32::from(port.max(FIRST_PORT) - FIRST_PORT))
        .unwrap_or(0)
}

/// Takes over the registry's word. Returns the changes since the last call, each with its port.
pub fn learn_down(word: u64) -> Vec<(u8, PortChange)> {
    if is_ethernet() {
        return Vec::new();
    }
    let before = DOWN.swap(word, Ordering::Relaxed);
    let changed = |port: &u8| (before ^ word) & bit(*port) != 0;
    let change = |port| match word & bit(port) {
        0 => (port, PortChange::Active),
        _ => (port, PortChange::Down),
    };
    (FIRST_PORT..=ports()).filter(changed).map(change).collect()
}

/// Returns the word of the registry at `directory`; 0 where there is none with a live process.
pub fn now(directory: &Path) -> u64 {
    let word = || {
        let registry = Registry::open_existing(directory).ok()?;
        let word = registry.ports_down().load(Ordering::SeqCst);
        Some((registry, word))
    };
    match word() {
        Some((_, 0)) | None => 0,
        Some((registry, _)) => {
            registry.sweep();
            word().map_or(0, |(_, word)| word)
        }
    }
}

/// Takes the port of an InfiniBand device down or up for all processes of the registry at
/// `directory`. Returns each process with whether it has acknowledged that.
///
/// # Errors
/// ENOENT where no process has made a registry; as [`Registry::open_existing`].
pub fn set(directory: &Path, device: Device, is_down: bool) -> Result<Vec<(u32, Result<()>)>> {
    let registry = Registry::open_existing(directory)?;
    let port = FIRST_PORT + device.index();
    match is_down {
        true => registry.ports_down().fetch_or(bit(port), Ordering::SeqCst),
        false => registry
            .ports_down()
            .fetch_and(!bit(port), Ordering::SeqCst),
    };
    registry.sweep();
    let ask = |(identity, pid)| {
        let asked = registry
            .connect(identity)
            .and_then(|socket| socket_message::ask_to_look_at_ports(&socket));
        // A process that has ended meanwhile needs no port.
        (asked.is_ok() || registry.is_alive(identity)).then_some((pid, asked))
    };
    Ok(registry.processes().into_iter().filter_map(ask).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn port_change_is_reported_once() {
        assert_eq!(
            learn_down(bit(FIRST_PORT)),
            [(FIRST_PORT, PortChange::Down)]
        );
        assert!(is_down(FIRST_PORT));
        assert_eq!(learn_down(bit(FIRST_PORT)), []);
        assert_eq!(learn_down(0), [(FIRST_PORT, PortChange::Active)]);
        assert!(!is_down(FIRST_PORT));
    }
}
