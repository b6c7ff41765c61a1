//! Figures expected of an adapter. The ranges are the models' intervals; `verbena-report` compares
//! them.

mod device;
mod sources;

use crate::Failure;
use crate::suggestion::did_you_mean;
use std::collections::BTreeMap;
use verbena_model::profile::Library;
use verbena_report::expectation::{Checks, check};
use verbena_report::gather::rows;
use verbena_report::headline::headlines;
use verbena_report::run_directory::Loaded;
use verbena_report::summary::MeasuredAt;

/// Selects the system by the run's description of its device.
const AUTO: &str = "auto";

/// A checker of runs; its system is given or identified per run.
pub struct Expecting {
    name: String,
    library: Library,
}

fn names(library: &Library) -> String {
    let all: Vec<&str> = library.systems().collect();
    all.join(", ")
}

impl Expecting {
    /// Returns the checker for the system of this name, or for `auto`.
    ///
    /// # Errors
    ///
    /// Fails if there is no such system.
    pub fn of(name: &str, library: Library) -> Result<Expecting, Failure> {
        if name != AUTO && library.system_names(name).is_err() {
            let meant = did_you_mean(name, library.systems());
            let known = names(&library);
            return Err(Failure::Input(format!(
                "no expected figures of a system {name:?}{meant}; --expect takes {known}, or auto"
            )));
        }
        Ok(Expecting {
            name: name.to_owned(),
            library,
        })
    }

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
        let is_model = |run: &Loaded| MeasuredAt::of(run) == MeasuredAt::Model;
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
        let of = sources::Sources::of(&self.library, name)?;
        let expected = found.iter().map(|headline| of.expectation(headline));
        let expected = expected.collect::<Result<Vec<_>, Failure>>()?;
        Ok(check(run, (name, of.about()), &expected))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use verbena_model::profile::Overrides;

    fn of(name: &str) -> Result<Expecting, Failure> {
        Expecting::of(name, Library::shipped(&Overrides::none()).unwrap())
    }

    #[test]
    fn unknown_systems_are_refused_with_the_names() {
        let failed = of("connectx6-hrd").err();
        let text = failed
            .map(|failure| failure.to_string())
            .unwrap_or_default();
        assert!(text.contains("did you mean \"connectx6-hdr\"?"), "{text}");
        assert!(
            text.contains("infinihost3-ddr") && text.ends_with("or auto"),
            "{text}"
        );
    }

    #[test]
    fn imported_tables_require_an_explicit_system() {
        let auto = of(AUTO).expect("auto is known");
        let failed = auto.find("import", &BTreeMap::new()).unwrap_err();
        let text = failed.to_string();
        assert!(
            text.contains("does not name its adapter") && text.contains("connectx6-hdr"),
            "{text}"
        );
    }
}
