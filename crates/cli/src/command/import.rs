//! `verbena import ARCHIVE --out TRACE`: converts another tracer's trace for `verbena replay`.

use std::path::PathBuf;

use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{out, outln};
use verbena_bench_mpi::import::{self, Imported};
use verbena_bench_mpi::recorder::{Table, new_directory, write};
use verbena_mpi_trace::Trace;

/// The arguments of `verbena import`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// OTF2 archive (traces.otf2, or its directory) or SimGrid trace
    ///
    /// OTF2 for example from Score-P; of SimGrid the file that `smpirun -trace-ti` wrote.
    #[arg(value_name = "ARCHIVE")]
    archive: PathBuf,

    /// Write a file for each rank to this new or empty directory
    #[arg(long, value_name = "TRACE")]
    out: PathBuf,

    /// SimGrid: rate of computing, as given to smpirun (smpi/host-speed)
    #[arg(long, value_name = "RATE", value_parser = rate)]
    flops_per_second: Option<f64>,
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
    // Checked first, because reading an archive may take long.
    let directory = new_directory(&arguments.out)?;
    let imported = import::import(&arguments.archive, arguments.flops_per_second)?;
    let (ranks, left_out) = match &imported {
        Imported::Otf2(imported) => (&imported.ranks, &imported.left_out),
        Imported::SimGrid(imported) => (&imported.ranks, &imported.left_out),
    };
    write(&directory, ranks)?;
    out!("{}", Table(&Trace::open(&directory)?));
    for (what, count) in left_out {
        outln!("  left out: {what}, {count} times");
    }
    match imported {
        Imported::Otf2(imported) => report_otf2(&imported),
        Imported::SimGrid(imported) => report_simgrid(&imported),
    }
    Ok(Exit::Success)
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
            "  the tracer was off for {share:.1} % of the ranks' time, in {} spans: calls made then \
             are missing, and this time does not count as computing",
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
