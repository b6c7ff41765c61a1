//! `verbena reproduce`: computes the published claims from the profiles and redraws the papers'
//! figures.

use crate::exit::Exit;
use crate::failure::Failure;
use crate::interrupt;
use crate::number;
use crate::output::out;
use crate::profiles::ProfileOptions;
use crate::reproduction::{reproduction, validation as shown_validation};
use crate::summary;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use verbena_bench::bar::Bar;
use verbena_calibrate::predictions::Predictions;
use verbena_model::profile::Library;
use verbena_report::file::replace;
use verbena_report::html::reproduction_page;
use verbena_report::run_directory::REPORT;
use verbena_reproduce::claims::{Claim, Evaluated, evaluate, shipped};
use verbena_reproduce::figures::draw;
use verbena_reproduce::sensitivity::{self, sensitivity};
use verbena_reproduce::table;
use verbena_reproduce::validation::{self, Validated, of_shipped};

/// Which claims, and where the results go.
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
    /// Show which claims each fitted value moves; takes minutes
    #[arg(long)]
    sensitivity: bool,
    /// Compute the held-out curves only; write their residuals here
    ///
    /// For papers/validation/residuals.toml, from which predictions get their intervals.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["paper", "out", "sensitivity"])]
    residuals: Option<PathBuf>,
    /// Compute on N threads; results do not depend on N
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = number::between::<usize>(1..=1024))]
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
        let Some(figures) = task.run("figures of the papers", draw) else {
            return Ok(stopped("the claims were computed before that"));
        };
        let mut shown = reproduction(&library, &results, &figures, moved.as_deref());
        shown.validation = validated
            .as_deref()
            .zip(predictions.as_ref())
            .map(|(curves, predictions)| shown_validation(curves, predictions));
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
        Exit::AnswerIsNo
    })
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
    words.join(" ")
}
