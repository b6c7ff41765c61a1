//! `verbena-oracle`: runs random verbs programs on the library and on the reference.

use clap::Parser;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use verbena_oracle::coverage::Coverage;
use verbena_oracle::execute::hosts::Host;
use verbena_oracle::execute::runner::{self, Conditions, Verdict};
use verbena_oracle::generate::{self, Class, Random, Wishes};
use verbena_oracle::program::Program;
use verbena_oracle::shrink::shrink;

/// Run random verbs programs and compare their results with the contract
///
/// Uses the libibverbs that is loaded. The exit code is 1 on a difference.
#[derive(Parser, Debug)]
#[command(
    version,
    after_help = "Environment:\n  VERBENA_PATH  Path to peers (--path)\n\n\
                  Example:\n  verbena run -- verbena-oracle --seconds 60"
)]
struct Arguments {
    /// Search this many seconds for a difference
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    /// Seed the random numbers [default: a new seed each time]
    #[arg(long)]
    seed: Option<u64>,
    /// Print and run only the program of --seed
    #[arg(long)]
    one: bool,
    /// Use this path to peers of Verbena's adapter
    #[arg(long, value_parser = ["mapped", "cma", "ring"])]
    path: Option<String>,
    /// Distribute processes over this host, too; may be repeated
    ///
    /// A host is an interface, and the file of its network namespace. Processes of different hosts
    /// reach each other by packets.
    #[arg(long, value_name = "INTERFACE[@NAMESPACE]")]
    host: Vec<Host>,
    /// Use at most N processes per program
    #[arg(long, value_name = "N", default_value_t = 3)]
    processes: u16,
    /// Use at most N steps per program after connecting
    #[arg(long, value_name = "N", default_value_t = 40)]
    steps: u32,
    /// Give this percentage of the programs random fault rules
    #[arg(long, value_name = "PERCENT", default_value_t = 30,
          value_parser = clap::value_parser!(u32).range(..=100))]
    rules: u32,
    /// Use only these classes of calls, beside the basic ones
    #[arg(long, value_delimiter = ',', value_parser = Class::named)]
    only: Vec<Class>,
    /// Leave out these classes of calls
    #[arg(long, value_delimiter = ',', value_parser = Class::named)]
    without: Vec<Class>,
    /// Run the programs in these files instead
    #[arg(long, value_name = "FILE", num_args = 1..)]
    replay: Vec<PathBuf>,
    /// Run each file N times
    #[arg(long, value_name = "N", default_value_t = 1)]
    times: u32,
    /// Wait at most this many seconds for a call or an event
    #[arg(long, default_value_t = 4)]
    patience: u64,
    /// Shrink a failing program for at most this many seconds
    #[arg(long, default_value_t = 30)]
    shrink: u64,
    /// Continue after differences; write shrunk programs to this directory
    #[arg(long, value_name = "DIRECTORY")]
    collect: Option<PathBuf>,
    /// Create runtime directories here
    #[arg(long, default_value = "/dev/shm")]
    directory: PathBuf,
}

/// After this many programs everything must have occurred.
const ENOUGH_PROGRAMS: u64 = 1000;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match run(&arguments) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("verbena-oracle: {error}");
            ExitCode::from(2)
        }
    }
}

fn run(arguments: &Arguments) -> Result<bool, String> {
    if let Some(path) = &arguments.path {
        // SAFETY: there is one thread.
        unsafe { std::env::set_var("VERBENA_PATH", path) };
    }
    let mut search = Search {
        conditions: Conditions {
            patience: Duration::from_secs(arguments.patience),
            directory: arguments.directory.clone(),
            hosts: arguments.host.clone(),
        },
        coverage: Coverage::default(),
        arguments,
    };
    if !arguments.replay.is_empty() {
        return search.replay();
    }
    search.random()
}

struct Search<'a> {
    conditions: Conditions,
    coverage: Coverage,
    arguments: &'a Arguments,
}

