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
    "cpn57.toml",
    "ohpc-connectx3.toml",
    "betzy.toml",
    "aks-nd96.toml",
    "usernetes-hb120.toml",
    "notes-mt4123.toml",
    "ft2000.toml",
    "hi-master.toml",
    "amlhpc-hb120.toml",
    "efa-hpc6a.toml",
    "slingshot-lumi.toml",
];

/// Sources whose errors were studied before the rule that sets some aside.
const STUDIED: [&str; 8] = [
    "perftest_qdr",
    "netpipe_adonis",
    "perftest_teaker",
    "perftest_m01",
    "potter",
    "perftest_hc44",
    "perftest_hb120",
    "perftest_a100",
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
    /// A benchmark of the suite, or `mpi.latency`, `mpi.bandwidth`, `mpi.bandwidth-both` between
    /// two nodes, `mpi.latency-inside`, `mpi.bandwidth-inside` in one node.
    pub benchmark: String,
    /// The MPI library's profile, if it is not the system's.
    pub mpi: Option<String>,
    /// Whether the system stands in for an adapter that is not modelled.
    #[serde(default)]
    pub stand_in: bool,
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

    /// Returns the part of the validation data that it belongs to.
    pub fn part(&self) -> Part {
        if self.stand_in {
            Part::StandIn
        } else if STUDIED.contains(&self.source()) {
            Part::Studied
        } else if fnv1a(self.source()) % 2 == 1 {
            Part::SetAside
        } else {
            Part::Open
        }
    }
}

/// A part of the validation data; `papers/validation/README.md` has the rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// Sources whose errors were studied before others were searched.
    Studied,
    /// Later sources whose points may be searched for causes.
    Open,
    /// Later sources that only judge changes: those whose identifier has an odd hash.
    SetAside,
    /// Sources of adapters that are not modelled; no part of a mean.
    StandIn,
}

impl Part {
    /// All parts.
    pub const ALL: [Part; 4] = [Part::Studied, Part::Open, Part::SetAside, Part::StandIn];

    /// Returns the part in words.
    pub fn text(self) -> &'static str {
        match self {
            Part::Studied => "studied",
            Part::Open => "open",
            Part::SetAside => "set aside",
            Part::StandIn => "stand-in",
        }
    }
}

/// Returns the 32-bit FNV-1a hash of a name.
fn fnv1a(name: &str) -> u32 {
    let step = |hash: u32, byte: u8| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
    name.bytes().fold(0x811c_9dc5, step)
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

#[cfg(test)]
mod tests {
    use super::{Part, fnv1a, shipped};

    fn curves() -> Vec<super::Curve> {
        let sources = shipped().expect("the data are sound");
        sources.into_iter().flat_map(|s| s.curves).collect()
    }

    #[test]
    fn hash_is_fnv1a() {
        // The test vectors of its authors.
        assert_eq!(fnv1a(""), 0x811c_9dc5);
        assert_eq!(fnv1a("a"), 0xe40c_292c);
        assert_eq!(fnv1a("foobar"), 0xbf9c_f968);
    }

    #[test]
    fn every_part_has_curves() {
        for part in Part::ALL {
            assert!(
                curves().iter().any(|curve| curve.part() == part),
                "{part:?}"
            );
        }
    }

    #[test]
    fn source_is_in_one_part() {
        let all = curves();
        for one in &all {
            let same = all.iter().filter(|other| other.source() == one.source());
            assert!(same.clone().all(|other| other.part() == one.part()));
        }
    }

    #[test]
    fn sizes_rise_and_do_not_repeat() {
        for curve in curves() {
            let rise = curve.points.windows(2).all(|two| two[0].0 < two[1].0);
            assert!(rise, "{}", curve.id);
        }
    }
}
