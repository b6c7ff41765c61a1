//! Anchored models on the validation curves: each curve's source gives one latency and one rate of
//! an operation, as a user would.

use super::curve::chosen;
use super::{Anchor, AnchorError, Anchored, Settings, Unit, anchor_system, figure, meaning};
use serde::Serialize;
use std::fmt::Write;
use verbena_model::correction::Operation;
use verbena_model::profile::{Library, System};
use verbena_reproduce::validation::{self as curves, Curve};
use verbena_reproduce::workers::in_order;

/// A validation curve, computed blind and anchored.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AnchoredCurve {
    /// The published curve.
    pub curve: Curve,
    /// Index of its point that is an anchor; `None` if its benchmark has none.
    pub anchor: Option<usize>,
    /// Whether the model has anchors, of this curve or of others beside it.
    pub is_anchored: bool,
    /// The model's figures without anchors.
    pub blind: Vec<f64>,
    /// The anchored model's figures.
    pub anchored: Vec<f64>,
    /// Anchors that the model cannot reach.
    pub warnings: Vec<String>,
}

impl AnchoredCurve {
    fn mean(&self, model: &[f64], left_out: Option<usize>) -> f64 {
        let points = model.iter().zip(&self.curve.points).enumerate();
        let errors: Vec<f64> = points
            .filter(|(index, _)| Some(*index) != left_out)
            .map(|(_, (model, (_, published)))| (model / published - 1.0).abs())
            .collect();
        errors.iter().sum::<f64>() / errors.len().max(1) as f64
    }

    /// Returns the mean absolute errors, blind and anchored, of all points.
    pub fn means(&self) -> (f64, f64) {
        let of = |model: &[f64]| self.mean(model, None);
        (of(&self.blind), of(&self.anchored))
    }

    /// The same without the anchor's point.
    pub fn means_of_rest(&self) -> (f64, f64) {
        let of = |model: &[f64]| self.mean(model, self.anchor);
        (of(&self.blind), of(&self.anchored))
    }
}

/// Returns unit and operation that a curve can anchor.
fn meaning_of(curve: &Curve) -> Option<(Unit, Operation)> {
    let (unit, operation) = meaning(&curve.benchmark, curve.transport.as_deref())?;
    (unit.to_string() == curve.unit).then_some((unit, operation))
}

/// Returns the anchor of a validation curve, and the index of its point.
fn anchor_of(curve: &Curve) -> Option<(usize, Anchor)> {
    let (unit, _) = meaning_of(curve)?;
    let index = chosen(unit, &curve.points)?;
    let (bytes, figure) = curve.points[index];
    let anchor = Anchor {
        benchmark: curve.benchmark.clone(),
        bytes,
        figure,
        unit,
        settings: settings_of(curve),
    };
    Some((index, anchor))
}

fn settings_of(curve: &Curve) -> Settings {
    Settings {
        inline: curve.inline,
        transport: curve.transport.clone(),
        signal_every: curve.signal_every,
    }
}

/// Returns whether two curves are of the same machine, settings and operation, so that each may
/// give an anchor for both.
fn is_beside(one: &Curve, other: &Curve) -> bool {
    let source = |curve: &Curve| curve.id.split('.').next().map(str::to_owned);
    // A benchmark that gives no anchor itself may be of an operation that others anchor.
    let operation = |curve: &Curve| match meaning_of(curve) {
        Some((_, operation)) => Some(operation),
        None => curve
            .benchmark
            .starts_with("mpi.")
            .then_some(Operation::Mpi),
    };
    source(one) == source(other)
        && one.system == other.system
        && one.profile == other.profile
        && one.mpi == other.mpi
        && operation(one) == operation(other)
}

