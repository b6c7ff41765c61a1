//! The runs of a command with faults: their options, one run, and the report of all.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use verbena_bench::temporary::Directory;
use verbena_faults::firing::Firing;
use verbena_faults::rules::Rules;
use verbena_faults::site::Site;
use verbena_report::file::replace;
use verbena_run::faults::leaks::Usual;
use verbena_run::faults::outcome::{End, Outcome, Verdict};
use verbena_run::faults::sweep::survey;
use verbena_run::faults::{self, execution, junit};
use verbena_run::libraries::Libraries;
use verbena_run::supervise::{self, SIGINT, SIGTERM};

use crate::adapter_options::{self as options, Options};
use crate::failure::Failure;
use crate::number;
use crate::output::outln;

/// Lines of a command's output that are shown after a crash.
const SHOWN: usize = 6;

/// The command of all runs, and the judgement of its end.
#[derive(Debug, clap::Args)]
pub(super) struct Common {
    /// Kill a run after this time, and count it as hung
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

    /// Fail runs that leave more objects than the run without faults
    ///
    /// Protection domains, regions, queue pairs and others that a process has when it exits.
    #[arg(long)]
    leaks: bool,

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

fn seconds(word: &str) -> Result<f64, String> {
    match word.parse() {
        Ok(seconds) if (0.1..=86_400.0).contains(&seconds) => Ok(seconds),
        _ => Err("not a number of seconds from 0.1 to 86400".into()),
    }
}

/// Files for other programs.
#[derive(Debug, clap::Args)]
pub(super) struct Reports {
    /// Write the outcomes as JUnit XML to this file, for CI systems
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,

    /// Write the outcomes as JSON to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// The runs of a command.
pub(super) struct Runs<'a> {
    name: &'static str,
    common: &'a Common,
    directory: Directory,
    stop: Arc<AtomicBool>,
    /// The objects that the command leaves without faults.
    usual: Usual,
}

/// The kind of a run's end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Kind {
    pub(super) end: End,
    /// Whether objects were left.
    pub(super) leaked: bool,
}

/// One run: its end, its output, and the calls and requests that rules were about.
pub(super) struct Run {
    end: End,
    output: String,
    leaked: String,
    pub(super) firings: Vec<Firing>,
    seconds: f64,
}

impl Run {
    /// Returns how it ended.
    pub(super) fn kind(&self) -> Kind {
        Kind {
            end: self.end,
            leaked: !self.leaked.is_empty(),
        }
    }
}

impl std::fmt::Display for Kind {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let left = if self.leaked { ", objects left" } else { "" };
        write!(to, "{}{left}", self.end)
    }
}

impl<'a> Runs<'a> {
    /// Prepares the runs; `name` is the subcommand's, for messages.
    pub(super) fn new(name: &'static str, common: &'a Common) -> Result<Self, Failure> {
        Ok(Runs {
            name,
            common,
            directory: Directory::create()?,
            stop: supervise::stop_at(&[SIGINT, SIGTERM])?,
            usual: Usual::default(),
        })
    }

    fn record(&self) -> PathBuf {
        self.directory.path().join("faults")
    }

    fn command(&self, rules: &Rules) -> Result<Command, Failure> {
        let tracer = Libraries::beside_this_executable()?.tracer()?;
        let record = self.record();
        faults::begin(&record).map_err(Failure::system("record faults"))?;
        let environment = self.common.options.environment()?;
        let environment =
            faults::environment(environment, &tracer, rules, &record, self.common.leaks)
                .map_err(|error| Failure::Input(error.to_string()))?;
        options::command(self.name, &self.common.command, &environment)
    }

    /// Runs the command with these rules; none if it was interrupted.
    pub(super) fn one(&self, rules: &Rules) -> Result<Option<Run>, Failure> {
        let command = self.command(rules)?;
        let output = self.directory.path().join("output");
        let time = Duration::from_secs_f64(self.common.timeout);
        let name = options::name(&self.common.command);
        let start = Instant::now();
        let ended = execution::run(command, &output, time, &self.stop)
            .map_err(|error| supervise::Failure::of_exec(name, error))?;
        let unreadable = Failure::system("read the record of faults");
        let record = self.record();
        let read = faults::read(&record).and_then(|all| Ok((all, faults::read_alive(&record)?)));
        let (firings, alive) = read.map_err(unreadable)?;
        Ok(ended.map(|(end, output)| Run {
            end,
            output,
            leaked: self.usual.beyond(&alive),
            firings,
            seconds: start.elapsed().as_secs_f64(),
        }))
    }

