//! `verbena import ARCHIVE --out TRACE`: converts another tracer's trace for `verbena replay`.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{out, outln};
use verbena_bench_mpi::import::{self, Imported};
use verbena_bench_mpi::recorder::{Table, new_directory, write};
use verbena_mpi_trace::Trace;
use verbena_replay::goal::Converted;

/// The arguments of `verbena import`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Trace of Score-P (OTF2), PyTorch (Chakra), SimGrid or DUMPI
    ///
    /// Score-P and others that write OTF2: traces.otf2 or its directory. Chakra and DUMPI: the
    /// directory with a file for each rank (NAME.0.et, dumpi-DATE-0000.bin), or one of these files.
    /// SimGrid: the file that `smpirun -trace-ti` wrote.
    #[arg(value_name = "ARCHIVE")]
    archive: PathBuf,

    /// Write a file for each rank to this new directory, or a schedule
    ///
    /// The directory may exist if it is empty. Of Chakra's traces a schedule in GOAL's format is
    /// written, to this new file.
    #[arg(long, value_name = "TRACE")]
    out: PathBuf,

    /// Rate of computing, for traces that count operations
    ///
    /// SimGrid: as given to smpirun (smpi/host-speed). Chakra: of the nodes that have a number of
    /// operations and no duration.
    #[arg(long, value_name = "RATE", value_parser = rate)]
    flops_per_second: Option<f64>,

    /// Chakra: process groups in JSON, such as {"1": [0, 1]}
    #[arg(long, value_name = "FILE")]
    groups: Option<PathBuf>,
}

/// Parses a rate above zero.
fn rate(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(rate) if rate.is_finite() && rate > 0.0 => Ok(rate),
        _ => Err("not a number of flops per second above zero".to_owned()),
    }
}

/// Converts the archive and reports the content of the trace and the parts left out.
///
/// # Errors
///
/// Fails if the output directory cannot be used, or the archive cannot be read.
pub fn run(arguments: Arguments) -> Result<Exit, Failure> {
    if import::is_chakra(&arguments.archive) {
        return chakra(&arguments);
    }
    if arguments.groups.is_some() {
        let reason = "--groups is for Chakra's traces, files such as NAME.0.et";
        return Err(Failure::Input(reason.to_owned()));
    }
    // Checked first, because reading an archive may take long.
    let directory = new_directory(&arguments.out)?;
    let imported = import::import(&arguments.archive, arguments.flops_per_second)?;
    let ranks = match &imported {
        Imported::Otf2(imported) => &imported.ranks,
        Imported::SimGrid(imported) => &imported.ranks,
        Imported::Dumpi(imported) => &imported.ranks,
    };
    write(&directory, ranks)?;
    out!("{}", Table(&Trace::open(&directory)?));
    match imported {
        Imported::Otf2(imported) => {
            report_left_out(&imported.left_out);
            report_otf2(&imported);
        }
        Imported::SimGrid(imported) => {
            report_left_out(&imported.left_out);
            report_simgrid(&imported);
        }
        Imported::Dumpi(imported) => report_left_out(&imported.left_out),
    }
    Ok(Exit::Success)
}

/// Converts a trace of Chakra and reports its content.
fn chakra(arguments: &Arguments) -> Result<Exit, Failure> {
    let Arguments {
        archive,
        out,
        flops_per_second,
        groups,
    } = arguments;
    if out.exists() {
        return Err(unwritable(out, "it exists; name a new file"));
    }
    let converted = import::chakra(archive, *flops_per_second, groups.as_deref())?;
    let write = || {
        let mut file = BufWriter::new(File::create_new(out)?);
        converted.schedule.write(&mut file)?;
        file.flush()
    };
    write().map_err(|error| unwritable(out, error))?;
    report_chakra(&converted);
    Ok(Exit::Success)
}

fn unwritable(out: &Path, reason: impl Display) -> Failure {
    Failure::Input(format!("cannot write {}: {reason}", out.display()))
}

/// Reports the content of the trace and of the schedule.
fn report_chakra(converted: &Converted) {
    let schedule = &converted.schedule;
    let (bytes, messages) = schedule.sent();
    outln!(
        "{} ranks, {} nodes; a schedule of {} operations, {messages} messages, {bytes} bytes",
        schedule.ranks,
        converted.nodes,
        schedule.size()
    );
    let (count, of_nodes) = converted.messages;
    if count > 0 {
        outln!("  {count} messages of nodes, {of_nodes} bytes");
    }
    for (kind, (count, bytes)) in &converted.collectives {
        outln!(
            "  {}: {count} operations, {bytes} bytes of all ranks together",
            kind.name()
        );
    }
    report_left_out(&converted.left_out);
}

/// Reports the omitted content, and how often it occurred.
fn report_left_out(left_out: &BTreeMap<impl Display, u64>) {
    for (what, count) in left_out {
        outln!("  left out: {what}, {count} times");
    }
}

/// Reports the locations and times that are not in the trace.
fn report_otf2(imported: &verbena_mpi_trace::otf2::Imported) {
    if imported.others > 0 {
        outln!(
            "  {} locations are not ranks (threads, accelerators): left out",
            imported.others
        );
    }
    let off = imported.unmeasured;
    if off.nanoseconds > 0 {
        let share = 100.0 * off.nanoseconds as f64 / off.traced.max(1) as f64;
        outln!(
            "  the tracer was off for {share:.1} % of the ranks' time, in {} spans: \
             calls made then are missing, and this time does not count as computing",
            off.spans
        );
    }
}

/// Reports the receives whose message was not in the trace.
fn report_simgrid(imported: &verbena_mpi_trace::simgrid::Imported) {
    if imported.found > 0 {
        outln!(
            "  receives from any rank or with any tag: {}, matched by executing the trace without \
             times",
            imported.found
        );
    }
}
