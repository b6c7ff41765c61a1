//! `verbena reproduce connectx_multicore --live`: perftest, unmodified, and MPI benchmarks as both
//! adapters of the paper.

use crate::emulation_options::{Emulating, table};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::interrupt;
use crate::output::out;
use crate::profiles::ProfileOptions;
use rustix::process::{Pid, Signal, kill_process};
use std::collections::BTreeSet;
use std::env;
use std::fs::{self, File};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};
use verbena_bench::interrupt::Helper;
use verbena_bench::progress_line::Bar;
use verbena_bench::temporary::Directory;
use verbena_bench_mpi::library as mpi_library;
use verbena_emulation::lateness::Lateness;
use verbena_measure::processors;
use verbena_model::profile::Library;
use verbena_report::import::{self, Hints};
use verbena_report::run_directory;
use verbena_reproduce::claims::{Claim, Setup};
use verbena_reproduce::live::{Emulated, Figures, Plan, Quantity};
use verbena_reproduce::suite;
use verbena_run::environment::Environment;
use verbena_run::libraries::Libraries;

/// Longest time of a measurement, beyond its planned time.
const LONGEST: Duration = Duration::from_secs(30);

/// Longest time until all servers listen.
const LISTENING: Duration = Duration::from_secs(20);

/// Interval at which processes and ports are looked at.
const LOOK: Duration = Duration::from_millis(20);

/// Longest time of a measurement by MPI, and of its end after SIGTERM.
const LONGEST_BY_MPI: Duration = Duration::from_secs(60);
const GRACE: Duration = Duration::from_secs(15);

/// Tries of a measurement. On a busy machine a port is taken meanwhile, or the programs need too
/// long: each further try of perftest has a thirtieth of the messages of the one before.
const TRIES: u32 = 3;

/// Least number of messages of a measurement.
const LEAST: u64 = 100;

/// Planned seconds of a measurement by one pair, and by several, which do not begin together.
const SECONDS: [f64; 2] = [0.3, 3.0];

/// Messages in flight, as on the model.
const WINDOW: u64 = 64;

/// Measures the figures and prints them beside the published and the modelled ones.
///
/// # Errors
/// Fails if perftest is missing or a system cannot be emulated.
pub fn run(
    profiles: &ProfileOptions,
    library: &Arc<Library>,
    claims: &[Claim],
) -> Result<Exit, Failure> {
    let no_mpi = mpi_library::Library::find(None).err();
    let no_mpi = no_mpi.map(|error| error.to_string());
    let plan = Plan::of(claims, processors::count(), no_mpi.as_deref());
    let setups = plan.setups.iter();
    let programs: BTreeSet<&str> = setups.filter_map(|one| program(one.quantity)).collect();
    for program in programs {
        if !is_installed(program) {
            return Err(Failure::Suite(format!(
                "--live runs perftest, and PATH has no {program}; install the package perftest"
            )));
        }
    }
    let (models, planned) = (Arc::clone(library), plan.clone());
    let note = Bar::of_unknown_length("figures of the models");
    let compute = move || Figures::modelled(&models, &planned);
    let Some(mut figures) = interrupt::unless_interrupted(compute) else {
        interrupt::tell("nothing was measured");
        return Ok(interrupt::exit());
    };
    drop(note);
    let bar = Bar::new(plan.setups.len(), "measurements");
    for setup in &plan.setups {
        let modelled = figures.as_run.get(setup).copied().unwrap_or(1.0);
        let mut tries = 0;
        let emulated = loop {
            tries += 1;
            let share = 30f64.powi(1 - tries as i32);
            let measurement = Measurement::begin(*setup, profiles)?;
            let emulated = measurement.measure(modelled, share);
            match emulated {
                Err(_) if tries < TRIES && !interrupt::is_wanted() => {}
                Err(reason) => break Err(format!("{reason} (tries: {tries})")),
                measured => break measured,
            }
        };
        if interrupt::is_wanted() {
            break;
        }
        figures.emulated.insert(*setup, emulated);
        bar.step();
    }
    drop(bar);
    out!("{}", figures.text(&plan));
    if interrupt::is_wanted() {
        let (some, all) = (figures.emulated.len(), plan.setups.len());
        interrupt::tell(&format!(
            "{some} of {all} measurements were made before that"
        ));
        return Ok(interrupt::exit());
    }
    let all_there = figures.emulated.values().all(Result::is_ok);
    Ok(match all_there {
        true => Exit::Success,
        false => Exit::NegativeResult,
    })
}

/// Returns the program of perftest that measures a quantity; none for one of MPI.
fn program(quantity: Quantity) -> Option<&'static str> {
    Some(match quantity {
        Quantity::WriteLatency => "ib_write_lat",
        Quantity::ReadLatency => "ib_read_lat",
        Quantity::SendLatency => "ib_send_lat",
        Quantity::WriteBandwidth => "ib_write_bw",
        Quantity::MpiLatency | Quantity::MpiBandwidth | Quantity::MpiHalo => return None,
    })
}

fn is_installed(program: &str) -> bool {
    let directories = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&directories).any(|directory| directory.join(program).is_file())
}