    /// Runs the command without faults; none if it was interrupted. The objects that it leaves are
    /// no leaks of the other runs.
    pub(super) fn healthy(&mut self, rules: &Rules) -> Result<Option<Run>, Failure> {
        let run = self.one(rules)?;
        let alive = faults::read_alive(&self.record());
        let alive = alive.map_err(Failure::system("read the record of faults"))?;
        self.usual = Usual::of(&alive);
        Ok(run)
    }

    /// Runs the command without faults, and returns the first `most` calls of each process, and
    /// requests of each object, at these sites; none if it was interrupted.
    pub(super) fn survey(
        &mut self,
        sites: &[Site],
        most: u64,
    ) -> Result<Option<Vec<Firing>>, Failure> {
        let Some(run) = self.healthy(&survey(sites, most))? else {
            return Ok(None);
        };
        match run.end {
            End::Exit(0) => Ok(Some(run.firings)),
            end => Err(Failure::Input(format!(
                "the command fails without any fault: {end}\n{}",
                last_lines(&run.output)
            ))),
        }
    }

    /// Returns the judgement of a run.
    pub(super) fn judge(&self, name: String, run: Run) -> Outcome {
        let fired = !run.firings.is_empty();
        Outcome {
            name,
            end: run.end,
            verdict: run
                .end
                .verdict(fired, !run.leaked.is_empty(), &self.common.accept),
            leaked: run.leaked,
            output: run.output,
            seconds: run.seconds,
        }
    }

    /// Returns the command line, as text.
    pub(super) fn command_line(&self) -> String {
        let words = self.common.command.iter();
        let words: Vec<String> = words
            .map(|word| word.to_string_lossy().into_owned())
            .collect();
        words.join(" ")
    }

    /// Writes the files that are wanted; `values` has the JSON objects of the outcomes.
    pub(super) fn report(
        &self,
        reports: &Reports,
        outcomes: &[Outcome],
        values: Vec<Value>,
    ) -> Result<(), Failure> {
        outln!("{}", summary(outcomes));
        let command = self.command_line();
        if let Some(path) = &reports.junit {
            let class = format!("verbena {}", self.name);
            write(path, &junit::report(&class, &command, outcomes))?;
        }
        if let Some(path) = &reports.json {
            let all = json!({ "version": 1, "command": command, "runs": values });
            write(path, &format!("{all:#}\n"))?;
        }
        Ok(())
    }
}

/// Writes a file.
pub(in crate::command) fn write(path: &Path, text: &str) -> Result<(), Failure> {
    let failed = |source| Failure::Input(format!("cannot write {}: {source}", path.display()));
    replace(path, text).map_err(failed)
}

/// Adds the outcome to the JSON object of a run.
pub(super) fn add_outcome(to: &mut Value, outcome: &Outcome) {
    let (exit, signal) = match outcome.end {
        End::Exit(code) => (Some(code), None),
        End::Signal(number) => (None, Some(number)),
        End::Hang => (None, None),
    };
    to["outcome"] = json!(outcome.verdict.words().to_lowercase());
    to["exit"] = json!(exit);
    to["signal"] = json!(signal);
    to["left"] = json!(outcome.leaked);
    to["seconds"] = json!(outcome.seconds);
    to["output"] = json!(outcome.output);
}

/// Returns an outcome's line, with the end of the output if it is bad.
pub(super) fn line(outcome: &Outcome, width: usize) -> String {
    let Outcome { name, verdict, .. } = outcome;
    let mut text = format!("{name:width$}  {}", verdict.words());
    match verdict {
        Verdict::WentOn | Verdict::Hung => {}
        Verdict::Leaked => {
            let _ = write!(text, " {} ({})", outcome.leaked, outcome.end);
        }
        _ => {
            let _ = write!(text, " ({})", outcome.end);
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
pub(in crate::command) fn last_lines(output: &str) -> String {
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
    for verdict in [Verdict::Leaked, Verdict::WrongExit, Verdict::NotReached] {
        let number = count(verdict);
        if number > 0 {
            let _ = write!(text, ", {number} {}", verdict.words().to_lowercase());
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_lines_are_plain() {
        let text = "one\n\n\u{1b}[31mtwo\n3\n4\n5\n6\n7\n";
        assert_eq!(last_lines(text).lines().count(), SHOWN);
        assert_eq!(last_lines("\u{1b}[31mtwo"), "    | [31mtwo");
    }
}
