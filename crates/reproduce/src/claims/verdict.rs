//! Compares the model's figures with the published ones.

use super::{Claim, ClaimKind, Computed};
use serde::Serialize;

const ABSOLUTE: f64 = 0.05;
const RATIO: f64 = 0.10;

/// Whether the model meets a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Within tolerance, within the bound, or of the claimed shape.
    Met,
    /// Not met.
    Missed,
    /// No benchmark measures it.
    NotEvaluated,
}

/// A claim with the model's result.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Evaluated {
    /// The claim.
    pub claim: Claim,
    /// The model's result.
    pub outcome: Option<Computed>,
    /// Largest relative error of its figures, if it has any.
    pub error: Option<f64>,
    /// The verdict.
    pub verdict: Verdict,
}

impl Evaluated {
    /// Judges the claim.
    pub fn new(claim: Claim, outcome: Option<Computed>) -> Evaluated {
        let (error, verdict) = match &outcome {
            None => (None, Verdict::NotEvaluated),
            Some(outcome) => judge(&claim, outcome),
        };
        Evaluated {
            claim,
            outcome,
            error,
            verdict,
        }
    }
}

fn verdict(met: bool) -> Verdict {
    if met { Verdict::Met } else { Verdict::Missed }
}

fn judge(claim: &Claim, outcome: &Computed) -> (Option<f64>, Verdict) {
    let tolerance = match claim.kind {
        ClaimKind::Ratio => RATIO,
        _ => ABSOLUTE,
    };
    let relative = |model: f64, published: f64| model / published - 1.0;
    match (outcome, claim.kind) {
        (Computed::Shape { holds, .. }, ClaimKind::Shape) => (None, verdict(*holds)),
        (Computed::Figure(model), ClaimKind::Bound) => {
            let above = claim.low.is_none_or(|low| *model >= low);
            let below = claim.high.is_none_or(|high| *model <= high);
            (None, verdict(above && below))
        }
        (Computed::Figure(model), _) if claim.value.is_some() => {
            let error = relative(*model, claim.value.unwrap_or(f64::NAN));
            (Some(error), verdict(error.abs() <= tolerance))
        }
        (Computed::Figures(models), _) => {
            let mut worst: f64 = 0.0;
            for (name, published) in &claim.values {
                let Some(model) = models.get(name) else {
                    return (None, Verdict::NotEvaluated);
                };
                let error = relative(*model, *published);
                if error.abs() > worst.abs() {
                    worst = error;
                }
            }
            (Some(worst), verdict(worst.abs() <= tolerance))
        }
        // The measurement returns another kind of result than the claim has: an internal error,
        // shown as such.
        _ => (None, Verdict::NotEvaluated),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn claim(kind: ClaimKind) -> Claim {
        Claim {
            id: "p.x".into(),
            place: String::new(),
            setup: String::new(),
            kind,
            value: Some(100.0),
            values: BTreeMap::new(),
            low: None,
            high: None,
            unit: "us".into(),
            check: None,
            miss: None,
            without: None,
        }
    }

    #[test]
    fn tolerances_depend_on_the_kind_of_claim() {
        let judge =
            |kind, model| Evaluated::new(claim(kind), Some(Computed::Figure(model))).verdict;
        assert_eq!(judge(ClaimKind::Absolute, 104.9), Verdict::Met);
        assert_eq!(judge(ClaimKind::Absolute, 94.9), Verdict::Missed);
        assert_eq!(judge(ClaimKind::Ratio, 109.0), Verdict::Met);
        assert_eq!(judge(ClaimKind::Ratio, 111.0), Verdict::Missed);
    }

    #[test]
    fn a_claim_with_several_figures_needs_all_of_them() {
        let mut several = claim(ClaimKind::Absolute);
        several.value = None;
        several.values = BTreeMap::from([("a".into(), 10.0), ("b".into(), 20.0)]);
        let with = |a: f64, b: f64| {
            let outcome = Computed::Figures(BTreeMap::from([("a".into(), a), ("b".into(), b)]));
            Evaluated::new(several.clone(), Some(outcome)).verdict
        };
        assert_eq!(with(10.1, 20.5), Verdict::Met);
        assert_eq!(with(10.1, 22.0), Verdict::Missed);
    }

    #[test]
    fn an_unmeasured_claim_is_not_evaluated() {
        let evaluated = Evaluated::new(claim(ClaimKind::Absolute), None);
        assert_eq!(evaluated.verdict, Verdict::NotEvaluated);
    }
}
