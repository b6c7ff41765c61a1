//! The results of replays as text.

use super::super::comparison::{Comparable, Compared, verdicts};
use super::super::hot_lines;
use super::super::interval::{ASSUMED, Judged};
use super::super::summary::{self, OnModel};
use super::{Found, OnEach, PrintedPoint, Replayed, ToldChain};
use std::cmp::Reverse;
use std::fmt::Write as _;
use verbena_measure::unit;
use verbena_model::kernel::Time;
use verbena_replay::Parts;
use verbena_replay::recorded::{Replayed as Outcome, Waited};
use verbena_report::html::Spent;

/// Returns a single replay in full, one trace on several models side by side, or several traces by
/// ranks.
///
/// `differences` has those of the systems, `found` the search for assumed values that change
/// a verdict, if there was one; `in_blocks` draws bars in block characters.
pub fn text(
    replayed: &[OnEach],
    differences: &[String],
    found: Option<&Found>,
    in_blocks: bool,
) -> String {
    let mut out = match replayed {
        [on_each] => match &on_each[..] {
            [one] => alone(&one.told, &one.outcome, in_blocks),
            several => beside(several, in_blocks),
        },
        several => by_ranks(several),
    };
    for warning in replayed.iter().flat_map(|on_each| warnings(on_each)) {
        let _ = writeln!(out, "  {warning}");
    }
    for difference in differences {
        let _ = writeln!(out, "  {difference}");
    }
    for line in found.map(Found::lines).unwrap_or_default() {
        let _ = writeln!(out, "  {line}");
    }
    out
}

/// Returns the time by trace and system, and relative to the first system.
fn by_ranks(all: &[OnEach]) -> String {
    let wide =
        |words: &dyn Fn(&Replayed) -> usize| all.iter().flatten().map(words).max().unwrap_or(0);
    let trace = wide(&|one| one.told.trace.len()).max("trace".len());
    let system = wide(&|one| one.told.system.len()).max(18);
    let mut heading = format!("{:<trace$} {:>5} {:>5}", "trace", "ranks", "nodes");
    for one in &all[0] {
        heading += &format!("  {:>system$}", one.told.system);
    }
    let mut out = heading + "\n";
    for on_each in all {
        let first = &on_each[0].told;
        let mut line = format!(
            "{:<trace$} {:>5} {:>5}",
            first.trace, first.ranks, first.nodes
        );
        for Replayed { told, .. } in on_each {
            let ratio = told.nanoseconds / first.nanoseconds;
            let words = format!("{} {ratio:.3}x", unit::time(told.nanoseconds));
            line += &format!("  {words:>system$}");
        }
        out = out + &line + "\n";
    }
    for on_each in all {
        let first = &on_each[0].told;
        let within = first.setup.within();
        let _ = writeln!(out, "\n{}, {} nodes{within}", first.trace, first.nodes);
        for line in PrintedPoint::fabrics(on_each) {
            let _ = writeln!(out, "  {line}");
        }
        out += &verdicts(&compared(on_each));
    }
    out
}

/// Ranks shown in the table. With more ranks, those with the least and the most computing, overhead
/// and waiting are shown.
const SHOWN: usize = 16;

fn alone(told: &PrintedPoint, outcome: &Outcome, in_blocks: bool) -> String {
    let mut out = format!(
        "{} ranks on {} nodes of {}{}: {}\n  fabric: {}\n  {}\n",
        told.ranks,
        told.nodes,
        told.system,
        told.setup.within(),
        unit::time(told.nanoseconds),
        told.setup.fabric,
        does(told)
    );
    out += &row("rank", ["computing", "overhead", "wire", "waiting", "end"]);
    for (rank, parts, waited) in shown(outcome) {
        let times = [
            parts.computing,
            parts.overhead,
            waited.wire,
            parts.waiting.since(waited.wire),
            parts.end,
        ];
        out += &row(
            &rank.to_string(),
            times.map(|time| unit::time(time.nanos())),
        );
    }
    let means = means(outcome);
    let Means {
        computing,
        overhead,
        wire,
        waiting,
        end,
    } = means;
    let all = [computing, overhead, wire, waiting, end];
    out += &row("mean", all.map(unit::time));
    let sentences = [
        ("Waits", longest_waits(outcome)),
        ("Interval", interval(told)),
        ("Chain", chain(told)),
        ("Limit", told.limit.clone()),
        ("Adapter", adapter(told)),
    ];
    out += &summary::one(&means.spent(told.nanoseconds), &sentences, in_blocks);
    out + &hot_lines(&told.hot_ports)
}

fn row<T: AsRef<str>>(name: &str, columns: [T; 5]) -> String {
    let columns = columns
        .iter()
        .map(|column| format!(" {:>10}", column.as_ref()));
    format!("  {name:<8}{}\n", columns.collect::<String>())
}

/// Number of pairs of ranks to name.
const PAIRS: usize = 5;

