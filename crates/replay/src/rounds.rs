//! An operation that all ranks repeat, until its rounds repeat exactly.

use crate::job::{Job, nodes_of};
use verbena_model::adapter::Fidelity;
use verbena_model::kernel::Time;
use verbena_model::mpi::Rank;
use verbena_model::profile::System;
use verbena_model::threads::Report;
use verbena_model::traffic::HotPort;

/// The first round that may end a run: in earlier ones ranks connect, and register memory.
const SETTLED: usize = 3;

/// Ends of the rounds of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rounds {
    /// End of the first round, if all ranks ended it together: it is then also the end of a run of
    /// one round.
    pub first: Option<Time>,
    /// When the last rank ends the last round.
    pub last: Time,
    /// Number of simulated rounds.
    pub simulated: usize,
}

/// Times of the ranks in one round.
#[derive(Debug, Clone, Copy)]
struct Round {
    /// Number of ranks that have ended it.
    ended: usize,
    last: Time,
    shortest: Time,
    longest: Time,
}

impl Round {
    /// Returns the time of the round, if all `ranks` ranks have ended it and took the same.
    fn even(&self, ranks: usize) -> Option<Time> {
        (self.ended == ranks && self.shortest == self.longest).then_some(self.longest)
    }
}

/// The rounds so far.
struct Progress {
    rounds: Vec<Round>,
    /// End of the last round of each rank.
    ends: Vec<Time>,
    /// Number of rounds wanted.
    wanted: usize,
    result: Option<Rounds>,
}

impl Progress {
    fn new(ranks: usize, wanted: usize) -> Progress {
        let none = Round {
            ended: 0,
            last: Time::ZERO,
            shortest: Time(u64::MAX),
            longest: Time::ZERO,
        };
        Progress {
            rounds: vec![none; wanted],
            ends: vec![Time::ZERO; ranks],
            wanted,
            result: None,
        }
    }

    /// Adds the end of a rank's round, counted from 0.
    fn add(&mut self, rank: usize, number: usize, now: Time) {
        let ranks = self.ends.len();
        let begun = std::mem::replace(&mut self.ends[rank], now);
        let round = &mut self.rounds[number];
        let took = now.since(begun);
        round.ended += 1;
        round.last = round.last.max(now);
        round.shortest = round.shortest.min(took);
        round.longest = round.longest.max(took);
        if round.ended < ranks || self.result.is_some() {
            return;
        }
        let (round, simulated) = (*round, number + 1);
        let repeats = number > 0 && round.even(ranks) == self.rounds[number - 1].even(ranks);
        let each = round
            .even(ranks)
            .filter(|_| repeats && simulated >= SETTLED);
        let left = (self.wanted - simulated) as u64;
        let last = match each {
            Some(each) => round.last + each * left,
            None if left == 0 => round.last,
            None => return,
        };
        self.result = Some(Rounds {
            first: self.rounds[0].even(ranks),
            last,
            simulated,
        });
    }
}

/// Runs `wanted` rounds of `operation` on every rank, rank `i` on node `placement[i]`. When all
/// ranks have taken the same time for two consecutive rounds, the following ones are computed from
/// that time instead of simulated. The second result is the hottest ports of a fabric that exists,
/// in the simulated rounds.
///
/// # Panics
///
/// If no round is wanted, the system has no message-passing library, or a rank waits for an event
/// that never comes: an error in the operation, not in its input.
pub fn run_rounds(
    system: &System,
    placement: Vec<usize>,
    fidelity: Fidelity,
    wanted: usize,
    operation: impl AsyncFn(&Rank) + Copy + Sync + 'static,
) -> (Rounds, Vec<HotPort>) {
    let ranks = placement.len();
    let all = (nodes_of(&placement), &placement[..]);
    let parts = Job::on_threads(system, fidelity, all, |job| {
        for number in job.ranks() {
            let (rank, cluster) = (job.world.rank(number), job.cluster().clone());
            job.start(number, async move {
                for round in 0..wanted {
                    operation(&rank).await;
                    cluster.report(Report {
                        at: rank.process().now(),
                        by: number,
                        number: round,
                    });
                }
            });
        }
        // Each part gets the reports of all, and comes to the same result.
        let mut progress = Progress::new(ranks, wanted);
        job.run_until(|reports| {
            for report in reports {
                progress.add(report.by, report.number, report.at);
            }
            progress.result.is_some()
        });
        let hot_ports = job.cluster().hot_ports(&job.traffic());
        (progress.result, hot_ports)
    });
    let (result, hot_ports) = parts.into_iter().next().expect("a job has a part");
    let rounds = result.expect("deadlock: a rank waits forever");
    (rounds, hot_ports)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Adds a round in which rank `i` ends at `ends[i]`.
    fn add(progress: &mut Progress, number: usize, ends: &[u64]) -> Option<Rounds> {
        for (rank, &end) in ends.iter().enumerate() {
            progress.add(rank, number, Time(end));
        }
        progress.result
    }

    #[test]
    fn the_rest_is_computed_from_two_equal_rounds() {
        let mut progress = Progress::new(2, 9);
        assert_eq!(add(&mut progress, 0, &[50, 60]), None);
        assert_eq!(add(&mut progress, 1, &[80, 90]), None);
        let rounds = Rounds {
            first: None,
            last: Time(120 + 6 * 30),
            simulated: 3,
        };
        assert_eq!(add(&mut progress, 2, &[110, 120]), Some(rounds));
    }

    #[test]
    fn unequal_rounds_are_simulated_to_the_end() {
        let mut progress = Progress::new(2, 4);
        assert_eq!(add(&mut progress, 0, &[50, 50]), None);
        assert_eq!(add(&mut progress, 1, &[80, 81]), None);
        assert_eq!(add(&mut progress, 2, &[110, 111]), None);
        let rounds = Rounds {
            first: Some(Time(50)),
            last: Time(142),
            simulated: 4,
        };
        assert_eq!(add(&mut progress, 3, &[142, 141]), Some(rounds));
    }

    #[test]
    fn ranks_that_are_a_round_ahead_do_not_count_for_the_round_before() {
        let mut progress = Progress::new(2, 3);
        progress.add(0, 0, Time(10));
        progress.add(0, 1, Time(20));
        progress.add(0, 2, Time(30));
        progress.add(1, 0, Time(15));
        progress.add(1, 1, Time(25));
        assert_eq!(progress.result, None);
        progress.add(1, 2, Time(36));
        assert_eq!(progress.result.map(|rounds| rounds.last), Some(Time(36)));
    }
}
