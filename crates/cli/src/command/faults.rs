//! `verbena faults sweep -- CMD`: fails each verbs call or request of CMD by itself; `verbena
//! faults calls` and `verbena faults requests`: list the calls and requests that can fail.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use verbena_bench::temporary::Directory;
use verbena_coverage::errno;
use verbena_faults::call::{CALLS, Call, Class, matching};
use verbena_faults::firing::MOST;
use verbena_faults::rule::Action as FaultAction;
use verbena_faults::rules::Rules;
use verbena_faults::site::{Objects, Operation, Site};
use verbena_faults::status::Status;
use verbena_report::file::replace;
use verbena_run::faults::sweep::{self, Case, End, Outcome, Verdict};
use verbena_run::faults::{self, junit};
use verbena_run::libraries::Libraries;
use verbena_run::supervise::{self, SIGINT, SIGTERM};

use crate::adapter_options::{self as options, Options};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::number;
use crate::output::outln;

/// Lines of a command's output that are shown after a crash.
const SHOWN: usize = 6;

/// What to do with faults.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Run a command once for each of its calls, and let that call fail
    ///
    /// First the command runs without faults, which must succeed. Then each call that it made
    /// fails, one in each run; with --requests each request, with each status. Prints how the
    /// command ended: reported (an exit code other than 0), went on (exit code 0), crashed, or
    /// hung. The exit code is 1 if a run crashed or hung.
    Sweep(Box<Sweep>),
    /// List the calls that can fail
    Calls,
    /// List the requests that can fail, and with which statuses
    Requests,
}

#[derive(Debug, clap::Args)]
struct Sweep {
    /// Calls to fail, with `*` for any characters
    ///
    /// May be repeated. By default all but those that post requests and wait for events.
    #[arg(long, value_name = "PATTERN")]
    calls: Vec<String>,

    /// Fail requests and receives of queue pairs, in place of calls
    #[arg(long, conflicts_with_all = ["calls", "error", "lasting"])]
    requests: bool,

    /// Status of the requests; may be repeated. By default each that is possible
    #[arg(long, value_name = "STATUS", requires = "requests", value_parser = status)]
    status: Vec<Status>,

    /// Error of the calls; may be repeated
    #[arg(long, value_name = "ERROR", default_value = "ENOMEM", value_parser = error_number)]
    error: Vec<i32>,

    /// Let the calls after the failing one fail, too
    #[arg(long)]
    lasting: bool,

    /// Fail at most the first N of each call of a process, or operation of a queue pair
    #[arg(
        long,
        value_name = "N",
        default_value_t = 20,
        value_parser = number::between::<u64>(1..=MOST)
    )]
    most: u64,

    /// Seconds after which a run hangs
    #[arg(long, value_name = "SECONDS", default_value_t = 60.0, value_parser = seconds)]
    timeout: f64,

    /// Accept only these exit codes
    #[arg(
        long,
        value_name = "CODE",
        value_delimiter = ',',
        value_parser = number::between::<u8>(0..=255)
    )]
    accept: Vec<u8>,

    /// Write the outcomes for CI systems to this file, as JUnit does
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,

    /// Write the outcomes as JSON to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,

    #[command(flatten)]
    options: Options,

    /// Command to run, with its arguments
    #[arg(
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "CMD"
    )]
    command: Vec<OsString>,
}

fn error_number(word: &str) -> Result<i32, String> {
    errno::number(word).ok_or_else(|| "not the name of an error, as ENOMEM".into())
}

fn status(word: &str) -> Result<Status, String> {
    Status::named(word).ok_or_else(|| {
        let names: Vec<&str> = Status::NAMES.iter().map(|(name, _)| *name).collect();
        format!("not one of {}", names.join(", "))
    })
}

fn seconds(word: &str) -> Result<f64, String> {
    match word.parse() {
        Ok(seconds) if (0.1..=86_400.0).contains(&seconds) => Ok(seconds),
        _ => Err("not a number of seconds from 0.1 to 86400".into()),
    }
}

/// Runs the sweep, or lists the calls.
///
/// # Errors
/// Fails if the command cannot be run, or fails without faults, or a file cannot be written.
pub fn run(arguments: Arguments) -> Result<Exit, Failure> {
    match arguments.action {
        Action::Calls => {
            for call in CALLS {
                outln!("{}", call.name);
            }
            Ok(Exit::Success)
        }
        Action::Requests => {
            for site in request_sites() {
                let statuses: Vec<String> =
                    Status::possible(site).map(|one| one.to_string()).collect();
                outln!("{:16} {}", site.to_string(), statuses.join(", "));
            }
            Ok(Exit::Success)
        }
        Action::Sweep(sweep) => Runs::new(&sweep)?.all(),
    }
}

/// The common parts of all runs of a sweep.
struct Runs<'a> {
    sweep: &'a Sweep,
    directory: Directory,
    stop: std::sync::Arc<AtomicBool>,
}

/// One run: its end, its output, and the calls that rules were about.
struct Run {
    end: End,
    output: String,
    firings: Vec<verbena_faults::firing::Firing>,
}

