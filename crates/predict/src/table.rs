//! The claims' results as a table of text and as JSON.

use crate::claims::{Evaluated, Outcome, Verdict};
use crate::figures::Figure;
use crate::sensitivity::Sensitivity;
use serde_json::json;
use std::fmt::Write;
use verbena_model::profile::{Library, Tag};

/// Share of the claims that must be met: 76 of 80.
const TARGET: f64 = 0.95;

/// Fitted values that the profiles may hold in all.
pub const MOST_FITTED: usize = 40;

/// Whether all were evaluated and enough were met.
pub fn target_met(results: &[Evaluated]) -> bool {
    let met = results.iter().filter(|r| r.verdict == Verdict::Met).count();
    let evaluated = results.iter().all(|r| r.verdict != Verdict::NotEvaluated);
    evaluated && met as f64 >= TARGET * results.len() as f64
}

/// How many of the profiles' values have a tag.
pub fn tagged(library: &Library, tag: Tag) -> usize {
    library.recorded().iter().filter(|r| r.tag == tag).count()
}

/// What was published, in words.
pub fn published(result: &Evaluated) -> String {
    let claim = &result.claim;
    let mut text = match (claim.value, claim.low, claim.high) {
        (Some(value), _, _) => format!("{value}"),
        (None, Some(low), Some(high)) => format!("{low} to {high}"),
        (None, Some(low), None) => format!("at least {low}"),
        (None, None, Some(high)) => format!("at most {high}"),
        _ => String::new(),
    };
    for (name, value) in &claim.values {
        let _ = write!(
            text,
            "{}{name} {value}",
            if text.is_empty() { "" } else { ", " }
        );
    }
    if text.is_empty() {
        return "a shape".to_owned();
    }
    format!("{text} {}", claim.unit)
}

/// What the model says, in words.
pub fn model(result: &Evaluated) -> String {
    match &result.outcome {
        None => "-".to_owned(),
        Some(Outcome::Figure(figure)) => format!("{figure:.3}"),
        Some(Outcome::Figures(figures)) => figures
            .iter()
            .map(|(name, figure)| format!("{name} {figure:.1}"))
            .collect::<Vec<_>>()
            .join(", "),
        Some(Outcome::Shape { seen, .. }) => seen.clone(),
    }
}

/// The relative error, in words; empty where there is none.
pub fn error(result: &Evaluated) -> String {
    let error = result.error.map(|e| format!("{:+.1} %", e * 100.0));
    error.unwrap_or_default()
}

/// The verdict as a word.
pub fn verdict(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Met => "met",
        Verdict::Missed => "MISSED",
        Verdict::NotEvaluated => "NOT EVALUATED",
    }
}

/// The table, and what it comes to.
pub fn text(library: &Library, results: &[Evaluated]) -> String {
    let mut out = String::new();
    let _ = writeln!(
        out,
        "{:<56} {:>26}  {:>26} {:>8}  verdict",
        "claim", "published", "model", "error"
    );
    for result in results {
        let _ = writeln!(
            out,
            "{:<56} {:>26}  {:>26} {:>8}  {}",
            result.claim.id,
            published(result),
            model(result),
            error(result),
            verdict(result.verdict)
        );
    }
    for result in results.iter().filter(|r| r.verdict == Verdict::Missed) {
        let _ = writeln!(out, "{}: {}", result.claim.id, why(result));
    }
    let _ = writeln!(out, "{}", summary(library, results));
    out
}

/// Why a claim is missed.
pub fn why(result: &Evaluated) -> &str {
    let known = result.claim.miss.as_deref();
    known.unwrap_or("the shipped profiles meet it; these are others")
}

/// What it comes to, in a sentence or two.
pub fn summary(library: &Library, results: &[Evaluated]) -> String {
    let met = results.iter().filter(|r| r.verdict == Verdict::Met).count();
    format!(
        "{met} of {} claims met; the target is {:.0}. The profiles hold {} fitted values (at most {MOST_FITTED}).",
        results.len(),
        (TARGET * results.len() as f64).ceil(),
        tagged(library, Tag::Fitted)
    )
}

/// Everything, for other programs.
pub fn json(
    library: &Library,
    results: &[Evaluated],
    figures: &[Figure],
    sensitivity: Option<&[Sensitivity]>,
) -> String {
    let mut value = json!({
        "schema": "verbena.claims.v1",
        "fitted": tagged(library, Tag::Fitted),
        "values": library.recorded().iter().map(|r| json!({
            "path": r.path, "value": r.value, "unit": r.unit,
            "tag": r.tag.word(), "source": r.source, "bounds": r.bounds,
        })).collect::<Vec<_>>(),
        "claims": results,
        "figures": figures,
    });
    if let Some(sensitivity) = sensitivity {
        value["sensitivity"] = json!(sensitivity);
    }
    format!("{value:#}\n")
}
