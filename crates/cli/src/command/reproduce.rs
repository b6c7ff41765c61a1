//! `verbena reproduce`: computes the published claims from the profiles and redraws the papers'
//! figures.

mod live;

use crate::exit::Exit;
use crate::failure::Failure;
use crate::interrupt;
use crate::number;
use crate::output::out;
use crate::profiles::{AnchorOptions, ProfileOptions, find_in, print_remarks};
use crate::reproduction::{reproduction, validation as shown_validation};
use crate::summary;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use verbena_bench::machines;
use verbena_bench::model_target::ModelTarget;
use verbena_bench::progress_line::Bar;
use verbena_bench::target::{Found, Target};
use verbena_calibrate::predictions::Predictions;
use verbena_fabric::model::Fidelity;
use verbena_model::profile::{Library, System};
use verbena_report::file::replace;
use verbena_report::html::reproduction_page;
use verbena_report::run_directory::REPORT;
use verbena_reproduce::anchored::AnchoredClaims;
use verbena_reproduce::claims::{Claim, Evaluated, evaluate, shipped};
use verbena_reproduce::figures::draw;
use verbena_reproduce::live::PAPER;
use verbena_reproduce::sensitivity::{self, sensitivity};
use verbena_reproduce::table;
use verbena_reproduce::validation::{self, Validated, of_shipped};

/// Arguments of `verbena reproduce`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Compute one paper's claims only, e.g. memfree
    paper: Option<String>,
    /// Write claims.json and report.html to this directory
    ///
    /// The report has the papers' figures.
    #[arg(long)]
    out: Option<PathBuf>,
    #[command(flatten)]
    profiles: ProfileOptions,
    /// Compute this anchored system's claims, too: model:X, machine:X
    ///
    /// They are printed beside those of the profiles alone, which give all verdicts and means.
    #[arg(long, value_name = "TARGET")]
    on: Option<Target>,
    #[command(flatten)]
    anchors: AnchorOptions,
    /// Show which claims each fitted value moves; takes minutes
    #[arg(long)]
    sensitivity: bool,
    /// Compute the held-out curves only; write their residuals here
    ///
    /// For papers/validation/residuals.toml, from which predictions get their intervals.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["paper", "out", "sensitivity", "on",
        "anchors", "live"])]
    residuals: Option<PathBuf>,
    /// Run the paper's measurements here, with the times of its adapters
    ///
    /// For connectx_multicore: perftest, which has to be installed, runs as both adapters. Prints
    /// published, modelled and emulated figures, and the figures that this machine cannot show.
    #[arg(long, requires = "paper", conflicts_with_all = ["out", "sensitivity", "on", "anchors"])]
    live: bool,
    /// Compute on N threads; results do not depend on N
    #[arg(long, value_name = "N", default_value_t = 2,
        value_parser = number::between::<usize>(1..=1024))]
    threads: usize,
}

