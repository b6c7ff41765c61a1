//! `verbena report`: writes a report that overlays one or several runs, exports them as data, and
//! checks their figures against those expected of an adapter.

use std::path::{Path, PathBuf};

use crate::exit::Exit;
use crate::expect::{self, ExpectOptions};
use crate::failure::Failure;
use crate::number;
use crate::output::{data, harmless};
use crate::profiles::ProfileOptions;
use verbena_bench::published::of_ip;
pub use verbena_bench_mpi::report::{Computed, write};
use verbena_bench_mpi::report::{with_unique_labels, write_file};
use verbena_report::expectation::Checks;
use verbena_report::export::{self, Format as Export};
use verbena_report::file::replace;
use verbena_report::import::Hints;
use verbena_report::ip_table;
use verbena_report::run_directory::{Loaded, REPORT, load, runs_at};
use verbena_report::{Error, import};

/// Arguments of `verbena report`.
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

    /// Write a page, or the figures for other programs
    ///
    /// Data go to standard output unless --out names a file. csv and jsonl have all figures over
    /// all launches; markdown and openmetrics have the figures of the summary.
    #[arg(long, value_enum, default_value_t = Format::Html)]
    format: Format,

    #[command(flatten)]
    expect: ExpectOptions,

    #[command(flatten)]
    profiles: ProfileOptions,

    /// Write to this file, all of it or nothing
    ///
    /// [default: report.html in the first run; standard output for data]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// How runs are reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// A page for a browser.
    Html,
    /// Comma-separated values, a line a figure.
    Csv,
    /// A JSON object a line.
    Jsonl,
    /// Tables for a ticket or a pull request.
    Markdown,
    /// For node_exporter's textfile collector.
    Openmetrics,
}

impl Format {
    /// Returns the export format; `None` for the page.
    fn export(self) -> Option<Export> {
        match self {
            Format::Html => None,
            Format::Csv => Some(Export::Csv),
            Format::Jsonl => Some(Export::Jsonl),
            Format::Markdown => Some(Export::Markdown),
            Format::Openmetrics => Some(Export::OpenMetrics),
        }
    }
}

/// Facts that the output of other tools does not contain.
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

/// Writes the report or export.
///
/// # Errors
///
/// Fails if a run cannot be read, the expected figures cannot be found, or a file cannot be
/// written.
pub fn run(arguments: Arguments) -> Result<Exit, Failure> {
    let runs = arguments
        .runs
        .iter()
        .flat_map(|path| runs_at(path))
        .map(|path| read_foreign(&path, &arguments.foreign))
        .collect::<Result<Vec<_>, _>>()?;
    let runs = with_unique_labels(&runs);
    let expecting = arguments.expect.expecting(&arguments.profiles)?;
    let checks = expecting.as_ref().map(|one| one.check(&runs)).transpose()?;
    let shown = checks.as_deref().unwrap_or_default();
    match (arguments.format.export(), arguments.out) {
        (None, out) => {
            let out = out.unwrap_or_else(|| match arguments.runs[0].is_dir() {
                true => arguments.runs[0].join(REPORT),
                false => PathBuf::from(REPORT),
            });
            write_file(&out, &runs, &Computed::default())?;
            data!("{}\n", out.display());
            expect::print(shown);
        }
        (Some(format), None) => data!("{}", exported(format, &runs, shown)?),
        (Some(format), Some(out)) => {
            let text = exported(format, &runs, shown)?;
            replace(&out, &text).map_err(|error| Error::io(&out, error))?;
            data!("{}\n", out.display());
            expect::print(shown);
        }
    }
    Ok(checks.map_or(Exit::Success, |checks| expect::exit(&checks)))
}

/// Returns the data of an export; in Markdown, runs that measured IP have a table of it, too.
fn exported(format: Export, runs: &[Loaded], checks: &[Option<Checks>]) -> Result<String, Failure> {
    let text = export::text(format, runs, checks);
    Ok(match format {
        Export::Markdown => text + &ip_table::markdown(runs, &of_ip()?),
        _ => text,
    })
}

/// Reads a run directory, a results file, or another tool's output.
///
/// # Errors
///
/// Fails if the input cannot be read.
pub fn read(path: &Path) -> Result<Loaded, Failure> {
    read_foreign(path, &Foreign::default())
}

/// Reads the same, using the user's hints for another tool's output.
///
/// # Errors
///
/// Fails if the input cannot be read or a hint is invalid.
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
