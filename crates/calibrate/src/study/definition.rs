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
//!
//! [fabric.updn]
//! topology = "cluster.topo"
//! routes = "updn.fts"
//! ```

use super::fabric::{self, FabricSource, StudyFabric};
use super::file::Source;
use super::point::{DRIVERS, Setting, StudyPoint, at_fidelity, largest};
use super::suite;
use std::collections::BTreeMap;
use std::fmt::Write;
use toml::de::{DeTable, DeValue};
use verbena_model::adapter::Fidelity;
use verbena_model::profile::{Error, Library, Overrides, System, Topology, differences};
use verbena_workloads::{Processes, find};

/// Maximum number of points. More than this takes too long; one list is probably too much.
const MOST: usize = 1_000_000;

/// A study: axes whose combinations are its points.
#[derive(Debug, Clone)]
pub struct Study {
    benchmark: &'static str,
    systems: Vec<String>,
    /// Empty if the systems have the networks of their profiles.
    fabrics: Vec<StudyFabric>,
    parameters: Vec<(String, Vec<Setting>)>,
    profile: Vec<(String, Vec<f64>)>,
}

impl Study {
    /// Parses `text`, the contents of `file`; systems and values must be in the library. `common`
    /// is the fabric of all points, if the study names none; `load` reads those that it names.
    ///
    /// # Errors
    ///
    /// Returns an error with file, line and key if the text is invalid, or a system cannot run on
    /// a fabric.
    pub fn read(
        file: &str,
        text: &str,
        library: &Library,
        common: Option<Topology>,
        load: impl Fn(&FabricSource) -> Result<Topology, String>,
    ) -> Result<Study, Error> {
        let source = Source { file, text };
        let table = source.parse()?;
        let name = source.word(&table, "benchmark")?;
        let driver = DRIVERS.iter().find(|(known, _, _)| *known == name.value);
        let suite = find(&name.value);
        let benchmark = match (driver, suite) {
            (Some((known, _, _)), _) => *known,
            (None, Some(benchmark)) => benchmark.name,
            (None, None) => {
                let names: Vec<_> = DRIVERS.iter().map(|(name, _, _)| *name).collect();
                let reason = format!(
                    "no \"{}\"; known are {} and those of `verbena list`",
                    name.value,
                    names.join(", ")
                );
                return Err(source.fault(name.at, "benchmark", reason));
            }
        };
        let needs_mpi = driver.is_some_and(|(_, driver, _)| driver.passes_messages());
        if let (Some(section), Some(_)) = (table.get("fabric"), &common) {
            let reason = "the study names its fabrics; compute it without --topology";
            return Err(source.fault(section.span().start, "fabric", reason));
        }
        let mut fabrics = fabric::read(source, &table, load)?;
        fabrics.extend(common.map(|connections| StudyFabric {
            name: None,
            connections,
        }));
        let joined = fabrics.iter().map(|fabric| fabric.joining(library.clone()));
        let joined: Vec<Library> = joined.collect();
        let libraries = match joined.as_slice() {
            [] => std::slice::from_ref(library),
            joined => joined,
        };
        let mut systems = Vec::new();
        for system in source.words(&table, "system")? {
            let fault = |reason: String| source.fault(system.at, "system", reason);
            for library in libraries {
                let parts = library.system(at_fidelity(&system.value).0);
                let parts = parts.map_err(|e| fault(format!("{}: {}", system.value, e.reason)))?;
                if needs_mpi && parts.mpi.is_none() {
                    let reason = format!("{}: names no mpi, which {benchmark} needs", system.value);
                    return Err(fault(reason));
                }
            }
            systems.push(system.value);
        }
        let parameters = match driver {
            Some((_, _, takes)) => of_driver(source, &table, benchmark, takes)?,
            None => {
                let (name, fidelity) = at_fidelity(&systems[0]);
                let system = libraries[0].system(name)?;
                of_suite(source, &table, benchmark, (&system, fidelity))?
            }
        };
        // Other benchmarks of the suite have a fixed number of processes.
        let suite = find(benchmark);
        if suite.is_none_or(|one| matches!(one.processes, Processes::AtLeast(_))) {
            check_hosts(source, &table, &parameters, &fabrics)?;
        }
        let study = Study {
            benchmark,
            systems,
            fabrics,
            parameters,
            profile: profile(source, &table, library)?,
        };
        match study.checked_size() {
            Some(1..=MOST) => Ok(study),
            _ => Err(source.fault(0, "-", format!("more than {MOST} points"))),
        }
    }

    /// Returns everything else that the figures depend on: this program's version, the contents of
    /// the systems, and those of the fabrics in short.
    ///
    /// # Errors
    ///
    /// Returns an error if a system of the study is not in the library.
    pub fn basis(&self, library: &Library) -> Result<String, Error> {
        let mut text = format!("verbena {}\n", env!("CARGO_PKG_VERSION"));
        for name in &self.systems {
            let _ = writeln!(text, "{:#?}", library.system(at_fidelity(name).0)?);
        }
        for fabric in &self.fabrics {
            let _ = writeln!(text, "{}", fabric.fingerprint());
        }
        Ok(text)
    }

    /// Returns the differences of the systems beside adapters and hosts, a sentence each. Systems
    /// on the study's fabrics have their networks in common.
    ///
    /// # Errors
    ///
    /// Returns an error if a system of the study is not in the library.
    pub fn differences(&self, library: &Library) -> Result<Vec<String>, Error> {
        let fabric = self.fabrics.first();
        let joined = fabric.map(|fabric| fabric.joining(library.clone()));
        let library = joined.as_ref().unwrap_or(library);
        let setups = self.systems.iter().map(|name| {
            let system = library.system(at_fidelity(name).0)?;
            Ok((name.as_str(), system.setup()))
        });
        let setups = setups.collect::<Result<Vec<_>, Error>>()?;
        let driver = DRIVERS.iter().find(|(name, _, _)| *name == self.benchmark);
        let passes_messages = driver.is_some_and(|(_, driver, _)| driver.passes_messages());
        Ok(differences(&setups, passes_messages))
    }

