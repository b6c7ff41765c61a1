//! `verbena faults explore -- CMD`: runs CMD with random faults, and finds the fewest with which it
//! fails.

use std::path::PathBuf;

use serde_json::{Value, json};
use verbena_faults::call::{CALLS, Call, Class};
use verbena_faults::firing::MOST;
use verbena_faults::rule::Action;
use verbena_faults::rules::{Entry, Rules};
use verbena_faults::site::Site;
use verbena_faults::status::Status;
use verbena_run::faults::explore::{Places, QUEUE_SITES};
use verbena_run::faults::schedule::{self, Schedule};

use super::runs::{Common, Kind, Reports, Run, Runs, add_outcome, line, write};
use super::shrink::{Found, Search, search};
use super::{call_failures, calls, error_number, request_sites};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::fault_options;
use crate::number;
use crate::output::outln;

#[derive(Debug, clap::Args)]
pub(super) struct Explore {
    /// Number of runs with faults, one for each seed
    #[arg(
        long,
        value_name = "N",
        default_value_t = 100,
        value_parser = number::between::<u64>(1..=1_000_000)
    )]
    seeds: u64,

    /// First seed
    #[arg(
        long,
        value_name = "N",
        default_value_t = 1,
        value_parser = number::between::<u64>(0..=1_000_000_000_000)
    )]
    first: u64,

    /// Use the rules with probabilities in this file, not random faults
    #[arg(long, value_name = "FILE", conflicts_with_all = ["calls", "error", "most_faults"])]
    faults: Option<PathBuf>,

    /// Calls that may fail, with `*` for any characters
    ///
    /// May be repeated. By default all but those that wait for events, which a program makes as
    /// often as the time allows: the same seed draws the same faults of the same calls.
    #[arg(long, value_name = "PATTERN")]
    calls: Vec<String>,

    /// Error of the calls; may be repeated
    #[arg(
        long,
        value_name = "ERROR",
        default_values = ["ENOMEM", "EAGAIN", "EIO"],
        value_parser = error_number
    )]
    error: Vec<i32>,

    /// Faults of a run, at most
    #[arg(
        long,
        value_name = "N",
        default_value_t = 3,
        value_parser = number::between::<u64>(1..=20)
    )]
    most_faults: u64,

    /// Stop at the first failure
    #[arg(long)]
    fail_fast: bool,

    /// Do not search for the fewest faults
    #[arg(long)]
    no_shrink: bool,

    /// Write the fewest faults of each failure to this directory
    #[arg(long, value_name = "DIRECTORY")]
    out: Option<PathBuf>,

    #[command(flatten)]
    search: Search,

    #[command(flatten)]
    reports: Reports,

    #[command(flatten)]
    common: Common,
}

/// A failure that was found: how the command ended, with the fewest faults.
struct Failing {
    seed: u64,
    kind: Kind,
    rules: Rules,
}

/// Explores.
pub(super) fn run(explore: &Explore) -> Result<Exit, Failure> {
    let mut runs = Runs::new("faults explore", &explore.common)?;
    if let Some(directory) = &explore.out {
        std::fs::create_dir_all(directory).map_err(|error| {
            Failure::Input(format!("cannot use {}: {error}", directory.display()))
        })?;
    }
    let Some(source) = Source::new(explore, &mut runs)? else {
        return Ok(Exit::Interrupted);
    };
    outln!("{} runs with faults, one for each seed", explore.seeds);
    let (mut outcomes, mut values, mut found) = (Vec::new(), Vec::new(), Vec::new());
    let mut interrupted = false;
    for seed in explore.first..explore.first + explore.seeds {
        let rules = source.rules(seed, explore.most_faults);
        let Some(run) = runs.one(&rules)? else {
            interrupted = true;
            break;
        };
        let fired = source.fired(&rules, &run)?;
        let kind = run.kind();
        let mut outcome = runs.judge(name(seed, &fired), run);
        let is_bad = outcome.verdict.is_bad();
        if !is_bad {
            // Of a million runs only the outputs of failures are kept.
            outcome.output.clear();
        }
        outln!("{}", line(&outcome, 0));
        let mut value = json!({ "seed": seed, "faults": texts(&fired) });
        add_outcome(&mut value, &outcome);
        if is_bad {
            match explore.examine(&runs, seed, fired, kind, &mut found)? {
                Some(least) => value["fewest"] = least,
                None => interrupted = true,
            }
        }
        values.push(value);
        outcomes.push(outcome);
        if interrupted || (is_bad && explore.fail_fast) {
            break;
        }
    }
    runs.report(&explore.reports, &outcomes, values)?;
    for Failing { seed, kind, rules } in &found {
        outln!("{kind}: {} (seed {seed})", names(rules));
    }
    Ok(match outcomes.iter().any(|one| one.verdict.is_bad()) {
        _ if interrupted => Exit::Interrupted,
        true => Exit::NegativeResult,
        false => Exit::Success,
    })
}

