//! Published curves that are not used for fitting, computed from the profiles: the accuracy of the
//! models' predictions.
//!
//! A curve is data (`papers/validation/`, with the rule for its inclusion): system, benchmark,
//! options and figures. The relative error of a point is model over published, less one; that of a
//! curve is the mean of its points' absolute errors.

mod load;

pub use load::{Curve, Part, Source, ValidationError, shipped};

use crate::bench::{Bandwidth, Direction, Operation, Ranks, bandwidth, mpi_bandwidth, mpi_latency};
use crate::suite::Suite;
use crate::workers::in_order;
use serde::Serialize;
use std::fmt::Write;
use verbena_model::adapter::{Kind, Placement, Transport};
use verbena_model::profile::{Error, Library, Overrides, Profile, ProfileKind, System};

/// The shipped curves could not be computed.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The data cannot be read.
    #[error(transparent)]
    Data(#[from] ValidationError),
    /// The profiles do not contain the system.
    #[error(transparent)]
    Profile(#[from] Error),
}

/// Number of matching points from which measurements count as the curve itself, not as a
/// coincidence.
const SAME: usize = 3;

/// A computed curve.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Validated {
    /// The published curve.
    pub curve: Curve,
    /// The model's figure for each point.
    pub model: Vec<f64>,
}

impl Validated {
    /// Returns the relative error of each point.
    pub fn errors(&self) -> Vec<f64> {
        let pairs = self.model.iter().zip(&self.curve.points);
        pairs
            .map(|(model, (_, published))| model / published - 1.0)
            .collect()
    }

    /// Returns the mean of the absolute errors.
    pub fn mean(&self) -> f64 {
        let errors = self.errors();
        errors.iter().map(|error| error.abs()).sum::<f64>() / errors.len() as f64
    }

    /// Returns bytes and error of the point with the largest error.
    pub fn worst(&self) -> (u64, f64) {
        let points = self.curve.points.iter().map(|(bytes, _)| *bytes);
        let worst = points.zip(self.errors());
        worst
            .max_by(|a, b| a.1.abs().total_cmp(&b.1.abs()))
            .unwrap_or((0, f64::NAN))
    }
}

/// Returns a curve's figure on a system.
///
/// # Panics
///
/// If the suite has no such benchmark: the data come with the program.
pub fn figure(system: &System, curve: &Curve, bytes: u64) -> f64 {
    let (one, both) = (Direction::One, Direction::Both);
    match curve.benchmark.as_str() {
        "mpi.latency" => return mpi_latency(system, Ranks::Apart, bytes),
        "mpi.latency-inside" => return mpi_latency(system, Ranks::Together, bytes),
        "mpi.bandwidth" => return mpi_bandwidth(system, Ranks::Apart, bytes, one),
        "mpi.bandwidth-inside" => return mpi_bandwidth(system, Ranks::Together, bytes, one),
        "mpi.bandwidth-both" => return mpi_bandwidth(system, Ranks::Apart, bytes, both),
        _ => {}
    }
    if curve.is_of_datagrams() {
        return datagrams(system, curve, bytes);
    }
    let name = verbena_workloads::find(&curve.benchmark).map(|benchmark| benchmark.name);
    let name = name.unwrap_or_else(|| panic!("the suite has a benchmark {}", curve.benchmark));
    let mut suite = Suite::new(system, name).size(bytes);
    if let Some(inline) = curve.inline {
        suite = suite.inline(inline);
    }
    if let Some(transport) = &curve.transport {
        suite = suite.transport(transport);
    }
    if let Some(every) = curve.signal_every {
        suite = suite.signal_every(every);
    }
    suite.figure()
}

/// Returns the rate of sent datagrams, 10^6 bytes a second: the suite's streams use connections.
fn datagrams(system: &System, curve: &Curve, bytes: u64) -> f64 {
    let placement = match bytes <= u64::from(curve.inline.unwrap_or(0)) {
        true => Placement::Inline,
        false => Placement::Reference,
    };
    let stream = Bandwidth {
        transport: Transport::Datagram,
        signal_every: curve.signal_every.unwrap_or(1),
        ..Bandwidth::of(Operation::new(Kind::Send, bytes, placement))
    };
    bandwidth(system, stream).sent
}

