//! `verbena report`: the report of one or several runs, laid over each other.

use std::path::{Path, PathBuf};

use crate::exit::Exit;
use crate::failure::Failure;
use crate::number;
use crate::output::{data, harmless};
use crate::published::published;
use verbena_report::file::replace;
use verbena_report::html::{Beside, ClosedLoop, Described, Reproduction, page};
use verbena_report::import::Hints;
use verbena_report::run_directory::{Loaded, REPORT, load, runs_at};
use verbena_report::{Error, import};

/// Which runs.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Runs: directories, results files, or output of other tools
    ///
    /// A directory of several runs counts as all of them. The other tools are perftest, OSU's
    /// benchmarks, IMB, nccl-tests, ucx_perftest, qperf, NetPIPE, fabtests and iperf3.
    #[arg(required = true, value_name = "RUN")]
    runs: Vec<PathBuf>,

    #[command(flatten)]
    foreign: Foreign,

    /// Write to this file [default: report.html in the first run]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// What other tools' output does not say.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct Foreign {
    /// Name the test of a pasted table, e.g. perftest:write-bw
    ///
    /// For output of other tools whose title is missing. Also osu:allreduce, nccl:all_reduce,
    /// ucx:tag_lat:8, netpipe:ping-pong, fabtests:rdm_tagged_bw.
    #[arg(long = "as", value_name = "TOOL:TEST")]
    test: Option<String>,

    /// Processes of OSU's collective benchmarks
    #[arg(long, value_name = "N", value_parser = number::between::<u32>(1..=1_000_000))]
    processes: Option<u32>,
}

/// Draws it.
pub fn run(arguments: Arguments) -> Result<Exit, Failure> {
    let runs = arguments
        .runs
        .iter()
        .flat_map(|path| runs_at(path))
        .map(|path| read_foreign(&path, &arguments.foreign))
        .collect::<Result<Vec<_>, _>>()?;
    let out = match arguments.out {
        Some(out) => out,
        None if arguments.runs[0].is_dir() => arguments.runs[0].join(REPORT),
        None => PathBuf::from(REPORT),
    };
    write_file(&out, &runs, &Computed::default())?;
    data!("{}\n", out.display());
    Ok(Exit::Success)
}

/// A run directory, a results file, or what another tool wrote.
pub fn read(path: &Path) -> Result<Loaded, Failure> {
    read_foreign(path, &Foreign::default())
}

/// The same, of another tool's output with what the user says of it.
pub fn read_foreign(path: &Path, foreign: &Foreign) -> Result<Loaded, Failure> {
    let mut loaded = match path.is_dir() || path.extension().is_some_and(|end| end == "jsonl") {
        true => load(path)?,
        false => {
            let hints = Hints::of(foreign.test.as_deref(), foreign.processes);
            let imported = import::import(path, &hints.map_err(Failure::Input)?)?;
            for warning in &imported.warnings {
                eprintln!(
                    "verbena: warning: {}: {}",
                    path.display(),
                    harmless(warning)
                );
            }
            imported.run
        }
    };
    if loaded.run.label.is_empty() {
        loaded.run.label = path.display().to_string();
    }
    Ok(loaded)
}

/// What was computed beside the runs, and goes into their report.
#[derive(Debug, Clone, Copy, Default)]
pub struct Computed<'a> {
    /// What is known of real adapters.
    pub reproduction: Option<&'a Reproduction>,
    /// What a profile that was fitted to the first run says of the rest of it.
    pub closed_loop: Option<&'a ClosedLoop>,
}

/// Writes the report into a directory and gives its path.
pub fn write(directory: &Path, runs: &[Loaded], beside: &Computed<'_>) -> Result<PathBuf, Failure> {
    let path = directory.join(REPORT);
    write_file(&path, runs, beside)?;
    Ok(path)
}

fn write_file(path: &Path, runs: &[Loaded], computed: &Computed<'_>) -> Result<(), Failure> {
    let mut runs = runs.to_vec();
    // Equal labels could not be told apart in a legend.
    for i in 1..runs.len() {
        if runs[..i]
            .iter()
            .any(|earlier| earlier.run.label == runs[i].run.label)
        {
            runs[i].run.label = format!("{} ({})", runs[i].run.label, i + 1);
        }
    }
    let beside = Beside {
        published: &published()?,
        reproduction: computed.reproduction,
        closed_loop: computed.closed_loop,
    };
    let text = page(&runs, &described(&runs), &beside);
    replace(path, &text).map_err(|source| Error::Io {
        path: path.to_owned(),
        source,
    })?;
    Ok(())
}

/// Our benchmarks, and those that only an import knows.
fn described(runs: &[Loaded]) -> Vec<Described> {
    let mut all: Vec<Described> = super::list::benchmarks()
        .map(|benchmark| Described {
            name: benchmark.name.to_owned(),
            group: benchmark.group.title().to_owned(),
            answers: benchmark.answers.to_owned(),
            source: benchmark.source.to_owned(),
            axis: benchmark.axis.to_owned(),
        })
        .collect();
    for point in runs.iter().flat_map(|run| &run.points) {
        if !all.iter().any(|known| known.name == point.benchmark) {
            all.push(Described {
                name: point.benchmark.clone(),
                group: "Imported".to_owned(),
                answers: "As the other tool measured it.".to_owned(),
                source: "import".to_owned(),
                axis: "size".to_owned(),
            });
        }
    }
    all
}
