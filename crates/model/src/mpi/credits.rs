//! Credits: how many buffers of a receiver a sender may fill that the receiver has not emptied.
//!
//! A message that finds none waits. What a receiver has emptied it tells with the next message that it has for the sender, or by one of its
//! own when it is enough. Only who waits for credits takes time for such a message: in another's polling it is one more look. Answers of a
//! rendezvous, and what tells of credits, need none. Source: MVAPICH's RDMA fast path, Open MPI's eager RDMA.

use super::{Cause, Rank, World};
use crate::kernel::{Permit, Semaphore};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

/// A rank's credits at one receiver.
pub(super) struct Credits {
    left: Semaphore,
    spent: RefCell<VecDeque<Permit>>,
    /// Whose doing it was that some came back last.
    back: Cell<Option<Cause>>,
}

/// A rank's credits, and what it owes to others.
#[derive(Default)]
pub(super) struct Accounts {
    at: RefCell<BTreeMap<usize, Rc<Credits>>>,
    owed: RefCell<BTreeMap<usize, u64>>,
}

impl Accounts {
    /// What is owed to a rank, which is told now.
    pub fn settle(&self, to: usize) -> u64 {
        self.owed.borrow_mut().remove(&to).unwrap_or_default()
    }
}

impl World {
    /// A rank hears that a receiver has emptied so many buffers.
    pub(super) fn credits_back(&self, rank: usize, receiver: usize, emptied: u64, cause: Cause) {
        let accounts = self.relations[rank].accounts.at.borrow();
        if let Some(credits) = accounts.get(&receiver).filter(|_| emptied > 0) {
            credits.back.set(Some(cause));
            credits.spent.borrow_mut().drain(..emptied as usize);
        }
    }
}

impl Rank {
    /// Takes a credit for a message; waits for it, if there is none.
    pub(super) async fn take_credit(&self, to: usize) {
        let Some(most) = self.world.mpi.credits else {
            return;
        };
        let credits = {
            let mut accounts = self.world.relations[self.number].accounts.at.borrow_mut();
            let made = || {
                Rc::new(Credits {
                    left: Semaphore::new(self.process.sim(), most.0 as usize),
                    spent: RefCell::default(),
                    back: Cell::new(None),
                })
            };
            accounts.entry(to).or_insert_with(made).clone()
        };
        let began = self.process.now();
        let permit = match credits.left.free() {
            1.. => credits.left.acquire().await,
            0 => {
                let _inside = self.inside();
                credits.left.acquire().await
            }
        };
        credits.spent.borrow_mut().push_back(permit);
        if self.process.now() > began {
            if let Some(cause) = credits.back.get() {
                self.goes_on(began, cause);
            }
            self.find().await;
        }
    }

    /// A buffer that a rank has filled is empty.
    pub(super) async fn emptied(&self, source: usize) {
        let mpi = &self.world.mpi;
        let Some(most) = mpi.credits else {
            return;
        };
        let enough = mpi.credits_returned.map_or(most.0.div_ceil(2), |few| few.0);
        let owed = {
            let mut all = self.world.relations[self.number].accounts.owed.borrow_mut();
            let owed = all.entry(source).or_default();
            *owed += 1;
            *owed
        };
        if owed >= enough {
            // Every message tells what is owed; this one nothing else.
            Box::pin(self.deliver(source, mpi.header.0, |_| ())).await;
        }
    }
}
