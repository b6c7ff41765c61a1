//! Anchored models on the validation curves: each curve's source gives one latency and one rate of
//! an operation, as a user would.

use super::curve::chosen;
use super::{Anchor, AnchorError, Anchored, Settings, Unit, anchor_system, figure, meaning};
use verbena_model::correction::Operation;
use verbena_model::profile::Library;
use verbena_reproduce::validation::{self as curves, Curve};
use verbena_reproduce::workers::in_order;

/// The figures of an anchored model for a validation curve.
#[derive(Debug, Clone, PartialEq)]
pub struct AnchoredCurve {
    /// Index of the curve's point that is an anchor; `None` if its benchmark has none.
    pub anchor: Option<usize>,
    /// The anchored model's figures, one for each point of the curve.
    pub figures: Vec<f64>,
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

/// Computes curves with anchored models on `threads` threads; the result does not depend on their
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
    let figures = in_order(threads, points.len(), |index| {
        let (number, bytes) = points[index];
        let (curve, system) = (&all[number], &models[number].system);
        match meaning_of(curve) {
            Some(_) => figure(system, (&curve.benchmark, &settings_of(curve)), bytes),
            None => Ok(curves::figure(system, curve, bytes)),
        }
    });
    let figures: Result<Vec<f64>, AnchorError> = figures.into_iter().collect();
    let mut figures = figures?.into_iter();
    let of_one = |curve: &Curve| AnchoredCurve {
        anchor: anchor_of(curve).map(|(index, _)| index),
        figures: figures.by_ref().take(curve.points.len()).collect(),
    };
    Ok(all.iter().map(of_one).collect())
}
