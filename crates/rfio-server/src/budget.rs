//! Memory budget of sessions, bounded in total and per user: data read past the cache, data
//! received for a file, and cache blocks that cannot be reused while they are being sent.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};

/// The bounds.
#[derive(Debug, Clone, Copy)]
pub struct BudgetBounds {
    /// Bytes outside the cache, for all users.
    pub bytes: usize,
    /// Of those, for one user.
    pub bytes_per_user: usize,
    /// Bytes of cached blocks being sent to one user.
    pub pinned_per_user: usize,
}

/// The memory of a service.
#[derive(Debug)]
pub struct Budget {
    bounds: BudgetBounds,
    used: AtomicUsize,
    users: Mutex<HashMap<String, Weak<UserUsage>>>,
}

/// Usage of one user, over all sessions.
#[derive(Debug, Default)]
struct UserUsage {
    bytes: AtomicUsize,
    pinned: AtomicUsize,
    slots: AtomicUsize,
}

/// A user's access to the budget.
#[derive(Debug, Clone)]
pub struct Account {
    budget: Arc<Budget>,
    user: Arc<UserUsage>,
}

/// Part of the budget, held until dropped.
#[derive(Debug)]
pub struct MemoryGrant {
    account: Account,
    bytes: usize,
    pinned: usize,
}

/// One of a user's staging slots, held until dropped.
#[derive(Debug)]
pub struct SlotShare(Account);

/// Adds to a counter unless the sum exceeds the limit. An amount larger than the limit is granted
/// when nothing else is in use, so such requests are slow rather than impossible.
fn add(counter: &AtomicUsize, bytes: usize, limit: usize) -> bool {
    let mut used = counter.load(Ordering::Acquire);
    loop {
        let Some(sum) = used.checked_add(bytes) else {
            return false;
        };
        if sum > limit && used != 0 {
            return false;
        }
        match counter.compare_exchange_weak(used, sum, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => return true,
            Err(now) => used = now,
        }
    }
}

impl Budget {
    /// Creates a budget with these bounds.
    pub fn new(bounds: BudgetBounds) -> Arc<Self> {
        Arc::new(Self {
            bounds,
            used: AtomicUsize::new(0),
            users: Mutex::default(),
        })
    }

    /// Returns the account of a user; all sessions of the user share it.
    pub fn account(self: &Arc<Self>, user: &str) -> Account {
        let mut users = self
            .users
            .lock()
            .unwrap_or_else(|poison| poison.into_inner());
        let known = users.get(user).and_then(Weak::upgrade);
        let user = known.unwrap_or_else(|| {
            // Users without sessions are removed before one is added, so the table does not outgrow
            // the number of users.
            users.retain(|_, gone| gone.strong_count() > 0);
            let fresh = Arc::default();
            users.insert(user.to_owned(), Arc::downgrade(&fresh));
            fresh
        });
        Account {
            budget: Arc::clone(self),
            user,
        }
    }

    /// Returns the account of an unauthenticated peer. Such peers may send no data, so it is never
    /// charged.
    pub fn unauthenticated(self: &Arc<Self>) -> Account {
        Account {
            budget: Arc::clone(self),
            user: Arc::default(),
        }
    }

    /// Returns the bytes in use.
    pub fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    /// Returns the bounds.
    pub fn bounds(&self) -> &BudgetBounds {
        &self.bounds
    }
}

impl Account {
    /// Takes `bytes` from the budget, if they are free.
    pub fn take(&self, bytes: usize) -> Option<MemoryGrant> {
        let bounds = &self.budget.bounds;
        if !add(&self.user.bytes, bytes, bounds.bytes_per_user) {
            return None;
        }
        if !add(&self.budget.used, bytes, bounds.bytes) {
            self.user.bytes.fetch_sub(bytes, Ordering::AcqRel);
            return None;
        }
        Some(MemoryGrant {
            account: self.clone(),
            bytes,
            pinned: 0,
        })
    }

    /// Returns a number that distinguishes accounts of different users.
    pub fn identity(&self) -> usize {
        Arc::as_ptr(&self.user).addr()
    }

    /// Returns whether more bytes of blocks are being sent to the user than allowed; no further
    /// block is pinned then.
    pub fn has_too_much_pinned(&self) -> bool {
        self.user.pinned.load(Ordering::Acquire) > self.budget.bounds.pinned_per_user
    }

