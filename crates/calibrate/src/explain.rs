//! Attributes the time of one operation to its stages.
//!
//! A benchmark of the suite runs on a modelled system that records its stages; the last timed
//! operation of each point is analysed. Every instant belongs to one stage: of those in progress
//! the one that began last, because the operation waits for the latest step of a sequence.
//! Acknowledgements and completions run beside a message and its answer; an instant counts for them
//! only if no other stage is in progress. The rest is the adapter's own work: engines, pipeline, a
//! change of queue pair, waiting for a turn.

mod stream;
mod text;

pub use stream::{Stream, is_stream, streams};

use std::collections::BTreeMap;
use std::time::Duration;
use verbena_fabric::model::Machine;
use verbena_fabric::model::{Fidelity, Traced};
use verbena_measure::result::{Parameters, Value};
use verbena_model::kernel::{Span, Time};
use verbena_model::profile::System;
use verbena_model::stage;
use verbena_reproduce::bench::mpi_traced;
use verbena_reproduce::mpi_benchmarks;
use verbena_workloads::modelled::Modelled;
use verbena_workloads::{Benchmark, Budget, Options, Processes, RateBudget};

/// Name of the time that no recorded stage accounts for.
pub const ADAPTER: &str = "adapter";

/// An analysed operation.
#[derive(Debug, Clone, PartialEq)]
pub struct Explained {
    /// Parameters of its point.
    pub parameters: Parameters,
    /// Duration of the operation; of an exchange, both directions.
    pub took: Time,
    /// For an exchange, the benchmark's one-way time: half of it (rule 14).
    pub one_way: Option<Time>,
    /// Shares by stage and node; the times add up to the whole.
    pub shares: Vec<Share>,
    /// The recorded stages, with times from the operation's start.
    pub spans: Vec<Span>,
}

/// A stage's share of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    /// The stage.
    pub stage: &'static str,
    /// Node of the stage; for the adapter's own work, the node of the following stage.
    pub node: usize,
    /// Its first start, from the operation's start.
    pub first: Time,
    /// Number of occurrences.
    pub times: usize,
    /// Time of the operation that is attributed to it.
    pub time: Time,
}

/// Analyses a benchmark's operations, one for each of its points.
///
/// # Errors
///
/// Returns an error if the benchmark cannot run on the machine.
pub fn explain(
    machine: impl Into<Machine>,
    benchmark: &'static Benchmark,
    options: Options,
    fidelity: Fidelity,
) -> Result<Vec<Explained>, verbena_fabric::Error> {
    let machine = machine.into();
    if matches!(benchmark.processes, Processes::AtLeast(_)) {
        let what = format!(
            "{} in `explain` (benchmarks of two processes are; the results of `bench` name the \
             link that bounds a pattern)",
            benchmark.name
        );
        let model = format!("the model {}", machine.name());
        return Err(verbena_fabric::Error::unsupported(what, model));
    }
    let modelled = Modelled {
        options,
        fidelity,
        budget: Budget {
            warmup: Duration::from_micros(5),
            block: Duration::from_micros(1),
            blocks: 1,
            // A single message: [`streams`] explains the limit of a stream.
            rates: RateBudget {
                block: Duration::from_nanos(1),
                blocks: 1,
                least: 1,
                most: 1,
                extrapolates: false,
            },
            ..Budget::virtual_time()
        },
        ..Modelled::new(machine, benchmark)
    };
    let traced = modelled.trace()?;
    Ok(traced
        .into_iter()
        .map(|(point, traced)| Explained {
            one_way: (point.metrics[0].name == "one-way-latency")
                .then(|| Time((traced.end - traced.start).0 / 2)),
            parameters: point.parameters,
            took: traced.end - traced.start,
            shares: shares(&traced),
            spans: relative(&traced),
        })
        .collect())
}

/// Analyses messages of the system's library: an exchange for `mpi.latency`, one message for
/// `mpi.bandwidth`.
///
/// # Errors
///
/// Returns an error if the benchmark is another one, or the system has no library.
pub fn explain_messages(
    system: &System,
    entry: &mpi_benchmarks::Entry,
    sizes: &[u64],
    fidelity: Fidelity,
) -> Result<Vec<Explained>, verbena_fabric::Error> {
    let (name, model) = (entry.benchmark.name, format!("the model {}", system.name));
    let answered = match entry.measure {
        mpi_benchmarks::Measure::Latency => true,
        mpi_benchmarks::Measure::Bandwidth => false,
        _ => {
            let what = format!("{name} in `explain` (mpi.latency and mpi.bandwidth are)");
            return Err(verbena_fabric::Error::unsupported(what, model));
        }
    };
    if system.mpi.is_none() {
        let what = format!("{name} (needs a message-passing library)");
        return Err(verbena_fabric::Error::unsupported(what, model));
    }
    let each = sizes.iter().map(|&bytes| {
        let traced = mpi_traced(system, fidelity, bytes, answered);
        let took = traced.end - traced.start;
        Explained {
            parameters: Parameters::from([("size".to_owned(), Value::from(bytes as usize))]),
            one_way: answered.then_some(Time(took.0 / 2)),
            took,
            shares: shares(&traced),
            spans: relative(&traced),
        }
    });
    Ok(each.collect())
}

