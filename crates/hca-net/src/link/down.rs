//! InfiniBand ports that were taken down (`verbena port`). An Ethernet port goes down with its
//! interface.

use super::{FIRST_PORT, PortChange, is_ethernet, ports};
use std::sync::atomic::{AtomicU64, Ordering};

/// A bit for each port, the first in the lowest, as this process has last read it.
static DOWN: AtomicU64 = AtomicU64::new(0);

/// Returns whether an InfiniBand port was taken down.
#[inline]
pub fn is_down(port: u8) -> bool {
    DOWN.load(Ordering::Relaxed) & bit(port) != 0
}

/// Returns the bit of a port in the registry's word.
#[inline]
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
