//! Corrections that make a model's figures equal to measured ones.

use super::solve::{TOLERANCE, solve};
use super::{Anchor, AnchorError, Unit};
use serde::Serialize;
use std::fmt;
use verbena_model::adapter::Plan;
use verbena_model::correction::{Offset, Operation};
use verbena_model::mpi;
use verbena_model::profile::{Library, System};

/// Nanoseconds that exceed every fixed delay, to ask for the clamp.
const ALL: f64 = 1e9;
/// Relative error above which an anchor that was not reached is reported.
const MISSED: f64 = 0.01;
/// How often rate and latency of an operation are solved in turn.
const ROUNDS: usize = 3;

/// An anchor, and the model's figures at it in its unit.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Fit {
    /// The anchor.
    pub anchor: Anchor,
    /// Figure of the model without corrections.
    pub alone: f64,
    /// Figure of the anchored model.
    pub reached: f64,
    /// The time that the anchor determines: added to the latency, or to the occupancy, of a
    /// message, in nanoseconds.
    pub offset: f64,
}

impl fmt::Display for Fit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (anchor, unit) = (&self.anchor, self.anchor.unit);
        write!(f, "{anchor} (model alone: {} {unit})", rounded(self.alone))
    }
}

/// Returns a figure with four digits.
pub(super) fn rounded(figure: f64) -> String {
    let digits = 3 - (figure.abs().log10().floor() as i32).clamp(-3, 3);
    let text = format!("{figure:.*}", digits.max(0) as usize);
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

/// A model that is corrected by measurements.
#[derive(Debug, Clone)]
pub struct Anchored {
    /// The system with its corrections.
    pub system: System,
    /// The anchors, in the order in which they were given.
    pub fits: Vec<Fit>,
    /// Anchors that the model cannot reach, with the clamp.
    pub warnings: Vec<String>,
}

impl Anchored {
    /// Returns the operations without an anchor.
    pub fn operations_without_anchor(&self) -> Vec<Operation> {
        let operations = Operation::ALL.into_iter();
        let anchored = |operation: &Operation| {
            let mut fits = self.fits.iter();
            fits.any(|fit| fit.anchor.operation().is_ok_and(|one| one == *operation))
        };
        operations.filter(|one| !anchored(one)).collect()
    }
}

/// Anchors a system of a library.
///
/// # Errors
///
/// As [`anchor_system`], and if the library has no such system.
pub fn anchored(
    library: &Library,
    system: &str,
    anchors: &[Anchor],
) -> Result<Anchored, AnchorError> {
    anchor_system(&library.system(system)?, anchors)
}

/// Returns a system with the corrections at which its figures equal the anchors; those that it
/// already has are replaced.
///
/// # Errors
///
/// If an anchor is invalid, two determine the same time, or the model has no such figure.
pub fn anchor_system(system: &System, anchors: &[Anchor]) -> Result<Anchored, AnchorError> {
    let mut operations_without_anchor = system.clone();
    operations_without_anchor.corrections = Default::default();
    let mut anchored = Anchored {
        system: operations_without_anchor.clone(),
        fits: Vec::new(),
        warnings: Vec::new(),
    };
    let mut by_operation: Vec<((Operation, Unit), &Anchor)> = Vec::new();
    for anchor in anchors {
        let key = (anchor.operation()?, anchor.unit);
        let earlier = by_operation.iter().find(|(other, _)| *other == key);
        if let Some((_, first)) = earlier {
            return Err(AnchorError::Twice {
                operation: key.0.name(),
                first: first.to_string(),
                second: anchor.to_string(),
            });
        }
        by_operation.push((key, anchor));
    }
    // Those of MPI last: its messages are carried by the others.
    for operation in Operation::ALL {
        let find = |unit: Unit| {
            let mut anchors = by_operation.iter();
            anchors.find_map(|(key, anchor)| (*key == (operation, unit)).then_some(*anchor))
        };
        let (rate, latency) = (find(Unit::Megabytes), find(Unit::Micros));
        fit(&mut anchored.system, operation, rate, latency)?;
    }
    for (key, anchor) in by_operation {
        let reached = anchor.of_model(&anchored.system)?;
        let correction = anchored.system.corrections.of(key.0);
        let offset = match anchor.unit {
            Unit::Micros => correction.latency,
            Unit::Megabytes => correction.occupancy,
        };
        let fit = Fit {
            anchor: anchor.clone(),
            alone: anchor.of_model(&operations_without_anchor)?,
            reached,
            offset: offset.nanos(),
        };
        if (reached / anchor.figure - 1.0).abs() > MISSED {
            anchored.warnings.push(missed(&fit, key.0));
        }
        anchored.fits.push(fit);
    }
    Ok(anchored)
}

/// Solves occupancy and latency of an operation.
fn fit(
    system: &mut System,
    operation: Operation,
    rate: Option<&Anchor>,
    latency: Option<&Anchor>,
) -> Result<(), AnchorError> {
    for _ in 0..ROUNDS {
        for anchor in [rate, latency].into_iter().flatten() {
            solve_one(system, operation, anchor)?;
        }
        let both = rate.zip(latency);
        let holds = |anchor: &Anchor, system: &System| {
            let reached = anchor.of_model(system)?;
            Ok::<_, AnchorError>((reached / anchor.figure - 1.0).abs() <= 2.0 * TOLERANCE)
        };
        match both {
            Some((rate, _)) if !holds(rate, system)? => {}
            _ => break,
        }
    }
    Ok(())
}

/// Solves the time that an anchor determines.
fn solve_one(
    system: &mut System,
    operation: Operation,
    anchor: &Anchor,
) -> Result<(), AnchorError> {
    let with = |system: &System, nanos: f64| {
        let mut system = system.clone();
        let mut correction = system.corrections.of(operation);
        match anchor.unit {
            Unit::Micros => correction.latency = Offset::from_nanos(nanos),
            Unit::Megabytes => correction.occupancy = Offset::from_nanos(nanos),
        }
        system.corrections.set(operation, correction);
        system
    };
    let least = -ALL + unmet(&with(system, -ALL), operation, anchor.unit);
    let target = anchor.unit.time(anchor.bytes, anchor.figure);
    let correction = system.corrections.of(operation);
    let start = match anchor.unit {
        Unit::Micros => correction.latency,
        Unit::Megabytes => correction.occupancy,
    };
    let time = |nanos: f64| {
        let reached = anchor.of_model(&with(system, nanos))?;
        Ok::<_, AnchorError>(anchor.unit.time(anchor.bytes, reached))
    };
    let offset = solve(time, start.nanos(), target, least)?;
    *system = with(system, offset);
    Ok(())
}

/// Returns the part of a negative time that the model does not have, in nanoseconds.
fn unmet(system: &System, operation: Operation, unit: Unit) -> f64 {
    let (latency, occupancy) = match (operation, &system.mpi) {
        (Operation::Mpi, Some(library)) => {
            let plan = mpi::Plan::of(system.corrections.of(operation), library);
            (plan.unmet, plan.unmet_occupancy)
        }
        _ => {
            let plan = Plan::of(system, operation);
            (plan.unmet, plan.unmet_occupancy)
        }
    };
    match unit {
        Unit::Micros => latency.nanos(),
        Unit::Megabytes => occupancy.nanos(),
    }
}

/// Returns the warning of an anchor that the model does not reach.
fn missed(fit: &Fit, operation: Operation) -> String {
    let (anchor, unit) = (&fit.anchor, fit.anchor.unit);
    let reached = rounded(fit.reached);
    let parts = match (operation, unit) {
        (Operation::Mpi, _) => "the library's overhead and wake-up",
        (_, Unit::Micros) => "doorbell, pipelines and placement",
        (_, Unit::Megabytes) => "posting",
    };
    let why = match fit.offset < 0.0 {
        true => format!(
            "the model cannot be faster: {:.0} ns were taken from {parts}",
            -fit.offset
        ),
        false => format!("another part of the model than {parts} determines it"),
    };
    format!("not reached: {anchor}; the anchored model has {reached} {unit}: {why}")
}
