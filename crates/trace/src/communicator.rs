//! Communicators: ranks number them by themselves. One of the same members that is the n-th of them on each is the same one.

use crate::part::Part;
use std::collections::HashMap;
use std::rc::Rc;

/// A communicator's number that is the same on all its ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Identity(pub usize);

/// Who is in a communicator: the lower side, the other side, and how many of the same had been before.
type Key = (Vec<usize>, Vec<usize>, usize);

/// A rank's view of a communicator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// Which it is.
    pub identity: Identity,
    /// Its members' ranks in the world.
    pub members: Rc<[usize]>,
    /// The other side's, if it has two.
    pub remote: Rc<[usize]>,
}

impl Group {
    /// The rank in the world of somebody to whom messages go.
    pub fn peer(&self, rank: usize) -> Result<usize, String> {
        let (side, whose) = match self.remote.is_empty() {
            true => (&self.members, "communicator"),
            false => (&self.remote, "other side of a communicator"),
        };
        side.get(rank).copied().ok_or_else(|| {
            format!(
                "there is no rank {rank} in the {whose}, which has {}",
                side.len()
            )
        })
    }
}

/// The communicators of a trace, and those that the rank which is gone through has.
#[derive(Debug, Default)]
pub struct Communicators {
    identities: HashMap<Key, Identity>,
    seen: HashMap<(Vec<usize>, Vec<usize>), usize>,
    own: HashMap<usize, Group>,
}

impl Communicators {
    /// Goes on with another rank.
    pub fn begin_rank(&mut self) {
        self.seen.clear();
        self.own.clear();
    }

    /// Takes in what a call did. The world has `size` ranks.
    pub fn see(&mut self, part: &Part, size: usize) -> Result<(), String> {
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
                    Some(_) => Err(format!("communicator {number} is there already")),
                }
            }
            Part::CommunicatorFreed { number } => match self.own.remove(number) {
                Some(_) => Ok(()),
                None => Err(format!("communicator {number} ends and has not been")),
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

    /// The communicator that the rank calls so.
    pub fn group(&self, number: usize) -> Result<&Group, String> {
        let found = self.own.get(&number);
        found.ok_or_else(|| format!("there is no communicator {number}"))
    }
}