fn relative(traced: &Traced) -> Vec<Span> {
    let from_start = |time: Time| time.max(traced.start).min(traced.end) - traced.start;
    traced
        .spans
        .iter()
        .map(|span| Span {
            start: from_start(span.start),
            end: from_start(span.end),
            ..*span
        })
        .collect()
}

/// Returns whether a stage runs beside the data path.
fn is_beside(stage: &str) -> bool {
    matches!(
        stage,
        stage::ACKNOWLEDGEMENT | stage::COMPLETION | stage::POLL
    )
}

/// Attributes every instant to a stage.
fn shares(traced: &Traced) -> Vec<Share> {
    let spans = relative(traced);
    let whole = traced.end - traced.start;
    let mut edges: Vec<Time> = spans.iter().flat_map(|s| [s.start, s.end]).collect();
    edges.extend([Time::ZERO, whole]);
    edges.sort();
    edges.dedup();
    let mut found: BTreeMap<(&'static str, usize), Share> = BTreeMap::new();
    let mut last: Option<(&'static str, usize)> = None;
    for edge in edges.windows(2) {
        let [from, to] = [edge[0], edge[1]];
        let active = spans.iter().filter(|s| s.start <= from && s.end >= to);
        let owner = active.max_by_key(|s| (!is_beside(s.stage), s.start));
        let key = match owner {
            Some(span) => (span.stage, span.place),
            None => (ADAPTER, next_place(&spans, to)),
        };
        let share = found.entry(key).or_insert(Share {
            stage: key.0,
            node: key.1,
            first: from,
            times: 0,
            time: Time::ZERO,
        });
        share.time += to - from;
        share.times += usize::from(last != Some(key));
        last = Some(key);
    }
    let mut shares: Vec<Share> = found.into_values().collect();
    shares.sort_by_key(|share| share.first);
    shares
}

/// Returns the node of the next stage that begins at `time` or after: the adapter's work leads to
/// it.
fn next_place(spans: &[Span], time: Time) -> usize {
    let next = spans
        .iter()
        .filter(|span| span.start >= time)
        .min_by_key(|span| (span.start, is_beside(span.stage)));
    next.or(spans.last()).map_or(0, |span| span.place)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(stage: &'static str, start: u64, end: u64) -> Span {
        Span {
            start: Time(start),
            end: Time(end),
            stage,
            place: 0,
        }
    }

    #[test]
    fn every_instant_has_one_stage_and_stages_add_up() {
        let traced = Traced {
            start: Time(100),
            end: Time(200),
            spans: vec![
                span(stage::POST, 90, 120),
                span(stage::WIRE, 130, 170),
                span(stage::COMPLETION, 150, 190),
                span(stage::SWITCH, 140, 145),
            ],
        };
        let shares = shares(&traced);
        let of = |stage: &str| shares.iter().find(|s| s.stage == stage).map(|s| s.time.0);
        assert_eq!(of(stage::POST), Some(20));
        assert_eq!(of(stage::WIRE), Some(35));
        assert_eq!(of(stage::SWITCH), Some(5));
        assert_eq!(of(stage::COMPLETION), Some(20));
        assert_eq!(of(ADAPTER), Some(20));
        assert_eq!(shares.iter().map(|s| s.time.0).sum::<u64>(), 100);
    }

    #[test]
    fn patterns_are_refused_with_the_reason() {
        use verbena_model::profile::{Library, Overrides};
        let library = Library::shipped(&Overrides::none()).expect("shipped profiles are sound");
        let machine = Machine::of(&library, "connectx6-hdr").expect("it is shipped");
        let pattern = verbena_workloads::find("patterns.fan-in").expect("a benchmark");
        let refused = explain(machine, pattern, Options::default(), Fidelity::Packet);
        let reason = refused.expect_err("has many processes").to_string();
        assert!(reason.contains("patterns.fan-in in `explain`"), "{reason}");
    }

    #[test]
    fn stages_of_a_library_and_of_the_adapter_add_up() {
        use verbena_model::profile::{Library, Overrides};
        let library = Library::shipped(&Overrides::none()).expect("shipped profiles are sound");
        let system = library.system("connectx5-edr").expect("it is shipped");
        let explained = |name: &str, bytes| {
            let entry = mpi_benchmarks::find(name).expect("a benchmark");
            explain_messages(&system, entry, &[bytes], Fidelity::Packet)
        };
        for (name, bytes) in [("mpi.latency", 8), ("mpi.bandwidth", 1 << 20)] {
            let one = &explained(name, bytes).expect("it can be explained")[0];
            let all = one.shares.iter().map(|share| share.time.0).sum::<u64>();
            assert_eq!(all, one.took.0);
            for stage in [stage::SEND, stage::WAKEUP, stage::MATCH, stage::WIRE] {
                assert!(
                    one.shares.iter().any(|share| share.stage == stage),
                    "{stage}"
                );
            }
        }
        let refused = explained("mpi.barrier-latency", 8).expect_err("it is no single message");
        assert!(refused.to_string().contains("mpi.barrier-latency"));
    }
}
