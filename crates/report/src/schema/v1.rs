//! Version 1: one JSON object per line, distinguished by `record`. The first line is the run.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use verbena_measure::result::{Failure, Finding, Point};
use verbena_measure::warning::Warning;

/// A line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "record", rename_all = "kebab-case")]
pub enum Line {
    /// Description of the run; the first line.
    Run(Run),
    /// A measured point.
    Point(Box<Point>),
    /// A point that could not be measured.
    Failure(Failure),
    /// A result of an analysis.
    Finding(Finding),
    /// The run ended; a file without it was cut short.
    End(End),
}

/// Description of a run: system, place and settings.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Run {
    /// Schema version.
    pub schema: u64,
    /// Label for legends, e.g. `software` or a device name.
    pub label: String,
    /// `hardware`, `software`, `model`, or `import`; `tcp` or `shm` for a message-passing library
    /// without an adapter.
    pub fabric: String,
    /// Device or profile.
    pub device: String,
    /// The command that reproduces it.
    pub command: String,
    /// Seconds since 1970.
    pub started: u64,
    /// Seed of patterns and orders.
    pub seed: u64,
    /// `quick` or `full`.
    pub effort: String,
    /// How processes were started: `local`, `mpi`, `slurm`.
    pub launcher: String,
    /// Launches per benchmark.
    pub launches: u32,
    /// Clock: name, nanoseconds per tick, overhead and resolution.
    pub clock: BTreeMap<String, String>,
    /// Host, processor, kernel, governor, versions (rule 19).
    pub environment: BTreeMap<String, String>,
    /// Warnings that hold for the whole run.
    #[serde(default)]
    pub warnings: Vec<Warning>,
}

/// The end of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct End {
    /// `complete`, `interrupted`, or `failed`.
    pub outcome: String,
    /// Duration in seconds.
    pub seconds: f64,
    /// Reason for a failure, if any.
    pub reason: Option<String>,
}
