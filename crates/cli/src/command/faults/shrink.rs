//! `verbena faults shrink FILE -- CMD`: finds the fewest faults with which CMD still fails.

use std::path::PathBuf;

use verbena_faults::rules::{Entry, Rules};
use verbena_run::faults::schedule;
use verbena_run::faults::shrink::{Answer, shrink};

use super::runs::{Common, Kind, Runs, write};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::fault_options;
use crate::number;
use crate::output::out;

#[derive(Debug, clap::Args)]
pub(super) struct Shrink {
    /// Faults with which the command fails, as `verbena run --fired` writes them
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// Write the fewest faults to this file [default: standard output]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,

    #[command(flatten)]
    search: Search,

    #[command(flatten)]
    common: Common,
}

/// The effort of a search for the fewest faults.
#[derive(Debug, clap::Args)]
pub(super) struct Search {
    /// Runs with the same faults that have to end the same way
    #[arg(
        long,
        value_name = "N",
        default_value_t = 3,
        value_parser = number::between::<u64>(1..=100)
    )]
    repeats: u64,

    /// Stop a search for the fewest faults after N runs
    #[arg(
        long,
        value_name = "N",
        default_value_t = 500,
        value_parser = number::between::<u64>(1..=1_000_000)
    )]
    most_runs: u64,
}

/// The result of a search.
pub(super) enum Found {
    /// The fewest faults; they are not the fewest if the runs did not suffice.
    Least { rules: Rules, complete: bool },
    /// The same faults do not always end the same way: the second end.
    Varies(Kind),
    /// The search was interrupted.
    Interrupted,
}

/// Searches for the fewest faults with which the command ends so.
pub(super) fn search(
    runs: &Runs,
    effort: &Search,
    rules: Rules,
    kind: Kind,
) -> Result<Found, Failure> {
    let mut questions = Questions {
        runs,
        kind,
        seed: rules.seed,
        repeats: effort.repeats,
        left: effort.most_runs,
        other: None,
        interrupted: false,
    };
    let (entries, complete) = match questions.ask(&rules.entries)? {
        Answer::Same => shrink(rules.entries, |entries| questions.ask(entries))?,
        Answer::Stopped => (rules.entries, false),
        Answer::Differs => return Ok(Found::Varies(questions.other.unwrap_or(kind))),
    };
    Ok(match questions.interrupted {
        true => Found::Interrupted,
        false => Found::Least {
            rules: Rules {
                seed: rules.seed,
                entries,
            },
            complete,
        },
    })
}

/// Runs that answer whether the command ends the same way.
struct Questions<'a> {
    runs: &'a Runs<'a>,
    kind: Kind,
    seed: u64,
    repeats: u64,
    left: u64,
    /// The last end that differed.
    other: Option<Kind>,
    interrupted: bool,
}

impl Questions<'_> {
    fn ask(&mut self, entries: &[Entry]) -> Result<Answer, Failure> {
        let rules = Rules {
            seed: self.seed,
            entries: entries.to_vec(),
        };
        for _ in 0..self.repeats {
            if self.left == 0 {
                return Ok(Answer::Stopped);
            }
            self.left -= 1;
            let Some(run) = self.runs.one(&rules)? else {
                self.interrupted = true;
                return Ok(Answer::Stopped);
            };
            if run.kind() != self.kind {
                self.other = Some(run.kind());
                return Ok(Answer::Differs);
            }
        }
        Ok(Answer::Same)
    }
}

/// Shrinks the file's faults.
pub(super) fn run(arguments: &Shrink) -> Result<Exit, Failure> {
    let file = arguments.file.display();
    let rules = fault_options::read(&arguments.file)?.rules();
    let mut runs = Runs::new("faults shrink", &arguments.common)?;
    let Some(healthy) = runs.healthy(&Rules::default())? else {
        return Ok(Exit::Interrupted);
    };
    let Some(failing) = runs.one(&rules)? else {
        return Ok(Exit::Interrupted);
    };
    let end = failing.kind();
    if end == healthy.kind() {
        return Err(Failure::Input(format!(
            "the command ends with {file} as without: {end}"
        )));
    }
    let before = rules.entries.len();
    eprintln!("verbena: {} with {}", end, faults(before));
    match search(&runs, &arguments.search, rules, end)? {
        Found::Interrupted => Ok(Exit::Interrupted),
        Found::Varies(other) => Err(Failure::Input(format!(
            "with {file} the command does not always end the same way: {end}, {other}"
        ))),
        Found::Least { rules, complete } => {
            eprintln!("verbena: {} with {}", end, faults(rules.entries.len()));
            if !complete {
                eprintln!(
                    "verbena: stopped after {} runs (--most-runs)",
                    arguments.search.most_runs
                );
            }
            let text = schedule::text(&rules);
            match &arguments.out {
                Some(path) => write(path, &text)?,
                None => out!("{text}"),
            }
            Ok(Exit::Success)
        }
    }
}

fn faults(number: usize) -> String {
    match number {
        1 => "1 fault".into(),
        _ => format!("{number} faults"),
    }
}