/// Returns a curve's system, with the values and the library that its source states.
///
/// # Errors
///
/// Returns an error if the system, the library or a value is invalid.
pub fn system_of(library: &Library, curve: &Curve) -> Result<System, Error> {
    let settings = curve.profile.iter();
    let overrides = settings.fold(Overrides::none(), |all, (path, value)| {
        all.with(path, *value)
    });
    let library = library.with(&overrides)?;
    let mut system = library.system(&curve.system)?;
    if let Some(name) = &curve.mpi {
        let Some(Profile::Mpi(mpi)) = library.profile(ProfileKind::Mpi, name) else {
            return Err(Error {
                file: "papers/validation".to_owned(),
                line: 1,
                key: curve.id.clone(),
                reason: format!("no MPI profile {name:?}"),
            });
        };
        system.mpi = Some(mpi.clone());
    }
    Ok(system)
}

/// Computes curves on `threads` threads; the result does not depend on their number.
///
/// # Errors
///
/// Returns an error if a system or a profile value is invalid.
pub fn validate(
    library: &Library,
    curves: &[Curve],
    threads: usize,
) -> Result<Vec<Validated>, Error> {
    let systems = curves.iter().map(|curve| system_of(library, curve));
    let systems = systems.collect::<Result<Vec<_>, Error>>()?;
    let points: Vec<(usize, u64)> = curves
        .iter()
        .enumerate()
        .flat_map(|(number, curve)| curve.points.iter().map(move |(bytes, _)| (number, *bytes)))
        .collect();
    let figures = in_order(threads, points.len(), |index| {
        let (number, bytes) = points[index];
        figure(&systems[number], &curves[number], bytes)
    });
    let mut figures = figures.into_iter();
    Ok(curves
        .iter()
        .map(|curve| Validated {
            curve: curve.clone(),
            model: figures.by_ref().take(curve.points.len()).collect(),
        })
        .collect())
}

/// Computes the shipped curves, in the order of their sources.
///
/// # Errors
///
/// Returns [`Failure`] if the data cannot be read or a system is not in the library.
pub fn of_shipped(library: &Library, threads: usize) -> Result<Vec<Validated>, Failure> {
    let sources = shipped()?.into_iter();
    let curves: Vec<_> = sources.flat_map(|source| source.curves).collect();
    Ok(validate(library, &curves, threads)?)
}

/// Returns the validation curve that the measurements match, if any. Measurements are `(bytes,
/// figure)` in `unit`.
pub fn is_validation<'a>(
    curves: &'a [Curve],
    unit: &str,
    measured: &[(u64, f64)],
) -> Option<&'a Curve> {
    curves.iter().find(|curve| {
        let among = |point: &&(u64, f64)| {
            let same = |m: &(u64, f64)| m.0 == point.0 && (m.1 / point.1 - 1.0).abs() < 1e-3;
            measured.iter().any(same)
        };
        curve.unit == unit && curve.points.iter().filter(among).count() >= SAME
    })
}

/// Returns the errors of each curve, one line each, and the mean of each part of the data.
pub fn text(validated: &[Validated]) -> String {
    let mut out = String::new();
    for result in validated {
        let (bytes, worst) = result.worst();
        let _ = writeln!(
            out,
            "{:<35} {:<18} {:<9} {:>2} points, mean error {:>5.1} %, worst {:+.1} % at {bytes} B",
            result.curve.id,
            result.curve.system,
            result.curve.part().text(),
            result.curve.points.len(),
            result.mean() * 100.0,
            worst * 100.0
        );
    }
    for part in Part::ALL {
        let of_part: Vec<_> = validated
            .iter()
            .filter(|result| result.curve.part() == part)
            .collect();
        if !of_part.is_empty() {
            let (curves, mean) = (of_part.len(), mean(&of_part) * 100.0);
            let _ = writeln!(
                out,
                "{:<9} {curves:>2} curves, mean error {mean:>5.1} %",
                part.text()
            );
        }
    }
    out
}

