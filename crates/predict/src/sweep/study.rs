//! The file that describes a study.
//!
//! ```toml
//! benchmark = "latency.write-inline"
//! system = ["connectx-ddr", "infinihost3-ddr"]
//! size = [1, 128, 256]
//! pairs = [1, 2, 4, 8]
//!
//! [profile]
//! "bensley.pcie.read_buffer" = [512, 4096]
//! ```

use super::point::{BENCHMARKS, Point};
use serde::Deserialize;
use std::collections::BTreeMap;
use verbena_model::profile::Library;

/// One value or a list of them.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
enum Values<T> {
    One(T),
    Many(Vec<T>),
}

impl<T> Values<T> {
    fn list(self) -> Vec<T> {
        match self {
            Values::One(value) => vec![value],
            Values::Many(values) => values,
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    benchmark: String,
    system: Values<String>,
    size: Option<Values<u64>>,
    pairs: Option<Values<u64>>,
    connections: Option<Values<u64>>,
    window: Option<Values<u64>>,
    ranks: Option<Values<u64>>,
    nodes: Option<Values<u64>>,
    tile: Option<Values<u64>>,
    #[serde(default)]
    profile: BTreeMap<String, Values<f64>>,
}

/// What is wrong with a study's file.
#[derive(Debug, thiserror::Error)]
#[error("{file}: {reason}")]
pub struct StudyError {
    file: String,
    reason: String,
}

/// A study: axes whose combinations are its points.
#[derive(Debug, Clone, PartialEq)]
pub struct Study {
    benchmark: &'static str,
    systems: Vec<String>,
    parameters: Vec<(String, Vec<u64>)>,
    profile: Vec<(String, Vec<f64>)>,
}

impl Study {
    /// Reads `text`, the contents of `file`; systems and values must be in the library.
    pub fn read(file: &str, text: &str, library: &Library) -> Result<Study, StudyError> {
        let fault = |reason: String| StudyError {
            file: file.to_owned(),
            reason,
        };
        let read: File = toml::from_str(text).map_err(|e| fault(e.to_string()))?;
        let known = BENCHMARKS
            .iter()
            .find(|(name, _, _)| *name == read.benchmark);
        let Some((benchmark, _, takes)) = known else {
            let names: Vec<_> = BENCHMARKS.iter().map(|(name, _, _)| *name).collect();
            return Err(fault(format!(
                "benchmark = \"{}\": there are {}",
                read.benchmark,
                names.join(", ")
            )));
        };
        let systems = read.system.list();
        for system in &systems {
            library.system(system).map_err(|e| fault(e.to_string()))?;
        }
        let mut parameters = Vec::new();
        for (name, values) in [
            ("size", read.size),
            ("pairs", read.pairs),
            ("connections", read.connections),
            ("window", read.window),
            ("ranks", read.ranks),
            ("nodes", read.nodes),
            ("tile", read.tile),
        ] {
            let Some(values) = values else { continue };
            if !takes.iter().any(|(taken, _)| *taken == name) {
                let names: Vec<_> = takes.iter().map(|(taken, _)| *taken).collect();
                return Err(fault(format!(
                    "{name}: {benchmark} has no such parameter; it takes {}",
                    names.join(", ")
                )));
            }
            let values = values.list();
            if values.contains(&0) {
                return Err(fault(format!(
                    "{name}: expected numbers of at least 1, found 0"
                )));
            }
            parameters.push((name.to_owned(), values));
        }
        let mut profile = Vec::new();
        for (path, values) in read.profile {
            if !library.recorded().iter().any(|r| r.path == path) {
                return Err(fault(format!(
                    "profile.\"{path}\": no profile has such a value"
                )));
            }
            profile.push((path, values.list()));
        }
        let empty = parameters.iter().any(|(_, v)| v.is_empty())
            || profile.iter().any(|(_, v)| v.is_empty())
            || systems.is_empty();
        if empty {
            return Err(fault("an empty list leaves no point".to_owned()));
        }
        Ok(Study {
            benchmark,
            systems,
            parameters,
            profile,
        })
    }

    /// How many points there are.
    pub fn size(&self) -> usize {
        let parameters = self.parameters.iter().map(|(_, values)| values.len());
        let profile = self.profile.iter().map(|(_, values)| values.len());
        self.systems.len() * parameters.chain(profile).product::<usize>()
    }

    /// All points in their order: the system changes slowest, the last parameter of the file's order fastest.
    pub fn points(&self) -> impl Iterator<Item = Point> + '_ {
        (0..self.size()).map(|number| self.point(number))
    }

    fn point(&self, number: usize) -> Point {
        let mut left = number;
        let mut digit = |size: usize| {
            let digit = left % size;
            left /= size;
            digit
        };
        let parameters = self
            .parameters
            .iter()
            .rev()
            .map(|(name, values)| (name.clone(), values[digit(values.len())]))
            .collect();
        let profile = self
            .profile
            .iter()
            .rev()
            .map(|(path, values)| (path.clone(), values[digit(values.len())]))
            .collect();
        Point {
            benchmark: self.benchmark,
            system: self.systems[digit(self.systems.len())].clone(),
            parameters,
            profile,
        }
    }
}
