//! Saved machines: a system's name and the measurements that correct it, as a TOML file.

use super::{Anchor, AnchorError, Anchored, Measured, MeasuredCurve, Residual};
use serde::{Deserialize, Serialize};
use verbena_model::profile::Library;

/// Version of the format.
const VERSION: u32 = 1;
/// Largest file in bytes.
const LARGEST: usize = 1 << 20;
/// Most points of a curve.
const POINTS: usize = 1000;

/// A saved machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SavedMachine {
    version: u32,
    /// Name of the modelled system.
    pub like: String,
    /// Files and texts that the measurements were read from.
    #[serde(default)]
    pub from: Vec<String>,
    /// The anchors.
    #[serde(rename = "anchor")]
    pub anchors: Vec<Anchor>,
    /// Measured curves, to compare with the anchored model.
    #[serde(rename = "curve", default)]
    pub curves: Vec<MeasuredCurve>,
}

impl SavedMachine {
    /// Returns a machine with these measurements.
    pub fn new(like: &str, from: &[String], measured: &Measured) -> SavedMachine {
        SavedMachine {
            version: VERSION,
            like: like.to_owned(),
            from: from.to_vec(),
            anchors: measured.anchors.clone(),
            curves: measured.curves.clone(),
        }
    }

    /// Parses a file's text.
    ///
    /// # Errors
    ///
    /// The reason, if it is malformed, of another version, or an anchor is invalid.
    pub fn parse(text: &str) -> Result<SavedMachine, String> {
        if text.len() > LARGEST {
            return Err(format!("longer than {LARGEST} bytes"));
        }
        let machine: SavedMachine = toml::from_str(text).map_err(|error| error.to_string())?;
        if machine.version != VERSION {
            let version = machine.version;
            return Err(format!(
                "format version {version}; this version reads {VERSION}"
            ));
        }
        for anchor in &machine.anchors {
            anchor.operation().map_err(|error| error.to_string())?;
        }
        for curve in &machine.curves {
            let name = &curve.benchmark;
            if curve.key().is_none() {
                return Err(AnchorError::Benchmark(name.clone()).to_string());
            }
            let sound = |(_, figure): &(u64, f64)| figure.is_finite() && *figure > 0.0;
            if curve.points.len() > POINTS || !curve.points.iter().all(sound) {
                return Err(format!(
                    "the curve {name} has more than {POINTS} points, or one not above zero"
                ));
            }
        }
        Ok(machine)
    }

    /// Returns the file's text.
    pub fn text(&self) -> String {
        let table = toml::to_string(self).expect("numbers and words are plain data");
        format!("# A machine of `verbena machine add`: measurements that correct a model.\n{table}")
    }

    /// Returns its model, corrected, and the errors on its curves.
    ///
    /// # Errors
    ///
    /// If the library has no such system, or it cannot be anchored.
    pub fn model(&self, library: &Library) -> Result<(Anchored, Vec<Residual>), AnchorError> {
        let measured = Measured {
            anchors: self.anchors.clone(),
            curves: self.curves.clone(),
            notes: Vec::new(),
        };
        measured.anchor(&library.system(&self.like)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machines_are_read_as_written() {
        let measured = Measured::of(&["latency.write:8=1.88us", "bandwidth.send/ud:64=90MB/s"]);
        let mut measured = measured.expect("anchors");
        measured.curves.push(MeasuredCurve {
            benchmark: "latency.write".to_owned(),
            settings: Default::default(),
            unit: super::super::Unit::Micros,
            points: vec![(8, 1.88), (4096, 3.85)],
        });
        let machine = SavedMachine::new("connectx6-hdr", &["a.txt".to_owned()], &measured);
        assert_eq!(SavedMachine::parse(&machine.text()), Ok(machine.clone()));
        let newer = machine.text().replace("version = 1", "version = 2");
        let error = SavedMachine::parse(&newer).expect_err("newer");
        assert!(error.contains("format version 2"), "{error}");
        let unknown = machine.text().replace("like =", "near = 1\nlike =");
        assert!(SavedMachine::parse(&unknown).is_err());
        let wrong = machine.text().replace("1.88", "-1.88");
        assert!(SavedMachine::parse(&wrong).is_err());
    }
}
