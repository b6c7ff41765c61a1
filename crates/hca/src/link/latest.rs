//! The interface as it is now. Whoever has looked may hold what he saw for as long as he likes, so nothing is given back;
//! but each state is kept once, so that a link that comes and goes takes no more memory each time.

use super::interface::Interface;
use crate::sys::interfaces::Description;
use std::fmt;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Mutex, PoisonError};

/// What has changed about a port (specification 11.6.3.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// It can be used now.
    Active,
    /// It cannot any more.
    Down,
    /// Its GID table is another.
    Gids,
}

/// The interface, which changes.
pub struct Latest {
    now: AtomicPtr<Interface>,
    seen: Mutex<Vec<&'static Interface>>,
}

impl Latest {
    /// As it is found first.
    pub fn new(interface: Interface) -> Latest {
        let first: &'static Interface = Box::leak(Box::new(interface));
        Latest {
            now: AtomicPtr::new(ptr::from_ref(first).cast_mut()),
            seen: Mutex::new(vec![first]),
        }
    }

    /// As it is now.
    #[inline]
    pub fn get(&self) -> &'static Interface {
        // SAFETY: only references that last for ever are stored there, and nobody writes through them.
        unsafe { &*self.now.load(Ordering::Acquire) }
    }

    /// Takes what the system says of all interfaces. Returns what that has changed.
    pub fn learn(&self, all: &[Description]) -> Vec<Change> {
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
            (false, true) => changes.push(Change::Active),
            (true, false) => changes.push(Change::Down),
            _ => (),
        }
        if before.gids() != now.gids() {
            changes.push(Change::Gids);
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
    fn changes_are_told_once_and_states_kept_once() {
        let up = description("eth0", &["10.0.0.1", "fe80::1"]);
        let latest = Latest::new(Interface::of(&up).unwrap());
        assert_eq!(latest.learn(std::slice::from_ref(&up)), []);
        let mut down = up.clone();
        down.is_running = false;
        down.addresses.pop();
        for _ in 0..3 {
            assert_eq!(
                latest.learn(std::slice::from_ref(&down)),
                [Change::Down, Change::Gids]
            );
            assert!(!latest.get().is_running);
            assert_eq!(latest.learn(std::slice::from_ref(&down)), []);
            assert_eq!(
                latest.learn(std::slice::from_ref(&up)),
                [Change::Active, Change::Gids]
            );
        }
        assert_eq!(latest.seen.lock().unwrap().len(), 2);
        assert_eq!(latest.learn(&[]), [Change::Down, Change::Gids]);
        assert_eq!(latest.get().gids(), []);
    }
}
