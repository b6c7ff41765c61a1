//! Anchors of a command: as text, and from files.

use super::{
    Anchor, AnchorError, Anchored, MeasuredCurve, Residual, anchor_system, compare, parse, read,
};
use serde::{Deserialize, Serialize};
use std::path::Path;
use verbena_model::profile::System;

/// Measurements of a machine.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Measured {
    /// The anchors.
    #[serde(rename = "anchor")]
    pub anchors: Vec<Anchor>,
    /// The curves that they were chosen from, to compare with the anchored model.
    #[serde(rename = "curve")]
    pub curves: Vec<MeasuredCurve>,
    /// Points left out, and why.
    #[serde(skip)]
    pub notes: Vec<String>,
}

impl Measured {
    /// Reads anchors: each of `given` is a file or directory ([`read`]) or text ([`parse`]). A time
    /// of an operation that several curves of files determine is that of the first.
    ///
    /// # Errors
    ///
    /// If one of them is malformed or cannot be read.
    pub fn of<S: AsRef<str>>(given: &[S]) -> Result<Measured, AnchorError> {
        let mut measured = Measured::default();
        for given in given.iter().map(AsRef::as_ref) {
            let path = Path::new(given);
            match path.exists() || !given.contains('=') {
                true => measured.add(path)?,
                false => measured.anchors.push(parse(given)?),
            }
        }
        Ok(measured)
    }

    fn add(&mut self, path: &Path) -> Result<(), AnchorError> {
        let (curves, notes) = read(path)?;
        let name = path.display();
        let notes = notes.into_iter().map(|note| format!("{name}: {note}"));
        self.notes.extend(notes);
        for curve in curves {
            let key = curve.key();
            let has = self.curves.iter().any(|other| other.key() == key);
            match curve.anchor() {
                Some(_) if has => self.notes.push(format!(
                    "{name}: {} is compared only: an earlier curve has the anchor",
                    curve.benchmark
                )),
                Some(anchor) => self.anchors.push(anchor),
                None => self.notes.push(format!(
                    "{name}: {} has no message from 1 to {} B, so it is compared only",
                    curve.benchmark,
                    super::LARGEST
                )),
            }
            self.curves.push(curve);
        }
        Ok(())
    }

    /// Returns whether nothing was measured.
    pub fn is_empty(&self) -> bool {
        self.anchors.is_empty() && self.curves.is_empty()
    }

    /// Anchors a system, and compares it with the curves.
    ///
    /// # Errors
    ///
    /// As [`anchor_system`].
    pub fn anchor(&self, system: &System) -> Result<(Anchored, Vec<Residual>), AnchorError> {
        let mut anchored = anchor_system(system, &self.anchors)?;
        let mut residuals = Vec::new();
        for curve in &self.curves {
            let residual = compare(&anchored.system, curve)?;
            anchored.warnings.extend(residual.warning());
            residuals.push(residual);
        }
        Ok((anchored, residuals))
    }
}
