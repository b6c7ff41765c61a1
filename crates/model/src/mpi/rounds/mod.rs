//! Collective operations as rounds: the messages that a member of a group sends and receives, one
//! round after another. A library's profile selects the algorithm by bytes and members
//! ([`Collectives`](crate::profile::Collectives)); the default is MPICH's of 2005, selected by size
//! alone. The processor time of combining is not modelled.
//!
//! An algorithm is a list of `Step`s, which name the parts of the data in each message; with the
//! sizes of the parts they become rounds. A test can follow the parts and check that every member
//! ends up with the promised result.
//!
//! Thakur, Rabenseifner, Gropp: Optimization of collective communication operations in MPICH
//! (2005). Pjesivac-Grbovic and others: Performance analysis of MPI collective operations (2007),
//! for those of Open MPI.

mod all_gather;
mod all_reduce;
mod all_to_all;
mod barrier;
mod broadcast;
mod fold;
mod reduce;
mod reduce_scatter;
mod scan;
mod scatter;
mod step;
#[cfg(test)]
mod tests;
mod tree;

/// Simultaneous messages of a member; members are named by their places.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Round {
    /// Destination and bytes to send.
    pub send: Option<(usize, u64)>,
    /// Source and bytes to receive.
    pub receive: Option<(usize, u64)>,
    /// Whether it starts together with the previous round; the next round waits for both.
    pub beside: bool,
}

impl Round {
    /// Creates a round that sends `bytes`.
    pub fn send(to: usize, bytes: u64) -> Round {
        Round {
            send: Some((to, bytes)),
            receive: None,
            beside: false,
        }
    }

    /// Creates a round that receives `bytes`.
    pub fn receive(from: usize, bytes: u64) -> Round {
        Round {
            send: None,
            receive: Some((from, bytes)),
            beside: false,
        }
    }

    fn exchange(send: (usize, u64), receive: (usize, u64)) -> Round {
        Round {
            send: Some(send),
            receive: Some(receive),
            beside: false,
        }
    }

    fn backwards(self) -> Round {
        Round {
            send: self.receive,
            receive: self.send,
            ..self
        }
    }

    /// Groups rounds that start together.
    pub fn together(rounds: &[Round]) -> impl Iterator<Item = &[Round]> {
        rounds.chunk_by(|_, next| next.beside)
    }
}

/// A member of a group, and its part in the group's operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Member {
    /// Its place: the rank within the group.
    pub place: usize,
    /// Number of members.
    pub size: usize,
}

impl Member {
    fn after(self, distance: usize) -> usize {
        (self.place + distance) % self.size
    }

    fn before(self, distance: usize) -> usize {
        (self.place + self.size - distance) % self.size
    }

    /// Returns the distances 1, 2, 4 and so on within the group.
    fn doublings(self) -> impl DoubleEndedIterator<Item = usize> {
        let all = usize::BITS - (self.size - 1).leading_zeros();
        (0..all).map(|power| 1 << power)
    }

    /// Exchanges `bytes` with `peer`.
    fn with(self, peer: usize, bytes: u64) -> Round {
        Round::exchange((peer, bytes), (peer, bytes))
    }

    /// Sends `bytes` forwards by `distance` and receives as much from the same distance behind.
    fn handed_on(self, distance: usize, bytes: u64) -> Round {
        Round::exchange(
            (self.after(distance), bytes),
            (self.before(distance), bytes),
        )
    }

    fn others(self) -> impl DoubleEndedIterator<Item = usize> {
        (0..self.size).filter(move |&place| place != self.place)
    }
}

/// Returns the sizes of `parts` parts of `bytes` bytes: as equal as possible, longer parts first.
fn shares(bytes: u64, parts: usize) -> impl Fn(usize) -> u64 + Copy {
    let parts = parts.max(1) as u64;
    move |part| bytes / parts + u64::from((part as u64) < bytes % parts)
}

/// Returns the number of segments of at most `segment` bytes; one if `segment` is `None`.
fn pieces(bytes: u64, segment: Option<crate::profile::Bytes>) -> usize {
    segment.map_or(1, |segment| bytes.div_ceil(segment.0).max(1) as usize)
}
