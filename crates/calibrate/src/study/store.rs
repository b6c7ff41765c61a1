//! Stores results of a study: a line of JSON per point, one file per part, and the merged table.

use super::Part;
use super::point::{PointResult, Setting, StudyFigure, StudyPoint};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::Write;
use std::path::{Path, PathBuf};
use verbena_measure::result::HotPort;

/// A computed point.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Done {
    /// Its number in the study.
    pub number: usize,
    /// Name of the benchmark.
    pub benchmark: String,
    /// Name of the system.
    pub system: String,
    /// Name of the fabric, if the study has several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fabric: Option<String>,
    /// The benchmark's parameters.
    pub parameters: BTreeMap<String, Setting>,
    /// Profile values by path.
    pub profile: BTreeMap<String, f64>,
    /// The results, the headline first.
    pub figures: Vec<StudyFigure>,
    /// The hottest ports of a fabric that exists.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hot_ports: Vec<HotPort>,
}

impl Done {
    pub(super) fn new(number: usize, point: &StudyPoint, result: PointResult) -> Done {
        Done {
            number,
            benchmark: point.benchmark.to_owned(),
            system: point.system.clone(),
            fabric: point.fabric_name().map(str::to_owned),
            parameters: point.parameters.clone(),
            profile: point.profile.clone(),
            figures: result.figures,
            hot_ports: result.hot_ports,
        }
    }
}

/// Results cannot be read or written, or belong to another study.
#[derive(Debug, thiserror::Error)]
#[error("{}: {reason}", path.display())]
pub struct StoreError {
    path: PathBuf,
    reason: String,
}

fn fault(path: &Path, reason: impl ToString) -> StoreError {
    StoreError {
        path: path.to_owned(),
        reason: reason.to_string(),
    }
}

/// A directory of results.
#[derive(Debug, Clone)]
pub struct Store {
    directory: PathBuf,
}

/// File with the text of the study that the results belong to.
const STUDY: &str = "study.toml";
/// File with everything else that the results depend on.
const BASIS: &str = "basis.txt";

impl Store {
    /// Opens or creates the directory for the study whose file contains `text`; its figures also
    /// depend on `basis` ([`Study::basis`](super::Study::basis)).
    ///
    /// # Errors
    ///
    /// Returns [`StoreError`] if the directory cannot be created, read or written, or belongs to
    /// another study or basis.
    pub fn open(directory: &Path, text: &str, basis: &str) -> Result<Store, StoreError> {
        fs::create_dir_all(directory).map_err(|e| fault(directory, e))?;
        for (name, wanted, what) in [
            (STUDY, text, "another study"),
            (
                BASIS,
                basis,
                "other profiles or fabrics, or another version",
            ),
        ] {
            let path = directory.join(name);
            match fs::read_to_string(&path) {
                Ok(there) if there != wanted => {
                    let reason =
                        format!("the results belong to {what}; give another --out, or remove them");
                    return Err(fault(&path, reason));
                }
                Ok(_) => {}
                Err(_) => write_whole(&path, wanted)?,
            }
        }
        Ok(Store {
            directory: directory.to_owned(),
        })
    }

    /// Returns all computed points of all parts, in the order of the points.
    ///
    /// # Errors
    ///
    /// Returns [`StoreError`] if a file cannot be read or has an invalid line.
    pub fn load(&self) -> Result<Vec<Done>, StoreError> {
        let entries = fs::read_dir(&self.directory).map_err(|e| fault(&self.directory, e))?;
        let mut done: BTreeMap<usize, Done> = BTreeMap::new();
        for entry in entries {
            let path = entry.map_err(|e| fault(&self.directory, e))?.path();
            let name = path.file_name().map(|n| n.to_string_lossy().into_owned());
            if !name.is_some_and(|n| n.starts_with("part-") && n.ends_with(".jsonl")) {
                continue;
            }
            let text = fs::read_to_string(&path).map_err(|e| fault(&path, e))?;
            let lines: Vec<_> = text.lines().collect();
            for (number, line) in lines.iter().enumerate() {
                match serde_json::from_str::<Done>(line) {
                    Ok(one) => {
                        done.insert(one.number, one);
                    }
                    // The last line of a task that was killed while it wrote: the point is computed
                    // again.
                    Err(_) if number + 1 == lines.len() && !text.ends_with('\n') => {}
                    Err(error) => {
                        return Err(fault(&path, format!("line {}: {error}", number + 1)));
                    }
                }
            }
        }
        Ok(done.into_values().collect())
    }