/// A measurement that is under way.
struct Measurement {
    setup: Setup,
    directory: Directory,
    emulating: Emulating,
    environment: Environment,
}

impl Measurement {
    fn begin(setup: Setup, profiles: &ProfileOptions) -> Result<Measurement, Failure> {
        let directory = Directory::create()?;
        let emulating = Emulating::of(&table(setup.system, profiles)?, directory.path())?;
        let libraries = Libraries::beside_this_executable()?;
        let environment = emulating.environment(Environment::new(&libraries));
        Ok(Measurement {
            setup,
            directory,
            emulating,
            environment,
        })
    }

    /// Measures with a share of the usual number of messages; `modelled` is the model's figure.
    fn measure(&self, modelled: f64, share: f64) -> Result<Emulated, String> {
        let figure = match (self.setup.quantity.mpi(), program(self.setup.quantity)) {
            (Some(benchmark), _) => self.by_mpi(benchmark)?,
            (None, Some(program)) => {
                self.by_perftest(program, count(self.setup, modelled, share))?
            }
            (None, None) => return Err("no program measures it".to_owned()),
        };
        let lateness = self.emulating.lateness();
        let lateness = lateness.map_err(|error| format!("no timing report: {error}"))?;
        Ok(Emulated {
            figure,
            verdict: verdict(&lateness),
        })
    }

    /// Runs a benchmark of MPI, and returns its figure.
    fn by_mpi(&self, benchmark: &str) -> Result<f64, String> {
        let Setup { bytes, pairs, .. } = self.setup;
        let results = self.directory.path().join("run");
        let this = env::current_exe().map_err(|error| format!("this program: {error}"))?;
        let mut command = Command::new(this);
        command
            .args(["bench", benchmark, "--quick", "--launches", "1"])
            .args(["--on", "software", "--sizes", &bytes.to_string()])
            .args(["--processes", &(2 * pairs).to_string()])
            .arg("--out")
            .arg(&results)
            .envs(self.environment.variables())
            .env_remove("VERBENA_NODE")
            .env("VERBENA_NODE_BY", "ranks:1");
        let mut running = self.spawn(command, benchmark, "mpi".to_owned())?;
        running.is_launcher = true;
        let deadline = Instant::now() + LONGEST_BY_MPI;
        while !running.check()? {
            wait(deadline, &format!("{benchmark} does not end"))?;
        }
        let run = run_directory::load(&results).map_err(|error| error.to_string())?;
        if let Some(failure) = run.failures.first() {
            return Err(failure.reason.clone());
        }
        let point = run.points.first();
        let point = point.ok_or_else(|| format!("{benchmark} has no figure"))?;
        Ok(suite::median(point))
    }

    /// Runs perftest with so many messages of each pair, and returns its figure.
    fn by_perftest(&self, program: &'static str, count: u64) -> Result<f64, String> {
        let mut servers = Vec::new();
        for pair in 0..self.setup.pairs {
            let port = free_port().map_err(|error| format!("no free TCP port: {error}"))?;
            let server = self.start(program, pair, port, count, "server")?;
            servers.push((port, server));
        }
        let deadline = Instant::now() + LISTENING;
        for (port, server) in &mut servers {
            while !is_listening(*port) {
                server.check()?;
                wait(deadline, "its server does not listen")?;
            }
        }
        let mut clients = Vec::new();
        for (pair, (port, _)) in servers.iter().enumerate() {
            clients.push(self.start(program, pair, *port, count, "client")?);
        }
        let seconds = Duration::from_secs_f64(SECONDS[1]);
        let deadline = Instant::now() + LONGEST + seconds;
        let all = clients
            .iter_mut()
            .chain(servers.iter_mut().map(|(_, one)| one));
        for one in all {
            while !one.check()? {
                wait(deadline, &format!("{program} does not end"))?;
            }
        }
        let figures: Result<Vec<f64>, String> = clients.iter().map(Running::figure).collect();
        let sum: f64 = figures?.iter().sum();
        Ok(match self.setup.quantity {
            Quantity::WriteBandwidth => sum,
            _ => sum / self.setup.pairs as f64,
        })
    }

    fn start(
        &self,
        program: &'static str,
        pair: usize,
        port: u16,
        count: u64,
        side: &str,
    ) -> Result<Running, String> {
        let Setup {
            quantity, bytes, ..
        } = self.setup;
        let (bytes, number) = (bytes.to_string(), port.to_string());
        let mut command = Command::new(program);
        command
            .args(["-F", "-s", &bytes, "-n", &count.to_string(), "-p", &number])
            .args(match quantity {
                Quantity::WriteBandwidth => vec!["-t".to_owned(), WINDOW.to_string()],
                _ => Vec::new(),
            })
            .args((side == "client").then_some("localhost"))
            .envs(self.environment.variables())
            // Pairs are between two nodes.
            .env_remove("VERBENA_NODE_BY")
            .env("VERBENA_NODE", format!("reproduce-{side}"));
        self.spawn(command, program, format!("{side}{pair}"))
    }