impl<'a> Runs<'a> {
    fn new(sweep: &'a Sweep) -> Result<Self, Failure> {
        Ok(Runs {
            sweep,
            directory: Directory::create()?,
            stop: supervise::stop_at(&[SIGINT, SIGTERM])?,
        })
    }

    fn command(&self, rules: &Rules) -> Result<Command, Failure> {
        let tracer = Libraries::beside_this_executable()?.tracer()?;
        let record = self.directory.path().join("faults");
        faults::begin(&record).map_err(Failure::system("record faults"))?;
        let environment = self.sweep.options.environment()?;
        let environment = faults::environment(environment, &tracer, rules, &record)
            .map_err(|error| Failure::Input(error.to_string()))?;
        options::command("faults sweep", &self.sweep.command, &environment)
    }

    /// Runs the command with these rules; none if the sweep was interrupted.
    fn one(&self, rules: &Rules) -> Result<Option<Run>, Failure> {
        let command = self.command(rules)?;
        let output = self.directory.path().join("output");
        let time = Duration::from_secs_f64(self.sweep.timeout);
        let name = options::name(&self.sweep.command);
        let ended = sweep::run(command, &output, time, &self.stop)
            .map_err(|error| supervise::Failure::of_exec(name, error))?;
        let record = self.directory.path().join("faults");
        let firings =
            faults::read(&record).map_err(Failure::system("read the record of faults"))?;
        Ok(ended.map(|(end, output)| Run {
            end,
            output,
            firings,
        }))
    }

    fn all(&self) -> Result<Exit, Failure> {
        let sites = match self.sweep.requests {
            true => request_sites(),
            false => calls(&self.sweep.calls)?
                .iter()
                .map(|call| Site::Call(call.name))
                .collect(),
        };
        let Some(survey) = self.one(&sweep::survey(&sites, self.sweep.most))? else {
            return Ok(Exit::Interrupted);
        };
        if survey.end != End::Exit(0) {
            return Err(Failure::Input(format!(
                "the command fails without any fault: {}\n{}",
                survey.end,
                last_lines(&survey.output)
            )));
        }
        let actions = |site| self.sweep.actions(site);
        let cases = sweep::cases(&sites, &survey.firings, actions, self.sweep.lasting);
        if cases.is_empty() {
            return Err(Failure::Input(
                match self.sweep.requests {
                    true => {
                        "the command made no requests that can end so on Verbena's adapter; \
                         programs that are linked statically do not use it"
                    }
                    false => {
                        "the command made none of these calls; programs that are linked \
                         statically or set LD_PRELOAD themselves cannot be traced"
                    }
                }
                .into(),
            ));
        }
        let what = if self.sweep.requests {
            "failures"
        } else {
            "calls to fail"
        };
        outln!("{} {what}, one in each run", cases.len());
        let width = cases
            .iter()
            .map(|case| case.name().len())
            .max()
            .unwrap_or(0);
        let mut outcomes = Vec::new();
        let mut interrupted = false;
        for case in cases {
            match self.outcome(case)? {
                None => {
                    interrupted = true;
                    break;
                }
                Some(outcome) => {
                    outln!("{}", line(&outcome, width.min(60)));
                    outcomes.push(outcome);
                }
            }
        }
        self.report(&outcomes)?;
        Ok(match outcomes.iter().any(|one| one.verdict.is_bad()) {
            _ if interrupted => Exit::Interrupted,
            true => Exit::AnswerIsNo,
            false => Exit::Success,
        })
    }

    fn outcome(&self, case: Case) -> Result<Option<Outcome>, Failure> {
        let start = Instant::now();
        let Some(run) = self.one(&case.rules())? else {
            return Ok(None);
        };
        let fired = !run.firings.is_empty();
        Ok(Some(Outcome {
            verdict: run.end.verdict(fired, &self.sweep.accept),
            case,
            end: run.end,
            output: run.output,
            seconds: start.elapsed().as_secs_f64(),
        }))
    }

    fn report(&self, outcomes: &[Outcome]) -> Result<(), Failure> {
        outln!("{}", summary(outcomes));
        let words = self.sweep.command.iter().map(|word| word.to_string_lossy());
        let command = words.collect::<Vec<_>>().join(" ");
        let write = |path: &PathBuf, text: &str| {
            let failed =
                |source| Failure::Input(format!("cannot write {}: {source}", path.display()));
            replace(path, text).map_err(failed)
        };
        if let Some(path) = &self.sweep.junit {
            write(path, &junit::report(&command, outcomes))?;
        }
        if let Some(path) = &self.sweep.json {
            let text = format!("{:#}\n", as_json(&command, outcomes));
            write(path, &text)?;
        }
        Ok(())
    }
}

impl Sweep {
    /// Returns the actions that are wanted at a place.
    fn actions(&self, site: Site) -> Vec<FaultAction> {
        match site {
            Site::Call(_) => self
                .error
                .iter()
                .copied()
                .map(FaultAction::Refuse)
                .collect(),
            Site::Requests(..) | Site::Receives(_) | Site::Port(_) => {
                let is_wanted = |one: &Status| self.status.is_empty() || self.status.contains(one);
                let all = Status::possible(site).filter(is_wanted);
                all.map(FaultAction::End).collect()
            }
        }
    }
}

