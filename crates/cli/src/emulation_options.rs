//! The options that give a command the times of another adapter, and the report of how well the run
//! kept to them.

use std::env;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Read as _;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use verbena_bench::temporary::Directory;
use verbena_calibrate::emulation;
use verbena_emulation::lateness::{LENGTH, Lateness, Side, Verdict, Word};
use verbena_emulation::node::NodeRule;
use verbena_emulation::table::Table;
use verbena_emulation::{TABLE, VARIABLE};
use verbena_fabric::model::Machine;
use verbena_faults::rule::Rule;
use verbena_report::file::replace;
use verbena_run::environment::Environment;

use crate::failure::Failure;
use crate::knob_options::KnobOptions;
use crate::profiles::ProfileOptions;

/// Largest table that is read, in bytes.
const LARGEST_TABLE: u64 = 1 << 20;

/// Largest share of requests to other hosts that may be behind the adapter's times.
const ON_TIME: f64 = 0.05;

/// Heading of these options in the help.
const HEADING: &str = "Emulation";

#[derive(Debug, clap::Args)]
pub struct EmulationOptions {
    /// Give operations the times of this modelled system
    ///
    /// A name that `verbena list` prints, such as connectx5-edr. Both processes need it. At the
    /// end, `verbena run` prints the timing error on standard error.
    #[arg(long = "as", value_name = "SYSTEM", help_heading = HEADING)]
    system: Option<String>,

    /// Put the command's processes on this emulated node
    ///
    /// With `--as`. Processes of a node share its port and its memory; without it each process is a
    /// node. Environment variable: VERBENA_NODE.
    #[arg(long, value_name = "NAME", requires = "system", help_heading = HEADING)]
    node: Option<String>,

    /// Put processes on emulated nodes by a rule
    ///
    /// With `--as`. `ranks:N` puts N consecutive MPI ranks on each node, `nodes:N` all ranks on N
    /// nodes in blocks, `env:NAME` processes with the same value of a variable, `net` and `uts`
    /// those of a network or UTS namespace. Environment variable: VERBENA_NODE_BY.
    #[arg(long, value_name = "RULE", requires = "system", conflicts_with = "node",
        help_heading = HEADING)]
    node_by: Option<NodeRule>,

    /// Set a value in a profile of the system; may be repeated
    ///
    /// With `--as`, for example `--set connectx.send.blueflame=1`.
    #[arg(long = "set", value_name = "PATH=VALUE", requires = "system", help_heading = HEADING)]
    set: Vec<String>,

    /// Read more profiles from this directory; may be repeated
    ///
    /// With `--as`. They replace shipped profiles of the same name, or are added to them.
    #[arg(long, value_name = "DIR", requires = "system", help_heading = HEADING)]
    profiles: Vec<PathBuf>,

    #[command(flatten)]
    knobs: KnobOptions,
}

/// An emulation that is under way.
pub struct Emulating {
    system: String,
    node: Option<String>,
    node_by: Option<NodeRule>,
    directory: PathBuf,
}

impl EmulationOptions {
    /// Returns whether options for an emulation are given.
    pub fn are_given(&self) -> bool {
        self.system.is_some()
    }

    /// Returns whether options take effect as rules about links ([`EmulationOptions::rules`]).
    pub fn have_rules(&self) -> bool {
        self.knobs.are_rules(self.system.is_some())
    }

    /// Returns the rules about links by which options take effect, with their names.
    ///
    /// # Errors
    /// Names an option that needs `--as`.
    pub fn rules(&self) -> Result<Vec<(String, Rule)>, Failure> {
        self.knobs.rules(self.system.is_some())
    }

    /// Computes the times, in `directory`; none without `--as`.
    ///
    /// # Errors
    /// Fails if there is no such system, it cannot be emulated, or the table cannot be written.
    pub fn begin(&self, directory: &Directory) -> Result<Option<Emulating>, Failure> {
        let Some(system) = &self.system else {
            return Ok(None);
        };
        let profiles = ProfileOptions {
            set: self.set.clone(),
            profiles: self.profiles.clone(),
        };
        let mut table = table(system, &profiles)?;
        self.knobs.apply(&mut table);
        let emulating = Emulating::of(&table, directory.path())?;
        Ok(Some(Emulating {
            node: self.node.clone(),
            node_by: self.node_by.clone(),
            ..emulating
        }))
    }
}

/// Returns the times of a system.
///
/// # Errors
/// Fails if there is no such system, or it cannot be emulated.
pub fn table(system: &str, profiles: &ProfileOptions) -> Result<Table, Failure> {
    let library = profiles.profiles().library()?;
    let input = |error: &dyn std::fmt::Display| Failure::Input(format!("--as: {error}"));
    let machine = Machine::of(&library, system).map_err(|error| input(&error))?;
    let kept = kept_table(&machine);
    if let Some(table) = kept.as_deref().and_then(read_table) {
        return Ok(table);
    }
    let table = emulation::of(&machine).map_err(|error| input(&error))?;
    if let Some(path) = &kept {
        // Without it, the next run computes the table again.
        let _ = path.parent().map(fs::create_dir_all);
        let _ = replace(path, &table.text());
    }
    Ok(table)
}