    fn checked_size(&self) -> Option<usize> {
        let parameters = self.parameters.iter().map(|(_, values)| values.len());
        let mut axes = parameters.chain(self.profile.iter().map(|(_, values)| values.len()));
        let first = self.systems.len().checked_mul(self.fabrics.len().max(1))?;
        axes.try_fold(first, usize::checked_mul)
    }

    /// Returns the number of points.
    pub fn size(&self) -> usize {
        self.checked_size().expect("checked when it was read")
    }

    /// Returns all points in order: the system changes slowest, then the fabric, and the file's
    /// last parameter fastest.
    pub fn points(&self) -> impl Iterator<Item = StudyPoint> + '_ {
        (0..self.size()).map(|number| self.point(number))
    }

    fn point(&self, number: usize) -> StudyPoint {
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
            .map(|(name, values)| (name.clone(), values[digit(values.len())].clone()))
            .collect();
        let profile = self
            .profile
            .iter()
            .rev()
            .map(|(path, values)| (path.clone(), values[digit(values.len())]))
            .collect();
        let fabric = match self.fabrics.len() {
            0 => None,
            count => Some(self.fabrics[digit(count)].clone()),
        };
        StudyPoint {
            benchmark: self.benchmark,
            fabric,
            system: self.systems[digit(self.systems.len())].clone(),
            parameters,
            profile,
        }
    }
}

/// Keys of a study that are not parameters.
const OTHERS: [&str; 4] = ["benchmark", "system", "profile", "fabric"];

type Axes = Vec<(String, Vec<Setting>)>;

/// Checks that every fabric has as many hosts as the largest point takes.
fn check_hosts(
    source: Source<'_>,
    table: &DeTable<'_>,
    axes: &[(String, Vec<Setting>)],
    fabrics: &[StudyFabric],
) -> Result<(), Error> {
    let axes = axes
        .iter()
        .filter(|(name, _)| matches!(name.as_str(), "nodes" | "processes"));
    for (name, values) in axes {
        let counts = values.iter().filter_map(|value| match value {
            Setting::Count(count) => Some(*count),
            Setting::Word(_) => None,
        });
        let most = counts.max().unwrap_or_default();
        for fabric in fabrics {
            let hosts = fabric.connections.wiring.nodes() as u64;
            if most > hosts {
                let of = match &fabric.name {
                    Some(name) => format!("[fabric.{name}]"),
                    None => fabric.connections.about.clone(),
                };
                let reason = format!("{of} has {hosts} hosts, fewer than {most}");
                let value = table.get(name.as_str());
                let at = value.map_or(0, |value| value.span().start);
                return Err(source.fault(at, name, reason));
            }
        }
    }
    Ok(())
}

/// Returns the parameters of one of the models' own drivers, in the driver's order.
fn of_driver(
    source: Source<'_>,
    table: &DeTable<'_>,
    benchmark: &str,
    takes: &[(&str, u64)],
) -> Result<Axes, Error> {
    let taken: Vec<&str> = takes.iter().map(|(taken, _)| *taken).collect();
    for (key, _) in table.iter() {
        let word = key.get_ref().as_ref();
        if !OTHERS.contains(&word) && !taken.contains(&word) {
            let reason = format!(
                "{benchmark} has no such parameter; it takes {}",
                taken.join(", ")
            );
            return Err(source.fault(key.span().start, word, reason));
        }
    }
    let mut axes = Vec::new();
    for name in taken {
        if let Some(value) = table.get(name) {
            let counts = source.counts(name, value, 1..=largest(name))?;
            axes.push((
                name.to_owned(),
                counts.into_iter().map(Setting::Count).collect(),
            ));
        }
    }
    Ok(axes)
}

/// Returns options of the suite and parameters of a benchmark's points, by name; an error names
/// those that its first point does not have.
fn of_suite(
    source: Source<'_>,
    table: &DeTable<'_>,
    benchmark: &'static str,
    system: (&System, Fidelity),
) -> Result<Axes, Error> {
    let mut axes: BTreeMap<String, Vec<Setting>> = BTreeMap::new();
    for (key, value) in table.iter() {
        let word = key.get_ref().as_ref();
        if !OTHERS.contains(&word) {
            axes.insert(word.to_owned(), suite::settings(source, word, value)?);
        }
    }
    let first = axes
        .iter()
        .map(|(name, values)| (name.clone(), values[0].clone()))
        .collect();
    let known = suite::parameters(benchmark, system, &first)
        .map_err(|error| source.fault(0, "benchmark", error.to_string()))?;
    for (key, _) in table.iter() {
        let word = key.get_ref().as_ref();
        let is_known = suite::is_option(word) || known.iter().any(|name| name == word);
        if !OTHERS.contains(&word) && !is_known {
            let reason = format!(
                "{benchmark} has no such parameter; its points have {}",
                known.join(", ")
            );
            return Err(source.fault(key.span().start, word, reason));
        }
    }
    Ok(axes.into_iter().collect())
}

/// Returns profile values by path; each must be valid for its profile.
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
    // Sorted by path: the order of the points must not depend on the parser's order.
    let mut axes = BTreeMap::new();
    for (key, value) in section.iter() {
        let path = key.get_ref().to_string();
        let name = format!("profile.\"{path}\"");
        if !library.recorded().iter().any(|r| r.path == path) {
            let reason = match value.get_ref() {
                DeValue::Table(_) => "a path has dots and needs quotation marks",
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
