//! The options that make verbs calls and requests of a command fail, and the report of the
//! failures.

use std::path::{Path, PathBuf};

use verbena_bench::temporary::Directory;
use verbena_faults::firing::MOST;
use verbena_faults::peer::Peer;
use verbena_faults::rule::Rule;
use verbena_report::file::replace;
use verbena_run::environment::Environment;
use verbena_run::faults::{self, schedule::Schedule};
use verbena_run::libraries::Libraries;

use crate::exit::Exit;
use crate::failure::Failure;
use crate::number;

/// Heading of these options in the help.
const HEADING: &str = "Faults";

/// Most characters of a line of an error that are shown.
const MOST_SHOWN: usize = 200;

#[derive(Debug, clap::Args)]
pub struct FaultOptions {
    /// Make calls or requests fail, e.g. "ibv_reg_mr 2: ENOMEM"
    ///
    /// A rule is "CALL [WHEN]: ERROR" or "qpN.OPERATION [WHEN]: STATUS". "ibv_reg_mr 2: ENOMEM"
    /// refuses the second ibv_reg_mr of each process. "qp1.write 3: remote-access" makes the third
    /// write of the first queue pair end with that status; qp* is each queue pair. WHEN is N, N..M,
    /// N.., every N, or p PROBABILITY; without it each fails. Events and cuts begin "after N
    /// requests" or "after N ms". "port1 after 100 requests: down for 50 ms" takes a port down,
    /// "link: loss 1%" loses messages, "link.out: delay 5 us" delays those sent, "adapter: max_qp
    /// 16" lowers a limit, "cq1.poll 3: empty" hides a completion from the third poll.
    /// docs/faults.md has all rules. May be repeated. `verbena faults calls` and `verbena faults
    /// requests` list the calls, operations and statuses.
    #[arg(long, value_name = "RULE", help_heading = HEADING)]
    fault: Vec<Rule>,

    /// Make calls and requests fail as this file says
    ///
    /// TOML: `[[fault]]` with `at = "ibv_reg_mr 2"`, `do = "ENOMEM"`, and if wanted `name` and
    /// `process`, a part of the command line of the processes that it is about; `[[link]]` with
    /// `loss`, `corruption`, `duplicate`, `reorder`, `delay`, `jitter`, `rate`, `port`, `direction`
    /// and `process`.
    #[arg(long, value_name = "FILE", help_heading = HEADING)]
    faults: Option<PathBuf>,

    /// Seed of the probabilities in WHEN
    #[arg(
        long,
        value_name = "N",
        value_parser = number::between::<u64>(0..=u64::MAX),
        help_heading = HEADING
    )]
    seed: Option<u64>,

    /// Write the failures as a file for --faults
    #[arg(long, value_name = "FILE", help_heading = HEADING)]
    fired: Option<PathBuf>,

    /// Succeed although a fault never fired
    #[arg(long, help_heading = HEADING)]
    allow_unfired: bool,
}

/// The faults of a run that is under way.
pub struct Faults {
    schedule: Schedule,
    record: PathBuf,
    fired: Option<PathBuf>,
    allow_unfired: bool,
    /// Number of the last ones that are properties of all links, by other options.
    properties: usize,
}

impl FaultOptions {
    /// Returns the faults, none if there are no options; `directory` gets their record.
    /// `properties` are rules of other options, with their names.
    ///
    /// # Errors
    /// Fails if the schedule cannot be read, or options are there without faults.
    pub fn begin(
        &self,
        directory: &Directory,
        properties: Vec<(String, Rule)>,
    ) -> Result<Option<Faults>, Failure> {
        let mut schedule = match &self.faults {
            None => Schedule::default(),
            Some(path) => read(path)?,
        };
        for rule in &self.fault {
            schedule.add(rule.clone());
        }
        let count = properties.len();
        for (name, rule) in properties {
            schedule.add(rule);
            if let Some(added) = schedule.faults.last_mut() {
                added.name = name;
            }
        }
        if schedule.faults.is_empty() {
            let alone = self.faults.is_some() || self.seed.is_some() || self.fired.is_some();
            return match alone || self.allow_unfired {
                true => Err(Failure::Input(
                    "no fault is given: --fault, --faults".into(),
                )),
                false => Ok(None),
            };
        }
        schedule.seed = self.seed.or(schedule.seed);
        let record = directory.path().join("faults");
        faults::begin(&record).map_err(Failure::system("record faults"))?;
        // Before the command runs, which may change its directory.
        let fired = match &self.fired {
            None => None,
            Some(path) => {
                Some(std::path::absolute(path).map_err(Failure::system("find the directory"))?)
            }
        };
        Ok(Some(Faults {
            schedule,
            record,
            fired,
            allow_unfired: self.allow_unfired,
            properties: count,
        }))
    }

