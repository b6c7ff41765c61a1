//! Rounds that are computed instead of simulated end when simulated ones do.

use verbena_model::adapter::Fidelity;
use verbena_model::kernel::Time;
use verbena_model::mpi::Rank;
use verbena_model::profile::{Library, Overrides, System};
use verbena_replay::{Rounds, cyclic, run_on_ranks, run_rounds};

const RANKS: usize = 64;
const ROUNDS: usize = 9;

/// Ranks on nodes of a system.
#[derive(Clone, Copy)]
struct Ranks<'a> {
    system: &'a System,
    nodes: usize,
    fidelity: Fidelity,
}

impl Ranks<'_> {
    /// Compares the ends of rounds with those of a run that simulates all, and returns the former.
    fn compared(
        self,
        what: &str,
        operation: impl AsyncFn(&Rank) + Copy + Sync + 'static,
    ) -> Rounds {
        let placement = || cyclic(RANKS, self.nodes);
        let (rounds, _) = run_rounds(self.system, placement(), self.fidelity, ROUNDS, operation);
        let simulated = |rounds: usize| {
            run_on_ranks(self.system, placement(), self.fidelity, |rank| async move {
                for _ in 0..rounds {
                    operation(&rank).await;
                }
            })
            .end
        };
        let name = &self.system.name;
        assert_eq!(rounds.last, simulated(ROUNDS), "{what} on {name}");
        if let Some(first) = rounds.first {
            assert_eq!(first, simulated(1), "the first round: {what} on {name}");
        }
        rounds
    }

    fn all(self) -> Vec<Rounds> {
        let mut all = vec![self.compared("barrier", async |rank: &Rank| rank.barrier().await)];
        for bytes in [8, 4096] {
            let of = |operation: &str| format!("{operation} of {bytes} B");
            all.extend([
                self.compared(&of("broadcast"), async move |rank: &Rank| {
                    rank.broadcast(bytes).await;
                    rank.barrier().await;
                }),
                self.compared(&of("sum"), async move |rank: &Rank| {
                    rank.all_reduce(bytes).await;
                }),
                self.compared(&of("gathering"), async move |rank: &Rank| {
                    rank.all_gather(bytes).await;
                }),
                self.compared(&of("exchange"), async move |rank: &Rank| {
                    rank.all_to_all(bytes).await;
                }),
            ]);
        }
        all
    }
}

/// Systems of all generations, with different libraries.
const SYSTEMS: [&str; 5] = [
    "infinihost3-ddr",
    "connectx-ddr",
    "connectx-qdr",
    "connectx6-hdr",
    "connectx7-ndr",
];

fn simulated(all: &[Rounds]) -> usize {
    all.iter().map(|rounds| rounds.simulated).sum()
}

#[test]
fn computed_rounds_end_to_the_picosecond_as_simulated_ones() {
    let library = Library::shipped(&Overrides::none()).unwrap();
    for name in SYSTEMS {
        let system = library.system(name).unwrap();
        for nodes in [RANKS, RANKS / 4] {
            if system.joins() < nodes as u64 {
                continue;
            }
            let ranks = Ranks {
                system: &system,
                nodes,
                fidelity: Fidelity::Message,
            };
            let all = ranks.all();
            let (done, wanted) = (simulated(&all), all.len() * ROUNDS);
            println!("{name}, {nodes} nodes: {done} of {wanted} rounds simulated");
        }
    }
}

#[test]
fn few_rounds_are_simulated() {
    let library = Library::shipped(&Overrides::none()).unwrap();
    let system = library.system("connectx6-hdr").unwrap();
    for fidelity in [Fidelity::Message, Fidelity::Packet] {
        let ranks = Ranks {
            system: &system,
            nodes: RANKS,
            fidelity,
        };
        let exchange = async |rank: &Rank| rank.all_to_all(4096).await;
        let rounds = ranks.compared("exchange", exchange);
        assert_eq!(rounds.simulated, 3);
        assert!(rounds.first.is_some_and(|first| first > Time::ZERO));
    }
}
