//! Anchors: measured figures of a machine, to which a model of it is corrected.
//!
//! One latency and one rate of an operation determine its correction
//! ([`verbena_model::correction`]). The solver changes the correction until the simulated figure at
//! the anchor equals the measured one. Profiles are not changed.
//!
//! Of a measured curve one point is the anchor ([`chosen`]); the others are compared with the
//! anchored model.

mod curve;
mod error;
mod file;
mod fit;
mod machine;
mod measured;
mod solve;
mod text;
mod validation;

pub use curve::{MeasuredCurve, Residual, chosen, compare};
pub use error::AnchorError;
pub use file::read;
pub use fit::{Anchored, Fit, anchor_system, anchored};
pub use machine::SavedMachine;
pub use measured::Measured;
pub use text::parse;
pub use validation::{AnchoredCurve, models, of_curves};

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use verbena_fabric::model::{Fidelity, Machine};
use verbena_model::correction::Operation;
use verbena_model::profile::System;
use verbena_reproduce::suite::{self, Asked};
use verbena_reproduce::validation::{self as curves, Curve};
use verbena_reproduce::{bench, mpi_benchmarks};
use verbena_workloads::{Options, Sweep};

/// Largest message of an anchor in bytes. The figures of longer messages depend on bandwidths, of
/// which a time per message says nothing.
pub const LARGEST: u64 = 4096;

/// The quantity of an anchor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Unit {
    /// A latency in microseconds.
    #[serde(rename = "us")]
    Micros,
    /// A rate in 10^6 bytes a second.
    #[serde(rename = "MB/s")]
    Megabytes,
}

impl Unit {
    /// Returns the time of a message of `bytes` in nanoseconds.
    pub(crate) fn time(self, bytes: u64, figure: f64) -> f64 {
        match self {
            Unit::Micros => figure * 1e3,
            Unit::Megabytes => bytes as f64 / figure * 1e3,
        }
    }
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Unit::Micros => "us",
            Unit::Megabytes => "MB/s",
        })
    }
}

/// How a figure was measured, as far as it differs from the defaults of `verbena bench`.
#[derive(Debug, Clone, PartialEq, Eq, Default, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// Largest message posted inline, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inline: Option<u32>,
    /// The transport service: rc, uc, ud.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transport: Option<String>,
    /// Messages per signalled completion.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signal_every: Option<u64>,
}

/// A measured figure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Anchor {
    /// A benchmark of [`BENCHMARKS`].
    pub benchmark: String,
    /// Bytes of a message.
    pub bytes: u64,
    /// The measured figure.
    pub figure: f64,
    /// Its unit.
    pub unit: Unit,
    /// How it was measured.
    #[serde(default, skip_serializing_if = "is_default")]
    pub settings: Settings,
}

fn is_default(settings: &Settings) -> bool {
    *settings == Settings::default()
}

/// The benchmarks whose figures can be anchors.
pub const BENCHMARKS: [(&str, Unit, Operation); 10] = [
    ("latency.write", Unit::Micros, Operation::Write),
    ("bandwidth.write", Unit::Megabytes, Operation::Write),
    ("latency.send", Unit::Micros, Operation::Send),
    ("bandwidth.send", Unit::Megabytes, Operation::Send),
    ("latency.read", Unit::Micros, Operation::Read),
    ("bandwidth.read", Unit::Megabytes, Operation::Read),
    ("mpi.latency", Unit::Micros, Operation::Mpi),
    ("mpi.bandwidth", Unit::Megabytes, Operation::Mpi),
    ("mpi.bandwidth-both", Unit::Megabytes, Operation::Mpi),
    ("mpi.multi-pair-bandwidth", Unit::Megabytes, Operation::Mpi),
];

/// Returns unit and operation of a benchmark over a transport; `None` if its figures cannot be
/// anchors.
pub fn meaning(benchmark: &str, transport: Option<&str>) -> Option<(Unit, Operation)> {
    let (_, unit, operation) = BENCHMARKS.iter().find(|(name, ..)| *name == benchmark)?;
    let operation = match (operation, transport) {
        (Operation::Send, Some("ud")) => Operation::Datagram,
        _ => *operation,
    };
    Some((*unit, operation))
}

