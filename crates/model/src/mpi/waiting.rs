//! Waiting of ranks, and what woke them.

use super::cause::{Cause, Woken};
use super::world::Rank;
use crate::kernel::{Mailbox, Occupancy, Time};
use std::rc::Rc;

impl Rank {
    /// Returns time and cause of the last wake-up after waiting for a message, an answer, or an
    /// adapter.
    pub fn woken(&self) -> Option<Woken> {
        self.world.relations(self.number).woken.get()
    }

    /// Calls `told` for each later turn of its processor, with the last wake-up before it.
    pub fn watch(&self, told: impl Fn(Occupancy, Option<Woken>) + 'static) {
        // Weak: the world owns the process, which owns this callback.
        let (world, number) = (Rc::downgrade(&self.world), self.number);
        self.process.watch(move |turn| {
            let world = world.upgrade();
            let woken = world.and_then(|world| world.relations(number).woken.get());
            told(turn, woken);
        });
    }

    /// Returns this rank and the current time as a cause.
    pub(super) fn cause(&self) -> Cause {
        Cause {
            rank: self.number,
            at: self.process.now(),
        }
    }

    /// Records a wake-up by `cause`, if the rank has waited since `began`.
    pub(super) fn goes_on(&self, began: Time, cause: Cause) {
        let at = self.process.now();
        if at > began {
            self.world
                .relations(self.number)
                .woken
                .set(Some(Woken { at, cause }));
        }
    }

    /// Waits for an action reported in `mailbox`.
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
