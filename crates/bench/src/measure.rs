//! Runs benchmarks on every requested target, one after the other.

use super::job::Job;
use super::model_session::ModelSession;
use super::options::MeasureOptions;
use super::ports;
use super::session::Session;
use super::target::Found;
use crate::Failure;
use crate::engine::Engine;
use crate::interrupt;
use std::path::Path;
use verbena_report::Error;
use verbena_report::run_directory::{Loaded, RESULTS};
use verbena_workloads::Benchmark;

impl Engine<'_> {
    /// Runs `benchmarks` on all targets of `options`, each into `out`, or into a subdirectory of it
    /// if there are several. Each completed run is passed to `show`. In a cluster job, only the
    /// first process has runs.
    ///
    /// # Errors
    ///
    /// Fails if a target is not found or does not support an option, `out` holds another run, or a
    /// run fails.
    pub fn measure(
        self,
        benchmarks: &[&'static Benchmark],
        options: &MeasureOptions,
        out: Option<&Path>,
        mut show: impl FnMut(&Loaded),
    ) -> Result<Vec<Loaded>, Failure> {
        let several = options.targets.len() > 1;
        // The report on several targets would replace that of the existing run.
        if let Some(out) = out.filter(|out| several && out.join(RESULTS).exists()) {
            return Err(Error::Taken(out.to_owned()).into());
        }
        let mut runs = Vec::new();
        // Finds all targets first, so that a missing one does not discard measurements of the
        // others.
        for found in &self.targets(options)? {
            // The points of models are at least named.
            if interrupt::is_wanted() && !matches!(found, Found::Model(_)) {
                continue;
            }
            let directory = out.map(|out| match several {
                true => out.join(found.directory()),
                false => out.to_owned(),
            });
            let run = self.on(found, benchmarks, options, directory.as_deref())?;
            if let Some(loaded) = &run {
                show(loaded);
            }
            runs.extend(run);
        }
        Ok(runs)
    }

    /// Returns the targets, without duplicates.
    fn targets(self, options: &MeasureOptions) -> Result<Vec<Found>, Failure> {
        options.check_route()?;
        let mut all: Vec<Found> = Vec::new();
        for target in &options.targets {
            options.check_scale(target)?;
            let mut found = target.find(self.host, &options.profiles)?;
            if let (Found::Model(model), Some(nodes)) = (&mut found, options.nodes) {
                model.set_nodes(nodes)?;
            }
            if all
                .iter()
                .any(|other| other.directory() == found.directory())
            {
                let name = found.directory();
                return Err(Failure::Input(format!("--on names {name} twice")));
            }
            if let Found::Adapter(adapter) = &found
                && !adapter.is_adapter()
            {
                if options.gid_index.is_some()
                    || options.route.is_given()
                    || options.ports.is_some()
                {
                    let text = format!(
                        "--gid-index, --ports and packet marks are for adapters; {} has none",
                        adapter.kind
                    );
                    return Err(Failure::Input(text));
                }
            } else if let Found::Adapter(adapter) = &mut found {
                if let Some(names) = &options.ports {
                    ports::choose(adapter, names)?;
                }
                if let Some(index) = options.gid_index {
                    adapter.check_gid(index)?;
                }
                options.route.check(self.host, adapter)?;
            }
            all.push(found);
        }
        Ok(all)
    }

    /// Runs benchmarks on one target.
    ///
    /// # Errors
    ///
    /// Fails if the run cannot be started or recorded.
    pub fn on(
        self,
        target: &Found,
        benchmarks: &[&'static Benchmark],
        options: &MeasureOptions,
        directory: Option<&Path>,
    ) -> Result<Option<Loaded>, Failure> {
        let benchmarks = benchmarks.to_vec();
        match target {
            Found::Adapter(target) => Session {
                engine: self,
                benchmarks,
                target: target.clone(),
                options,
                directory,
                command: command(&[]),
            }
            .run(),
            Found::Model(_) if Job::from_environment().is_some_and(|job| job.rank > 0) => Ok(None),
            Found::Model(target) => ModelSession {
                host: self.host,
                benchmarks,
                target,
                options,
                directory,
                command: command(&["--threads"]),
            }
            .run()
            .map(Some),
        }
    }
}

/// Returns the command as typed, without options that do not affect results.
fn command(without: &[&str]) -> String {
    let mut words = Vec::new();
    let mut skip = false;
    for word in std::env::args() {
        let name = word.split('=').next().unwrap_or(&word);
        if std::mem::take(&mut skip) {
            continue;
        }
        if without.contains(&name) {
            skip = name == word;
            continue;
        }
        words.push(word);
    }
    words.join(" ")
}