impl Anchor {
    /// Checks an anchor and returns its operation.
    ///
    /// # Errors
    ///
    /// If its benchmark is not one of [`BENCHMARKS`], its unit is not the benchmark's, its figure
    /// is not above zero, or its messages are longer than [`LARGEST`].
    pub fn operation(&self) -> Result<Operation, AnchorError> {
        let transport = self.settings.transport.as_deref();
        let Some((unit, operation)) = meaning(&self.benchmark, transport) else {
            return Err(AnchorError::Benchmark(self.benchmark.clone()));
        };
        if unit != self.unit {
            return Err(AnchorError::Unit {
                benchmark: self.benchmark.clone(),
                unit,
            });
        }
        if self.bytes > LARGEST || (self.bytes == 0 && unit == Unit::Megabytes) {
            return Err(AnchorError::Size(self.to_string()));
        }
        match self.figure.is_finite() && self.figure > 0.0 {
            true => Ok(operation),
            false => Err(AnchorError::Figure(self.to_string())),
        }
    }

    /// Returns the model's figure in the anchor's unit.
    pub(crate) fn of_model(&self, system: &System) -> Result<f64, AnchorError> {
        let (benchmark, settings) = (&self.benchmark, &self.settings);
        figure(system, (benchmark, settings), self.bytes)
    }
}

impl fmt::Display for Anchor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let transport = match self.settings.transport.as_deref() {
            Some(transport) if transport != "rc" => format!(" ({transport})"),
            _ => String::new(),
        };
        let (benchmark, bytes, unit) = (&self.benchmark, self.bytes, self.unit);
        let figure = self.figure;
        write!(f, "{benchmark}{transport} {bytes} B = {figure} {unit}")
    }
}

/// Returns a benchmark's figure on a system, in the unit of its anchors.
fn figure(
    system: &System,
    (benchmark, settings): (&str, &Settings),
    bytes: u64,
) -> Result<f64, AnchorError> {
    let unsupported = |reason: String| AnchorError::Model {
        benchmark: benchmark.to_owned(),
        system: system.name.clone(),
        reason,
    };
    if benchmark == "mpi.latency" {
        return match system.mpi {
            Some(_) => Ok(bench::mpi_latency(system, bench::Ranks::Apart, bytes)),
            None => Err(unsupported("it has no MPI library".to_owned())),
        };
    }
    if let Some(entry) = mpi_benchmarks::find(benchmark) {
        return match system.mpi {
            Some(_) => Ok(entry.measure.figure(system, bytes, 2)),
            None => Err(unsupported("it has no MPI library".to_owned())),
        };
    }
    let curve = Curve {
        id: String::new(),
        place: String::new(),
        system: system.name.clone(),
        benchmark: benchmark.to_owned(),
        mpi: None,
        stand_in: false,
        inline: settings.inline,
        transport: settings.transport.clone(),
        signal_every: settings.signal_every,
        profile: BTreeMap::new(),
        unit: String::new(),
        points: Vec::new(),
    };
    if curve.is_of_datagrams() {
        return Ok(curves::figure(system, &curve, bytes));
    }
    let found = verbena_workloads::find(benchmark)
        .ok_or_else(|| AnchorError::Benchmark(benchmark.to_owned()))?;
    let asked = Asked {
        options: Options {
            sizes: Some(vec![bytes as usize]),
            inline: settings.inline,
            transports: settings.transport.clone().map(|one| vec![one]),
            signal_every: settings.signal_every,
            ..Options::default()
        },
        sweep: Sweep::Coarse,
        processes: None,
        fidelity: Fidelity::Packet,
    };
    let points = suite::run(Machine::from(system), found, asked);
    let points = points.map_err(|error| unsupported(error.to_string()))?;
    match points.first() {
        Some(point) => Ok(suite::figure(point)),
        None => Err(unsupported(format!("it has no point of {bytes} B"))),
    }
}
