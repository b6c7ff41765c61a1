//! Several runs: the first is the baseline; for each other run, its changes as ratios, largest
//! first.

use crate::chart::{escape, ratio};
use crate::comparison::{Thresholds, between};
use crate::run_directory::Loaded;
use std::fmt::Write as _;
use verbena_measure::compare::{Change, Verdict};

const DRAWN: usize = 24;

/// Returns the changes against the first run. Models beside a measurement are excluded.
pub fn changes(runs: &[Loaded]) -> String {
    let is_model = |run: &&Loaded| run.run.fabric == "model";
    let measured: Vec<&Loaded> = runs.iter().filter(|run| !is_model(run)).collect();
    let all: Vec<&Loaded> = match measured.is_empty() {
        true => runs.iter().collect(),
        false => measured,
    };
    let Some((baseline, others)) = all.split_first().filter(|(_, others)| !others.is_empty())
    else {
        return String::new();
    };
    let mut out = format!(
        "<section class=\"question\" id=\"changes\"><h2>What changed against {}?</h2>",
        escape(&baseline.run.label)
    );
    for other in others {
        out.push_str(&against(baseline, other));
    }
    out.push_str("</section>");
    out
}

fn against(baseline: &Loaded, other: &Loaded) -> String {
    let compared = between(baseline, other, &Thresholds::default());
    let all = compared.curves.iter().chain(&compared.changes);
    let mut order: Vec<&Change> = all.filter(|change| change.ratio.is_finite()).collect();
    let title = format!(
        "{} over {}",
        escape(&other.run.label),
        escape(&baseline.run.label)
    );
    let notes: String = compared
        .notes
        .iter()
        .map(|note| format!("<p class=\"note\">{}.</p>", escape(&sentence(note))))
        .collect();
    if order.is_empty() {
        return format!("<h3>{title}</h3><p>The two runs have no figure in common.</p>{notes}");
    }
    // Changes come first, whole curves before points.
    let rank = |change: &Change| (!changed(change), change.points == 1);
    let size = |change: &Change| change.ratio.ln().abs();
    order.sort_by(|a, b| rank(a).cmp(&rank(b)).then(size(b).total_cmp(&size(a))));
    let count = |verdict| {
        let curves = compared.curves.iter();
        curves.filter(|change| change.verdict == verdict).count()
    };
    let mut out = format!(
        "<h3>{title}</h3><p>{} curves got worse, {} better, {} of {} points changed.",
        count(Verdict::Regressed),
        count(Verdict::Improved),
        compared.changes.iter().filter(|c| changed(c)).count(),
        compared.changes.len()
    );
    if order.len() > DRAWN {
        let _ = write!(
            out,
            " Shows {DRAWN} of {} ratios, changed ones first, then the largest; <code>verbena \
             compare --all</code> lists all.",
            order.len()
        );
        order.truncate(DRAWN);
    }
    let _ = write!(
        out,
        "</p>{notes}{}<p class=\"note\">Ratios of medians, with 95 % intervals over launches where \
         there are enough of them. A name without a size is a whole curve.</p>",
        ratio::html(&order)
    );
    out
}

fn sentence(words: &str) -> String {
    let mut letters = words.chars();
    let first = letters.next().map(char::to_uppercase);
    first.into_iter().flatten().chain(letters).collect()
}

fn changed(change: &Change) -> bool {
    matches!(change.verdict, Verdict::Improved | Verdict::Regressed)
}
