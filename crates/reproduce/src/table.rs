//! The claims' results as a text table and as JSON.

use crate::claims::{Computed, Evaluated, Verdict};
use crate::figures::Figure;
use crate::sensitivity::Sensitivity;
use crate::validation::{self, Validated};
use serde_json::json;
use std::fmt::Write;
use verbena_model::profile::{Library, Tag};

/// Maximum number of missed claims among those with information about the models.
const MAY_MISS: usize = 3;

/// Maximum number of fitted values in all profiles.
pub const MOST_FITTED: usize = 37;

/// Returns whether all claims were evaluated and `papers/misses.toml` explains every miss.
pub fn target_met(results: &[Evaluated]) -> bool {
    results.iter().all(|result| match result.verdict {
        Verdict::Met => true,
        Verdict::Missed => result.claim.miss.is_some(),
        Verdict::NotEvaluated => false,
    })
}

/// Returns the number of the profiles' values with a tag.
pub fn tagged(library: &Library, tag: Tag) -> usize {
    library.of_published().filter(|r| r.tag == tag).count()
}

/// Returns the published value in words.
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

/// Returns the model's result in words.
pub fn model(result: &Evaluated) -> String {
    match &result.outcome {
        None => "-".to_owned(),
        Some(Computed::Figure(figure)) => format!("{figure:.3}"),
        Some(Computed::Figures(figures)) => figures
            .iter()
            .map(|(name, figure)| format!("{name} {figure:.1}"))
            .collect::<Vec<_>>()
            .join(", "),
        Some(Computed::Shape { seen, .. }) => seen.clone(),
    }
}

/// Returns the relative error in words; empty if there is none.
pub fn error(result: &Evaluated) -> String {
    let error = result.error.map(|e| format!("{:+.1} %", e * 100.0));
    error.unwrap_or_default()
}

/// Returns the verdict as a word.
pub fn verdict(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Met => "met",
        Verdict::Missed => "MISSED",
        Verdict::NotEvaluated => "NOT EVALUATED",
    }
}

/// Returns the table, with the errors of validation curves if they were computed.
pub fn text(results: &[Evaluated], validated: Option<&[Validated]>) -> String {
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
    if let Some(validated) = validated {
        let _ = write!(out, "{}", validation::text(validated));
    }
    out
}

/// Returns the reason why a claim is missed.
pub fn why(result: &Evaluated) -> &str {
    let known = result.claim.miss.as_deref();
    known.unwrap_or("the shipped profiles meet it, but these differ")
}

/// Returns a summary: met and missed claims with and without information about the models, and the
/// number of values behind them.
pub fn summary(library: &Library, results: &[Evaluated]) -> String {
    let met = |with: bool| {
        let counted = results
            .iter()
            .filter(|r| r.claim.without.is_none() == with)
            .map(|r| r.verdict == Verdict::Met);
        let (met, all): (Vec<bool>, Vec<bool>) = counted.partition(|met| *met);
        (met.len(), met.len() + all.len())
    };
    let (met_with, with) = met(true);
    let (met_without, without) = met(false);
    format!(
        "{} of {} claims met. Calibration: {met_with} of {with} claims with information, \
         the target is {}; {met_without} of {without} without. The profiles hold {} fitted values \
         (at most {MOST_FITTED}) and {} assumed ones; {} values are those of earlier generations \
         for want of a figure.",
        met_with + met_without,
        results.len(),
        with.saturating_sub(MAY_MISS),
        tagged(library, Tag::Fitted),
        tagged(library, Tag::Assumed),
        library.taken_over()
    )
}

/// Returns all results as JSON; `predictions` is data about the quality of predictions, `anchored`
/// the claims on an anchored system.
pub fn json(
    library: &Library,
    results: &[Evaluated],
    figures: &[Figure],
    validated: Option<&[Validated]>,
    sensitivity: Option<&[Sensitivity]>,
    predictions: Option<serde_json::Value>,
    anchored: Option<serde_json::Value>,
) -> String {
    let mut value = json!({
        "schema": "verbena.claims.v1",
        "fitted": tagged(library, Tag::Fitted),
        "assumed": tagged(library, Tag::Assumed),
        "inherited": library.taken_over(),
        "values": library.of_published().map(|r| json!({
            "path": r.path, "value": r.value, "unit": r.unit,
            "tag": r.tag.word(), "source": r.source, "bounds": r.bounds,
        })).collect::<Vec<_>>(),
        "claims": results,
        "figures": figures,
    });
    if let Some(validated) = validated {
        let curves = validated
            .iter()
            .map(|v| json!({ "curve": v.curve, "model": v.model, "mean_error": v.mean() }));
        value["validation"] = json!(curves.collect::<Vec<_>>());
    }
    if let Some(sensitivity) = sensitivity {
        value["sensitivity"] = json!(sensitivity);
    }
    if let Some(anchored) = anchored {
        value["anchored"] = anchored;
    }
    if let Some(predictions) = predictions {
        value["predictions"] = predictions;
    }
    format!("{value:#}\n")
}
