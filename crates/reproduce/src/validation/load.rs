//! Reads `papers/validation/`.

use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Names and texts of the files that come with the program.
macro_rules! shipped {
    ($($file:literal),* $(,)?) => {
        const FILES: &[(&str, &str)] = &[$((
            $file,
            include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../papers/validation/", $file)),
        )),*];
    };
}

shipped![
    "perftest-qdr.toml",
    "netpipe-adonis.toml",
    "perftest-teaker.toml",
    "perftest-m01.toml",
    "potter.toml",
    "perftest-hc44.toml",
    "perftest-hb120.toml",
    "perftest-a100.toml",
];

/// Measurements of one author on one machine.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Source {
    /// Name of the adapter's profile.
    pub adapter: String,
    /// The author.
    pub author: String,
    /// Place of publication, tool and options.
    pub source: String,
    /// How the machine differs from the modelled one, e.g. `virtual machines`; absent for programs
    /// on ordinary hosts.
    pub setup: Option<String>,
    /// The curves.
    #[serde(rename = "curve")]
    pub curves: Vec<Curve>,
}

/// A published curve, and the settings to reproduce it on a model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Curve {
    /// `<source>.<what>`.
    pub id: String,
    /// Table in the source.
    #[serde(rename = "where")]
    pub place: String,
    /// The modelled system.
    pub system: String,
    /// A benchmark of the suite, or `mpi.latency`.
    pub benchmark: String,
    /// Largest message posted inline.
    pub inline: Option<u32>,
    /// The transport service.
    pub transport: Option<String>,
    /// Messages per signalled completion.
    pub signal_every: Option<u64>,
    /// Profile values stated by the source, in the profiles' units.
    #[serde(default)]
    pub profile: BTreeMap<String, f64>,
    /// us or MB/s (10^6).
    pub unit: String,
    /// Bytes per message, and the figure.
    pub points: Vec<(u64, f64)>,
}

impl Curve {
    /// Returns the name of its source.
    pub fn source(&self) -> &str {
        self.id.split('.').next().unwrap_or(&self.id)
    }

    /// Returns whether it is a stream of datagrams.
    pub fn is_of_datagrams(&self) -> bool {
        self.benchmark == "bandwidth.send" && self.transport.as_deref() == Some("ud")
    }
}

/// The validation data cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ValidationError {
    /// A file is invalid.
    #[error("papers/validation/{file}: {source}")]
    File {
        /// Name of the file.
        file: &'static str,
        /// The parser's error.
        source: toml::de::Error,
    },
    /// Two curves have the same name.
    #[error("papers/validation: two curves have the name {0:?}")]
    Twice(String),
    /// A curve has no points, or one that is not above zero.
    #[error("papers/validation: {0:?} has no points, or one that is not above zero")]
    Empty(String),
}

/// Returns the sources that come with the program.
///
/// # Errors
///
/// Returns [`ValidationError`] if a file is invalid, two curves have the same name, or a curve has
/// no usable points.
pub fn shipped() -> Result<Vec<Source>, ValidationError> {
    let mut sources = Vec::new();
    let mut names = BTreeSet::new();
    for &(file, text) in FILES {
        let source: Source =
            toml::from_str(text).map_err(|source| ValidationError::File { file, source })?;
        for curve in &source.curves {
            if !names.insert(curve.id.clone()) {
                return Err(ValidationError::Twice(curve.id.clone()));
            }
            if curve.points.is_empty() || curve.points.iter().any(|(_, figure)| *figure <= 0.0) {
                return Err(ValidationError::Empty(curve.id.clone()));
            }
        }
        sources.push(source);
    }
    Ok(sources)
}
