//! Recorded programs for the papers' claims, from `papers/traces`. A trace contains a program's
//! messages and the computing time between them on the recording machine; a factor scales the
//! computing time to a paper's machine.

use std::path::Path;
use std::sync::OnceLock;
use verbena_model::adapter::Fidelity;
use verbena_model::kernel::Time;
use verbena_model::profile::System;
use verbena_mpi_trace::{Summary, Trace};
use verbena_replay::cyclic;
use verbena_replay::recorded::{Replay, programs, run};

/// Recording of a program's timed section on a number of ranks.
struct Kept {
    program: &'static str,
    ranks: usize,
    file: &'static [u8],
}

macro_rules! kept {
    ($($program:literal: $($ranks:literal)*;)*) => {
        const KEPT: &[Kept] = &[$($(Kept {
            program: $program,
            ranks: $ranks,
            file: include_bytes!(concat!(
                env!("CARGO_MANIFEST_DIR"), "/../../papers/traces/", $program, "-", $ranks, ".trace"
            )),
        }),*),*];
    };
}

kept! {
    "hpl": 1 2 4 8 16 26;
    "lammps-rhodo": 1 2 4 8 16;
    "lattice-qcd": 1 2 4 8 16;
    "nas-is": 2 4 8;
    "nas-mg": 2 4 8;
    "nas-lu": 2 4 8;
    "nas-cg": 2 4 8;
}

/// Parsed traces, read on first use.
static READ: [OnceLock<Trace>; KEPT.len()] = [const { OnceLock::new() }; KEPT.len()];

/// Returns the trace of a program on a number of ranks.
///
/// # Panics
///
/// If no such trace is shipped.
pub(super) fn trace(program: &str, ranks: usize) -> &'static Trace {
    let place = KEPT
        .iter()
        .position(|kept| kept.program == program && kept.ranks == ranks)
        .unwrap_or_else(|| panic!("{program} was not recorded on {ranks} ranks"));
    READ[place].get_or_init(|| {
        let name = format!("papers/traces/{program}-{ranks}.trace");
        Trace::of_bundle(Path::new(&name), KEPT[place].file)
            .unwrap_or_else(|error| panic!("a shipped trace is sound: {error}"))
    })
}

/// Returns the computing time of all ranks on the recording machine.
pub(super) fn computing(trace: &Trace) -> Time {
    Time::from_nanos(Summary::of(trace).computing as f64)
}

/// Returns the time that a trace takes on a system, its ranks distributed round-robin over `nodes`
/// nodes, with computing time multiplied by `compute_scale`.
pub(super) fn replayed(trace: &Trace, system: &System, nodes: usize, compute_scale: f64) -> Time {
    let replay = Replay {
        system,
        fidelity: Fidelity::Packet,
        nodes: cyclic(trace.ranks.len(), nodes),
        compute_scale,
        memory_traffic: None,
    };
    replayed_as(trace, &replay)
}

/// Returns the time that a trace takes with other replay settings.
pub(super) fn replayed_as(trace: &Trace, replay: &Replay<'_>) -> Time {
    let library = replay.system.mpi.as_ref();
    let library = library.expect("a system of a claim has a message-passing library");
    let programs = programs(trace, library).unwrap_or_else(|error| panic!("{error}"));
    let outcome = run(replay, programs).unwrap_or_else(|failure| panic!("{failure}"));
    outcome.last()
}

#[cfg(test)]
mod tests {
    use super::*;
    use verbena_mpi_trace::Messages;

    #[test]
    fn shipped_traces_are_complete_and_small() {
        let bytes: usize = KEPT.iter().map(|kept| kept.file.len()).sum();
        assert!(bytes < 20_000_000, "{bytes} bytes of traces");
        for kept in KEPT {
            let trace = trace(kept.program, kept.ranks);
            assert_eq!(trace.ranks.len(), kept.ranks, "{}", kept.program);
            assert!(trace.unfinished().next().is_none());
            assert_eq!(Messages::of(trace).unwrap().imbalances(), []);
            assert!(computing(trace) > Time::ZERO);
        }
    }

    #[test]
    #[should_panic(expected = "nas-is was not recorded on 3 ranks")]
    fn an_unrecorded_rank_count_panics() {
        trace("nas-is", 3);
    }
}
