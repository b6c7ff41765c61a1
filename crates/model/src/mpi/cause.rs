//! Why a rank goes on after it had waited: whose doing it was, and when that had been done.

use super::Rank;
use crate::kernel::{Mailbox, Occupancy, Time};
use std::cell::Cell;
use std::rc::Rc;

/// What somebody did that another, or itself, waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cause {
    /// Whose processor did it.
    pub rank: usize,
    /// When it had handed it over: to its adapter, or to the other by shared memory.
    pub at: Time,
}

/// A rank went on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Woken {
    /// When.
    pub at: Time,
    /// Why.
    pub cause: Cause,
}

/// When a request that is being posted will have been.
#[derive(Debug, Clone, Default)]
pub(super) struct Posted(Rc<Cell<Time>>);

impl Posted {
    /// It has been, now.
    pub fn set(&self, now: Time) {
        self.0.set(now);
    }

    /// The cause that it is of what has come of it since.
    pub fn cause(&self, rank: usize) -> Cause {
        let at = self.0.get();
        Cause { rank, at }
    }
}

impl Rank {
    /// When and why it last went on after waiting for a message, an answer, or an adapter.
    pub fn woken(&self) -> Option<Woken> {
        self.world.relations[self.number].woken.get()
    }

    /// Has each turn of its processor told from now on, with what it went on with last.
    pub fn watch(&self, told: impl Fn(Occupancy, Option<Woken>) + 'static) {
        // The world has the process, which has this.
        let (world, number) = (Rc::downgrade(&self.world), self.number);
        self.process.watch(move |turn| {
            let world = world.upgrade();
            let woken = world.and_then(|world| world.relations[number].woken.get());
            told(turn, woken);
        });
    }

    /// This rank, now.
    pub(super) fn cause(&self) -> Cause {
        Cause {
            rank: self.number,
            at: self.process.now(),
        }
    }

    /// It has waited since `began`, if that is over, for what somebody did.
    pub(super) fn goes_on(&self, began: Time, cause: Cause) {
        let at = self.process.now();
        if at > began {
            self.world.relations[self.number]
                .woken
                .set(Some(Woken { at, cause }));
        }
    }

    /// Waits for what somebody does.
    pub(super) async fn wait_for(&self, mailbox: &Mailbox<Cause>) {
        let began = self.process.now();
        let cause = match mailbox.try_receive() {
            Some(cause) => cause,
            None => {
                let _inside = self.inside();
                mailbox.receive().await
            }
        };
        self.goes_on(began, cause);
    }
}
