//! The benchmarks of the file service. The paper is "InfiniBand - Experiences at Forschungszentrum
//! Karlsruhe".

use verbena_workloads::registry::Group;
use verbena_workloads::{Benchmark, Processes};

/// The data that a benchmark of the service transfers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Subject {
    /// Unfilled buffers: network and protocol alone.
    Unfilled,
    /// A file in the server's cache.
    Cached,
    /// A file written to the server.
    Written,
    /// One cached file, to many readers at once.
    Readers,
}

const fn benchmark(
    name: &'static str,
    axis: &'static str,
    answers: &'static str,
    source: &'static str,
) -> Benchmark {
    Benchmark {
        name,
        group: Group::Service,
        answers,
        source,
        processes: Processes::One,
        axis,
    }
}

/// The benchmarks.
pub const ALL: &[Benchmark] = &[
    benchmark(
        "rfio.unfilled",
        "size",
        "How fast are network and protocol, without storage?",
        "rfio_infiniband, Figure 3",
    ),
    benchmark(
        "rfio.cached",
        "size",
        "How fast is a cached file read, without output?",
        "rfio_infiniband, Figure 4",
    ),
    benchmark(
        "rfio.write",
        "size",
        "How fast is a file written to the server's memory?",
        "rfio_infiniband, Figure 5",
    ),
    benchmark(
        "rfio.readers",
        "readers",
        "What total bandwidth do many readers of one file get?",
        "rfio_infiniband, Figure 6",
    ),
];

/// Returns the numbers of readers to measure.
pub(crate) fn readers(quick: bool) -> &'static [usize] {
    match quick {
        true => &[1, 3, 12, 24],
        false => &[1, 2, 3, 4, 6, 8, 12, 16, 20, 24],
    }
}

/// Returns the data a benchmark transfers; `None` if it is not one of the service's.
pub(crate) fn subject(benchmark: &Benchmark) -> Option<Subject> {
    let index = ALL.iter().position(|own| own.name == benchmark.name)?;
    let order = [
        Subject::Unfilled,
        Subject::Cached,
        Subject::Written,
        Subject::Readers,
    ];
    order.get(index).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_benchmark_has_a_subject() {
        let subjects: Vec<_> = ALL.iter().map(subject).collect();
        assert_eq!(subjects.first(), Some(&Some(Subject::Unfilled)));
        assert!(subjects.iter().all(Option::is_some));
        assert_eq!(ALL[3].name, "rfio.readers");
        assert_eq!(subjects[3], Some(Subject::Readers));
    }
}