    /// Returns an empty grant, for requests that need next to no memory and must never wait.
    pub fn nothing(&self) -> MemoryGrant {
        MemoryGrant {
            account: self.clone(),
            bytes: 0,
            pinned: 0,
        }
    }

    /// Takes one more staging slot, if the user has fewer than `most`.
    pub fn take_slot(&self, most: usize) -> Option<SlotShare> {
        add(&self.user.slots, 1, most.max(1)).then(|| SlotShare(self.clone()))
    }
}

impl MemoryGrant {
    /// Releases all but `bytes`.
    pub fn shrink(&mut self, bytes: usize) {
        let surplus = self.bytes.saturating_sub(bytes);
        self.bytes -= surplus;
        self.account
            .budget
            .used
            .fetch_sub(surplus, Ordering::AcqRel);
        self.account.user.bytes.fetch_sub(surplus, Ordering::AcqRel);
    }

    /// Sets the bytes of cache blocks that are held as long as the grant.
    pub fn pin(&mut self, bytes: usize) {
        let pinned = &self.account.user.pinned;
        pinned.fetch_add(bytes, Ordering::AcqRel);
        pinned.fetch_sub(self.pinned, Ordering::AcqRel);
        self.pinned = bytes;
    }

    /// Returns whether the grant holds nothing.
    pub fn is_empty(&self) -> bool {
        self.bytes == 0 && self.pinned == 0
    }
}

impl Drop for MemoryGrant {
    fn drop(&mut self) {
        let Account { budget, user } = &self.account;
        budget.used.fetch_sub(self.bytes, Ordering::AcqRel);
        user.bytes.fetch_sub(self.bytes, Ordering::AcqRel);
        user.pinned.fetch_sub(self.pinned, Ordering::AcqRel);
    }
}

impl Drop for SlotShare {
    fn drop(&mut self) {
        self.0.user.slots.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn budget(bytes: usize, bytes_per_user: usize) -> Arc<Budget> {
        Budget::new(BudgetBounds {
            bytes,
            bytes_per_user,
            pinned_per_user: 1000,
        })
    }

    #[test]
    fn the_limit_holds_and_all_bytes_are_returned() {
        let budget = budget(100, 100);
        let account = budget.account("ann");
        let first = account.take(60).unwrap();
        assert!(account.take(41).is_none());
        let second = account.take(40).unwrap();
        drop(first);
        assert_eq!(budget.used(), 40);
        let mut third = account.take(50).unwrap();
        third.shrink(10);
        third.shrink(30);
        assert_eq!(budget.used(), 50);
        drop((third, account.nothing()));
        assert!(
            account.take(usize::MAX).is_none(),
            "a sum that overflows does not fit"
        );
        drop(second);
        assert!(
            account.take(1000).is_some(),
            "alone, even a large one gets through"
        );
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn one_user_leaves_room_for_others() {
        let budget = budget(100, 50);
        let (ann, again, bob) = (
            budget.account("ann"),
            budget.account("ann"),
            budget.account("bob"),
        );
        let _held = ann.take(30).unwrap();
        assert!(again.take(30).is_none(), "sessions of a user share a bound");
        let _also = bob.take(50).unwrap();
        assert!(
            ann.take(21).is_none() && budget.used() == 80,
            "a refusal takes nothing"
        );
        assert!(ann.take(20).is_some());
    }

    #[test]
    fn blocks_are_counted_per_user() {
        let budget = budget(100, 100);
        let (ann, bob) = (budget.account("ann"), budget.account("bob"));
        let mut grant = ann.nothing();
        grant.pin(1001);
        assert!(ann.has_too_much_pinned() && !bob.has_too_much_pinned());
        grant.pin(999);
        assert!(!ann.has_too_much_pinned());
        grant.pin(1001);
        assert!(ann.has_too_much_pinned());
        drop(grant);
        assert!(!ann.has_too_much_pinned());
    }

    #[test]
    fn slots_are_counted_per_user_and_users_are_forgotten() {
        let budget = budget(100, 100);
        let ann = budget.account("ann");
        let one = ann.take_slot(2).unwrap();
        let _two = budget.account("ann").take_slot(2).unwrap();
        assert!(ann.take_slot(2).is_none());
        drop(one);
        assert!(ann.take_slot(2).is_some());
        for number in 0..100 {
            drop(budget.account(&format!("user {number}")));
        }
        assert!(budget.users.lock().unwrap().len() < 4);
    }
}
