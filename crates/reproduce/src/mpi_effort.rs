//! The effort of the points of MPI benchmarks: how many messages a model carries for each.

use crate::effort::{Effort, parts};
use crate::mpi_benchmarks::{Entry, Measure, ROUNDS, WINDOW, nodes};
use verbena_model::adapter::Fidelity;
use verbena_model::mpi::{Member, Round};
use verbena_model::profile::{Mpi, System};

/// Estimates the effort of a point; of benchmarks of two ranks, none.
pub fn effort(
    entry: &Entry,
    (system, fidelity): (&System, Fidelity),
    (ranks, bytes): (usize, u64),
) -> Effort {
    let nodes = nodes(entry, system).min(ranks);
    // Fewer if they repeat, which is not known before.
    let rounds = ROUNDS + 2;
    let (all, library) = (ranks as u64, system.mpi.as_ref());
    let of_rounds = |of: &dyn Fn(Member, &Mpi) -> Vec<Round>| {
        let sent = library.map_or((0, 0), |library| sent(ranks, |member| of(member, library)));
        (rounds * sent.0, rounds * sent.1)
    };
    let (messages, volume) = match entry.measure {
        Measure::Halo => (24 * all, 24 * all * bytes),
        Measure::PairsLatency => (rounds * all, rounds * all * bytes),
        Measure::PairsBandwidth => {
            let messages = rounds * all / 2 * WINDOW;
            (messages, messages * bytes)
        }
        Measure::Barrier => of_rounds(&|member, library| member.barrier_of(library)),
        Measure::Broadcast => of_rounds(&|member, library| {
            let mut rounds = member.broadcast(0, bytes, library);
            rounds.extend(member.barrier_of(library));
            rounds
        }),
        Measure::AllReduce => of_rounds(&|member, library| member.all_reduce(bytes, library)),
        Measure::AllGather => of_rounds(&|member, library| member.all_gather(bytes, library)),
        Measure::AllToAll => of_rounds(&|member, library| member.all_to_all(bytes, library)),
        _ => (0, 0),
    };
    let mean = volume / messages.max(1);
    let parts = messages.saturating_mul(parts(mean, system.link.mtu.0, fidelity));
    Effort {
        nodes: nodes as u64,
        messages,
        parts,
        memory: entry.memory(nodes, ranks, messages / rounds),
    }
}

/// Returns the messages and bytes that all members send, from those of a few.
fn sent(ranks: usize, rounds: impl Fn(Member) -> Vec<Round>) -> (u64, u64) {
    const FEW: usize = 16;
    let asked = ranks.min(FEW);
    let places = (0..asked).map(|number| number * ranks / asked);
    let (mut messages, mut bytes) = (0, 0);
    for place in places {
        let rounds = rounds(Member { place, size: ranks });
        let sends = rounds.iter().filter_map(|round| round.send);
        for (_, size) in sends {
            messages += 1;
            bytes += size;
        }
    }
    let all = |of: u64| (of as u128 * ranks as u128 / asked.max(1) as u128) as u64;
    (all(messages), all(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mpi_benchmarks::find;
    use verbena_model::profile::{Library, Overrides};

    fn messages(name: &str, ranks: usize, bytes: u64) -> Effort {
        let library = Library::shipped(&Overrides::none()).unwrap();
        let system = library.system("connectx6-hdr").unwrap();
        let at = (&system, Fidelity::Packet);
        effort(find(name).unwrap(), at, (ranks, bytes))
    }

    #[test]
    fn messages_of_all_ranks_and_rounds_count() {
        assert_eq!(
            messages("mpi.alltoall-latency", 32, 65_536).messages,
            10 * 32 * 31
        );
        assert_eq!(messages("mpi.halo", 64, 8).messages, 24 * 64);
        let barrier = messages("mpi.barrier-latency", 64, 0).messages;
        assert!((10 * 64..=10 * 64 * 12).contains(&barrier), "{barrier}");
    }

    #[test]
    fn long_messages_have_packets_and_two_ranks_no_effort() {
        let small = messages("mpi.alltoall-latency", 32, 8);
        let large = messages("mpi.alltoall-latency", 32, 1 << 20);
        assert!(small.parts >= small.messages && large.parts > 100 * large.messages);
        assert_eq!(messages("mpi.latency", 2, 8).messages, 0);
        assert!(messages("mpi.alltoall-latency", 1 << 20, 8).messages > 1 << 20);
    }
}
