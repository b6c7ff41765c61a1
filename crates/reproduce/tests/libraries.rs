//! The shipped message-passing libraries: each runs all benchmarks, and algorithms take the time of
//! published formulas.

use std::collections::BTreeSet;
use std::sync::Arc;
use verbena_model::adapter::Fidelity;
use verbena_model::profile::{Library, Overrides, System};
use verbena_model::stage;
use verbena_reproduce::bench::{Ranks, mpi_latency, mpi_traced};
use verbena_reproduce::mpi_benchmarks::{ALL, Measure, point, points};
use verbena_workloads::Processes;

/// Returns a system with one of the shipped libraries.
fn with_shipped(library: &str) -> System {
    let text = format!("kind = \"system\"\nbase = \"connectx-qdr\"\nmpi = \"{library}\"\n");
    Library::shipped(&Overrides::none())
        .and_then(|shipped| shipped.and([("system/mine.toml", text.as_str())]))
        .and_then(|library| library.system("mine"))
        .expect("sound profiles")
}

/// Returns a system whose library uses one algorithm for an operation.
fn taking(operation: &str, choice: &str) -> System {
    let library = format!(
        "kind = \"mpi\"\nbase = \"mvapich-0.9.9\"\nabout = \"Mine\"\n[collectives.{operation}]\n\
         tag = \"assumed\"\nsource = \"mine\"\n\
         choices = [{{ {choice} }}]\n"
    );
    let system = "kind = \"system\"\nbase = \"connectx-qdr\"\nmpi = \"mine\"\n";
    Library::shipped(&Overrides::none())
        .and_then(|shipped| {
            shipped.and([
                ("mpi/mine.toml", library.as_str()),
                ("system/mine.toml", system),
            ])
        })
        .and_then(|library| library.system("mine"))
        .expect("sound profiles")
}

const LIBRARIES: [&str; 9] = [
    "mvapich-1.2",
    "openmpi-1.8",
    "openmpi-1.8-pipeline",
    "mvapich2-2.3",
    "intelmpi-2019",
    "openmpi-5",
    "mpich",
    "openmpi-tcp",
    "sockets",
];

#[test]
fn every_library_runs_every_benchmark() {
    for library in LIBRARIES {
        let system = with_shipped(library);
        for entry in ALL {
            let crews = match entry.benchmark.processes {
                Processes::AtLeast(_) => &[4, 7, 16][..],
                Processes::Pairs => &[4],
                _ => &[2],
            };
            for at in points(entry, &[8, 65_536], crews) {
                let point = point(entry, (&system, Fidelity::Packet), at);
                assert!(point.metrics[0].value > 0.0, "{library}: {point:?}");
            }
        }
    }
}

/// Returns the stages of a message between two nodes.
fn stages(library: &str, bytes: u64) -> BTreeSet<&'static str> {
    let traced = mpi_traced(&with_shipped(library), Fidelity::Packet, bytes, false);
    traced.spans.iter().map(|span| span.stage).collect()
}

#[test]
fn libraries_switch_protocols_at_their_own_limits() {
    let copies = |library, bytes| {
        let stages = stages(library, bytes);
        [stage::COPY_OUT, stage::COPY_IN].map(|copy| stages.contains(copy))
    };
    for (library, last_copied) in [
        ("openmpi-1.8", 12_288),
        ("mvapich2-2.3", 17_408),
        ("intelmpi-2019", 16_384),
    ] {
        assert_eq!(copies(library, last_copied), [true, true], "{library}");
        assert_eq!(
            copies(library, last_copied + 1),
            [false, false],
            "{library}"
        );
    }
    // Over UCX the sender's copy ends first. Open MPI's blocking sends have limits of their own.
    assert_eq!(copies("mpich", 2007), [true, true]);
    assert_eq!(copies("mpich", 2008), [false, true]);
    assert_eq!(copies("mpich", 17_298), [false, false]);
    assert_eq!(copies("openmpi-5", 16_676), [true, true]);
    assert_eq!(copies("openmpi-5", 262_143), [false, true]);
    assert_eq!(copies("openmpi-5", 262_144), [false, false]);
    // Nothing avoids the copies of a socket.
    assert_eq!(copies("openmpi-tcp", 8 << 20), [true, true]);
}

