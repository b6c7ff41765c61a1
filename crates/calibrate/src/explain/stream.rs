//! The limit of a stream of messages: the server that is busy for most of the time.
//!
//! A stream is simulated twice, the second time with twice the messages. The difference of the two
//! runs has neither set-up nor the beginning and the end of the stream.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;
use verbena_fabric::model::{Fidelity, Machine};
use verbena_measure::result::{Parameters, Point};
use verbena_measure::unit;
use verbena_model::audit::Audit;
use verbena_workloads::modelled::Modelled;
use verbena_workloads::{Benchmark, Budget, Options, RateBudget, Record};

/// Bytes in the shorter of the two runs, as far as the numbers of messages permit.
const BYTES: u64 = 32 << 20;
/// Least and most messages of the shorter run.
const MESSAGES: (u64, u64) = (64, 2048);
/// Share of the time from which a server limits a stream.
const LIMITS: f64 = 0.9;
/// Lines of translations a message that are mentioned.
const SELDOM: f64 = 0.01;
/// Number of servers to print.
const SHOWN: usize = 5;

/// A stream of messages of one size.
#[derive(Debug, Clone, PartialEq)]
pub struct Stream {
    /// Parameters of its point.
    pub parameters: Parameters,
    /// The benchmark's figure with its unit.
    pub figure: (f64, String),
    /// Nanoseconds from a message to the next one, of both directions together.
    pub between: f64,
    /// Lines of address translations that the adapters fetch for a message.
    pub translations: f64,
    /// Servers with the nanoseconds for which a message occupies them, the busiest first.
    pub servers: Vec<(String, f64)>,
}

/// Returns whether a benchmark is a stream of messages.
pub fn is_stream(benchmark: &Benchmark) -> bool {
    benchmark.name.starts_with("bandwidth.")
}

/// Analyses the streams of a benchmark, one for each size, number of pairs and transport of the
/// options. Those that the benchmark does not have are left out.
///
/// # Errors
///
/// Returns an error if the benchmark cannot run on the machine.
pub fn streams(
    machine: &Machine,
    benchmark: &'static Benchmark,
    options: &Options,
    fidelity: Fidelity,
) -> Result<Vec<Stream>, verbena_fabric::Error> {
    let mut found = Vec::new();
    for size in options.sizes.iter().flatten() {
        for pairs in options.pairs.iter().flatten() {
            for transport in options.transports.iter().flatten() {
                let options = Options {
                    sizes: Some(vec![*size]),
                    pairs: Some(vec![*pairs]),
                    transports: Some(vec![transport.clone()]),
                    ..options.clone()
                };
                let of = |messages| run((machine, fidelity), benchmark, &options, messages);
                let bytes = (*size as u64).max(1);
                let messages = (BYTES / bytes).clamp(MESSAGES.0, MESSAGES.1);
                if let (Some(once), Some(twice)) = (of(messages)?, of(2 * messages)?) {
                    found.extend(between(once.1, twice, bytes));
                }
            }
        }
    }
    Ok(found)
}

/// Runs a stream of so many messages; `None` if the benchmark has no such point.
fn run(
    (machine, fidelity): (&Machine, Fidelity),
    benchmark: &'static Benchmark,
    options: &Options,
    messages: u64,
) -> Result<Option<(Point, Audit)>, verbena_fabric::Error> {
    let modelled = Modelled {
        options: options.clone(),
        fidelity,
        budget: Budget {
            warmup: Duration::from_micros(5),
            rates: RateBudget {
                block: Duration::from_nanos(1),
                blocks: 1,
                least: messages,
                most: messages,
                extrapolates: false,
            },
            ..Budget::virtual_time()
        },
        ..Modelled::new(machine.clone(), benchmark)
    };
    let (ran, audit) = modelled.audited()?;
    let point = ran.records.into_iter().find_map(|record| match record {
        Record::Point(point) => Some(*point),
        _ => None,
    });
    Ok(point.map(|point| (point, audit)))
}

/// Returns the stream between the ends of a run and of a longer one.
fn between(once: Audit, (point, twice): (Point, Audit), size: u64) -> Option<Stream> {
    let messages = twice.bytes_sent.checked_sub(once.bytes_sent)? as f64 / size as f64;
    let per_message = |time: f64| time / messages;
    let before: BTreeMap<&str, f64> = once
        .usage
        .iter()
        .map(|usage| (usage.what.as_str(), usage.busy.nanos()))
        .collect();
    let busy = twice.usage.iter().map(|usage| {
        let before = before.get(usage.what.as_str()).copied().unwrap_or(0.0);
        let busy = usage.busy.nanos() - before;
        (usage.what.clone(), per_message(busy))
    });
    let mut servers: Vec<(String, f64)> = busy.filter(|(_, busy)| *busy > 0.0).collect();
    servers.sort_by(|one, other| other.1.total_cmp(&one.1));
    let headline = point.metrics.first()?;
    (messages > 0.0).then(|| Stream {
        figure: (headline.value, headline.unit.clone()),
        between: per_message(twice.now.nanos() - once.now.nanos()),
        translations: per_message((twice.translations - once.translations) as f64),
        servers,
        parameters: point.parameters,
    })
}

