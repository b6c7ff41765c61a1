//! Figures expected of an adapter: `--expect SYSTEM` of `evaluate` and `report`. The ranges come
//! from the models and are as wide as the models' observed errors; `verbena-report` compares them.

mod device;
mod print;
mod sources;

pub use print::print;

use crate::exit::Exit;
use crate::failure::Failure;
use crate::profiles::ProfileOptions;
use std::collections::BTreeMap;
use verbena_bench::suggestion::did_you_mean;
use verbena_model::profile::Library;
use verbena_report::expectation::{Checks, Verdict, check};
use verbena_report::gather::rows;
use verbena_report::headline::headlines;
use verbena_report::run_directory::Loaded;
use verbena_report::summary::Kind;

/// Selects the system by the run's description of its device.
const AUTO: &str = "auto";

/// Which system figures are held against.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct ExpectOptions {
    /// Check figures against those expected of this system, or `auto`
    ///
    /// A model of `verbena list`, e.g. connectx6-hdr; `auto` finds it from the adapter's part
    /// number and link. Each figure passes, fails, or has no expectation. The exit code is 0 if
    /// some pass and none fails, 1 if one fails, 3 if none can be checked.
    #[arg(long, value_name = "SYSTEM")]
    expect: Option<String>,
}

/// A checker of runs; its system is given or identified per run.
pub struct Expecting {
    name: String,
    library: Library,
    threads: usize,
}

impl ExpectOptions {
    /// Returns the checker; `None` if no check was requested.
    ///
    /// # Errors
    ///
    /// Fails if there is no such system.
    pub fn expecting(
        &self,
        profiles: &ProfileOptions,
        threads: usize,
    ) -> Result<Option<Expecting>, Failure> {
        let Some(name) = &self.expect else {
            return Ok(None);
        };
        let library = profiles.library()?;
        if name != AUTO && library.system_names(name).is_err() {
            let meant = did_you_mean(name, library.systems());
            let known = names(&library);
            return Err(Failure::Input(format!(
                "no expected figures of a system {name:?}{meant}; --expect takes {known}, or auto"
            )));
        }
        Ok(Some(Expecting {
            name: name.clone(),
            library,
            threads,
        }))
    }
}

fn names(library: &Library) -> String {
    let all: Vec<&str> = library.systems().collect();
    all.join(", ")
}

impl Expecting {
    /// Checks before the measurement that the system of a device can be identified.
    ///
    /// # Errors
    ///
    /// Fails if it cannot.
    pub fn find(&self, fabric: &str, known: &BTreeMap<String, String>) -> Result<&str, Failure> {
        if self.name != AUTO {
            return Ok(&self.name);
        }
        device::system(&self.library, fabric, known).map_err(|reason| {
            let known = names(&self.library);
            Failure::Input(format!("--expect auto: {reason}; name the system: {known}"))
        })
    }

    /// Checks the measured runs; models only if there are no others.
    ///
    /// # Errors
    ///
    /// Fails if the system of a run cannot be found, or its expected figures cannot be computed.
    pub fn check(&self, runs: &[Loaded]) -> Result<Vec<Option<Checks>>, Failure> {
        let is_model = |run: &Loaded| Kind::of(run) == Kind::Model;
        let only_models = runs.iter().all(is_model);
        let checks = runs.iter().map(|run| match is_model(run) && !only_models {
            true => Ok(None),
            false => self.one(run).map(Some),
        });
        checks.collect()
    }

    fn one(&self, run: &Loaded) -> Result<Checks, Failure> {
        let name = self.find(&run.run.fabric, &run.run.environment)?;
        let found = headlines(run, &rows(run));
        let of = sources::Sources::of(&self.library, name, self.threads)?;
        let expected = found.iter().map(|headline| of.expectation(headline));
        let expected = expected.collect::<Result<Vec<_>, Failure>>()?;
        Ok(check(run, (name, of.about()), &expected))
    }
}

/// Returns the exit code: a failed figure takes precedence over a run without any expectation, and
/// that over success.
pub fn exit(checks: &[Option<Checks>]) -> Exit {
    let worst = checks.iter().flatten().map(Checks::verdict).min();
    match worst {
        Some(Verdict::Fail) => Exit::AnswerIsNo,
        Some(Verdict::Pass) => Exit::Success,
        Some(Verdict::NoExpectation) | None => Exit::Environment,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(name: &str) -> ExpectOptions {
        ExpectOptions {
            expect: Some(name.to_owned()),
        }
    }

    #[test]
    fn unknown_systems_are_refused_with_the_names() {
        let profiles = ProfileOptions::default();
        let failed = options("connectx6-hrd").expecting(&profiles, 1).err();
        let text = failed
            .map(|failure| failure.to_string())
            .unwrap_or_default();
        assert!(text.contains("did you mean \"connectx6-hdr\"?"), "{text}");
        assert!(
            text.contains("infinihost3-ddr") && text.ends_with("or auto"),
            "{text}"
        );
        let none = ExpectOptions::default().expecting(&profiles, 1);
        assert!(none.is_ok_and(|none| none.is_none()));
    }

    #[test]
    fn imported_tables_require_an_explicit_system() {
        let found = options(AUTO).expecting(&ProfileOptions::default(), 1);
        let auto = found.ok().flatten().expect("auto is known");
        let failed = auto.find("import", &BTreeMap::new()).unwrap_err();
        let text = failed.to_string();
        assert!(
            text.contains("does not name its adapter") && text.contains("connectx6-hdr"),
            "{text}"
        );
    }

    #[test]
    fn a_run_without_checks_exits_with_environment() {
        assert_eq!(exit(&[]), Exit::Environment);
        assert_eq!(exit(&[None]), Exit::Environment);
    }
}
