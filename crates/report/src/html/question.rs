//! A page for each question that the papers ask of an adapter: the answer in one sentence per run,
//! a drawing that shows it, and the figures behind it.

use super::curves::{Base, Curve, Curves, distribution, marks};
use super::figures;
use super::shown::Shown;
use crate::chart::escape;
use crate::chart::panel::{Mark, group};
use crate::gather::{Row, findings};
use std::fmt::Write as _;
use verbena_measure::result::Value;
use verbena_measure::unit;

struct Question {
    id: &'static str,
    asks: &'static str,
    /// Description of the drawing.
    shows: &'static str,
    /// Benchmarks with more detail.
    benchmarks: &'static [&'static str],
    curves: fn(&[Shown<'_>]) -> Curves,
    /// Returns the answer of a run, given by its number.
    answer: fn(&Curves, usize, &Shown<'_>) -> Option<String>,
}

const QUESTIONS: [Question; 6] = [
    Question {
        id: "q-latency",
        asks: "How long does an operation take?",
        shows: "Median time by message size; the band spans the fastest to the 99th percentile, \
                the dashed line is the bound.",
        benchmarks: &["latency.write", "latency.send", "latency.read"],
        curves: |runs| {
            let of = |name, title| Curves::of(name, "size", runs, plain).named(title);
            of("latency.write", "write, seen by its receiver")
                .and(of("latency.send", "message, received"))
                .and(of("latency.read", "read, round trip"))
        },
        answer: |curves, run, _| {
            let of = |word: &str| {
                let at = |c: &&Curve| c.run == run && c.kind.starts_with(word);
                let curve = curves.all.iter().find(at)?;
                let first = curve.points.iter().find(|p| p.0 >= 8.0)?;
                Some((unit::size(first.0), unit::time(first.1)))
            };
            let (size, write) = of("write")?;
            let mut text = format!("The receiver of {size} sees a write after {write}");
            if let Some((_, time)) = of("message") {
                let _ = write!(text, " and a message after {time}");
            }
            if let Some((_, time)) = of("read") {
                let _ = write!(text, "; a read takes {time}, round trip");
            }
            Some(text)
        },
    },
    Question {
        id: "q-bandwidth",
        asks: "How fast does data flow?",
        shows: "Bandwidth by message size; dashed is the bound, dotted where half of the peak is \
                reached.",
        benchmarks: &["bandwidth.write", "bandwidth.read", "bandwidth.send"],
        curves: |runs| {
            let of = |name, title| Curves::of(name, "size", runs, plain).named(title);
            of("bandwidth.write", "writes, one way")
                .and(of("bandwidth.write-both", "writes, both ways"))
                .and(of("bandwidth.read", "reads"))
        },
        answer: |curves, run, shown| {
            let curve = curves.all.iter().find(|c| c.run == run)?;
            let (size, rate) = *curve.points.last()?;
            let (rate, size) = (unit::rate(rate), unit::size(size));
            let mut text = format!("Writes of {size} move {rate}");
            if let Some(half) = finding(shown, "bandwidth.write", "half-power-size") {
                let _ = write!(
                    text,
                    "; half of the peak is reached at {}",
                    unit::size(half)
                );
            }
            Some(text)
        },
    },
    Question {
        id: "q-pairs",
        asks: "Does latency hold when all cores communicate?",
        shows: "Latency of a write over that of one pair alone, by the number of pairs at once. \
                Flat is good.",
        benchmarks: &["multi-pair.write-latency", "multi-pair.read-latency"],
        curves: |runs| {
            Curves::of("multi-pair.write-latency", "pairs", runs, running_freely)
                .relative_to(Base::Least)
        },
        answer: |curves, run, _| {
            let curve = curves.all.iter().find(|c| c.run == run)?;
            let (pairs, ratio) = *curve.points.last()?;
            Some(format!(
                "With {pairs} pairs at once a write takes {} as with one pair{}",
                as_long(ratio),
                bracketed(&curve.kind)
            ))
        },
    },
    Question {
        id: "q-connections",
        asks: "How many connections fit?",
        shows: "Time of a write over that with the fewest queue pairs, by their number: all \
                active and, as a control, as many created but only one active. A rise only in the \
                first is due to the adapter's context cache.",
        benchmarks: &[
            "internals.contexts",
            "internals.scatter",
            "internals.footprint",
        ],
        curves: |runs| {
            Curves::of("internals.contexts", "queue-pairs", runs, |_| true)
                .relative_to(Base::Run)
                .saying("active", "all active")
                .saying("created", "control: one active")
        },
        answer: |curves, run, shown| {
            let curve = curves.all.iter().find(|c| c.run == run)?;
            let (pairs, ratio) = *curve.points.last()?;
            Some(match finding(shown, "internals.contexts", "context-knee") {
                Some(knee) => format!(
                    "Writes slow down from {} queue pairs: with {pairs} each takes {} as with the \
                     fewest",
                    unit::number(knee.round()),
                    as_long(ratio)
                ),
                None => format!(
                    "No slowdown up to {pairs} queue pairs; there a write takes {} as with the \
                     fewest",
                    as_long(ratio)
                ),
            })
        },
    },
    Question {
        id: "q-reuse",
        asks: "Does buffer reuse matter?",
        shows: "Bandwidth over that with one buffer always reused, by the share of reuse. Flat is \
                good: translations of new pages then cost nothing.",
        benchmarks: &[
            "internals.reuse",
            "internals.translation",
            "internals.regions",
        ],
        curves: |runs| {
            Curves::of("internals.reuse", "reuse-percent", runs, |_| true)
                .relative_to(Base::Greatest)
        },
        answer: |curves, run, shown| {
            let curve = curves.all.iter().find(|c| c.run == run)?;
            let (percent, ratio) = *curve.points.first()?;
            let mut text = format!(
                "With {} % of the buffers reused, bandwidth is {} % of that with one buffer",
                unit::number(percent),
                unit::number((ratio * 100.0).round())
            );
            if let Some(knee) = finding(shown, "internals.translation", "translation-knee") {
                let _ = write!(
                    text,
                    "; it falls from {} pages on",
                    unit::number(knee.round())
                );
            }
            Some(text)
        },
    },
    Question {
        id: "q-bus",
        asks: "What does the bus cost?",
        shows: "Completion latency of a write: to a peer, and back into the same adapter, without \
                a wire. The latter covers host, bus and adapter.",
        benchmarks: &[
            "internals.loopback",
            "latency.write-completion",
            "internals.device-memory",
        ],
        curves: |runs| {
            let of = |name, title| Curves::of(name, "size", runs, plain).named(title);
            of("internals.loopback", "within one adapter")
                .and(of("latency.write-completion", "to a peer"))
        },
        answer: |curves, run, _| {
            let of = |word: &str| {
                let at = |c: &&Curve| c.run == run && c.kind.starts_with(word);
                let curve = curves.all.iter().find(at)?;
                curve.points.iter().find(|point| point.0 >= 8.0).copied()
            };
            let ((size, within), (_, peer)) = (of("within")?, of("to a peer")?);
            let wire = match peer > within {
                true => format!(
                    "the wire and the second adapter cost {}",
                    unit::time(peer - within)
                ),
                false => "no measurable cost of the wire".to_owned(),
            };
            Some(format!(
                "A write of {} takes {} within one adapter and {} to a peer: {wire}",
                unit::size(size),
                unit::time(within),
                unit::time(peer)
            ))
        },
    },
];

/// Describes a ratio of times.
fn as_long(ratio: f64) -> String {
    match unit::number(ratio).as_str() {
        "1" => "as long".to_owned(),
        number => format!("{number} times as long"),
    }
}

/// Returns a kind in brackets; empty if it has no name.
fn bracketed(kind: &str) -> String {
    match kind {
        "" => String::new(),
        kind => format!(" ({kind})"),
    }
}

/// Reliable connection with its own receive queue: one curve per run. Other rows are shown with the
/// benchmark.
fn plain(row: &Row) -> bool {
    let is = |name: &str, usual: &str| match row.parameters.get(name) {
        Some(Value::Word(word)) => word == usual,
        _ => true,
    };
    is("transport", "rc") && is("receive-queue", "own") && is("memory", "host")
}

/// Pairs that do not wait for each other; lockstep rows are shown with the benchmark.
fn running_freely(row: &Row) -> bool {
    row.parameters
        .get("mode")
        .is_none_or(|mode| *mode == Value::from("free"))
}

/// Returns the figure of a finding that most launches have.
fn finding(shown: &Shown<'_>, benchmark: &str, name: &str) -> Option<f64> {
    let voted = findings(shown.run);
    let mut held = voted.iter().filter(|voted| voted.holds());
    let found = held.find(|v| v.finding.benchmark == benchmark && v.finding.name == name)?;
    found.finding.value
}

/// Returns ids and titles of the questions that these runs answer.
pub fn contents(runs: &[Shown<'_>]) -> Vec<(&'static str, &'static str)> {
    QUESTIONS
        .iter()
        .filter(|question| (question.curves)(runs).are_curves())
        .map(|question| (question.id, question.asks))
        .collect()
}

/// Returns all questions that these runs answer.
pub fn pages(runs: &[Shown<'_>]) -> String {
    QUESTIONS
        .iter()
        .map(|question| page(question, runs))
        .collect()
}

fn page(question: &Question, runs: &[Shown<'_>]) -> String {
    let curves = (question.curves)(runs);
    if !curves.are_curves() {
        return String::new();
    }
    let mut answers = String::from("<ul class=\"answers\">");
    for (at, shown) in runs.iter().enumerate() {
        let label = escape(&shown.run.run.label);
        let answer = (question.answer)(&curves, at, shown);
        let absent = || match curves.all.iter().any(|curve| curve.run == at) {
            true => "The figures are in the table".to_owned(),
            false => "Not measured".to_owned(),
        };
        let _ = write!(
            answers,
            "<li><span class=\"key c{}\">{label}</span> {}.</li>",
            at % crate::chart::line::COLOURS,
            escape(&answer.unwrap_or_else(absent))
        );
    }
    answers.push_str("</ul>");
    let found: Vec<Mark> = marks(question.benchmarks[0], runs);
    let mut drawings = vec![curves.multiples(question.asks, runs, &found)];
    if question.id == "q-latency" {
        drawings.extend(distribution("latency.write", runs));
    }
    let more: Vec<String> = question
        .benchmarks
        .iter()
        .filter(|name| measured(name, runs))
        .map(|name| format!("<a href=\"#{name}\">{name}</a>"))
        .collect();
    let note = format!(
        "<p class=\"note\">{} More of it: {}.</p>{}",
        escape(question.shows),
        more.join(", "),
        figures::of_curves(&curves, runs)
    );
    let panels: usize = drawings.iter().map(|drawing| drawing.panels.len()).sum();
    let drawn = group(&drawings);
    // A single panel has its text beside it.
    let (class, body) = match panels {
        1 => (
            " beside",
            format!("<div class=\"says\">{answers}{note}</div>{drawn}"),
        ),
        _ => ("", format!("{answers}{drawn}{note}")),
    };
    format!(
        "<section class=\"question{class}\" id=\"{}\"><h2>{}</h2>{body}</section>",
        question.id, question.asks
    )
}

fn measured(benchmark: &str, runs: &[Shown<'_>]) -> bool {
    let mut rows = runs.iter().flat_map(|shown| &shown.rows);
    rows.any(|row| row.benchmark == benchmark)
}
