//! The state of the credits of a rank.

use super::cause::Cause;
use crate::kernel::{Permit, Semaphore};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

/// A rank's credits at one receiver.
pub(super) struct Credits {
    pub(super) left: Semaphore,
    pub(super) spent: RefCell<VecDeque<Permit>>,
    /// Cause of the last return of credits.
    pub(super) back: Cell<Option<Cause>>,
}

/// A rank's credits, and the buffers that it has emptied but not yet reported.
#[derive(Default)]
pub(super) struct Accounts {
    pub(super) at: RefCell<BTreeMap<usize, Rc<Credits>>>,
    pub(super) owed: RefCell<BTreeMap<usize, u64>>,
}

impl Accounts {
    /// Takes the number of unreported buffers of a rank, to be reported now.
    pub fn settle(&self, to: usize) -> u64 {
        self.owed.borrow_mut().remove(&to).unwrap_or_default()
    }
}
