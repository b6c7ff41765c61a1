//! Text tables of the loop's result: the values, the benchmarks used for fitting, and those used
//! for judging.

use super::{BenchmarkErrors, Closed, Compared};
use crate::system::{limits, values};
use std::fmt::Write;
use verbena_measure::unit::display;

/// Returns the tables, with the verdict in the last line.
pub fn text(closed: &Closed) -> String {
    let mut out = values(&closed.free, &closed.units, &closed.fit, &closed.identified);
    out.push_str(&curves("fitted to", &closed.fitted));
    out.push_str(&curves("predicted", &closed.judged));
    out.push_str(&limits(&closed.free, &closed.fit, &closed.identified));
    if let Some(words) = unanswered(closed) {
        let _ = writeln!(out, "{words}");
    }
    let _ = writeln!(out, "{}", verdict(closed));
    out
}

/// Returns the result in a sentence.
pub fn verdict(closed: &Closed) -> String {
    let Some(error) = closed.error() else {
        return "nothing was measured to judge the profile".to_owned();
    };
    let count = |most: f64| {
        closed
            .judged
            .iter()
            .filter(|curve| curve.mean() <= most)
            .count()
    };
    format!(
        "predicted: mean error {:.1} % on {} held-out benchmarks, {} of them within {:.0} %",
        error * 100.0,
        closed.judged.len(),
        count(TARGET),
        TARGET * 100.0
    )
}

/// Returns the measured figures that were not predicted, if any.
pub fn unanswered(closed: &Closed) -> Option<String> {
    let each = closed.unanswered.iter();
    let words: Vec<String> = each
        .map(|one| format!("{} ({})", one.benchmark.name, one.label()))
        .collect();
    (!words.is_empty()).then(|| format!("not modelled: {}", words.join(", ")))
}

/// Target for the error of predictions.
pub const TARGET: f64 = 0.15;

fn curves(title: &str, curves: &[BenchmarkErrors]) -> String {
    let mut out = format!(
        "\n{title:<30} {:>7} {:>8} {:>8}  worst\n",
        "figures", "mean", "worst"
    );
    for curve in curves {
        let worst = curve.worst();
        let _ = writeln!(
            out,
            "{:<30} {:>7} {:>6.1} % {:>+6.0} %  {}",
            curve.benchmark,
            curve.figures.len(),
            curve.mean() * 100.0,
            worst.error() * 100.0,
            told(worst)
        );
    }
    out
}

/// Describes a figure: where, measured, modelled.
fn told(compared: &Compared) -> String {
    let observed = &compared.observed;
    let [measured, model] =
        [observed.figure, compared.predicted].map(|value| display(value, &observed.unit));
    format!("{}: {measured}, model {model}", observed.label())
}
