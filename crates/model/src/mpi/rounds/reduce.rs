//! Reduction: one member gets the combination of all contributions.

use super::step::Step;
use super::tree::Branch;
use super::{Member, Round, pieces, shares};
use crate::profile::{Choice, Mpi, Reduce};

impl Member {
    /// Combines `bytes` of all members at `root`, by the library's choice; by default up a binomial
    /// tree.
    pub fn reduce_of(self, root: usize, bytes: u64, library: &Mpi) -> Vec<Round> {
        let Some(choice) = library.collectives.reduce.of(bytes, self.size) else {
            return self.reduce(root, bytes);
        };
        let (steps, parts) = self.reduce_steps(root, bytes, choice);
        Step::rounds(&steps, shares(bytes, parts))
    }

    /// Combines up a binomial tree: a broadcast backwards.
    pub fn reduce(self, root: usize, bytes: u64) -> Vec<Round> {
        self.up_a_tree(root, |_| bytes)
    }

    /// Returns the steps, and the number of parts that the data are divided into.
    pub(super) fn reduce_steps(
        self,
        root: usize,
        bytes: u64,
        choice: &Choice<Reduce>,
    ) -> (Vec<Step>, usize) {
        let count = pieces(bytes, choice.segment);
        let each: Vec<_> = (0..count).collect();
        let up = |branch: Branch| (Step::backwards(self.down(root, &branch, &each)), count);
        match choice.algorithm {
            Reduce::Linear => {
                let steps =
                    Step::backwards(self.down(root, &self.branch(root, Branch::star), &[0]));
                (Step::in_batches(steps, choice.at_once(self.size)), 1)
            }
            Reduce::Chain => up(self.branch(root, Branch::chain)),
            Reduce::Binary => up(self.branch(root, Branch::binary)),
            Reduce::Knomial => {
                let radix = choice.radix();
                up(self.branch(root, |place, size| Branch::knomial(place, size, radix)))
            }
            // The same tree, from the children one after another.
            Reduce::Binomial => {
                let down = self.scatter_steps(root).into_iter().map(Step::whole);
                (Step::backwards(down.collect()), 1)
            }
            Reduce::Rabenseifner => (self.reduce_by_parts(root), 1 << self.size.ilog2()),
        }
    }

    /// Each member combines a part, and the root gathers the parts up the tree formed by the
    /// halvings.
    fn reduce_by_parts(self, root: usize) -> Vec<Step> {
        let behind = Member {
            place: self.before(root),
            size: self.size,
        };
        let place = |behind: usize| (behind + root) % self.size;
        let all: Vec<_> = (0..1 << self.size.ilog2()).collect();
        let steps = behind.with_those_aside(
            &all,
            |_| Vec::new(),
            |inside| {
                let halvings = inside.halvings();
                let mut steps = Vec::new();
                for halving in &halvings {
                    let peer = behind.unfolded(halving.peer);
                    let (send, receive) = (halving.given.clone(), halving.kept.clone());
                    steps.push(Step::exchange((peer, send), (peer, receive)));
                }
                for halving in halvings.iter().rev() {
                    let peer = behind.unfolded(halving.peer);
                    if inside.place > halving.peer {
                        steps.push(Step::send(peer, halving.kept.clone()));
                        break;
                    }
                    steps.push(Step::receive(peer, halving.given.clone()));
                }
                steps
            },
        );
        let moved =
            |parts: Option<(usize, Vec<usize>)>| parts.map(|(peer, parts)| (place(peer), parts));
        let placed = |step: Step| Step {
            send: moved(step.send),
            receive: moved(step.receive),
            ..step
        };
        steps.into_iter().map(placed).collect()
    }
}
