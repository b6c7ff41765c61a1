//! `verbena reproduce`: the published claims, computed from the profiles.

use crate::exit::Exit;
use crate::failure::Failure;
use crate::profiles::ProfileOptions;
use std::path::PathBuf;
use verbena_predict::claims::{evaluate, shipped};
use verbena_predict::table;

/// Which claims, and where the results go.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// One paper's claims alone, e.g. memfree
    paper: Option<String>,
    /// Directory for claims.json
    #[arg(long)]
    out: Option<PathBuf>,
    #[command(flatten)]
    profiles: ProfileOptions,
    /// Threads; the results do not depend on them
    #[arg(long, default_value_t = 2)]
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
    print!("{}", table::text(&library, &results));
    if let Some(directory) = &arguments.out {
        let system = |doing, source| Failure::System { doing, source };
        std::fs::create_dir_all(directory).map_err(|e| system("make the output directory", e))?;
        std::fs::write(
            directory.join("claims.json"),
            table::json(&library, &results),
        )
        .map_err(|e| system("write claims.json", e))?;
    }
    Ok(if table::target_met(&results) {
        Exit::Success
    } else {
        Exit::AnswerIsNo
    })
}
