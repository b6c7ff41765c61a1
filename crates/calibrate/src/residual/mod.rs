//! Residuals: the models' figures at the points of the published curves to which nothing was
//! fitted, blind and anchored, beside the published figures.
//!
//! They are computed by [`compute`], and stored in `papers/validation/residuals.toml`, so that a
//! prediction gets its interval without computing the curves again.

mod class;
mod file;
mod published;

pub use class::{Era, FigureKind, Layer, SizeClass, stand_in};
pub use file::{FileError, Shipped, shipped, text};
pub use published::{PublishedFigure, published};

use crate::anchor::{AnchorError, AnchoredCurve, of_curves};
use serde::Serialize;
use verbena_model::profile::{Error, Library};
use verbena_reproduce::validation::{Curve, Failure, Validated, shipped as sources};

/// Set-up of a source that states none.
const PLAIN: &str = "bare metal";

/// A point of a curve; figures in the curve's unit.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct ResidualPoint {
    /// Bytes per message.
    pub bytes: u64,
    /// The published figure.
    pub published: f64,
    /// The model's figure.
    pub blind: f64,
    /// The figure of the model anchored at one point of the curve.
    pub anchored: f64,
    /// Whether the model is anchored at this point.
    pub is_anchor: bool,
}

impl ResidualPoint {
    /// Returns the model's figure.
    pub fn model(&self, basis: Basis) -> f64 {
        match basis {
            Basis::Blind => self.blind,
            Basis::Anchored => self.anchored,
        }
    }

    /// Returns the natural logarithm of published over model, or `None` at the anchor of an
    /// anchored model, whose error is zero by construction.
    pub fn log_ratio(&self, basis: Basis) -> Option<f64> {
        let is_given = basis == Basis::Anchored && self.is_anchor;
        (!is_given).then(|| (self.published / self.model(basis)).ln())
    }
}

/// Whether a measurement of the machine was used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Basis {
    /// Profiles only.
    Blind,
    /// One measured figure of this machine and operation.
    Anchored,
}

impl Basis {
    /// Both, in this order.
    pub const ALL: [Basis; 2] = [Basis::Blind, Basis::Anchored];

    /// Returns the word for it.
    pub fn word(self) -> &'static str {
        match self {
            Basis::Blind => "blind",
            Basis::Anchored => "anchored",
        }
    }
}

/// A published curve beside the models' figures.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Residuals {
    /// Id of the curve.
    pub id: String,
    /// The source: measurements of one author on one machine.
    pub source: String,
    /// Latency or bandwidth.
    pub figure: FigureKind,
    /// Verbs or MPI.
    pub layer: Layer,
    /// Name of the adapter's profile.
    pub adapter: String,
    /// Name of the host's profile.
    pub host: String,
    /// The MPI library's profile, for curves of MPI.
    pub library: Option<String>,
    /// How the source's machine differs from the modelled one, e.g. `virtual machines`.
    pub setup: String,
    /// The link's data rate in 10^6 bytes a second, from its data sheet; of both directions, if the
    /// benchmark uses both.
    pub rate: f64,
    /// The points, in the order of the curve.
    pub points: Vec<ResidualPoint>,
}

impl Residuals {
    /// Returns the mean absolute error of a model's figures relative to the published ones.
    pub fn error(&self, figures: impl Iterator<Item = f64>) -> f64 {
        let pairs = figures.zip(&self.points);
        let sum: f64 = pairs
            .map(|(figure, point)| (figure / point.published - 1.0).abs())
            .sum();
        sum / self.points.len().max(1) as f64
    }

    /// Returns the time of a message in microseconds that a figure means: a latency itself, or the
    /// time between the messages of a stream.
    pub fn time(&self, bytes: u64, figure: f64) -> f64 {
        match self.figure {
            FigureKind::Latency => figure,
            FigureKind::Bandwidth => bytes as f64 / figure,
        }
    }

    /// Returns the figure of a time of a message in microseconds. A stream is not faster than the
    /// link.
    pub fn figure_of(&self, bytes: u64, time: f64) -> f64 {
        let wire = bytes as f64 / self.rate;
        match self.figure {
            FigureKind::Latency => time.max(wire),
            FigureKind::Bandwidth => bytes as f64 / time.max(wire),
        }
    }

    /// Returns the model's figures with `offset` microseconds added to the time of each message.
    pub fn shifted(&self, offset: f64) -> impl Iterator<Item = f64> {
        self.points.iter().map(move |point| {
            let time = self.time(point.bytes, point.blind);
            self.figure_of(point.bytes, (time + offset).max(time * LEAST_LEFT))
        })
    }

    /// Returns the offset in microseconds that makes the model's figure at a point the published
    /// one.
    pub fn offset_at(&self, point: &ResidualPoint) -> f64 {
        self.time(point.bytes, point.published) - self.time(point.bytes, point.blind)
    }
}

/// Share of a modelled time that a negative offset leaves.
const LEAST_LEFT: f64 = 0.1;

