//! The benchmarks of message passing, which models have, too ([`verbena_predict::messages`]).

use verbena_predict::messages;
use verbena_workloads::Benchmark;

/// What the samples of a benchmark are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quantity {
    /// There and back: halves of it are one way.
    RoundTrip,
    /// One way, in both directions at once.
    Meeting,
    /// Until an operation is complete at who began it.
    Completion,
    /// Until all neighbours' edges are there.
    Exchange,
    /// Of one operation of all processes, by each of them.
    Collective,
    /// Messages a second.
    Stream,
}

/// What a quick look at a library is.
pub const QUICK: [&str; 5] = [
    "mpi.latency",
    "mpi.bandwidth",
    "mpi.put-latency",
    "mpi.allreduce-latency",
    "mpi.halo",
];

/// All of them.
pub fn all() -> impl Iterator<Item = &'static Benchmark> {
    messages::ALL.iter().map(|entry| &entry.benchmark)
}

/// What the samples of a benchmark are; `None` if it is none of these.
pub fn quantity(name: &str) -> Option<Quantity> {
    Some(match name {
        "mpi.latency" | "mpi.multi-pair-latency" => Quantity::RoundTrip,
        "mpi.pingping" => Quantity::Meeting,
        "mpi.put-latency" | "mpi.get-latency" => Quantity::Completion,
        "mpi.halo" => Quantity::Exchange,
        "mpi.barrier-latency"
        | "mpi.broadcast-latency"
        | "mpi.allreduce-latency"
        | "mpi.allgather-latency"
        | "mpi.alltoall-latency" => Quantity::Collective,
        "mpi.bandwidth"
        | "mpi.bandwidth-both"
        | "mpi.multi-pair-bandwidth"
        | "mpi.put-bandwidth"
        | "mpi.get-bandwidth" => Quantity::Stream,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_benchmark_has_its_quantity_and_the_program_knows_it() {
        let program = include_str!("program/main.c");
        for one in all() {
            assert!(quantity(one.name).is_some(), "{}", one.name);
            assert!(
                program.contains(&format!("{{\"{}\", ", one.name)),
                "{}",
                one.name
            );
        }
        assert_eq!(program.matches("{\"mpi.").count(), all().count());
        assert!(QUICK.iter().all(|name| all().any(|one| one.name == *name)));
    }
}