/// Returns each operation of each queue pair, and its receives.
fn request_sites() -> Vec<Site> {
    let of_each = |(_, operation): &(_, Operation)| Site::Requests(Objects::Each, *operation);
    let operations = Operation::NAMES.iter();
    let operations = operations.filter(|(_, operation)| *operation != Operation::Any);
    let receives = Site::Receives(Objects::Each);
    operations.map(of_each).chain([receives]).collect()
}

/// Returns the calls that match the patterns.
fn calls(patterns: &[String]) -> Result<Vec<&'static Call>, Failure> {
    if patterns.is_empty() {
        let is_control = |call: &&Call| call.class == Class::Control;
        return Ok(CALLS.iter().filter(is_control).collect());
    }
    let mut all: Vec<&'static Call> = Vec::new();
    for pattern in patterns {
        let before = all.len();
        let known = all.clone();
        all.extend(matching(pattern).filter(|call| !known.contains(call)));
        if all.len() == before && matching(pattern).next().is_none() {
            return Err(Failure::Input(format!(
                "no call that can fail matches {pattern:?}; `verbena faults calls` lists them"
            )));
        }
    }
    Ok(all)
}

fn line(outcome: &Outcome, width: usize) -> String {
    let Outcome {
        case, end, verdict, ..
    } = outcome;
    let mut text = format!("{:width$}  {}", case.name(), verdict.words());
    match verdict {
        Verdict::WentOn | Verdict::Hung => {}
        _ => {
            let _ = write!(text, " ({end})");
        }
    }
    let shown = last_lines(&outcome.output);
    if verdict.is_bad() && !shown.is_empty() {
        text.push('\n');
        text.push_str(&shown);
    }
    text
}

/// Returns the last lines of a command's output, each behind a bar.
fn last_lines(output: &str) -> String {
    let lines: Vec<&str> = output
        .lines()
        .filter(|line| !line.trim().is_empty())
        .collect();
    let from = lines.len().saturating_sub(SHOWN);
    let shown = lines[from..].iter().map(|line| {
        let plain: String = line.chars().filter(|one| !one.is_control()).collect();
        format!("    | {plain}")
    });
    shown.collect::<Vec<_>>().join("\n")
}

fn summary(outcomes: &[Outcome]) -> String {
    let count = |verdict: Verdict| outcomes.iter().filter(|one| one.verdict == verdict).count();
    let mut text = format!(
        "{} runs: {} reported, {} went on, {} crashed, {} hung",
        outcomes.len(),
        count(Verdict::Reported),
        count(Verdict::WentOn),
        count(Verdict::Crashed),
        count(Verdict::Hung),
    );
    for verdict in [Verdict::WrongExit, Verdict::NotReached] {
        let number = count(verdict);
        if number > 0 {
            let _ = write!(text, ", {number} {}", verdict.words().to_lowercase());
        }
    }
    text
}

fn as_json(command: &str, outcomes: &[Outcome]) -> Value {
    let one = |outcome: &Outcome| {
        let (exit, signal) = match outcome.end {
            End::Exit(code) => (Some(code), None),
            End::Signal(number) => (None, Some(number)),
            End::Hang => (None, None),
        };
        json!({
            "call": outcome.case.rule.site.to_string(),
            "number": outcome.case.count,
            "lasting": outcome.case.lasting,
            "error": outcome.case.rule.action.to_string(),
            "process": outcome.case.process,
            "outcome": outcome.verdict.words().to_lowercase(),
            "exit": exit,
            "signal": signal,
            "seconds": outcome.seconds,
            "output": outcome.output,
        })
    };
    json!({
        "version": 1,
        "command": command,
        "runs": outcomes.iter().map(one).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_choose_calls_once() {
        let names = |patterns: &[&str]| {
            let patterns: Vec<String> = patterns.iter().map(|one| (*one).into()).collect();
            calls(&patterns).map(|all| all.iter().map(|call| call.name).collect::<Vec<_>>())
        };
        let found = names(&["ibv_alloc_pd", "ibv_alloc_*"]).unwrap();
        assert_eq!(
            found.iter().filter(|name| **name == "ibv_alloc_pd").count(),
            1
        );
        assert!(found.contains(&"ibv_alloc_mw"));
        assert!(!names(&[]).unwrap().contains(&"ibv_post_send"));
        assert!(names(&["ibv_post_send"]).is_ok());
        assert!(names(&["ibv_dereg_mr"]).is_err());
    }

    #[test]
    fn last_lines_are_plain() {
        let text = "one\n\n\u{1b}[31mtwo\n3\n4\n5\n6\n7\n";
        assert_eq!(last_lines(text).lines().count(), SHOWN);
        assert_eq!(last_lines("\u{1b}[31mtwo"), "    | [31mtwo");
    }
}