/// Returns the mean of the curves' errors.
fn mean(validated: &[&Validated]) -> f64 {
    let sum: f64 = validated.iter().map(|result| result.mean()).sum();
    sum / validated.len().max(1) as f64
}

/// Returns the mean and the worst error over all curves of modelled adapters, in a sentence.
pub fn summary(validated: &[Validated]) -> String {
    let modelled = validated.iter().filter(|result| !result.curve.stand_in);
    let modelled: Vec<_> = modelled.collect();
    let worst = modelled
        .iter()
        .map(|result| result.worst())
        .max_by(|a, b| a.1.abs().total_cmp(&b.1.abs()));
    format!(
        "Mean error on {} held-out curves: {:.1} %; worst point: {:+.1} %.",
        modelled.len(),
        mean(&modelled) * 100.0,
        worst.map_or(f64::NAN, |(_, error)| error * 100.0)
    )
}

#[cfg(test)]
mod tests {
    use super::{Curve, Validated, shipped, summary, text, validate};
    use verbena_model::profile::{Library, Overrides};

    fn library() -> Library {
        Library::shipped(&Overrides::none()).expect("shipped profiles are sound")
    }

    fn curve(id: &str) -> Curve {
        let sources = shipped().expect("the data are sound").into_iter();
        let mut curves = sources.flat_map(|source| source.curves);
        curves.find(|curve| curve.id == id).expect(id)
    }

    #[test]
    fn both_directions_carry_more_than_one() {
        let both = curve("betzy.mpi_bidirectional");
        let one = Curve {
            benchmark: "mpi.bandwidth".to_owned(),
            ..both.clone()
        };
        let results = validate(&library(), &[both, one], 2).expect("can be computed");
        let last = |result: &Validated| *result.model.last().expect("points");
        assert!(last(&results[0]) > 1.7 * last(&results[1]));
    }

    #[test]
    fn ranks_of_one_node_need_no_network() {
        let apart = curve("betzy.mpi_bidirectional");
        let of = |benchmark: &str| Curve {
            benchmark: benchmark.to_owned(),
            points: vec![(8, 1.0)],
            ..apart.clone()
        };
        let curves = [of("mpi.latency"), of("mpi.latency-inside")];
        let results = validate(&library(), &curves, 1).expect("can be computed");
        assert!(results[1].model[0] < results[0].model[0]);
        let curves = [of("mpi.bandwidth"), of("mpi.bandwidth-inside")];
        let results = validate(&library(), &curves, 1).expect("can be computed");
        assert!(results.iter().all(|result| result.model[0] > 0.0));
    }

    #[test]
    fn unknown_mpi_profile_is_refused_with_the_curve() {
        let unknown = Curve {
            mpi: Some("lam".to_owned()),
            ..curve("betzy.mpi_bidirectional")
        };
        let refused = validate(&library(), &[unknown], 1).expect_err("no such profile");
        let text = refused.to_string();
        assert!(
            text.contains("betzy.mpi_bidirectional") && text.contains("\"lam\""),
            "{text}"
        );
    }

    #[test]
    fn stand_ins_are_no_part_of_the_mean() {
        let validated = |id: &str, factor: f64| {
            let curve = curve(id);
            let model = curve.points.iter().map(|(_, figure)| figure * factor);
            Validated {
                model: model.collect(),
                curve,
            }
        };
        let all = [
            validated("potter.datagram_latency", 1.1),
            validated("slingshot_lumi.mpi_bandwidth", 3.0),
        ];
        assert!(summary(&all).starts_with("Mean error on 1 held-out curves: 10.0 %"));
        let text = text(&all);
        assert!(
            text.contains("studied    1 curves, mean error  10.0 %"),
            "{text}"
        );
        assert!(
            text.contains("stand-in   1 curves, mean error 200.0 %"),
            "{text}"
        );
    }
}