/// Returns the anchors that apply to a curve, one latency and one rate at most: its own, and those
/// beside it.
fn anchors_for(curve: &Curve, all: &[Curve]) -> Vec<Anchor> {
    let beside = all.iter().filter(|other| is_beside(curve, other));
    let all: Vec<Anchor> = std::iter::once(curve)
        .chain(beside)
        .filter_map(anchor_of)
        .map(|(_, anchor)| anchor)
        .collect();
    let first = |unit: Unit| all.iter().find(|anchor| anchor.unit == unit).cloned();
    [Unit::Micros, Unit::Megabytes]
        .into_iter()
        .filter_map(first)
        .collect()
}

/// Returns the anchored model of each curve.
///
/// # Errors
///
/// If a system is invalid, or a model has no figure of an anchor.
pub fn models(
    library: &Library,
    all: &[Curve],
    threads: usize,
) -> Result<Vec<Anchored>, AnchorError> {
    let models = in_order(threads, all.len(), |number| {
        let curve = &all[number];
        let system = curves::system_of(library, curve)?;
        anchor_system(&system, &anchors_for(curve, all))
    });
    models.into_iter().collect()
}

/// Computes curves blind and anchored on `threads` threads; the result does not depend on their
/// number.
///
/// # Errors
///
/// As [`models`].
pub fn of_curves(
    library: &Library,
    all: &[Curve],
    threads: usize,
) -> Result<Vec<AnchoredCurve>, AnchorError> {
    let models = models(library, all, threads)?;
    let points: Vec<(usize, u64)> = all
        .iter()
        .enumerate()
        .flat_map(|(number, curve)| curve.points.iter().map(move |(bytes, _)| (number, *bytes)))
        .collect();
    let of = |system: &System, curve: &Curve, bytes: u64| match meaning_of(curve) {
        Some(_) => figure(system, (&curve.benchmark, &settings_of(curve)), bytes),
        None => Ok(curves::figure(system, curve, bytes)),
    };
    let figures = in_order(threads, points.len(), |index| {
        let (number, bytes) = points[index];
        let (curve, anchored) = (&all[number], &models[number].system);
        let mut blind = anchored.clone();
        blind.corrections = Default::default();
        Ok((of(&blind, curve, bytes)?, of(anchored, curve, bytes)?))
    });
    let figures = figures
        .into_iter()
        .collect::<Result<Vec<_>, AnchorError>>()?;
    let mut figures = figures.into_iter();
    Ok(all
        .iter()
        .zip(models)
        .map(|(curve, model)| {
            let (blind, anchored) = figures.by_ref().take(curve.points.len()).unzip();
            AnchoredCurve {
                curve: curve.clone(),
                anchor: anchor_of(curve).map(|(index, _)| index),
                is_anchored: !anchors_for(curve, all).is_empty(),
                blind,
                anchored,
                warnings: model.warnings,
            }
        })
        .collect())
}

/// Returns the mean errors of each curve, one line each, and of all.
pub fn summary(curves: &[AnchoredCurve]) -> String {
    let mut out = String::new();
    let percent = |(blind, anchored): (f64, f64)| (blind * 100.0, anchored * 100.0);
    let mut sums = [0.0; 4];
    for curve in curves {
        let (blind, anchored) = percent(curve.means());
        let (rest_blind, rest) = percent(curve.means_of_rest());
        for (sum, value) in sums.iter_mut().zip([blind, anchored, rest_blind, rest]) {
            *sum += value / curves.len() as f64;
        }
        let _ = writeln!(
            out,
            "{:<34} blind {blind:>5.1} %, anchored {anchored:>5.1} %; without the anchor's point \
             {rest_blind:>5.1} %, {rest:>5.1} %",
            curve.curve.id
        );
    }
    let [blind, anchored, rest_blind, rest] = sums;
    let _ = writeln!(
        out,
        "{:<34} blind {blind:>5.1} %, anchored {anchored:>5.1} %; without the anchor's point \
         {rest_blind:>5.1} %, {rest:>5.1} %",
        format!("mean of {} curves", curves.len())
    );
    out
}
