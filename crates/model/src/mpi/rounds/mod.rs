//! Collective operations as rounds: what a member of a group sends and receives, one round after the other. A library's profile says
//! which algorithm there is for how many bytes and members ([`Collectives`](crate::profile::Collectives)); one that does not has
//! MPICH's of 2005, chosen by the size alone. What combining costs a processor is not counted.
//!
//! An algorithm is written as [`Step`]s, which name the parts of the data that are in a message; their sizes make rounds of it. So a
//! test can follow the parts and see that everybody has in the end what the operation promises.
//!
//! Thakur, Rabenseifner, Gropp: Optimization of collective communication operations in MPICH (2005). Pjesivac-Grbovic and others:
//! Performance analysis of MPI collective operations (2007), for those of Open MPI.

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

/// What a member does at the same time; members are named by their places.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Round {
    /// To whom it sends how many bytes.
    pub send: Option<(usize, u64)>,
    /// From whom it receives how many.
    pub receive: Option<(usize, u64)>,
    /// It begins together with the round before, and what comes next waits for both.
    pub beside: bool,
}

impl Round {
    /// Sends so many bytes to somebody.
    pub fn send(to: usize, bytes: u64) -> Round {
        Round {
            send: Some((to, bytes)),
            receive: None,
            beside: false,
        }
    }

    /// Receives so many from somebody.
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

    /// Rounds by what begins together.
    pub fn together(rounds: &[Round]) -> impl Iterator<Item = &[Round]> {
        rounds.chunk_by(|_, next| next.beside)
    }
}

/// A member of a group, and what it does in the group's operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Member {
    /// Its place.
    pub place: usize,
    /// How many there are.
    pub size: usize,
}

impl Member {
    fn after(self, distance: usize) -> usize {
        (self.place + distance) % self.size
    }

    fn before(self, distance: usize) -> usize {
        (self.place + self.size - distance) % self.size
    }

    /// Distances 1, 2, 4 and so on within the group.
    fn doublings(self) -> impl DoubleEndedIterator<Item = usize> {
        let all = usize::BITS - (self.size - 1).leading_zeros();
        (0..all).map(|power| 1 << power)
    }

    /// Both have as much for each other.
    fn with(self, peer: usize, bytes: u64) -> Round {
        Round::exchange((peer, bytes), (peer, bytes))
    }

    /// As much goes so far on as comes from so far back.
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

/// Sizes of `parts` of so many bytes: as alike as can be, the longer ones first.
fn shares(bytes: u64, parts: usize) -> impl Fn(usize) -> u64 + Copy {
    let parts = parts.max(1) as u64;
    move |part| bytes / parts + u64::from((part as u64) < bytes % parts)
}

/// Pieces of at most `segment` bytes that so many are cut into; uncut without.
fn pieces(bytes: u64, segment: Option<crate::profile::Bytes>) -> usize {
    segment.map_or(1, |segment| bytes.div_ceil(segment.0).max(1) as usize)
}