impl Stream {
    /// Returns the busiest servers as a table, and the limit in a sentence; `benchmark` and
    /// `system` are their names.
    pub fn text(&self, benchmark: &str, system: &str) -> String {
        let words = self.parameters.iter();
        let words: Vec<String> = words
            .map(|(name, value)| format!("{name} {value}"))
            .collect();
        let mut out = format!(
            "{benchmark}: {}, on {system}: {}, a message every {}\n",
            words.join(", "),
            unit::display(self.figure.0, &self.figure.1),
            unit::time(self.between)
        );
        let _ = writeln!(
            out,
            "  {:<26} {:>14} {:>8}",
            "server", "busy a message", "share"
        );
        for (server, busy) in self.servers.iter().take(SHOWN) {
            let share = 100.0 * (busy / self.between).min(1.0);
            let _ = writeln!(
                out,
                "  {server:<26} {:>14} {share:>6.1} %",
                unit::time(*busy)
            );
        }
        let _ = writeln!(out, "  {}", self.limit());
        if self.translations >= SELDOM {
            let _ = writeln!(
                out,
                "  address translations: {:.2} lines are fetched a message; a message waits for \
                 its first",
                self.translations
            );
        }
        out
    }

    /// Returns the limit of the stream.
    fn limit(&self) -> String {
        let Some((server, busy)) = self.servers.first() else {
            return "limit: none of the servers is in use".to_owned();
        };
        let share = busy / self.between;
        if share < LIMITS {
            return format!(
                "limit: no server, the busiest ({server}) is idle for {:.0} % of the time; \
                 messages wait for others: for latencies, requests under way or buffers",
                100.0 * (1.0 - share)
            );
        }
        format!(
            "limit: {server}, with gaps of {} a message",
            unit::time((self.between - busy).max(0.0))
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use verbena_model::profile::{Library, Overrides};
    use verbena_workloads::find;

    fn stream(name: &str, size: usize, overrides: &Overrides) -> Stream {
        let library = Library::shipped(overrides).expect("shipped profiles are sound");
        let machine = Machine::of(&library, "connectx6-hdr").expect("it is shipped");
        let options = Options {
            sizes: Some(vec![size]),
            pairs: Some(vec![1]),
            transports: Some(vec!["rc".to_owned()]),
            ..Options::default()
        };
        let benchmark = find(name).expect("a benchmark");
        let found = streams(&machine, benchmark, &options, Fidelity::Packet);
        found.expect("it can be explained").remove(0)
    }

    #[test]
    fn the_link_limits_long_messages_and_a_slow_bus_before_it() {
        let long = stream("bandwidth.write", 1 << 20, &Overrides::none());
        // 1 MiB at 25 GB/s and headers.
        assert!((41_900.0..43_500.0).contains(&long.between), "{long:?}");
        assert!(long.servers[0].0.starts_with("egress port"), "{long:?}");
        assert!(
            long.limit().starts_with("limit: egress port"),
            "{}",
            long.limit()
        );
        let narrow = Overrides::none().with("pcie3-x16.pcie.lanes", 4.0);
        let slow = stream("bandwidth.write", 1 << 20, &narrow);
        assert!(slow.servers[0].0.contains("bus"), "{slow:?}");
        assert!(slow.between > 1.5 * long.between);
        let text = slow.text("bandwidth.write", "x");
        assert!(
            text.contains("size 1048576") && text.contains(" a message every "),
            "{text}"
        );
        // No server is busy for longer than there is.
        let all = long.servers.iter().chain(&slow.servers);
        assert!(all.count() > 4);
        assert!(long.servers[0].1 <= 1.001 * long.between);
    }

    #[test]
    fn short_messages_do_not_fill_the_link() {
        let short = stream("bandwidth.write", 8, &Overrides::none());
        let link = short
            .servers
            .iter()
            .find(|(name, _)| name.starts_with("egress"));
        assert!(
            link.expect("it is used").1 < 0.5 * short.between,
            "{short:?}"
        );
        assert!(short.limit().starts_with("limit: "));
    }
}
