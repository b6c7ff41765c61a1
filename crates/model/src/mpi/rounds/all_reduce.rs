//! All-reduce: every member gets the combination of all contributions.

use super::step::Step;
use super::{Member, Round, pieces, shares};
use crate::profile::{AllReduce, Choice, Mpi};

impl Member {
    /// Combines `bytes` of all members, by the library's choice. By default, for powers of two with
    /// recursive doubling or, above the library's limit, Rabenseifner's algorithm; else in as many
    /// rounds as dissemination takes.
    pub fn all_reduce(self, bytes: u64, library: &Mpi) -> Vec<Round> {
        if let Some(choice) = library.collectives.all_reduce.of(bytes, self.size) {
            return self.all_reduce_by(bytes, choice, library);
        }
        if !self.size.is_power_of_two() {
            return self.dissemination(bytes);
        }
        match library.all_reduce_doubling {
            Some(most) if bytes > most.0 => {
                Step::rounds(&self.rabenseifner_steps(), shares(bytes, self.size))
            }
            _ => Step::rounds(&self.doubling_steps(), |_| bytes),
        }
    }

    /// Combines `bytes` around a ring: one block per member, which passes around twice.
    pub fn all_reduce_round_a_ring(self, bytes: u64) -> Vec<Round> {
        Step::rounds(&self.ring_steps(1), shares(bytes, self.size))
    }

    fn all_reduce_by(self, bytes: u64, choice: &Choice<AllReduce>, library: &Mpi) -> Vec<Round> {
        if choice.algorithm == AllReduce::ReduceBroadcast {
            let mut rounds = self.reduce_of(0, bytes, library);
            rounds.extend(self.broadcast(0, bytes, library));
            return rounds;
        }
        let (steps, parts) = self.all_reduce_steps(bytes, choice);
        match choice.algorithm {
            // The blocks of a ring have equal sizes, and so do the segments of a block.
            AllReduce::SegmentedRing => {
                let phases = parts / self.size;
                let block = shares(bytes, self.size);
                let part = |part: usize| shares(block(part / phases), phases)(part % phases);
                Step::rounds(&steps, part)
            }
            _ => Step::rounds(&steps, shares(bytes, parts)),
        }
    }

    /// Returns the steps, and the number of parts that the data are divided into.
    pub(super) fn all_reduce_steps(
        self,
        bytes: u64,
        choice: &Choice<AllReduce>,
    ) -> (Vec<Step>, usize) {
        match choice.algorithm {
            AllReduce::RecursiveDoubling | AllReduce::ReduceBroadcast => (self.doubling_steps(), 1),
            AllReduce::Rabenseifner => (self.rabenseifner_steps(), 1 << self.size.ilog2()),
            AllReduce::Ring => (self.ring_steps(1), self.size),
            AllReduce::SegmentedRing => {
                let block = bytes.div_ceil(self.size as u64);
                let phases = pieces(block, choice.segment);
                (self.ring_steps(phases), self.size * phases)
            }
        }
    }

    /// Exchanges the whole message at distances 1, 2, 4; if the size is no power of two, some
    /// members stand aside.
    pub(super) fn doubling_steps(self) -> Vec<Step> {
        self.with_those_aside(
            &[0],
            |_| vec![0],
            |inside| {
                let step = |width: usize| {
                    let peer = self.unfolded(inside.place ^ width);
                    Step::exchange((peer, vec![0]), (peer, vec![0]))
                };
                inside.doublings().map(step).collect()
            },
        )
    }

    /// Each member combines a part, found by repeated halving; then the parts are gathered along
    /// the same path in reverse.
    pub(super) fn rabenseifner_steps(self) -> Vec<Step> {
        let all: Vec<_> = (0..1 << self.size.ilog2()).collect();
        let after = |_| all.clone();
        self.with_those_aside(&all, after, |inside| {
            let halvings = inside.halvings();
            let peer = |halving: &Halving| self.unfolded(halving.peer);
            let combine = |halving: &Halving| {
                let peer = peer(halving);
                Step::exchange((peer, halving.given.clone()), (peer, halving.kept.clone()))
            };
            let gather = |halving: &Halving| {
                let peer = peer(halving);
                Step::exchange((peer, halving.kept.clone()), (peer, halving.given.clone()))
            };
            let down = halvings.iter().map(combine);
            down.chain(halvings.iter().rev().map(gather)).collect()
        })
    }

    /// For powers of two: at distances 1, 2, 4 a member gives half of its remaining parts to its
    /// peer.
    pub(super) fn halvings(self) -> Vec<Halving> {
        let (mut first, mut count) = (0, self.size);
        let halving = |width: usize| {
            count /= 2;
            let (low, high) = (first..first + count, first + count..first + 2 * count);
            let (kept, given) = match self.place & width {
                0 => (low, high),
                _ => (high, low),
            };
            first = kept.start;
            Halving {
                peer: self.place ^ width,
                kept: kept.collect(),
                given: given.collect(),
            }
        };
        self.doublings().map(halving).collect()
    }

    /// One block per member passes around a ring and is combined on the way, in `phases` phases;
    /// then the results pass around once more.
    fn ring_steps(self, phases: usize) -> Vec<Step> {
        let mut steps = Vec::new();
        for phase in 0..phases {
            let part = |block: usize| vec![block * phases + phase];
            steps.extend((0..self.size - 1).map(|step| {
                let (goes, comes) = (self.before(step), self.before(step + 1));
                Step::exchange((self.after(1), part(goes)), (self.before(1), part(comes)))
            }));
        }
        // The next member has the block that ended here.
        let block = |place: usize| {
            let block = (place + 1) % self.size;
            (block * phases..(block + 1) * phases).collect()
        };
        steps.extend(self.ring_gather(block));
        steps
    }
}

/// A member gives half of its parts to its peer and keeps the rest.
#[derive(Debug, Clone)]
pub(super) struct Halving {
    pub peer: usize,
    pub kept: Vec<usize>,
    pub given: Vec<usize>,
}
