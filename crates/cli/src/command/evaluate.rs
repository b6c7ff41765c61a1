//! `verbena evaluate`: runs all benchmarks and writes one report, with models of real adapters
//! beside the measurements, in quick mode.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::command::report::Computed;
use crate::exit::Exit;
use crate::expect::{self, ExpectOptions};
use crate::failure::Failure;
use crate::host::HOST;
use crate::interrupt;
use crate::measuring::MeasureArguments;
use crate::output::out;
use crate::reproduction;
use crate::summary;
use verbena_bench::adapter;
use verbena_bench::expected::Expecting;
use verbena_bench::options::MeasureOptions;
use verbena_bench::progress_line::Bar;
use verbena_bench::target::{Found, Target};
use verbena_bench_mpi::{app, catalogue};
use verbena_fabric::model::Fidelity;
use verbena_report::points_table;
use verbena_report::run_directory::Loaded;
use verbena_workloads::Benchmark;
use verbena_workloads::registry::ALL;

/// Two PCI Express adapters, three years apart.
const BESIDE: [&str; 2] = ["infinihost3-ddr", "connectx-qdr"];

/// Arguments of `verbena evaluate`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    options: MeasureArguments,

    /// Run these models for comparison, too; `none` for none
    ///
    /// In quick form.
    #[arg(long, value_name = "PROFILES", value_delimiter = ',', default_values = BESIDE)]
    beside: Vec<String>,

    /// Evaluate these, too: mpi or apps
    ///
    /// mpi is a selection of mpi.*, apps are the installed applications. Both also run over TCP and
    /// the library's shared memory for comparison, in quick form.
    #[arg(long, value_enum, value_name = "WHAT", value_delimiter = ',')]
    with: Vec<Extra>,

    #[command(flatten)]
    expect: ExpectOptions,

    /// Write results and report to this directory
    ///
    /// [default: out/evaluate-SECONDS]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

/// Optional parts of an evaluation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Extra {
    /// The user's message-passing library
    Mpi,
    /// Whole applications over it
    Apps,
}

/// Set-up, build and evaluation together should take a quarter of an hour.
const LIMIT: Duration = Duration::from_secs(11 * 60);

/// Runs all benchmarks on each target and writes the report.
///
/// # Errors
///
/// Fails on invalid options or targets, if a run cannot start, or if results cannot be written.
pub fn run(mut arguments: Arguments) -> Result<Exit, Failure> {
    interrupt::watch()?;
    arguments.options.check()?;
    arguments.options.minutes.get_or_insert(LIMIT);
    let out = arguments.out.clone().unwrap_or_else(|| {
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |d| d.as_secs());
        PathBuf::from(format!("out/evaluate-{now}"))
    });
    let over_library = arguments.over_library();
    let all: Vec<&'static Benchmark> = ALL.iter().chain(over_library.iter().copied()).collect();
    let beside = arguments.beside()?;
    let expecting = arguments.expecting()?;
    let options = arguments.options.options()?;
    super::bench::advise(&arguments.options.targets, &all, options.processes);
    let mpi = arguments.options.mpi();
    let engine = mpi.engine();
    let anchors = |run: &Loaded| out!("{}", points_table::anchors(run));
    let mut runs = engine.measure(&all, &options, Some(&out), anchors)?;
    if runs.is_empty() && !interrupt::is_wanted() {
        return Ok(Exit::Success);
    }
    let quick = MeasureOptions {
        quick: true,
        label: None,
        ..options
    };
    for model in beside.iter().take_while(|_| !interrupt::is_wanted()) {
        let directory = out.join(model.directory());
        runs.extend(engine.on(model, &all, &quick, Some(&directory))?);
    }
    let alternatives = arguments.alternatives()?;
    for other in alternatives.iter().take_while(|_| !interrupt::is_wanted()) {
        let directory = out.join(other.directory());
        runs.extend(engine.on(other, &over_library, &quick, Some(&directory))?);
    }
    let published = match beside.is_empty() {
        _ if interrupt::is_wanted() => None,
        true => None,
        false => reproduction::quick(
            &arguments.options.models.profiles.profiles(),
            arguments.options.threads,
        )?,
    };
    if interrupt::is_wanted() {
        return super::bench::conclude(Some(&out), &runs);
    }
    let note = Bar::of_unknown_length("writing the report");
    let computed = Computed {
        reproduction: published.as_ref(),
        fitted_profile: None,
    };
    let report = super::report::write(&out, &runs, &computed)?;
    drop(note);
    summary::measured(&runs, Some(&report))?;
    let verdict = super::bench::verdict(&runs);
    let Some(expecting) = expecting else {
        return Ok(verdict);
    };
    let checks = expecting.check(&runs)?;
    expect::print(&checks);
    // A failed measurement takes precedence over the check of the figures.
    Ok(match verdict {
        Exit::Success => expect::exit(&checks),
        other => other,
    })
}