impl Search<'_> {
    fn judge(&mut self, program: &Program) -> Result<Verdict, String> {
        let verdict = runner::run(program, &self.conditions, &mut self.coverage)
            .map_err(|error| error.to_string())?;
        self.coverage.programs += 1;
        self.coverage.steps += program.steps.len() as u64;
        self.coverage.unjudged += u64::from(verdict == Verdict::TooConcurrent);
        Ok(verdict)
    }

    fn replay(&mut self) -> Result<bool, String> {
        let mut good = true;
        for file in &self.arguments.replay {
            let name = file.display();
            let text = std::fs::read_to_string(file).map_err(|error| format!("{name}: {error}"))?;
            let program: Program = text.parse().map_err(|error| format!("{name}: {error}"))?;
            for _ in 0..self.arguments.times {
                let verdict = self.judge(&program)?;
                if verdict != Verdict::Agreed {
                    good = false;
                    println!("not ok {name}: {}", words(&program, &verdict));
                    break;
                }
            }
            if good {
                println!("ok {name}");
            }
        }
        Ok(good)
    }

    fn wishes(&self) -> Wishes {
        let arguments = self.arguments;
        let mut classes = if arguments.only.is_empty() {
            Class::ALL.to_vec()
        } else {
            arguments.only.clone()
        };
        classes.retain(|class| !arguments.without.contains(class));
        Wishes {
            processes: arguments.processes.max(1),
            classes,
            steps: arguments.steps.max(1),
            rules: arguments.rules,
            losses: arguments.host.is_empty(),
        }
    }

    fn random(&mut self) -> Result<bool, String> {
        let wishes = self.wishes();
        let clock = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let seed = self
            .arguments
            .seed
            .unwrap_or(clock.map_or(1, |now| now.as_nanos() as u64));
        println!("seed {seed}");
        let start = Instant::now();
        let end = start + Duration::from_secs(self.arguments.seconds);
        let mut seeds = Random::new(seed);
        let mut differences = 0;
        while Instant::now() < end {
            let this = if self.arguments.one {
                seed
            } else {
                seeds.number()
            };
            let program = generate::program(this, &wishes);
            if self.arguments.one {
                println!("{program}");
            }
            let verdict = self.judge(&program)?;
            if let Verdict::Differs { .. } = verdict {
                differences += 1;
                self.report(&program, &verdict, differences)?;
                if self.arguments.collect.is_none() {
                    break;
                }
            }
            if self.arguments.one {
                break;
            }
        }
        let seconds = start.elapsed().as_secs_f64();
        let rate = self.coverage.programs as f64 / seconds;
        print!("{}", self.coverage);
        let whole = self.arguments.only.is_empty() && self.arguments.without.is_empty();
        let long = self.coverage.programs >= ENOUGH_PROGRAMS;
        let missing = self.coverage.missing();
        if whole && !missing.is_empty() {
            println!("never reached: {}", missing.join(", "));
        }
        println!("{seconds:.1} s, {rate:.0} programs/s, {differences} differences");
        Ok(differences == 0 && !(whole && long && !missing.is_empty()))
    }

    /// Prints a difference and the smallest program that shows it.
    fn report(&mut self, program: &Program, verdict: &Verdict, number: u32) -> Result<(), String> {
        println!("difference: {}", words(program, verdict));
        let end = Instant::now() + Duration::from_secs(self.arguments.shrink);
        let conditions = Conditions {
            patience: self.conditions.patience.min(Duration::from_millis(1500)),
            ..self.conditions.clone()
        };
        let mut coverage = Coverage::default();
        let mut last = verdict.clone();
        let kind = kind_of(verdict);
        let small = shrink(program, end, |smaller| {
            // A race gets a few tries.
            (0..3).any(|_| match runner::run(smaller, &conditions, &mut coverage) {
                Ok(found @ Verdict::Differs { .. }) if kind_of(&found) == kind => {
                    last = found;
                    true
                }
                _ => false,
            })
        });
        let mut small = small;
        small.comment = format!("{}\n{}", words(&small, &last), program.comment);
        println!("{small}");
        if let Some(directory) = &self.arguments.collect {
            std::fs::create_dir_all(directory).map_err(|error| error.to_string())?;
            let file = directory.join(format!("{number:03}.txt"));
            std::fs::write(file, small.to_string()).map_err(|error| error.to_string())?;
        }
        Ok(())
    }
}

/// Returns the kind of a difference, which a smaller program must preserve. Identifiers and numbers
/// may change, statuses may not.
fn kind_of(verdict: &Verdict) -> Option<String> {
    let Verdict::Differs { words, .. } = verdict else {
        return None;
    };
    if let Some((_, after)) = words.split_once("` returned ") {
        return Some(
            after
                .split_once(';')
                .map_or(after, |(code, _)| code)
                .to_owned(),
        );
    }
    for kind in ["memory", "hangs"] {
        if words.contains(kind) {
            return Some(kind.to_owned());
        }
    }
    let first = words.split("due").next().unwrap_or_default();
    let statuses = match first.split_once("status ") {
        Some((_, after)) => after.split(' ').next().unwrap_or_default().to_owned(),
        None => String::new(),
    };
    let sides = [
        "Send",
        "Receive",
        "saw",
        "the event",
        "signal",
        "no completion",
    ];
    let side: Vec<&str> = sides
        .into_iter()
        .filter(|side| first.contains(side))
        .collect();
    Some(format!("{side:?} {statuses}"))
}

fn words(program: &Program, verdict: &Verdict) -> String {
    match verdict {
        Verdict::Agreed => "agreed".to_owned(),
        Verdict::TooConcurrent => "too concurrent to be judged".to_owned(),
        Verdict::Differs { step, words } => match program.steps.get(*step) {
            Some(at) => format!(
                "step {}: {}{words}",
                step + 1,
                at.to_string().replace('\n', "; ")
            ),
            None => format!("at the end: {words}"),
        },
    }
}