/// Lists the pairs of ranks with the longest waits.
fn longest_waits(outcome: &Outcome) -> String {
    let mut pairs: Vec<(Time, usize, usize)> = Vec::new();
    for (rank, waited) in outcome.waited.iter().enumerate() {
        let others = waited.others.iter();
        pairs.extend(others.map(|(other, time)| (*time, rank, *other)));
    }
    pairs.sort_by_key(|&(time, rank, other)| (Reverse(time), rank, other));
    let words = pairs
        .iter()
        .take(PAIRS)
        .map(|(time, rank, other)| format!("rank {rank} for {other} {}", unit::time(time.nanos())));
    words.collect::<Vec<String>>().join(", ")
}

/// Describes the critical path, the longest chain of activities of which each waits for the
/// previous one.
fn chain(told: &PrintedPoint) -> String {
    let chain = &told.chain;
    let part = |what, nanos: f64| {
        let percent = nanos / told.nanoseconds.max(f64::MIN_POSITIVE) * 100.0;
        format!("{} {what} ({percent:.1} %)", unit::time(nanos))
    };
    format!(
        "{}, {}, {}, {} changes of rank",
        part("computing", chain.computing),
        part("overhead", chain.overhead),
        part("wire", chain.wire),
        chain.crossings
    )
}

/// Describes how far the time may be from a real system's.
fn interval(told: &PrintedPoint) -> String {
    told.interval.as_ref().map_or(String::new(), |one| {
        format!("{}, {}; {ASSUMED}", one.range(), one.origin())
    })
}

/// Returns the warnings about a recording.
pub fn warnings(on_each: &[Replayed]) -> Vec<String> {
    let crowded = on_each.first().and_then(|one| one.told.crowded);
    crowded.map(|one| one.text()).into_iter().collect()
}

/// Computing on the critical path over that of the mean rank from which the ranks' differences
/// limit the program.
const UNEVEN: f64 = 1.5;

/// Returns the largest part of the critical path, with its share.
pub fn limit(told: &PrintedPoint, outcome: &Outcome) -> String {
    limit_of(&told.chain, told.nanoseconds, outcome)
}

fn limit_of(chain: &ToldChain, all: f64, outcome: &Outcome) -> String {
    let all = all.max(f64::MIN_POSITIVE);
    let parts = [
        ("computing", chain.computing),
        ("overhead of messages", chain.overhead),
        ("wire", chain.wire),
    ];
    let largest = parts.into_iter().max_by(|a, b| a.1.total_cmp(&b.1));
    let (name, time) = largest.unwrap_or(("nothing", 0.0));
    let share = time / all;
    let mean = means(outcome).computing;
    if time == chain.computing && time > UNEVEN * mean {
        return format!(
            "imbalance between ranks ({:.0} % of the critical path is computing, but {:.0} % of a \
             rank's time on average)",
            100.0 * share,
            100.0 * mean / all
        );
    }
    format!("{name} ({:.0} % of the critical path)", 100.0 * share)
}

/// Returns the verdict on a replay against another one.
pub fn judged(first: &Replayed, other: &Replayed) -> Option<Judged> {
    first.compared().judged(&other.compared())
}

/// Returns replays side by side.
pub fn compared(all: &[Replayed]) -> Vec<Compared<'_>> {
    all.iter().map(Replayed::compared).collect()
}

/// Describes the share of the time that depends on the adapter.
fn adapter(told: &PrintedPoint) -> String {
    let chain = &told.chain;
    let share = (chain.overhead + chain.wire) / told.nanoseconds.max(f64::MIN_POSITIVE);
    format!(
        "overhead and wire, {:.0} % of the chain, depend on the adapter; computing does not",
        100.0 * share
    )
}

/// Returns the program's content, which is independent of the system, as a phrase.
pub fn does(told: &PrintedPoint) -> String {
    let traffic = match told.memory_traffic {
        Some(rate) => format!(", memory traffic {}", unit::rate(rate)),
        None => String::new(),
    };
    format!(
        "{} calls, {} messages of {} together, {} given to collectives; computing x {}{traffic}",
        told.calls,
        told.messages,
        unit::size(told.bytes as f64),
        unit::size(told.collective_bytes as f64),
        told.compute_scale
    )
}