/// Evaluates the claims, prints the table, writes the data.
///
/// # Errors
///
/// Fails if the profiles or the paper's claims are not found, or a file cannot be written.
pub fn run(arguments: Arguments) -> Result<Exit, Failure> {
    interrupt::watch()?;
    let input = |error: &dyn std::fmt::Display| Failure::Input(error.to_string());
    let library = arguments.profiles.library()?;
    let anchored = arguments.anchored()?;
    let mut claims = shipped().map_err(|e| input(&e))?;
    if let Some(paper) = &arguments.paper {
        let mut papers: Vec<_> = claims.iter().map(|c| c.paper().to_owned()).collect();
        papers.dedup();
        claims.retain(|claim| claim.paper() == paper);
        if claims.is_empty() {
            return Err(Failure::Input(format!(
                "no paper {paper:?}; the papers are {}",
                papers.join(", ")
            )));
        }
    }
    let (library, claims) = (Arc::new(library), Arc::new(claims));
    if arguments.live {
        if arguments.paper.as_deref() != Some(PAPER) {
            return Err(Failure::Input(format!("--live is for {PAPER} only")));
        }
        return live::run(&arguments.profiles, &library, &claims);
    }
    let task = Task {
        library: &library,
        claims: &claims,
        threads: arguments.threads,
    };
    if let Some(file) = &arguments.residuals {
        return task.residuals(file);
    }
    let results = match task.evaluated() {
        Ok(results) => results,
        Err(computed) => {
            if !computed.is_empty() {
                out!("{}", table::text(&computed, None));
            }
            let (some, all) = (computed.len(), claims.len());
            return Ok(stopped(&format!(
                "{some} of {all} claims were computed before that"
            )));
        }
    };
    // Covers all adapters, so it is not computed for a single paper.
    let validated = match arguments.paper {
        Some(_) => None,
        None => {
            let Some(validated) = task.run("held-out curves", of_shipped_curves) else {
                out!("{}", table::text(&results, None));
                return Ok(stopped("the claims were computed before that"));
            };
            Some(validated.map_err(|error| input(&error))?)
        }
    };
    out!("{}", table::text(&results, validated.as_deref()));
    let predictions = validated
        .as_deref()
        .map(|curves| Predictions::of(&library, curves, arguments.threads));
    let predictions = predictions.transpose().map_err(|error| input(&error))?;
    if let Some(predictions) = &predictions {
        out!("{}", predictions.text());
    }
    let mut on_anchored = None;
    if let Some((model, system)) = &anchored {
        print_remarks([model]);
        let (system, blind) = (system.clone(), results.clone());
        let compute = move |library: &Library, _: &[Claim], threads| {
            AnchoredClaims::of(library, &system, &blind, threads)
        };
        let Some(claims) = task.run("claims on the anchored system", compute) else {
            return Ok(stopped("the claims were computed before that"));
        };
        let remarks = model.remarks.clone();
        out!("{}", claims.text());
        on_anchored = Some(AnchoredClaims { remarks, ..claims });
    }
    let mut moved = None;
    if arguments.sensitivity {
        moved = task.run(
            "claims with moved values",
            move |library, claims, threads| sensitivity(library, claims, threads, |_| ()),
        );
        let Some(moved) = &moved else {
            return Ok(stopped("the claims were computed before that"));
        };
        out!("\n{}", sensitivity::text(moved));
    }
    let mut report = None;
    if let Some(directory) = &arguments.out {
        let system = anchored.as_ref().map(|(_, system)| system.clone());
        let drawn = task.run("figures of the papers", move |library, claims, threads| {
            draw(library, claims, threads, system.as_ref())
        });
        let Some(figures) = drawn else {
            return Ok(stopped("the claims were computed before that"));
        };
        let mut shown = reproduction(&library, &results, &figures, moved.as_deref());
        shown.validation = validated
            .as_deref()
            .zip(predictions.as_ref())
            .map(|(curves, predictions)| shown_validation(curves, predictions));
        shown.anchored = on_anchored.as_ref().map(|claims| {
            let remarks = claims.remarks.iter().map(|remark| format!("{remark}\n"));
            format!("{}\n{}", remarks.collect::<String>(), claims.text())
        });
        let page = reproduction_page(&command(&arguments), &shown);
        std::fs::create_dir_all(directory).map_err(|source| Failure::Directory {
            path: directory.clone(),
            source,
        })?;
        let write = |name: &str, text: String| {
            let doing = "write the claims";
            replace(&directory.join(name), &text)
                .map_err(|source| Failure::System { doing, source })
        };
        write(
            "claims.json",
            table::json(
                &library,
                &results,
                &figures,
                validated.as_deref(),
                moved.as_deref(),
                predictions.as_ref().map(Predictions::json),
                on_anchored.as_ref().map(AnchoredClaims::json),
            ),
        )?;
        write(REPORT, page)?;
        report = Some(directory.join(REPORT));
    }
    summary::claims::print(&library, &results, validated.as_deref());
    if let Some(report) = report {
        summary::report_line(&report);
    }
    Ok(if table::target_met(&results) {
        Exit::Success
    } else {
        Exit::NegativeResult
    })
}

impl Arguments {
    /// Returns the anchored model and its system, if one was requested.
    fn anchored(&self) -> Result<Option<(ModelTarget, System)>, Failure> {
        let targets: Vec<Target> = self.on.iter().cloned().collect();
        self.anchors.check(&targets)?;
        let Some(target) = &self.on else {
            return Ok(None);
        };
        let wrong = |reason: &str| Err(Failure::Input(reason.to_owned()));
        match target {
            Target::Model {
                fidelity: Fidelity::Message,
                ..
            } => return wrong("claims are computed by packets; leave out `:message`"),
            Target::Model { .. } => {}
            _ => return wrong("claims are computed on models: use --on model:PROFILE"),
        }
        let profiles = self.anchors.added_to(self.profiles.profiles());
        let Found::Model(model) = find_in(target, &profiles)? else {
            return Ok(None);
        };
        if model.remarks.is_empty() {
            return wrong(
                "--on selects the system that --anchor corrects: add --anchor, \
                 or use a saved machine",
            );
        }
        let system = model.system()?.clone();
        Ok(Some((*model, system)))
    }
}

