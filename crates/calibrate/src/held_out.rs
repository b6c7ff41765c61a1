//! How far a model's figure may be from a real adapter's: the models' errors on published curves
//! that are not used for fitting ([`verbena_reproduce::validation`]).
//!
//! A range follows from data, it is not chosen here. It is as wide as the errors at held-out points
//! of the same measure and of similar sizes: of this adapter if there are such points, otherwise of
//! all adapters.

use serde::Serialize;
use verbena_model::profile::{Error, Library};
use verbena_reproduce::validation::{self, Curve, Failure, shipped};

/// A measure for which published curves exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CurveMeasure {
    /// One-way latency of writes.
    Latency,
    /// Bandwidth of writes in one direction. For short messages this is the message rate.
    Bandwidth,
}

impl CurveMeasure {
    /// Returns the benchmarks whose curves count: writes and sends in one direction.
    fn benchmarks(self) -> [&'static str; 2] {
        match self {
            CurveMeasure::Latency => ["latency.write", "latency.send"],
            CurveMeasure::Bandwidth => ["bandwidth.write", "bandwidth.send"],
        }
    }
}

/// Largest short message in bytes: a cache line.
const SHORT: u64 = 64;
/// Smallest long message in bytes: perftest's default.
const LONG: u64 = 65_536;

/// Message sizes whose errors are combined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sizes {
    /// Up to 64 bytes.
    Short,
    /// Between the two limits.
    Middle,
    /// From 64 KiB on.
    Long,
}

impl Sizes {
    /// Returns the class of a message size.
    pub fn of(bytes: u64) -> Sizes {
        match bytes {
            0..=SHORT => Sizes::Short,
            LONG.. => Sizes::Long,
            _ => Sizes::Middle,
        }
    }

    /// Returns the class in words, to follow "messages".
    pub fn text(self) -> &'static str {
        match self {
            Sizes::Short => "of up to 64 B",
            Sizes::Middle => "between 64 B and 64 KiB",
            Sizes::Long => "of at least 64 KiB",
        }
    }
}

/// The errors of models on held-out curves.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ModelError {
    /// Least value of model over published less one, at most 0.
    pub low: f64,
    /// Greatest value of it, at least 0.
    pub high: f64,
    /// Number of points.
    pub points: usize,
    /// The curves, by id.
    pub curves: Vec<String>,
    /// Whether the curves are of the requested adapter and link.
    pub is_of_adapter: bool,
}

impl ModelError {
    fn of(errors: &[f64], curves: Vec<String>, is_of_adapter: bool) -> ModelError {
        ModelError {
            low: errors.iter().copied().fold(0.0, f64::min),
            high: errors.iter().copied().fold(0.0, f64::max),
            points: errors.len(),
            curves,
            is_of_adapter,
        }
    }

    /// Returns the range of a real figure if its error is within the observed ones. The range
    /// includes the model's own figure.
    pub fn range(&self, model: f64) -> (f64, f64) {
        (model / (1.0 + self.high), model / (1.0 + self.low))
    }
}

/// Returns the errors that apply to a system's figure: `None` if no published curve is of the
/// measure and of similar sizes.
///
/// Curves are computed on the shipped profiles by `threads` threads.
///
/// # Errors
///
/// If there is no such system in `library`, or a shipped curve cannot be computed.
pub fn model_error(
    library: &Library,
    system: &str,
    measure: CurveMeasure,
    sizes: Sizes,
    threads: usize,
) -> Result<Option<ModelError>, Failure> {
    let all = curves(measure, sizes)?;
    let mut own = Vec::new();
    for curve in &all {
        if is_like(library, system, &curve.system)? {
            own.push(curve.clone());
        }
    }
    let is_of_adapter = !own.is_empty();
    let chosen = if is_of_adapter { own } else { all };
    if chosen.is_empty() {
        return Ok(None);
    }
    let validated = validation::validate(library, &chosen, threads)?;
    let errors: Vec<f64> = validated.iter().flat_map(|one| one.errors()).collect();
    let ids = chosen.into_iter().map(|curve| curve.id).collect();
    Ok(Some(ModelError::of(&errors, ids, is_of_adapter)))
}

/// Returns the published curves of a measure over connections, with their points of these sizes.
fn curves(measure: CurveMeasure, sizes: Sizes) -> Result<Vec<Curve>, Failure> {
    let sources = shipped()?.into_iter();
    let wanted = |curve: &Curve| {
        let connected = curve.transport.as_deref().is_none_or(|one| one == "rc");
        connected && measure.benchmarks().contains(&curve.benchmark.as_str())
    };
    let curves = sources.flat_map(|source| source.curves).filter(wanted);
    let within = |mut curve: Curve| {
        curve.points.retain(|(bytes, _)| Sizes::of(*bytes) == sizes);
        (!curve.points.is_empty()).then_some(curve)
    };
    Ok(curves.filter_map(within).collect())
}

