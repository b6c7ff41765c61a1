//! Membership in the host's registry, and the queue pair numbers that the process has from there.

use crate::process::numbers::Numbers;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use verbena_hca_os::clock;
use verbena_hca_os::errno::{Errno, Result};
use verbena_hca_os::socket::Socket;
use verbena_hca_shm::registry::{BLOCK, Identity, Registry};

/// This process's membership in the host's registry.
pub struct Member {
    /// The registry.
    pub registry: Registry,
    /// This process's identity.
    pub identity: Identity,
    /// The socket that peers connect to.
    pub listener: Socket,
}

/// Membership in the host's registry.
pub(crate) struct Membership {
    member: OnceLock<Member>,
    joining: Mutex<()>,
    numbers: Mutex<Numbers>,
    next_incarnation: AtomicU32,
}

impl Default for Membership {
    fn default() -> Membership {
        let first = std::process::id().rotate_left(16) ^ clock::now() as u32;
        Membership {
            member: OnceLock::new(),
            joining: Mutex::default(),
            numbers: Mutex::default(),
            next_incarnation: AtomicU32::new(first),
        }
    }
}

impl Membership {
    /// Returns the membership, if the process has joined.
    #[inline]
    pub(crate) fn get(&self) -> Option<&Member> {
        self.member.get()
    }

    /// Keeps other threads from joining meanwhile.
    pub(super) fn begin_joining(&self) -> MutexGuard<'_, ()> {
        self.joining.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn set(&self, member: Member) -> &Member {
        self.member.get_or_init(|| member)
    }

    /// Returns the process that owns a queue pair number, if there is one.
    pub(crate) fn owner(&self, number: u32) -> Option<Identity> {
        self.get()?.registry.owner(number)
    }

    /// Returns an unused number; `allocate_block` allocates a block of them.
    ///
    /// # Errors
    /// ENOMEM when all numbers are in use; as `allocate_block`.
    pub(super) fn allocate_number(
        &self,
        allocate_block: impl FnOnce() -> Result<u32>,
    ) -> Result<u32> {
        let mut numbers = self.numbers();
        if let Some(number) = numbers.take(clock::now()) {
            return Ok(number);
        }
        match allocate_block() {
            Ok(first) => numbers.add(first..first + BLOCK),
            Err(error) => return numbers.take_early().ok_or(error),
        }
        numbers.take(clock::now()).ok_or(Errno::ENOMEM)
    }

    /// Releases a number. It is not used again for a time, so that late messages to it are dropped.
    pub(crate) fn release_number(&self, number: u32) {
        self.numbers().give_back(number, clock::now());
    }

    /// Returns the incarnation of a new queue pair, different from all earlier ones of this
    /// process.
    pub(crate) fn next_incarnation(&self) -> u32 {
        self.next_incarnation.fetch_add(1, Ordering::Relaxed)
    }

    fn numbers(&self) -> MutexGuard<'_, Numbers> {
        self.numbers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