/// Reports the interrupt and returns its exit code.
fn stopped(computed: &str) -> Exit {
    interrupt::tell(&format!("{computed}; no file was written"));
    interrupt::exit()
}

fn of_shipped_curves(
    library: &Library,
    _: &[Claim],
    threads: usize,
) -> Result<Vec<Validated>, validation::Failure> {
    of_shipped(library, threads)
}

/// Computes claims in steps that the user can interrupt.
struct Task<'a> {
    library: &'a Arc<Library>,
    claims: &'a Arc<Vec<Claim>>,
    threads: usize,
}

impl Task<'_> {
    /// Evaluates all claims. After an interrupt, the error holds those already evaluated.
    fn evaluated(&self) -> Result<Vec<Evaluated>, Vec<Evaluated>> {
        let known = Arc::new(Mutex::new(BTreeMap::new()));
        let keep = Arc::clone(&known);
        let bar = Bar::new(self.claims.len(), "published claims");
        let compute = move |library: &Library, claims: &[Claim], threads| {
            evaluate(library, claims, threads, &|number, evaluated| {
                let mut known = keep.lock().expect("nothing panics under this lock");
                known.insert(number, evaluated.clone());
                bar.step();
            })
        };
        self.unless_interrupted(compute).ok_or_else(|| {
            let known = known.lock().expect("nothing panics under this lock");
            known.values().cloned().collect()
        })
    }

    /// Computes the held-out curves and writes their residuals.
    fn residuals(&self, file: &Path) -> Result<Exit, Failure> {
        let Some(validated) = self.run("held-out curves", of_shipped_curves) else {
            return Ok(stopped("nothing was computed before that"));
        };
        let validated = validated.map_err(|error| Failure::Input(error.to_string()))?;
        let predictions = Predictions::of(self.library, &validated, self.threads)
            .map_err(|error| Failure::Input(error.to_string()))?;
        replace(file, &predictions.file()).map_err(|source| Failure::System {
            doing: "write the residuals",
            source,
        })?;
        out!("{}", predictions.text());
        Ok(Exit::Success)
    }

    /// Runs a computation with a progress note; `None` after an interrupt.
    fn run<T: Send + 'static>(
        &self,
        name: &'static str,
        compute: impl FnOnce(&Library, &[Claim], usize) -> T + Send + 'static,
    ) -> Option<T> {
        let _note = Bar::of_unknown_length(name);
        self.unless_interrupted(compute)
    }

    fn unless_interrupted<T: Send + 'static>(
        &self,
        compute: impl FnOnce(&Library, &[Claim], usize) -> T + Send + 'static,
    ) -> Option<T> {
        let (library, claims) = (Arc::clone(self.library), Arc::clone(self.claims));
        let threads = self.threads;
        interrupt::unless_interrupted(move || compute(&library, &claims, threads))
    }
}

/// Returns the command line, as far as the result depends on it.
fn command(arguments: &Arguments) -> String {
    let mut words = vec!["verbena reproduce".to_owned()];
    words.extend(arguments.paper.clone());
    words.extend(
        arguments
            .profiles
            .set
            .iter()
            .map(|setting| format!("--set {setting}")),
    );
    let directories = arguments.profiles.profiles.iter();
    words.extend(directories.map(|directory| format!("--profiles {}", directory.display())));
    match &arguments.on {
        Some(Target::Model { profile, .. }) if profile.starts_with(machines::PREFIX) => {
            words.push(format!("--on {profile}"));
        }
        Some(Target::Model { profile, .. }) => words.push(format!("--on model:{profile}")),
        _ => {}
    }
    let anchors = arguments.anchors.anchors.iter();
    words.extend(anchors.map(|anchor| format!("--anchor {anchor}")));
    words.join(" ")
}