impl Arguments {
    /// Returns the check of the figures, if one was requested. Reports an unknown system before
    /// anything is measured.
    fn expecting(&self) -> Result<Option<Expecting>, Failure> {
        let expecting = self.expect.expecting(&self.options.models.profiles)?;
        let Some(expecting) = expecting else {
            return Ok(None);
        };
        for target in &self.options.targets {
            match self.options.models.profiles.find(target)? {
                Found::Adapter(adapter) => {
                    let known = adapter::describe(&HOST, &adapter, self.options.gid_index);
                    expecting.find(&adapter.kind, &known)?;
                }
                Found::Model(_) => {
                    expecting.find("model", &BTreeMap::new())?;
                }
            }
        }
        Ok(Some(expecting))
    }

    /// Returns the requested benchmarks that run over an MPI library.
    fn over_library(&self) -> Vec<&'static Benchmark> {
        let is_chosen = |one: &&Benchmark| catalogue::QUICK.contains(&one.name);
        let messages = catalogue::all().filter(is_chosen);
        let applications = app::catalogue::ALL.iter().map(|one| &one.benchmark);
        let asked = |what| move |_: &&Benchmark| self.with.contains(&what);
        messages
            .filter(asked(Extra::Mpi))
            .chain(applications.filter(asked(Extra::Apps)))
            .collect()
    }

    /// Returns the library's transports that need no adapter, for comparison with a measured
    /// adapter.
    fn alternatives(&self) -> Result<Vec<Found>, Failure> {
        let is_adapter =
            |target: &Target| matches!(target, Target::Software | Target::Hardware { .. });
        let has_adapter = self.options.targets.iter().any(is_adapter);
        if self.over_library().is_empty() || !has_adapter {
            return Ok(Vec::new());
        }
        let all = [Target::SharedMemory, Target::Tcp].into_iter();
        all.filter(|one| !self.options.targets.contains(one))
            .map(|one| self.options.models.profiles.find(&one))
            .collect()
    }

    /// Returns the models to run beside measurements; none beside models.
    fn beside(&self) -> Result<Vec<Found>, Failure> {
        let is_model = |target: &Target| matches!(target, Target::Model { .. });
        if self.options.targets.iter().all(is_model) || self.beside == ["none"] {
            return Ok(Vec::new());
        }
        let model = |profile: &String| {
            let target = Target::Model {
                profile: profile.clone(),
                fidelity: Fidelity::Packet,
            };
            self.options.models.profiles.find(&target)
        };
        let mut beside = Vec::new();
        for profile in &self.beside {
            // A model that is a target itself is not run twice.
            let measured = |target: &Target| {
                matches!(target,
                Target::Model { profile: p, .. } if p == profile)
            };
            if !self.options.targets.iter().any(measured) {
                beside.push(model(profile)?);
            }
        }
        Ok(beside)
    }
}
