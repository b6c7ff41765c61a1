//! Credits: the receiver's buffers that a sender may still fill.
//!
//! A message without a credit waits. A receiver reports emptied buffers with its next message to
//! the sender, or in a dedicated message once there are enough. Such a message costs time only at a
//! sender that waits for credits; otherwise it is one more poll. Answers of a rendezvous and credit
//! messages need no credit. Source: MVAPICH's RDMA fast path, Open MPI's eager RDMA.

use super::cause::Cause;
use super::credit_state::Credits;
use super::notice::Content;
use super::world::{Rank, World};
use crate::kernel::Semaphore;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

impl World {
    /// Returns credits to a rank: `receiver` has emptied `emptied` buffers.
    pub(super) fn credits_back(&self, rank: usize, receiver: usize, emptied: u64, cause: Cause) {
        if emptied == 0 {
            return;
        }
        let accounts = self.relations(rank).accounts.at.borrow();
        if let Some(credits) = accounts.get(&receiver) {
            credits.back.set(Some(cause));
            credits.spent.borrow_mut().drain(..emptied as usize);
        }
    }
}

impl Rank {
    /// Takes a credit for a message, waiting if there is none.
    pub(super) async fn take_credit(&self, to: usize) {
        let Some(most) = self.world.mpi.credits else {
            return;
        };
        let credits = {
            let mut accounts = self.world.relations(self.number).accounts.at.borrow_mut();
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

    /// Counts an emptied buffer of rank `source`.
    pub(super) async fn emptied(&self, source: usize) {
        let mpi = &self.world.mpi;
        let Some(most) = mpi.credits else {
            return;
        };
        let enough = mpi.credits_returned.map_or(most.0.div_ceil(2), |few| few.0);
        let owed = {
            let mut all = self.world.relations(self.number).accounts.owed.borrow_mut();
            let owed = all.entry(source).or_default();
            *owed += 1;
            *owed
        };
        if owed >= enough {
            // Every message reports the emptied buffers; this one has no other purpose.
            Box::pin(self.deliver(source, mpi.header.0, Content::Nothing)).await;
        }
    }
}
