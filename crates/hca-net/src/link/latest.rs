//! The present state of an interface. Callers may keep a reference to any state, so none is ever
//! freed; but each distinct state is stored once, so that an interface that changes back and forth
//! takes no more memory each time.

use super::interface::Interface;
use std::fmt;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Mutex, PoisonError};
use verbena_hca_os::interfaces::Description;

/// A change of a port (specification 11.6.3.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PortChange {
    /// It became active.
    Active,
    /// It went down.
    Down,
    /// Its GID table changed.
    Gids,
    /// Its LID changed.
    Lid,
    /// Its partition keys changed.
    PKeys,
    /// The subnet manager changed.
    Manager,
    /// The subnet manager asks programs to register again.
    Reregister,
}

/// An interface, which changes.
pub struct Latest {
    now: AtomicPtr<Interface>,
    seen: Mutex<Vec<&'static Interface>>,
}

impl Latest {
    /// Returns the interface in its first state.
    pub fn new(interface: Interface) -> Latest {
        let first: &'static Interface = Box::leak(Box::new(interface));
        Latest {
            now: AtomicPtr::new(ptr::from_ref(first).cast_mut()),
            seen: Mutex::new(vec![first]),
        }
    }

    /// Returns its present state.
    #[inline]
    pub fn get(&self) -> &'static Interface {
        // SAFETY: only references to leaked, immutable states are stored there.
        unsafe { &*self.now.load(Ordering::Acquire) }
    }

    /// Takes over the system's description of all interfaces. Returns the changes.
    pub fn learn(&self, all: &[Description]) -> Vec<PortChange> {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let before = self.get();
        let now = before.successor(all);
        let now = match seen.iter().find(|known| ***known == now) {
            Some(known) => *known,
            None => {
                seen.push(Box::leak(Box::new(now)));
                seen[seen.len() - 1]
            }
        };
        self.now
            .store(ptr::from_ref(now).cast_mut(), Ordering::Release);
        let mut changes = Vec::new();
        match (before.is_running, now.is_running) {
            (false, true) => changes.push(PortChange::Active),
            (true, false) => changes.push(PortChange::Down),
            _ => (),
        }
        if before.gids() != now.gids() {
            changes.push(PortChange::Gids);
        }
        changes
    }
}

impl fmt::Debug for Latest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.get().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::interface::tests::description;

    #[test]
    fn change_is_reported_once_and_state_kept_once() {
        let up = description("eth0", &["10.0.0.1", "fe80::1"]);
        let latest = Latest::new(Interface::of(&up).unwrap());
        assert_eq!(latest.learn(std::slice::from_ref(&up)), []);
        let mut down = up.clone();
        down.is_running = false;
        down.addresses.pop();
        for _ in 0..3 {
            assert_eq!(
                latest.learn(std::slice::from_ref(&down)),
                [PortChange::Down, PortChange::Gids]
            );
            assert!(!latest.get().is_running);
            assert_eq!(latest.learn(std::slice::from_ref(&down)), []);
            assert_eq!(
                latest.learn(std::slice::from_ref(&up)),
                [PortChange::Active, PortChange::Gids]
            );
        }
        assert_eq!(latest.seen.lock().unwrap().len(), 2);
        assert_eq!(latest.learn(&[]), [PortChange::Down, PortChange::Gids]);
        assert_eq!(latest.get().gids(), []);
    }
}
