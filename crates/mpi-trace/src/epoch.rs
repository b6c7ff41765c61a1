//! Epochs of accesses to windows (MPI 4.1, 12.5): their start and end.

use crate::part::{Part, Synchronization};
use std::collections::BTreeSet;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Epoch {
    /// Other ranks may access: from `MPI_Win_post` to `MPI_Win_wait`.
    Exposed,
    /// From `MPI_Win_start` to `MPI_Win_complete`.
    Started,
    /// For the memory of one rank: from `MPI_Win_lock` to `MPI_Win_unlock`.
    Locked(usize),
    /// From `MPI_Win_lock_all` to `MPI_Win_unlock_all`.
    AllLocked,
    /// From an access outside all other epochs to the next fence.
    Unfenced,
}

#[derive(Debug, Default)]
pub(crate) struct Epochs {
    open: BTreeSet<(usize, Epoch)>,
}

impl Epochs {
    pub(crate) fn note(&mut self, part: &Part) {
        match part {
            Part::Synchronized {
                window,
                kind,
                targets,
            } => self.synchronized(*window, *kind, targets),
            Part::Access { window, .. } => {
                let is_of_it =
                    |&(of, epoch): &(usize, Epoch)| of == *window && epoch != Epoch::Exposed;
                if !self.open.iter().any(is_of_it) {
                    self.open.insert((*window, Epoch::Unfenced));
                }
            }
            Part::WindowFreed { number } => self.open.retain(|(window, _)| window != number),
            _ => (),
        }
    }

    fn synchronized(&mut self, window: usize, kind: Synchronization, targets: &[usize]) {
        let locks = targets
            .iter()
            .map(|&target| (window, Epoch::Locked(target)));
        match kind {
            Synchronization::Post => self.open.extend([(window, Epoch::Exposed)]),
            Synchronization::Start => self.open.extend([(window, Epoch::Started)]),
            Synchronization::Lock => self.open.extend(locks),
            Synchronization::LockAll => self.open.extend([(window, Epoch::AllLocked)]),
            Synchronization::Wait => self.end(window, Epoch::Exposed),
            Synchronization::Complete => self.end(window, Epoch::Started),
            Synchronization::Unlock => targets
                .iter()
                .for_each(|&target| self.end(window, Epoch::Locked(target))),
            Synchronization::UnlockAll => self.end(window, Epoch::AllLocked),
            Synchronization::Fence => self.end(window, Epoch::Unfenced),
            Synchronization::Flush => (),
        }
    }

    fn end(&mut self, window: usize, epoch: Epoch) {
        self.open.remove(&(window, epoch));
    }

    pub(crate) fn open_window(&self) -> Option<usize> {
        self.open.first().map(|(window, _)| *window)
    }
}