/// Returns the replays on several systems: total time, ratio to the first, and mean times of the
/// ranks.
fn beside(all: &[Replayed], in_blocks: bool) -> String {
    let first = &all[0].told;
    let mut out = format!(
        "{} ranks on {} nodes{}\n",
        first.ranks,
        first.nodes,
        first.setup.within()
    );
    for line in PrintedPoint::fabrics(all) {
        let _ = writeln!(out, "  {line}");
    }
    let _ = writeln!(out, "  {}", does(first));
    let width = all
        .iter()
        .map(|one| one.told.system.len())
        .max()
        .unwrap_or(0);
    let _ = writeln!(
        out,
        "  {:<width$} {:>10} {:>9} {:>10} {:>10} {:>10} {:>10}",
        "system", "time", "to first", "computing", "overhead", "wire", "waiting"
    );
    for Replayed { told, outcome, .. } in all {
        let means = means(outcome);
        let times = [means.computing, means.overhead, means.wire, means.waiting];
        let [computing, overhead, wire, waiting] = times.map(unit::time);
        let _ = writeln!(
            out,
            "  {:<width$} {:>10} {:>8.3}x {computing:>10} {overhead:>10} {wire:>10} {waiting:>10}",
            told.system,
            unit::time(told.nanoseconds),
            told.nanoseconds / first.nanoseconds
        );
    }
    let models = all.iter().map(|Replayed { told, outcome, .. }| OnModel {
        system: &told.system,
        took: told.nanoseconds,
        spent: Some(means(outcome).spent(told.nanoseconds)),
    });
    let judge = |first: usize, other: usize| judged(&all[first], &all[other]);
    out += &summary::several(&models.collect::<Vec<_>>(), judge, in_blocks);
    out + "\n" + &verdicts(&compared(all))
}

/// Means over the ranks, in nanoseconds.
pub struct Means {
    computing: f64,
    overhead: f64,
    wire: f64,
    waiting: f64,
    end: f64,
}

impl Means {
    /// Returns the parts of a replay that took `all` nanoseconds.
    pub fn spent(&self, all: f64) -> Spent {
        Spent {
            computing: self.computing,
            overhead: self.overhead,
            wire: self.wire,
            waiting: self.waiting,
            done: all - self.end,
        }
    }
}

/// Returns the mean times of the ranks.
pub fn means(outcome: &Outcome) -> Means {
    let ranks = outcome.ranks.len() as f64;
    let of_parts = |part: fn(&Parts) -> Time| {
        let sum: f64 = outcome.ranks.iter().map(|rank| part(rank).nanos()).sum();
        sum / ranks
    };
    let wire = outcome.waited.iter().map(|waited| waited.wire.nanos());
    let wire = wire.sum::<f64>() / ranks;
    Means {
        computing: of_parts(|rank| rank.computing),
        overhead: of_parts(|rank| rank.overhead),
        wire,
        waiting: of_parts(|rank| rank.waiting) - wire,
        end: of_parts(|rank| rank.end),
    }
}

/// Returns all ranks, or those at the extremes of each column.
pub fn shown(outcome: &Outcome) -> Vec<(usize, Parts, &Waited)> {
    let chosen = ends_of_columns(outcome).into_iter();
    chosen
        .map(|(rank, parts)| (rank, parts, &outcome.waited[rank]))
        .collect()
}

fn ends_of_columns(outcome: &Outcome) -> Vec<(usize, Parts)> {
    let all = outcome.ranks.iter().copied().enumerate();
    if outcome.ranks.len() <= SHOWN {
        return all.collect();
    }
    let columns: [fn(&Parts) -> Time; 3] = [
        |rank| rank.computing,
        |rank| rank.overhead,
        |rank| rank.waiting,
    ];
    let mut chosen: Vec<(usize, Parts)> = columns
        .iter()
        .flat_map(|column| {
            let key = |(_, parts): &(usize, Parts)| column(parts);
            [all.clone().min_by_key(key), all.clone().max_by_key(key)]
        })
        .flatten()
        .collect();
    chosen.sort_by_key(|(rank, _)| *rank);
    chosen.dedup_by_key(|(rank, _)| *rank);
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;
    use verbena_replay::recorded::Chain;

    /// Returns the limit of two ranks that compute for these nanoseconds, of 1000.
    fn limit_of(computing: [u64; 2], on_the_path: f64) -> String {
        let parts = |nanos: u64| Parts {
            computing: Time(nanos * 1000),
            end: Time(1_000_000),
            ..Parts::default()
        };
        let outcome = Outcome {
            ranks: computing.map(parts).to_vec(),
            waited: vec![Waited::default(); 2],
            chain: Chain::default(),
            timelines: Vec::new(),
            bottleneck: None,
            hot_ports: Vec::new(),
        };
        let chain = ToldChain {
            computing: on_the_path,
            overhead: 0.0,
            wire: 1000.0 - on_the_path,
            crossings: 0,
        };
        super::limit_of(&chain, 1000.0, &outcome)
    }

    #[test]
    fn ranks_that_compute_unevenly_are_the_limit() {
        let even = limit_of([700, 600], 740.0);
        assert_eq!(even, "computing (74 % of the critical path)");
        let uneven = limit_of([180, 200], 740.0);
        let wanted = "imbalance between ranks (74 % of the critical path is computing, but 19 % of \
                      a rank's time on average)";
        assert_eq!(uneven, wanted);
        assert_eq!(
            limit_of([180, 200], 200.0),
            "wire (80 % of the critical path)"
        );
    }
}
