//! `verbena reproduce`: the published claims, computed from the profiles, and the papers' figures redrawn.

use crate::exit::Exit;
use crate::failure::Failure;
use crate::number;
use crate::output::{out, outln};
use crate::profiles::ProfileOptions;
use crate::reproduction::{reproduction, validation};
use std::path::PathBuf;
use verbena_predict::claims::{evaluate, shipped};
use verbena_predict::figures::draw;
use verbena_predict::sensitivity::{self, sensitivity};
use verbena_predict::table;
use verbena_predict::validation::of_shipped;
use verbena_report::file::replace;
use verbena_report::html::reproduction_page;
use verbena_report::run_directory::REPORT;

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
    /// Compute on N threads; results do not depend on N
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = number::between::<usize>(1..=1024))]
    threads: usize,
}

/// Evaluates, prints the table, writes the data.
pub fn run(arguments: Arguments) -> Result<Exit, Failure> {
    let input = |error: &dyn std::fmt::Display| Failure::Input(error.to_string());
    let library = arguments.profiles.library()?;
    let mut claims = shipped().map_err(|e| input(&e))?;
    if let Some(paper) = &arguments.paper {
        let mut papers: Vec<_> = claims.iter().map(|c| c.paper().to_owned()).collect();
        papers.dedup();
        claims.retain(|claim| claim.paper() == paper);
        if claims.is_empty() {
            return Err(Failure::Input(format!(
                "no paper {paper:?}; there are {}",
                papers.join(", ")
            )));
        }
    }
    let results = evaluate(&library, &claims, arguments.threads);
    // Of all adapters, so it is not a paper's.
    let validated = match arguments.paper {
        Some(_) => None,
        None => Some(of_shipped(&library, arguments.threads).map_err(|error| input(&error))?),
    };
    out!("{}", table::text(&library, &results, validated.as_deref()));
    let moved = arguments.sensitivity.then(|| {
        let told = |count| eprintln!("{count} claims to compute with moved values");
        sensitivity(&library, &claims, arguments.threads, told)
    });
    if let Some(moved) = &moved {
        out!("\n{}", sensitivity::text(moved));
    }
    if let Some(directory) = &arguments.out {
        let figures = draw(&library, &claims, arguments.threads);
        let mut shown = reproduction(&library, &results, &figures, moved.as_deref());
        shown.validation = validated.as_deref().map(validation);
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
            ),
        )?;
        write(REPORT, page)?;
        outln!("{}", directory.join(REPORT).display());
    }
    Ok(if table::target_met(&results) {
        Exit::Success
    } else {
        Exit::AnswerIsNo
    })
}

/// What was asked, as far as the result depends on it.
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
