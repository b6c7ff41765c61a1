//! The effort of replays, from the messages of their programs.

use super::input;
use crate::Failure;
use std::collections::BTreeSet;
use verbena_bench::forecast;
use verbena_model::adapter::Fidelity;
use verbena_model::profile::System;
use verbena_replay::goal::Schedule;
use verbena_replay::{Act, Program, Step};
use verbena_reproduce::effort::{Effort, parts};

/// Memory of a node, of a rank and of two ranks that communicate, in bytes: as for the benchmarks
/// of `mpi.*`.
const NODE: u64 = 26 << 10;
const RANK: u64 = 18 << 10;
const PAIR: u64 = 6 << 10;
/// Memory of a step's times in bytes.
const STEP: u64 = 128;

/// Messages of a replay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Messages {
    number: u64,
    parts: u64,
    /// Pairs of ranks that communicate.
    pairs: u64,
    steps: u64,
}

/// Returns the effort of recorded programs on a number of nodes.
pub fn of_programs(
    (system, fidelity): (&System, Fidelity),
    programs: &[Program],
    nodes: usize,
) -> Effort {
    let mtu = system.link.mtu.0;
    let mut all = Messages::default();
    for program in programs {
        let mut peers = BTreeSet::new();
        let mut sent = |to: usize, bytes: u64| {
            peers.insert(to);
            all.number += 1;
            all.parts += parts(bytes, mtu, fidelity);
        };
        for step in &program.steps {
            let Step::Begin { act, .. } = step else {
                continue;
            };
            match act {
                Act::Send { to, bytes, .. } => sent(*to, *bytes),
                Act::Access {
                    peer, out, back, ..
                } => sent(*peer, *out + *back),
                Act::Rounds {
                    rounds, members, ..
                } => {
                    let sends = rounds.iter().filter_map(|round| round.send);
                    sends.for_each(|(to, bytes)| sent(members[to], bytes));
                }
                Act::Receive { .. } => {}
            }
        }
        all.steps += program.steps.len() as u64;
        all.pairs += peers.len() as u64;
    }
    effort(all, nodes, programs.len())
}

/// Returns the effort of a schedule on a number of nodes.
pub fn of_schedule(
    (system, fidelity): (&System, Fidelity),
    schedule: &Schedule,
    nodes: usize,
) -> Effort {
    let (bytes, number) = schedule.sent();
    let mean = bytes / number.max(1);
    let ranks = schedule.ranks as u64;
    let messages = Messages {
        number,
        parts: number.saturating_mul(parts(mean, system.link.mtu.0, fidelity)),
        pairs: number.min(ranks.saturating_mul(ranks)),
        steps: schedule.size() as u64,
    };
    effort(messages, nodes, schedule.ranks)
}

fn effort(messages: Messages, nodes: usize, ranks: usize) -> Effort {
    let (nodes, ranks) = (nodes as u64, ranks as u64);
    Effort {
        nodes,
        messages: messages.number,
        parts: messages.parts,
        memory: NODE * nodes + RANK * ranks + PAIR * messages.pairs + STEP * messages.steps,
    }
}

/// Runs a replay, after an estimate of its time on standard error if it takes long.
///
/// # Errors
///
/// Fails if it needs more memory than there is, or by itself.
pub fn announced<T>(
    what: &str,
    effort: Effort,
    replay: impl FnOnce() -> Result<T, Failure>,
) -> Result<T, Failure> {
    if let Some(reason) = forecast::shortage(effort.memory) {
        return Err(input(format!("{what}: {reason}")));
    }
    let computation = forecast::begin(what, effort);
    let result = replay()?;
    computation.end();
    Ok(result)
}

#[cfg(test)]
mod tests {
    use super::*;
    use verbena_bench::profiles::Profiles;

    #[test]
    fn sent_messages_and_their_pairs_count() {
        let library = Profiles::default().library().unwrap();
        let system = library.system("connectx6-hdr").unwrap();
        let at = (&system, Fidelity::Packet);
        let act = |to| Step::Begin {
            slot: 0,
            act: Act::Send {
                to,
                bytes: 3 * system.link.mtu.0,
                mark: 0,
                blocking: true,
            },
        };
        let program = |to| Program {
            steps: vec![Step::Compute(1), act(to), act(to)],
        };
        let effort = of_programs(at, &[program(1), program(0)], 2);
        assert_eq!((effort.nodes, effort.messages, effort.parts), (2, 4, 12));
        let expected = 2 * NODE + 2 * RANK + 2 * PAIR + 6 * STEP;
        assert_eq!(effort.memory, expected);
        let text = "num_ranks 2\nrank 0 {\nl1: send 8b to 1\n}\nrank 1 {\nl1: recv 8b from 0\n}\n";
        let schedule = Schedule::read(text).unwrap();
        let effort = of_schedule(at, &schedule, 2);
        assert_eq!((effort.messages, effort.parts), (1, 1));
    }

    #[test]
    fn a_replay_larger_than_the_memory_is_refused_with_both_figures() {
        let large = Effort {
            memory: 1 << 60,
            ..Effort::default()
        };
        let refused = announced("a trace", large, || Ok(()))
            .unwrap_err()
            .to_string();
        assert!(
            refused.contains("a trace: the model needs about 1073741824 GiB"),
            "{refused}"
        );
        assert_eq!(
            announced("a trace", Effort::default(), || Ok(7)).ok(),
            Some(7)
        );
    }
}