impl Emulating {
    /// Returns an emulation with these times, whose files are in `directory`.
    ///
    /// # Errors
    /// Fails if the table cannot be written.
    pub fn of(table: &Table, directory: &Path) -> Result<Emulating, Failure> {
        let directory = directory.join("emulation");
        let write = || {
            fs::create_dir(&directory)?;
            fs::write(directory.join(TABLE), table.text())
        };
        write().map_err(Failure::system("write the table of times"))?;
        Ok(Emulating {
            system: table.system().to_owned(),
            node: None,
            node_by: None,
            directory,
        })
    }

    /// Adds the emulation to a command's environment.
    pub fn environment(&self, environment: Environment) -> Environment {
        let environment = environment.with(VARIABLE, &self.directory);
        let environment = match &self.node {
            Some(node) => environment.with("VERBENA_NODE", node),
            None => environment,
        };
        match &self.node_by {
            Some(rule) => environment.with("VERBENA_NODE_BY", rule.to_string()),
            None => environment,
        }
    }

    /// Returns by how much its programs missed the times.
    ///
    /// # Errors
    /// Fails if the reports cannot be read.
    pub fn lateness(&self) -> Result<Lateness, Failure> {
        read(&self.directory).map_err(Failure::system("read the timing reports"))
    }

    /// Prints how far the run was behind the times, on standard error.
    ///
    /// # Errors
    /// Fails if the reports cannot be read.
    pub fn end(&self) -> Result<(), Failure> {
        let lateness = self.lateness()?;
        let system = &self.system;
        let packets = lateness.count(Word::Packets);
        if packets == 0 || lateness.verdict() != Verdict::Nothing {
            eprintln!("verbena: as {system}: {}", words(&lateness));
        }
        if packets > 0 {
            let share = lateness.share_behind();
            let verdict = match share <= ON_TIME {
                true => "the network keeps up with the adapter",
                false => {
                    "the network is slower than the adapter, and latencies are those of the network"
                }
            };
            eprintln!(
                "verbena: as {system}: {packets} requests to other hosts; {} took longer than on \
                 the adapter: {verdict}",
                percent(share)
            );
        }
        let (slow, requests) = (
            lateness.count(Word::SlowPosts),
            lateness.count(Word::Requests),
        );
        if lateness.posts_are_slow() {
            let share = percent(slow as f64 / requests as f64);
            eprintln!(
                "verbena: as {system}: {share} of posts took longer here than on the adapter; \
                 message rates are too low"
            );
        }
        if lateness.broken > 0 {
            eprintln!(
                "verbena: the timing reports of {} processes are unreadable, and not counted",
                lateness.broken
            );
        }
        Ok(())
    }
}

/// Returns the file that keeps a system's table in the user's cache: another one for each state of
/// the profile and of this program. None without a home directory.
fn kept_table(machine: &Machine) -> Option<PathBuf> {
    let directory = |name| env::var_os(name).filter(|one| Path::new(one).is_absolute());
    let cache = match directory("XDG_CACHE_HOME") {
        Some(cache) => PathBuf::from(cache),
        None => Path::new(&directory("HOME")?).join(".cache"),
    };
    let program = fs::metadata(env::current_exe().ok()?).ok()?;
    let mut hasher = DefaultHasher::new();
    format!("{machine:?}").hash(&mut hasher);
    (program.len(), program.mtime(), program.mtime_nsec()).hash(&mut hasher);
    let name = format!("{}-{:016x}", machine.name(), hasher.finish());
    Some(cache.join("verbena/emulation").join(name))
}

/// Returns a table that can be read; none otherwise.
fn read_table(path: &Path) -> Option<Table> {
    let mut text = String::new();
    let file = fs::File::open(path).ok()?;
    file.take(LARGEST_TABLE).read_to_string(&mut text).ok()?;
    Table::read(&text).ok()
}

/// Reads the reports in a directory.
fn read(directory: &Path) -> std::io::Result<Lateness> {
    let mut lateness = Lateness::default();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.extension().is_some_and(|one| one == "lateness") {
            let mut file = Vec::new();
            fs::File::open(path)?
                .take(LENGTH as u64)
                .read_to_end(&mut file)?;
            lateness.add(&file);
        }
    }
    Ok(lateness)
}

/// Returns the report in a line.
fn words(lateness: &Lateness) -> String {
    let verdict = lateness.verdict();
    if verdict == Verdict::Nothing {
        return verdict.to_string();
    }
    let quantile = |side, share| {
        let time = lateness.quantile(side, share).unwrap_or_default();
        match time.as_nanos() {
            0..10_000 => format!("{} ns", time.as_nanos()),
            10_000..10_000_000 => format!("{} us", time.as_micros()),
            _ => format!("{} ms", time.as_millis()),
        }
    };
    format!(
        "{} operations; timing error of data {} (median), {} (99th percentile), of completions \
         {}, {}; {} of operations off by more than 50 ns and 5 %: {verdict}",
        lateness.count(Word::Requests),
        quantile(Side::Arrival, 0.5),
        quantile(Side::Arrival, 0.99),
        quantile(Side::Completion, 0.5),
        quantile(Side::Completion, 0.99),
        percent(lateness.share_late()),
    )
}

fn percent(share: f64) -> String {
    format!("{:.1} %", 100.0 * share)
}