/// Why residuals cannot be computed.
#[derive(Debug, thiserror::Error)]
pub enum ResidualError {
    /// The curves' sources cannot be read, or a system is not in the library.
    #[error(transparent)]
    Curves(#[from] Failure),
    /// A model cannot be anchored.
    #[error(transparent)]
    Anchor(#[from] AnchorError),
}

/// Returns the residuals of computed curves; anchored models are computed on `threads` threads.
///
/// # Errors
///
/// Fails if the curves' sources cannot be read, a system is not in the library, or a model cannot
/// be anchored.
pub fn compute(
    library: &Library,
    validated: &[Validated],
    threads: usize,
) -> Result<Vec<Residuals>, ResidualError> {
    let sources = sources().map_err(Failure::from)?;
    let counted = || validated.iter().filter(|one| counts(&one.curve));
    let curves: Vec<Curve> = counted().map(|one| one.curve.clone()).collect();
    let anchored = of_curves(library, &curves, threads)?;
    let of_one = |(one, anchored): (&Validated, &AnchoredCurve)| {
        let is_its = |curve: &Curve| curve.id == one.curve.id;
        let source = sources.iter().find(|s| s.curves.iter().any(is_its));
        let setup = source.and_then(|source| source.setup.clone());
        let described = Described::of(library, &one.curve).map_err(Failure::from)?;
        Ok(described.residuals(&one.curve, setup, points(one, anchored)))
    };
    counted().zip(&anchored).map(of_one).collect()
}

/// Returns the points of a curve, computed blind and anchored.
fn points(blind: &Validated, anchored: &AnchoredCurve) -> Vec<ResidualPoint> {
    let point = |number: usize| {
        let (bytes, published) = blind.curve.points[number];
        ResidualPoint {
            bytes,
            published,
            blind: blind.model[number],
            anchored: anchored.figures[number],
            is_anchor: anchored.anchor == Some(number),
        }
    };
    (0..blind.curve.points.len()).map(point).collect()
}

/// Returns whether a curve tells the error of predictions: it is of a modelled adapter, and between
/// two nodes.
fn counts(curve: &Curve) -> bool {
    !curve.stand_in && Layer::of(&curve.benchmark).is_some()
}

/// The parts of a curve's system that classes are made of.
struct Described {
    adapter: String,
    host: String,
    library: Option<String>,
    rate: f64,
}

impl Described {
    fn of(library: &Library, curve: &Curve) -> Result<Described, Error> {
        let names = library.system_names(&curve.system)?;
        let is_mpi = Layer::of(&curve.benchmark) == Some(Layer::Mpi);
        let directions = match curve.benchmark.as_str() {
            "mpi.bandwidth-both" => 2.0,
            _ => 1.0,
        };
        Ok(Described {
            adapter: names.adapter.clone(),
            host: names.host.clone(),
            library: curve.mpi.clone().or(names.mpi.clone()).filter(|_| is_mpi),
            rate: directions * library.system(&curve.system)?.link.rate.0 / 1e6,
        })
    }
}

impl Described {
    fn residuals(
        self,
        curve: &Curve,
        setup: Option<String>,
        points: Vec<ResidualPoint>,
    ) -> Residuals {
        Residuals {
            id: curve.id.clone(),
            source: curve.source().to_owned(),
            figure: FigureKind::of_unit(&curve.unit),
            layer: Layer::of(&curve.benchmark).unwrap_or(Layer::Verbs),
            adapter: self.adapter,
            host: self.host,
            library: self.library,
            setup: setup.unwrap_or_else(|| PLAIN.to_owned()),
            rate: self.rate,
            points,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve(unit: &str, benchmark: &str, points: &[(u64, f64)]) -> Curve {
        Curve {
            id: "source.curve".to_owned(),
            place: String::new(),
            system: String::new(),
            benchmark: benchmark.to_owned(),
            mpi: None,
            stand_in: false,
            inline: None,
            transport: None,
            signal_every: None,
            profile: Default::default(),
            unit: unit.to_owned(),
            points: points.to_vec(),
        }
    }

    #[test]
    fn the_anchor_has_no_residual_of_the_anchored_model() {
        let curve = curve("us", "latency.write", &[(2, 2.0), (8, 2.0), (1024, 3.5)]);
        let blind = Validated {
            curve: curve.clone(),
            model: vec![1.5, 1.5, 3.0],
        };
        let anchored = AnchoredCurve {
            anchor: Some(1),
            figures: vec![2.0, 2.0, 3.5],
        };
        let described = Described {
            adapter: "connectx".to_owned(),
            host: "pcie2".to_owned(),
            library: None,
            rate: 1000.0,
        };
        let residuals = described.residuals(&curve, None, points(&blind, &anchored));
        let given: Vec<bool> = residuals
            .points
            .iter()
            .map(|point| point.is_anchor)
            .collect();
        assert_eq!(given, [false, true, false]);
        assert_eq!(residuals.points[1].log_ratio(Basis::Anchored), None);
        assert_eq!(residuals.points[2].log_ratio(Basis::Anchored), Some(0.0));
        assert!(residuals.points[1].log_ratio(Basis::Blind).unwrap() > 0.28);
        assert_eq!(residuals.error([1.0, 2.0, 3.5].into_iter()), 0.5 / 3.0);
        // A constant shifts every latency by the same time.
        let shifted: Vec<f64> = residuals.shifted(0.5).collect();
        assert_eq!(shifted, [2.0, 2.0, 3.5]);
    }
}