/// Returns whether two systems have the same adapter and the same kind of link.
fn is_like(library: &Library, system: &str, other: &str) -> Result<bool, Error> {
    let (one, other) = (library.system_names(system)?, library.system_names(other)?);
    Ok(one.adapter == other.adapter && one.link == other.link)
}

/// A published figure.
#[derive(Debug, Clone, PartialEq)]
pub struct PublishedFigure {
    /// In the curve's unit: us, or 10^6 bytes a second.
    pub value: f64,
    /// Id of the curve.
    pub curve: String,
    /// Its author.
    pub author: String,
}

/// Returns the published figures of a benchmark over a connection on a system, with messages of
/// this size in bytes.
///
/// # Errors
///
/// If the shipped curves cannot be read.
pub fn published(
    system: &str,
    benchmark: &str,
    bytes: u64,
) -> Result<Vec<PublishedFigure>, Failure> {
    let mut found = Vec::new();
    for source in shipped()? {
        let of_it = source.curves.iter().filter(|curve| {
            curve.system == system
                && curve.benchmark == benchmark
                && curve.transport.as_deref().is_none_or(|one| one == "rc")
        });
        let points = of_it.flat_map(|curve| curve.points.iter().map(move |point| (curve, point)));
        let at_size = points.filter(|(_, point)| point.0 == bytes);
        found.extend(at_size.map(|(curve, point)| PublishedFigure {
            value: point.1,
            curve: curve.id.clone(),
            author: source.author.clone(),
        }));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use verbena_model::profile::Overrides;

    fn library() -> Library {
        Library::shipped(&Overrides::none()).expect("shipped profiles are sound")
    }

    fn error(system: &str, measure: CurveMeasure, bytes: u64) -> Option<ModelError> {
        model_error(&library(), system, measure, Sizes::of(bytes), 2).expect("computed")
    }

    #[test]
    fn curves_of_the_same_adapter_take_precedence() {
        let own = error("connectx6-hdr", CurveMeasure::Latency, 8).unwrap();
        assert_eq!(
            own.curves,
            ["perftest_hb120.send_latency", "perftest_a100.write_latency"]
        );
        assert!(own.is_of_adapter);
        // The model is known to be a third to a half too fast there: docs/models-validation.md.
        assert!(own.low < -0.3 && own.high == 0.0, "{own:?}");
        let long = error("connectx6-hdr", CurveMeasure::Bandwidth, 1 << 20).unwrap();
        let sources = ["perftest_a100", "aks_nd96", "notes_mt4123"];
        let curves = sources.map(|source| format!("{source}.write_bandwidth"));
        assert_eq!(long.curves, curves);
        assert!(-0.05 < long.low && long.high < 0.05, "{long:?}");
    }

    #[test]
    fn adapters_without_curves_use_the_errors_of_all() {
        let other = error("connectx7-ndr", CurveMeasure::Latency, 8).unwrap();
        assert!(!other.is_of_adapter && other.curves.len() > 4, "{other:?}");
        // The adapter is the same, the link is not.
        let ethernet = error("connectx5-100gbe", CurveMeasure::Latency, 8).unwrap();
        assert!(!ethernet.is_of_adapter);
    }

    #[test]
    fn published_figures_match_the_size() {
        let at = |bytes| published("connectx6-hdr", "latency.send", bytes).unwrap();
        let figures: Vec<f64> = at(8).iter().map(|figure| figure.value).collect();
        assert_eq!(figures, [1.59]);
        assert_eq!(at(9), []);
        assert_eq!(published("connectx7-ndr", "latency.send", 8).unwrap(), []);
    }

    #[test]
    fn unknown_systems_are_errors() {
        let sizes = Sizes::Short;
        let failed = model_error(&library(), "connectx99", CurveMeasure::Latency, sizes, 1);
        assert!(failed.unwrap_err().to_string().contains("connectx6-hdr"));
    }

    proptest! {
        #[test]
        fn ranges_contain_every_figure_with_an_observed_error(
            errors in proptest::collection::vec(-0.9_f64..3.0, 1..20),
            model in 1e-3_f64..1e12,
        ) {
            let seen = ModelError::of(&errors, Vec::new(), true);
            let (low, high) = seen.range(model);
            prop_assert!(low <= model && model <= high);
            for error in errors {
                let real = model / (1.0 + error);
                prop_assert!(low <= real * (1.0 + 1e-12) && real <= high * (1.0 + 1e-12));
            }
        }
    }
}
