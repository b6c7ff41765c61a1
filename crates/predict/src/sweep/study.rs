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

use super::file::Source;
use super::point::{BENCHMARKS, Point, largest};
use std::collections::BTreeMap;
use std::fmt::Write;
use toml::de::{DeTable, DeValue};
use verbena_model::profile::{Error, Library, Overrides};

/// More points than anybody waits for: a list too many.
const MOST: usize = 1_000_000;

/// A study: axes whose combinations are its points.
#[derive(Debug, Clone, PartialEq)]
pub struct Study {
    benchmark: &'static str,
    systems: Vec<String>,
    parameters: Vec<(String, Vec<u64>)>,
    profile: Vec<(String, Vec<f64>)>,
}

impl Study {
    /// Reads `text`, the contents of `file`; systems and values must be in the library. An error names file, line and key.
    pub fn read(file: &str, text: &str, library: &Library) -> Result<Study, Error> {
        let source = Source { file, text };
        let table = source.parse()?;
        let name = source.word(&table, "benchmark")?;
        let known = BENCHMARKS.iter().find(|(known, _, _)| *known == name.value);
        let Some((benchmark, run, takes)) = known else {
            let names: Vec<_> = BENCHMARKS.iter().map(|(name, _, _)| *name).collect();
            let reason = format!("no \"{}\"; there are {}", name.value, names.join(", "));
            return Err(source.fault(name.at, "benchmark", reason));
        };
        let taken: Vec<&str> = takes.iter().map(|(taken, _)| *taken).collect();
        for (key, _) in table.iter() {
            let word = key.get_ref().as_ref();
            if !["benchmark", "system", "profile"].contains(&word) && !taken.contains(&word) {
                let reason = format!(
                    "{benchmark} has no such parameter; it takes {}",
                    taken.join(", ")
                );
                return Err(source.fault(key.span().start, word, reason));
            }
        }
        let mut systems = Vec::new();
        for system in source.words(&table, "system")? {
            let fault = |reason: String| source.fault(system.at, "system", reason);
            let parts = library.system(&system.value);
            let parts = parts.map_err(|e| fault(format!("{}: {}", system.value, e.reason)))?;
            if run.passes_messages() && parts.mpi.is_none() {
                let reason = format!("{}: names no mpi, which {benchmark} needs", system.value);
                return Err(fault(reason));
            }
            systems.push(system.value);
        }
        let mut parameters = Vec::new();
        for name in taken {
            if let Some(value) = table.get(name) {
                let values = source.counts(name, value, largest(name))?;
                parameters.push((name.to_owned(), values));
            }
        }
        let study = Study {
            benchmark,
            systems,
            parameters,
            profile: profile(source, &table, library)?,
        };
        match study.checked_size() {
            Some(1..=MOST) => Ok(study),
            _ => Err(source.fault(0, "-", format!("more than {MOST} points"))),
        }
    }

    /// All that the figures depend on beside the file: this program's version and what the systems are made of.
    pub fn basis(&self, library: &Library) -> Result<String, Error> {
        let mut text = format!("verbena {}\n", env!("CARGO_PKG_VERSION"));
        for name in &self.systems {
            let _ = writeln!(text, "{:#?}", library.system(name)?);
        }
        Ok(text)
    }

    fn checked_size(&self) -> Option<usize> {
        let parameters = self.parameters.iter().map(|(_, values)| values.len());
        let mut axes = parameters.chain(self.profile.iter().map(|(_, values)| values.len()));
        axes.try_fold(self.systems.len(), usize::checked_mul)
    }

    /// How many points there are.
    pub fn size(&self) -> usize {
        self.checked_size().expect("checked when it was read")
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

/// Values of profiles by path, each of which the profiles take.
fn profile(
    source: Source<'_>,
    table: &DeTable<'_>,
    library: &Library,
) -> Result<Vec<(String, Vec<f64>)>, Error> {
    let Some(section) = table.get("profile") else {
        return Ok(Vec::new());
    };
    let DeValue::Table(section) = section.get_ref() else {
        let reason = "expected a section of \"path\" = values";
        return Err(source.fault(section.span().start, "profile", reason));
    };
    // By path: the order of the points must not depend on the parser's.
    let mut axes = BTreeMap::new();
    for (key, value) in section.iter() {
        let path = key.get_ref().to_string();
        let name = format!("profile.\"{path}\"");
        if !library.recorded().iter().any(|r| r.path == path) {
            let reason = match value.get_ref() {
                DeValue::Table(_) => "a path goes in quotation marks, as it has dots",
                _ => "no profile has such a value",
            };
            return Err(source.fault(key.span().start, &name, reason));
        }
        let mut values = Vec::new();
        for number in source.numbers(&name, value)? {
            let overrides = Overrides::none().with(&path, number.value);
            library
                .with(&overrides)
                .map_err(|error| source.fault(number.at, &name, error.reason))?;
            values.push(number.value);
        }
        axes.insert(path, values);
    }
    Ok(axes.into_iter().collect())
}