    /// Returns whether options for faults are given.
    pub fn are_given(&self) -> bool {
        !self.fault.is_empty()
            || self.faults.is_some()
            || self.seed.is_some()
            || self.fired.is_some()
            || self.allow_unfired
    }
}

impl Faults {
    /// Adds the faults to a command's environment.
    ///
    /// # Errors
    /// Fails if there are too many, or the tracer is missing.
    pub fn environment(&self, environment: Environment) -> Result<Environment, Failure> {
        let tracer = Libraries::beside_this_executable()?.tracer()?;
        faults::environment(
            environment,
            &tracer,
            &self.schedule.rules(),
            &self.record,
            false,
        )
        .map_err(|error| Failure::Input(error.to_string()))
    }

    /// Prints the failed calls on standard error, and writes them to the file for them. Returns the
    /// exit code of the run: the command's, or 1 if that is 0 and a fault never fired.
    ///
    /// # Errors
    /// Fails if the record cannot be read, or the file cannot be written.
    pub fn end(&self, exit: Exit) -> Result<Exit, Failure> {
        let firings =
            faults::read(&self.record).map_err(Failure::system("read the record of faults"))?;
        let by_rule = faults::by_rule(&firings);
        let (mut unfired, mut cut) = (false, false);
        for (number, fault) in self.schedule.faults.iter().enumerate() {
            let name = &fault.name;
            let fired = by_rule.get(&number).map_or(&[][..], Vec::as_slice);
            if number + self.properties >= self.schedule.faults.len() {
                match fired.len() {
                    0 => eprintln!("verbena: {name}: the command's programs sent no message"),
                    _ => eprintln!("verbena: {name}"),
                }
                continue;
            }
            match by_rule.get(&number).map(Vec::as_slice) {
                None | Some([]) => {
                    unfired = true;
                    let peer = fault.entry.rule.peer.as_ref();
                    let hint = peer.and_then(Peer::as_address).map(|address| {
                        format!(" (for the address of the peer, use \"peer {address}\")")
                    });
                    let process = &fault.entry.process;
                    let elsewhere = (!process.is_empty()).then(|| {
                        format!(
                            " (the rule is for processes with {process:?} in their command line)"
                        )
                    });
                    let hint = hint.or(elsewhere).unwrap_or_default();
                    eprintln!("verbena: fault {name:?} never fired{hint}");
                }
                Some([one]) => eprintln!(
                    "verbena: fault {name:?} fired at {} of process {} ({})",
                    fault.entry.rule.place(one),
                    one.process,
                    one.command
                ),
                Some(all) if faults::is_cut(all) => {
                    cut = true;
                    eprintln!("verbena: fault {name:?} fired at least {} times", all.len());
                }
                Some(all) => eprintln!("verbena: fault {name:?} fired {} times", all.len()),
            }
        }
        if let Some(path) = &self.fired {
            replace(path, &self.schedule.fired(&firings)).map_err(|source| {
                Failure::Input(format!("cannot write {}: {source}", path.display()))
            })?;
            if cut {
                eprintln!(
                    "verbena: {} has only the first {MOST} failures of each fault and process",
                    path.display()
                );
            }
        }
        Ok(match exit {
            Exit::OfCommand(0) if unfired && !self.allow_unfired => Exit::NegativeResult,
            exit => exit,
        })
    }
}

/// Reads a schedule.
///
/// # Errors
/// Names the file, and the line or fault that cannot be read.
pub fn read(path: &Path) -> Result<Schedule, Failure> {
    let input = |error: &dyn std::fmt::Display| {
        // The parser repeats the wrong line, however long it is.
        let text = error.to_string();
        let lines = text.lines().map(|line| line.chars().take(MOST_SHOWN));
        let lines: Vec<String> = lines.map(|line| line.collect()).collect();
        let text = lines.join("\n");
        Failure::Input(format!("cannot use {}: {text}", path.display()))
    };
    let schedule = Schedule::open(path).map_err(|error| input(&error))?;
    match schedule.faults.is_empty() {
        true => Err(input(&"it has no [[fault]]")),
        false => Ok(schedule),
    }
}