impl Explore {
    /// Searches for the fewest faults of a failure, prints and writes them, and returns their
    /// texts; none if it was interrupted.
    fn examine(
        &self,
        runs: &Runs,
        seed: u64,
        fired: Rules,
        kind: Kind,
        found: &mut Vec<Failing>,
    ) -> Result<Option<Value>, Failure> {
        let includes = |known: &&Failing| {
            known.kind == kind
                && known
                    .rules
                    .entries
                    .iter()
                    .all(|one| fired.entries.contains(one))
        };
        if let Some(known) = found.iter().find(includes) {
            outln!("    as with seed {}", known.seed);
            return Ok(Some(texts(&known.rules)));
        }
        let mut rules = fired;
        if !self.no_shrink {
            match search(runs, &self.search, rules.clone(), kind)? {
                Found::Interrupted => return Ok(None),
                Found::Varies(other) => {
                    outln!("    not always: {other} in another run");
                }
                Found::Least {
                    rules: least,
                    complete,
                } => {
                    let most = if complete { "" } else { ", at most" };
                    outln!("    needs{most} {}", names(&least));
                    rules = least;
                }
            }
        }
        if let Some(directory) = &self.out {
            let path = directory.join(format!("seed-{seed}.toml"));
            write(&path, &schedule::text(&rules))?;
            outln!(
                "    verbena run --faults {} -- {}",
                path.display(),
                runs.command_line()
            );
        }
        let least = texts(&rules);
        found.push(Failing { seed, kind, rules });
        Ok(Some(least))
    }
}

/// Where the faults of a run come from.
enum Source {
    /// A file, whose chance the seed decides.
    File(Schedule),
    /// Draws from the calls and requests that the command makes.
    Places(Places),
}

impl Source {
    /// Returns the source; none if the run without faults was interrupted.
    fn new(explore: &Explore, runs: &mut Runs) -> Result<Option<Source>, Failure> {
        if let Some(file) = &explore.faults {
            let schedule = fault_options::read(file)?;
            let survey = runs.survey(&[], MOST)?;
            return Ok(survey.map(|_| Source::File(schedule)));
        }
        let possible: Vec<&Call> = match &explore.calls[..] {
            [] => CALLS
                .iter()
                .filter(|call| call.class != Class::Wait)
                .collect(),
            patterns => calls(patterns)?,
        };
        let mut sites: Vec<Site> = possible.iter().map(|call| Site::Call(call.name)).collect();
        sites.extend(request_sites());
        sites.extend(QUEUE_SITES);
        let Some(survey) = runs.survey(&sites, MOST)? else {
            return Ok(None);
        };
        let places = Places::new(&sites, &survey, |site| match site {
            Site::Call(call) => call_failures(call, &explore.error),
            site => Status::possible(site).map(Action::End).collect(),
        });
        match places.are_none() {
            true => Err(Failure::Input(
                "the command made no calls and requests that can fail; programs that are linked \
                 statically or set LD_PRELOAD themselves cannot be traced"
                    .into(),
            )),
            false => Ok(Some(Source::Places(places))),
        }
    }

    /// Returns the faults of a run.
    fn rules(&self, seed: u64, most: u64) -> Rules {
        match self {
            Source::File(schedule) => Rules {
                seed,
                ..schedule.rules()
            },
            Source::Places(places) => Rules {
                seed,
                entries: places.draw(seed, most),
            },
        }
    }

    /// Returns the faults of a run without chance.
    fn fired(&self, rules: &Rules, run: &Run) -> Result<Rules, Failure> {
        match self {
            Source::Places(_) => Ok(rules.clone()),
            Source::File(schedule) => {
                let fired = Schedule::read(&schedule.fired(&run.firings));
                let fired = fired.map_err(|error| Failure::Input(error.to_string()))?;
                Ok(fired.rules())
            }
        }
    }
}

fn name(seed: u64, rules: &Rules) -> String {
    format!("seed {seed}: {}", names(rules))
}

/// Returns the faults on one line.
fn names(rules: &Rules) -> String {
    let one = |entry: &Entry| match entry.process.as_str() {
        "" => format!("\"{}\"", entry.rule),
        process => format!("\"{}\" in {process}", entry.rule),
    };
    match rules.entries[..] {
        [] => "no fault".into(),
        ref entries => entries.iter().map(one).collect::<Vec<_>>().join(", "),
    }
}

fn texts(rules: &Rules) -> Value {
    let one = |entry: &Entry| json!({ "fault": entry.rule.to_string(), "process": entry.process });
    rules.entries.iter().map(one).collect()
}
