//! InfiniBand ports that were taken down (`verbena port`), and an adapter that has failed by a
//! rule. An Ethernet port goes down with its interface.

use super::{FIRST_PORT, PortChange, is_ethernet, ports};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// A bit for each port that is down, the first in the lowest.
static DOWN: AtomicU64 = AtomicU64::new(0);

/// The process whose adapter has failed; 0 for none. A child of fork(2) has another adapter.
static FAILED: AtomicU32 = AtomicU32::new(0);

/// The causes of [`DOWN`], which is changed under this lock.
static CAUSES: Mutex<Causes> = Mutex::new(Causes {
    registry: 0,
    planted: 0,
    inactive: 0,
});

struct Causes {
    /// The registry's word, as this process has last read it.
    registry: u64,
    /// The ports that a rule has taken down in this process.
    planted: u64,
    /// The ports that are not active on the fabric.
    inactive: u64,
}

/// Changes the causes. Returns the ports that were down before, and those that are now.
fn change(action: impl FnOnce(&mut Causes)) -> (u64, u64) {
    let mut causes = CAUSES.lock().unwrap_or_else(PoisonError::into_inner);
    action(&mut causes);
    let now = causes.registry | causes.planted | causes.inactive;
    (DOWN.swap(now, Ordering::Relaxed), now)
}

/// Returns whether an InfiniBand port was taken down.
#[inline]
pub fn is_down(port: u8) -> bool {
    DOWN.load(Ordering::Relaxed) & bit(port) != 0
}

/// Takes an InfiniBand port of this process alone down or up, for a rule. Returns whether it is
/// down now.
pub fn plant_down(port: u8, is_down: bool) -> bool {
    let (_, now) = change(|causes| match is_down {
        true => causes.planted |= bit(port),
        false => causes.planted &= !bit(port),
    });
    now & bit(port) != 0
}

/// Has the adapter of this process fail, for a rule: all InfiniBand ports are down for good.
pub fn plant_failure() {
    FAILED.store(std::process::id(), Ordering::Relaxed);
    change(|causes| causes.planted = u64::MAX);
}

/// Returns whether the adapter of this process has failed.
#[inline]
pub fn has_failed() -> bool {
    match FAILED.load(Ordering::Relaxed) {
        0 => false,
        process => process == std::process::id(),
    }
}

/// Forgets all that rules have done to the ports, for a child of fork(2), whose rules begin anew.
pub fn forget_planted() {
    FAILED.store(0, Ordering::Relaxed);
    change(|causes| causes.planted = 0);
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
    changes(change(|causes| causes.registry = word))
}

/// Takes over the ports that are not active on the fabric when the process joins it.
pub(super) fn begin_inactive(word: u64) {
    change(|causes| causes.inactive = word);
}

/// Takes over the ports that are not active on the fabric. Returns the changes since the last call,
/// each with its port.
pub fn learn_inactive(word: u64) -> Vec<(u8, PortChange)> {
    changes(change(|causes| causes.inactive = word))
}

/// Returns the ports that have changed.
fn changes((before, now): (u64, u64)) -> Vec<(u8, PortChange)> {
    let changed = |port: &u8| (before ^ now) & bit(*port) != 0;
    let change = |port| match now & bit(port) {
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
        assert!(plant_down(FIRST_PORT, true));
        assert_eq!(learn_down(0), []);
        assert_eq!(learn_down(bit(FIRST_PORT)), []);
        assert!(plant_down(FIRST_PORT, false));
        assert_eq!(learn_down(0), [(FIRST_PORT, PortChange::Active)]);
        assert!(!is_down(FIRST_PORT));
    }
}
