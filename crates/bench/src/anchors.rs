//! Models that are corrected by measurements of the user's machine.

use crate::Failure;
use crate::machines;
use crate::model_target::ModelTarget;
use crate::suggestion::did_you_mean;
use verbena_calibrate::anchor::{Anchored, Measured, Residual};
use verbena_fabric::model::{Fidelity, Machine};
use verbena_model::profile::Library;

/// Finds the model `profile`, or the saved machine `machine:NAME`, and anchors it.
///
/// # Errors
///
/// Fails if there is no such model or machine, or it cannot be anchored.
pub fn find(
    library: &Library,
    profile: &str,
    fidelity: Fidelity,
    anchors: &[String],
) -> Result<ModelTarget, Failure> {
    let input = |error: &dyn std::fmt::Display| Failure::Input(error.to_string());
    if let Some(name) = profile.strip_prefix(machines::PREFIX) {
        if !anchors.is_empty() {
            let text = format!("{profile} has anchors of its own; --anchor is for model:PROFILE");
            return Err(Failure::Input(text));
        }
        let saved = machines::load(&machines::directory()?, name)?;
        let (anchored, residuals) = saved
            .model(library)
            .map_err(|error| Failure::Input(format!("machine {name:?}: {error}")))?;
        return Ok(target(Some(name), fidelity, &anchored, &residuals, &[]));
    }
    let machine = Machine::of(library, profile).map_err(|error| {
        let is_faulty = library.faults().contains(&&error);
        if is_faulty || Machine::names(library).any(|name| name == profile) {
            return input(&error);
        }
        let meant = did_you_mean(profile, Machine::names(library));
        let reason = error.reason;
        Failure::Input(format!("no model {profile:?}{meant}: {reason}"))
    })?;
    if anchors.is_empty() {
        return Ok(ModelTarget::new(machine, fidelity));
    }
    let Some(system) = machine.system() else {
        return Err(Failure::Input(format!(
            "--anchor corrects systems with adapters; {profile} is the software adapter"
        )));
    };
    let measured = Measured::of(anchors).map_err(|error| input(&error))?;
    let (anchored, residuals) = measured.anchor(system).map_err(|error| input(&error))?;
    Ok(target(
        None,
        fidelity,
        &anchored,
        &residuals,
        &measured.notes,
    ))
}

/// Returns an anchored model with its remarks.
fn target(
    name: Option<&str>,
    fidelity: Fidelity,
    anchored: &Anchored,
    residuals: &[Residual],
    notes: &[String],
) -> ModelTarget {
    ModelTarget {
        saved: name.map(str::to_owned),
        remarks: remarks(anchored, residuals, notes),
        ..ModelTarget::new(Machine::from(&anchored.system), fidelity)
    }
}

/// Describes an anchored model: its anchors, the operations without one, and misfits.
pub fn remarks(anchored: &Anchored, residuals: &[Residual], notes: &[String]) -> Vec<String> {
    let fits: Vec<_> = anchored.fits.iter().map(ToString::to_string).collect();
    let mut remarks = vec![format!("anchored to {}", fits.join(", "))];
    let blind: Vec<_> = anchored
        .operations_without_anchor()
        .into_iter()
        .map(|one| one.name())
        .collect();
    if !blind.is_empty() {
        remarks.push(format!("without an anchor, so blind: {}", blind.join(", ")));
    }
    remarks.extend(residuals.iter().map(|one| format!("compared with {one}")));
    let warnings = anchored.warnings.iter();
    remarks.extend(warnings.map(|text| format!("warning: {text}")));
    remarks.extend(notes.iter().map(|text| format!("note: {text}")));
    remarks
}
