//! Matches communicators between ranks, which number them independently: the n-th communicator with
//! the same members on each rank is the same one.

use crate::part::Part;
use std::collections::HashMap;
use std::sync::Arc;

/// Number of a communicator, equal on all its ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Identity(pub usize);

/// Members of a communicator: the lower group, the other group, and the number of earlier
/// communicators with the same ones.
type Key = (Vec<usize>, Vec<usize>, usize);

/// A rank's view of a communicator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// Its identity.
    pub identity: Identity,
    /// Ranks of its members in MPI_COMM_WORLD.
    pub members: Arc<[usize]>,
    /// Ranks of the remote group of an intercommunicator; otherwise empty.
    pub remote: Arc<[usize]>,
}

impl Group {
    /// Returns the rank in MPI_COMM_WORLD of a peer.
    ///
    /// # Errors
    ///
    /// Returns an error if the communicator has no such rank.
    pub fn peer(&self, rank: usize) -> Result<usize, String> {
        let (side, whose) = match self.remote.is_empty() {
            true => (&self.members, "communicator"),
            false => (&self.remote, "other side of a communicator"),
        };
        side.get(rank)
            .copied()
            .ok_or_else(|| format!("the {whose} has {} ranks, and no rank {rank}", side.len()))
    }
}

/// The communicators of a trace, and those of the current rank.
#[derive(Debug, Default)]
pub struct Communicators {
    identities: HashMap<Key, Identity>,
    seen: HashMap<(Vec<usize>, Vec<usize>), usize>,
    own: HashMap<usize, Group>,
}

impl Communicators {
    /// Starts with the next rank.
    pub fn begin_rank(&mut self) {
        self.seen.clear();
        self.own.clear();
    }

    /// Applies a part of a call. MPI_COMM_WORLD has `size` ranks.
    ///
    /// # Errors
    ///
    /// Returns an error if the part contradicts earlier ones.
    pub fn note(&mut self, part: &Part, size: usize) -> Result<(), String> {
        match part {
            Part::Communicator {
                number,
                members,
                remote,
            } => {
                if let Some(rank) = members.iter().chain(remote).find(|&&rank| rank >= size) {
                    return Err(format!("rank {rank} is in a communicator, of {size} ranks"));
                }
                let group = self.group_of(members, remote);
                match self.own.insert(*number, group) {
                    None => Ok(()),
                    Some(_) => Err(format!("communicator {number} already exists")),
                }
            }
            Part::CommunicatorFreed { number } => match self.own.remove(number) {
                Some(_) => Ok(()),
                None => Err(format!("communicator {number} ends but does not exist")),
            },
            _ => Ok(()),
        }
    }

    fn group_of(&mut self, members: &[usize], remote: &[usize]) -> Group {
        let mut sides = (members.to_vec(), remote.to_vec());
        if !remote.is_empty() && sides.1 < sides.0 {
            sides = (sides.1, sides.0);
        }
        let before = self.seen.entry(sides.clone()).or_default();
        let key = (sides.0, sides.1, *before);
        *before += 1;
        let next = Identity(self.identities.len());
        Group {
            identity: *self.identities.entry(key).or_insert(next),
            members: members.into(),
            remote: remote.into(),
        }
    }

    /// Returns the communicator with this number on the current rank.
    ///
    /// # Errors
    ///
    /// Returns an error if there is none.
    pub fn group(&self, number: usize) -> Result<&Group, String> {
        let found = self.own.get(&number);
        found.ok_or_else(|| format!("communicator {number} does not exist"))
    }
}
