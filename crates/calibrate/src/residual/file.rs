//! Writes and reads `papers/validation/residuals.toml`.

use super::{FigureKind, Layer, ResidualPoint, Residuals, counts};
use serde::{Deserialize, Serialize};
use std::fmt::Write;
use verbena_reproduce::validation::{Curve, Source, ValidationError, shipped as sources};

const SHIPPED: &str = include_str!(concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../papers/validation/residuals.toml"
));

/// The stored residuals cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The file is invalid.
    #[error("papers/validation/residuals.toml: {0}")]
    Invalid(#[from] toml::de::Error),
    /// The curves cannot be read.
    #[error(transparent)]
    Curves(#[from] ValidationError),
}

/// The file. Published figures are not repeated here.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default, rename = "curve")]
    curves: Vec<Stored>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    id: String,
    adapter: String,
    host: String,
    library: Option<String>,
    rate: f64,
    /// The point at which the model is anchored; absent if others of its machine anchor it.
    anchor: Option<usize>,
    blind: Vec<f64>,
    anchored: Vec<f64>,
}

/// The residuals that come with the program.
#[derive(Debug, Clone)]
pub struct Shipped {
    /// The residuals, in the order of the sources.
    pub residuals: Vec<Residuals>,
    /// Ids of curves that were added or changed after the file was written. `verbena reproduce
    /// --residuals papers/validation/residuals.toml` writes it again.
    pub missing: Vec<String>,
}

/// Returns the residuals that come with the program.
///
/// # Errors
///
/// Returns [`FileError`] if the file or a source is invalid.
pub fn shipped() -> Result<Shipped, FileError> {
    joined(SHIPPED, &sources()?)
}

fn joined(text: &str, sources: &[Source]) -> Result<Shipped, FileError> {
    let file: File = toml::from_str(text)?;
    let mut shipped = Shipped {
        residuals: Vec::new(),
        missing: Vec::new(),
    };
    for source in sources {
        for curve in source.curves.iter().filter(|curve| counts(curve)) {
            let stored = file.curves.iter().find(|stored| stored.id == curve.id);
            match stored.and_then(|stored| stored.of(curve, source.setup.clone())) {
                Some(residuals) => shipped.residuals.push(residuals),
                None => shipped.missing.push(curve.id.clone()),
            }
        }
    }
    Ok(shipped)
}

impl Stored {
    /// Returns the residuals of a curve; `None` if it has other points.
    fn of(&self, curve: &Curve, setup: Option<String>) -> Option<Residuals> {
        let count = curve.points.len();
        let is_its = self.blind.len() == count
            && self.anchored.len() == count
            && self.anchor.is_none_or(|at| at < count);
        if !is_its {
            return None;
        }
        let point = |number: usize| ResidualPoint {
            bytes: curve.points[number].0,
            published: curve.points[number].1,
            blind: self.blind[number],
            anchored: self.anchored[number],
            is_anchor: self.anchor == Some(number),
        };
        Some(Residuals {
            id: curve.id.clone(),
            source: curve.source().to_owned(),
            figure: FigureKind::of_unit(&curve.unit),
            layer: Layer::of(&curve.benchmark).unwrap_or(Layer::Verbs),
            adapter: self.adapter.clone(),
            host: self.host.clone(),
            library: self.library.clone(),
            setup: setup.unwrap_or_else(|| super::PLAIN.to_owned()),
            rate: self.rate,
            points: (0..count).map(point).collect(),
        })
    }
}

/// Returns the text of the file.
pub fn text(residuals: &[Residuals]) -> String {
    let mut out = String::from(
        "# The models' figures at the points of the curves of this directory, in their units.\n\
         # Generated: verbena reproduce --residuals papers/validation/residuals.toml\n",
    );
    for one in residuals {
        let anchor = one.points.iter().position(|point| point.is_anchor);
        let list = |figure: fn(&ResidualPoint) -> f64| {
            let figures = one.points.iter().map(|point| rounded(figure(point)));
            figures.collect::<Vec<String>>().join(", ")
        };
        let _ = write!(
            out,
            "\n[[curve]]\nid = {:?}\nadapter = {:?}\nhost = {:?}\n",
            one.id, one.adapter, one.host
        );
        if let Some(library) = &one.library {
            let _ = writeln!(out, "library = {library:?}");
        }
        let _ = writeln!(
            out,
            "rate = {}\n{}blind = [{}]\nanchored = [{}]",
            rounded(one.rate),
            anchor.map_or(String::new(), |at| format!("anchor = {at}\n")),
            list(|point| point.blind),
            list(|point| point.anchored)
        );
    }
    out
}

/// Returns a number with five significant digits.
fn rounded(number: f64) -> String {
    let short: f64 = format!("{number:.4e}").parse().unwrap_or(number);
    format!("{short:?}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stored_residuals_are_those_of_the_shipped_curves() {
        let shipped = shipped().expect("the file can be read");
        assert_eq!(shipped.missing, [""; 0], "written before these curves");
        assert_eq!(text(&shipped.residuals), SHIPPED);
    }

    #[test]
    fn a_curve_without_residuals_is_named() {
        let mut sources = sources().unwrap();
        sources.truncate(1);
        let first = sources[0].curves[0].clone();
        sources[0].curves[0].points.pop();
        let joined = joined(SHIPPED, &sources).unwrap();
        assert_eq!(joined.missing, [first.id]);
        assert_eq!(joined.residuals.len(), sources[0].curves.len() - 1);
        assert!(super::joined("[[curve]]\nid = 1", &sources).is_err());
    }

    #[test]
    fn numbers_keep_five_digits() {
        let numbers = [12_345.678, 0.123_456_78, 4000.0].map(rounded);
        assert_eq!(numbers, ["12346.0", "0.12346", "4000.0"]);
    }
}
