//! The MPI benchmarks, which the models have as well ([`verbena_reproduce::mpi_benchmarks`]).

use verbena_reproduce::mpi_benchmarks;
use verbena_workloads::Benchmark;

/// The quantity that a benchmark samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quantity {
    /// Round-trip time; half of it is the one-way latency.
    RoundTrip,
    /// One-way latency with messages in both directions at once.
    PingPing,
    /// Time until an operation completes at the origin.
    Completion,
    /// Time until the edges of all neighbours have arrived.
    Exchange,
    /// Time of one collective operation, measured by each process.
    Collective,
    /// Messages per second.
    Stream,
}

/// The benchmarks of a quick evaluation.
pub const QUICK: [&str; 5] = [
    "mpi.latency",
    "mpi.bandwidth",
    "mpi.put-latency",
    "mpi.allreduce-latency",
    "mpi.halo",
];

/// Returns all of them.
pub fn all() -> impl Iterator<Item = &'static Benchmark> {
    mpi_benchmarks::ALL.iter().map(|entry| &entry.benchmark)
}

/// Returns the quantity of a benchmark; `None` if it is not an MPI benchmark.
pub fn quantity(name: &str) -> Option<Quantity> {
    Some(match name {
        "mpi.latency" | "mpi.multi-pair-latency" => Quantity::RoundTrip,
        "mpi.pingping" => Quantity::PingPing,
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
    fn every_benchmark_has_a_quantity_and_is_in_the_program() {
        let program = include_str!("../programs/measure/main.c");
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
