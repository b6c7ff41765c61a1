//! Combines collective operations from the views of their ranks.

use super::amounts::{Amount, Lengths, alike, own};
use super::rank::{Place, Rank};
use crate::part::{Collective, Part};
use std::collections::HashMap;

/// Key of equal operations of a communicator: its number, the operation's name, the root, whether
/// it is nonblocking.
pub(super) type Same = (u64, String, Option<usize>, bool);

/// A rank's view of an operation.
#[derive(Debug, Clone, Copy)]
pub(super) struct Share {
    pub rank: usize,
    /// Position of the call.
    pub at: Place,
    /// The request of a nonblocking operation.
    pub slot: Option<usize>,
    pub amount: Amount,
}

/// Operations that only some of the ranks have entered so far.
#[derive(Debug, Default)]
pub(super) struct Operations {
    /// Number of operations with this key on each rank.
    made: HashMap<(Same, usize), u64>,
    open: HashMap<(Same, u64), Vec<Option<Share>>>,
}

impl Operations {
    /// Adds an operation of the rank at this place of the communicator's members. Once all ranks
    /// have it, completes the part on each of them.
    pub fn make(
        &mut self,
        same: Same,
        what: (Collective, Lengths),
        (place, members): (usize, usize),
        share: Share,
        ranks: &mut [Rank],
    ) {
        let made = self.made.entry((same.clone(), share.rank)).or_default();
        let key = (same, *made);
        *made += 1;
        let shares = self
            .open
            .entry(key.clone())
            .or_insert_with(|| vec![None; members]);
        shares[place] = Some(share);
        let Some(all) = shares.iter().copied().collect::<Option<Vec<Share>>>() else {
            return;
        };
        self.open.remove(&key);
        tell(&key.0, what, &all, ranks);
    }
}

fn tell(
    (comm, _, root, _): &Same,
    (kind, lengths): (Collective, Lengths),
    all: &[Share],
    ranks: &mut [Rank],
) {
    let amounts: Vec<Amount> = all.iter().map(|share| share.amount).collect();
    let (comm, root) = (*comm as usize, *root);
    let bytes = alike(kind, root, &amounts);
    for (place, share) in all.iter().enumerate() {
        let slot = share.slot;
        let part = match lengths {
            Lengths::Own => own(kind, (comm, root, slot), place, &amounts),
            Lengths::Alike => Part::Collective {
                kind,
                comm,
                root,
                slot,
                bytes,
            },
        };
        ranks[share.rank].tell(share.at, Some(part));
    }
}