    /// Starts a program; its output goes to a file with the name `name`.
    fn spawn(&self, mut command: Command, program: &str, name: String) -> Result<Running, String> {
        let output = self.directory.path().join(name).with_extension("txt");
        let describe = |error| format!("{}: {error}", output.display());
        let file = File::create(&output).map_err(describe)?;
        let errors = file.try_clone().map_err(describe)?;
        let child = command
            .stdin(Stdio::null())
            .stdout(file)
            .stderr(errors)
            .spawn()
            .map_err(|error| format!("cannot execute {program}: {error}"))?;
        Ok(Running {
            _helper: Helper::new(child.id()),
            child,
            program: program.to_owned(),
            output,
            is_launcher: false,
        })
    }
}

/// Returns the number of messages of each pair: a share of those that take the planned time.
fn count(setup: Setup, modelled: f64, share: f64) -> u64 {
    let seconds = SECONDS[usize::from(setup.pairs > 1)];
    let (bytes, pairs) = (setup.bytes as f64, setup.pairs as f64);
    let each = match setup.quantity {
        Quantity::WriteBandwidth => bytes * pairs / modelled,
        Quantity::ReadLatency => modelled,
        _ => 2.0 * modelled,
    };
    // A program keeps the time of each message.
    ((share * 1e6 * seconds / each) as u64).clamp(LEAST, 2_000_000)
}

/// A program, killed when dropped.
struct Running {
    _helper: Helper,
    child: Child,
    program: String,
    output: PathBuf,
    /// Whether it starts others, which it ends if it is asked to end.
    is_launcher: bool,
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.is_launcher && matches!(self.child.try_wait(), Ok(None)) {
            let _ = kill_process(Pid::from_child(&self.child), Signal::TERM);
            let end = Instant::now() + GRACE;
            while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < end {
                std::thread::sleep(LOOK);
            }
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Running {
    /// Returns whether it has ended.
    ///
    /// # Errors
    /// It has failed.
    fn check(&mut self) -> Result<bool, String> {
        let program = &self.program;
        match self.child.try_wait() {
            Ok(None) => Ok(false),
            Ok(Some(status)) if status.success() => Ok(true),
            Ok(Some(status)) => Err(format!("{program}: {status}: {}", last_line(&self.output))),
            Err(error) => Err(format!("{program}: {error}")),
        }
    }

    /// Returns the figure that it has printed.
    fn figure(&self) -> Result<f64, String> {
        let imported = import::import(&self.output, &Hints::default());
        let imported = imported.map_err(|error| error.to_string())?;
        let point = imported.run.points.first();
        let point = point.ok_or_else(|| format!("{} printed no figure", self.program))?;
        Ok(suite::median(point))
    }
}

/// Waits a little.
///
/// # Errors
/// The deadline is over, or the user has interrupted the command.
fn wait(deadline: Instant, what: &str) -> Result<(), String> {
    if Instant::now() > deadline {
        return Err(format!("{what} in time"));
    }
    if interrupt::is_wanted() {
        return Err("interrupted".to_owned());
    }
    std::thread::sleep(LOOK);
    Ok(())
}

fn free_port() -> std::io::Result<u16> {
    Ok(TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port())
}

/// Returns whether a process of this host listens on a TCP port. A connection would be the server's
/// client.
fn is_listening(port: u16) -> bool {
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"];
    let mut tables = tables
        .iter()
        .filter_map(|path| fs::read_to_string(path).ok());
    let local = format!(":{port:04X}");
    let is_ours = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        matches!(fields[..], [_, address, _, "0A", ..] if address.ends_with(&local))
    };
    tables.any(|table| table.lines().any(is_ours))
}

/// Returns the line of a program's output that says why it failed: the adapter's, or else the last
/// with words.
fn last_line(path: &Path) -> String {
    let text = fs::read_to_string(path).unwrap_or_default();
    let mut lines = text.lines().rev();
    let of_adapter = lines.clone().find(|line| line.starts_with("verbena: "));
    let has_words = |line: &&str| line.chars().any(char::is_alphabetic);
    let line = of_adapter.or_else(|| lines.find(has_words));
    line.unwrap_or("it printed nothing").trim().to_owned()
}

/// Returns the verdict of the timing reports, with the share of operations that were off.
fn verdict(lateness: &Lateness) -> String {
    let share = 100.0 * lateness.share_late();
    let rates = match lateness.posts_are_slow() {
        true => "; posting took longer here: rates are too low",
        false => "",
    };
    format!("{} ({share:.1} % off){rates}", lateness.verdict())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn further_tries_have_fewer_messages() {
        let setup = Setup {
            system: "connectx-ddr",
            quantity: Quantity::WriteLatency,
            bytes: 1,
            pairs: 1,
        };
        let counts = [0, -1, -2, -3].map(|power| count(setup, 1.5, 30f64.powi(power)));
        assert_eq!(counts, [100_000, 3333, 111, LEAST]);
    }

    #[test]
    fn a_listening_port_is_found_and_a_closed_one_is_not() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        assert!(is_listening(port));
        drop(listener);
        assert!(!is_listening(port));
    }
}
