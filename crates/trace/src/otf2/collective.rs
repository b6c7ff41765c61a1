//! Collective operations, put together from what each of their ranks has seen.

use super::amounts::{Amount, Lengths, alike, own};
use super::rank::{Place, Rank};
use crate::part::{Collective, Part};
use std::collections::HashMap;

/// The operations of a communicator that are the same: its number, what it is called, the root, whether it was only begun.
pub(super) type Same = (u64, String, Option<usize>, bool);

/// A rank's part in it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Share {
    pub rank: usize,
    /// Where the call is.
    pub at: Place,
    /// The request, if it was only begun.
    pub slot: Option<usize>,
    pub amount: Amount,
}

/// The operations that some ranks have made and others have not.
#[derive(Debug, Default)]
pub(super) struct Operations {
    /// How many of the same each rank has made.
    made: HashMap<(Same, usize), u64>,
    open: HashMap<(Same, u64), Vec<Option<Share>>>,
}

impl Operations {
    /// A rank, at this place of the communicator's members, makes an operation. When all have, it is told to all.
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