    pub(super) fn append_to(&self, part: Part) -> Result<Lines, StoreError> {
        let path = self
            .directory
            .join(format!("part-{}-of-{}.jsonl", part.number, part.of));
        // Removes the incomplete line of a task that was killed.
        if let Ok(text) = fs::read_to_string(&path)
            && !text.is_empty()
            && !text.ends_with('\n')
        {
            let whole = text.rfind('\n').map_or("", |end| &text[..=end]);
            write_whole(&path, whole)?;
        }
        let file = OpenOptions::new()
            .create(true)
            .append(true)
            .open(&path)
            .map_err(|e| fault(&path, e))?;
        Ok(Lines { file, path })
    }

    /// Writes `sweep.csv` and `sweep.jsonl` of all parts; returns the number of points in them.
    ///
    /// # Errors
    ///
    /// Returns [`StoreError`] if a file cannot be read or written.
    pub fn merge(&self) -> Result<usize, StoreError> {
        let done = self.load()?;
        let mut lines = String::new();
        for one in &done {
            lines.push_str(&line_of(one));
        }
        write_whole(&self.directory.join("sweep.jsonl"), &lines)?;
        write_whole(&self.directory.join("sweep.csv"), &table(&done))?;
        Ok(done.len())
    }
}

pub(super) struct Lines {
    file: File,
    path: PathBuf,
}

impl Lines {
    pub fn write(&mut self, done: &Done) -> Result<(), StoreError> {
        self.file
            .write_all(line_of(done).as_bytes())
            .map_err(|e| fault(&self.path, e))
    }
}

fn line_of(done: &Done) -> String {
    let line = serde_json::to_string(done).expect("numbers and strings can be written as JSON");
    line + "\n"
}

/// Writes a file atomically, also if several tasks write it.
fn write_whole(path: &Path, text: &str) -> Result<(), StoreError> {
    // Process ids repeat from host to host, so the temporary name is random.
    let drawn = RandomState::new().build_hasher().finish();
    let beside = path.with_extension(format!("{drawn:016x}.new"));
    fs::write(&beside, text).map_err(|e| fault(&beside, e))?;
    fs::rename(&beside, path).map_err(|e| fault(path, e))
}

fn table(done: &[Done]) -> String {
    let Some(first) = done.first() else {
        return String::new();
    };
    let mut text = String::from("number,benchmark,system");
    if first.fabric.is_some() {
        text.push_str(",fabric");
    }
    for name in first.parameters.keys().chain(first.profile.keys()) {
        text.push_str(&format!(",{name}"));
    }
    text.push_str(",metric,value,unit\n");
    let common = common_metric(done);
    for one in done {
        text.push_str(&format!("{},{},{}", one.number, one.benchmark, one.system));
        if let Some(fabric) = &one.fabric {
            text.push_str(&format!(",{fabric}"));
        }
        for value in one.parameters.values() {
            text.push_str(&format!(",{value}"));
        }
        for value in one.profile.values() {
            text.push_str(&format!(",{value}"));
        }
        let figures = &one.figures;
        let figure = figures.iter().find(|figure| Some(&figure.metric) == common);
        if let Some(StudyFigure {
            metric,
            value,
            unit,
        }) = figure.or(figures.first())
        {
            text.push_str(&format!(",{metric},{value},{unit}"));
        }
        text.push('\n');
    }
    text
}

/// Returns the first metric that all points have: a refused headline of one point must not mix two
/// quantities in a column. `None` if they have none in common.
fn common_metric(done: &[Done]) -> Option<&String> {
    let has =
        |one: &Done, metric: &String| one.figures.iter().any(|figure| figure.metric == *metric);
    let metrics = done.first()?.figures.iter().map(|figure| &figure.metric);
    let mut metrics = metrics.filter(|&metric| done.iter().all(|one| has(one, metric)));
    metrics.next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_column_has_one_metric() {
        let done = |number, metrics: &[&str]| Done {
            number,
            benchmark: "patterns.ring".to_owned(),
            system: "mine".to_owned(),
            fabric: None,
            parameters: BTreeMap::new(),
            profile: BTreeMap::new(),
            figures: metrics
                .iter()
                .map(|metric| StudyFigure {
                    metric: (*metric).to_owned(),
                    value: 2.0,
                    unit: "MB/s".to_owned(),
                })
                .collect(),
            hot_ports: Vec::new(),
        };
        let all = [done(0, &["bandwidth", "median"]), done(1, &["median"])];
        let expected = "number,benchmark,system,metric,value,unit\n\
                        0,patterns.ring,mine,median,2,MB/s\n\
                        1,patterns.ring,mine,median,2,MB/s\n";
        assert_eq!(table(&all), expected);
    }
}