#[test]
fn pieces_of_an_eager_message_overlap() {
    // Copies at both ends and the transfer take turns for a whole message only.
    let latency = |piece: f64| {
        let overrides = Overrides::none().with("ucx.piece", piece);
        let text = "kind = \"system\"\nbase = \"connectx-qdr\"\nmpi = \"openmpi-5\"\n";
        let system = Library::shipped(&overrides)
            .and_then(|shipped| shipped.and([("system/mine.toml", text)]))
            .and_then(|library| library.system("mine"))
            .expect("sound profiles");
        mpi_latency(&system, Ranks::Apart, 16_384)
    };
    let (whole, pieces) = (latency(1e6), latency(4096.0));
    assert!(
        pieces < 0.85 * whole,
        "{pieces} us in pieces, {whole} whole"
    );
}

/// Formulas for n bytes and p ranks in terms of an exchange between two (Thakur, Rabenseifner,
/// Gropp 2005).
#[test]
fn algorithms_take_the_published_number_of_exchanges() {
    let plain = Arc::new(with_shipped("mvapich-0.9.9"));
    let exchange = |bytes: u64| Measure::PingPing.figure(&plain, bytes, 2);
    let near = |what: &str, figure: f64, formula: f64| {
        let off = figure / formula - 1.0;
        assert!(
            off.abs() < 0.06,
            "{what}: {figure} us, {formula} by the formula"
        );
    };
    for (ranks, bytes) in [(8u64, 65_536u64), (16, 1 << 20)] {
        let size = ranks as usize;
        let part = bytes / ranks;
        let of = |measure: Measure, operation: &str, algorithm: &str, bytes: u64| {
            let system = taking(operation, &format!("algorithm = \"{algorithm}\""));
            measure.figure(&system, bytes, size)
        };
        let ring = of(Measure::AllReduce, "all_reduce", "ring", bytes);
        near("ring", ring, 2.0 * (ranks - 1) as f64 * exchange(part));
        let halves = (1..=ranks.ilog2()).map(|power| exchange(bytes >> power));
        let halved = of(Measure::AllReduce, "all_reduce", "rabenseifner", bytes);
        near("by halves", halved, 2.0 * halves.sum::<f64>());
        let doubling = of(
            Measure::AllReduce,
            "all_reduce",
            "recursive-doubling",
            bytes,
        );
        near(
            "doubling",
            doubling,
            f64::from(ranks.ilog2()) * exchange(bytes),
        );
        let neighbors = of(Measure::AllGather, "all_gather", "neighbor-exchange", part);
        let pairs = (ranks / 2 - 1) as f64 * exchange(2 * part);
        near("neighbors", neighbors, exchange(part) + pairs);
    }
}

/// Pieces are pipelined: a chain of p ranks takes little more than one hop, not p - 1 times as
/// long.
#[test]
fn chain_broadcasts_are_pipelined() {
    let of = |choice: &str| {
        let system = taking("broadcast", choice);
        Measure::Broadcast.figure(&system, 4 << 20, 16)
    };
    let whole = of("algorithm = \"chain\"");
    let pieces = of("algorithm = \"chain\", segment = 65536");
    assert!(pieces < 0.2 * whole, "{pieces} us in pieces, {whole} whole");
    let tree = of("algorithm = \"binomial\"");
    let gathered = of("algorithm = \"scatter-ring\"");
    assert!(
        gathered < 0.7 * tree && pieces < 0.5 * tree,
        "{tree}, {gathered}, {pieces} us"
    );
    let split = of("algorithm = \"split-binary\", segment = 65536");
    let binary = of("algorithm = \"binary\", segment = 65536");
    assert!(split < 0.95 * binary, "{split} us split, {binary} not");
}

/// Short messages to all ranks overlap if they begin together.
#[test]
fn messages_started_together_overlap() {
    let of = |choice: &str| {
        let system = taking("all_to_all", choice);
        Measure::AllToAll.figure(&system, 1024, 16)
    };
    let pairwise = of("algorithm = \"pairwise\"");
    let linear = of("algorithm = \"linear\"");
    let four = of("algorithm = \"linear\", at_once = 4");
    assert!(linear < 0.8 * pairwise, "{linear} us, {pairwise} pairwise");
    assert!(
        linear <= four && four <= pairwise,
        "{linear}, {four}, {pairwise} us"
    );
}

#[test]
fn libraries_differ_where_their_tables_differ() {
    let figures = |measure: Measure, bytes, ranks| {
        ["openmpi-1.8", "openmpi-5", "mpich"]
            .map(|name| measure.figure(&with_shipped(name), bytes, ranks))
    };
    let [old, new, mpich] = figures(Measure::AllReduce, 1 << 20, 8);
    // A ring, and recursive halving twice.
    assert!((new / mpich - 1.0).abs() < 0.01, "{new} and {mpich} us");
    assert!(old != new);
    let [old, _, mpich] = figures(Measure::AllToAll, 64, 16);
    assert!(old > 0.0 && mpich > 0.0);
}
