//! How good the predictions are: table of methods, errors by cause, coverage of the intervals.

use crate::interval::{Intervals, coverage};
use crate::methods::{Part, Table, decompose, decomposition_text};
use crate::residual::{Basis, ResidualError, Residuals, compute, text as file_text};
use serde_json::{Value, json};
use verbena_model::profile::Library;
use verbena_reproduce::validation::Validated;

/// The quality of the predictions, from computed validation curves.
#[derive(Debug, Clone)]
pub struct Predictions {
    /// The table of methods.
    pub methods: Table,
    /// Errors by cause.
    pub causes: Vec<Part>,
    intervals: Intervals,
}

impl Predictions {
    /// Returns the quality of the predictions on computed curves.
    ///
    /// # Errors
    ///
    /// As [`compute`].
    pub fn of(
        library: &Library,
        validated: &[Validated],
        threads: usize,
    ) -> Result<Predictions, ResidualError> {
        let residuals = compute(library, validated, threads)?;
        Ok(Predictions::of_residuals(residuals))
    }

    /// Returns the quality of the predictions with these residuals.
    pub fn of_residuals(residuals: Vec<Residuals>) -> Predictions {
        Predictions {
            methods: Table::of(&residuals),
            causes: decompose(&residuals),
            intervals: Intervals::of(residuals),
        }
    }

    /// Returns the residuals.
    pub fn residuals(&self) -> &[Residuals] {
        self.intervals.curves()
    }

    /// Returns the residuals as the file that comes with the program.
    pub fn file(&self) -> String {
        file_text(self.intervals.curves())
    }

    /// Returns the three tables as text.
    pub fn text(&self) -> String {
        format!(
            "\n{}\n{}\n{}",
            self.methods.text(),
            decomposition_text(&self.causes),
            coverage::text(&self.intervals)
        )
    }

    /// Returns the three tables as data.
    pub fn json(&self) -> Value {
        let coverage = Basis::ALL.map(|basis| {
            json!({
                "basis": basis,
                "classes": self.intervals.coverage(basis),
                "ratio": self.intervals.ratio_coverage(basis),
            })
        });
        json!({ "methods": self.methods, "causes": self.causes, "coverage": coverage })
    }
}
