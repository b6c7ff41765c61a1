//! `verbena import ARCHIVE --out TRACE`: a trace of another tracer becomes one that `verbena replay` runs.

use std::fs;
use std::path::PathBuf;

use crate::exit::Exit;
use crate::failure::Failure;
use crate::import;
use crate::output::{out, outln};
use crate::record::{Failure as Refusal, Table, new_directory};
use verbena_trace::Trace;

/// The arguments of `verbena import`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// An archive in OTF2, e.g. of Score-P: its anchor file traces.otf2, or the directory that holds it
    #[arg(value_name = "ARCHIVE")]
    archive: PathBuf,

    /// A new or empty directory, which gets a file a rank
    #[arg(long, value_name = "TRACE")]
    out: PathBuf,
}

/// Reads the archive, writes the trace, says what is in it and what is not.
pub fn run(arguments: Arguments) -> Result<Exit, Failure> {
    // What cannot be written is told before an archive is read that may be long.
    let directory = new_directory(&arguments.out)?;
    let imported = import::otf2(&arguments.archive)?;
    for (rank, file) in imported.ranks.iter().enumerate() {
        let path = directory.join(format!("rank-{rank}.trace"));
        fs::write(&path, file).map_err(|source| Refusal::Unusable { path, source })?;
    }
    out!("{}", Table(&Trace::open(&directory)?));
    for (what, count) in &imported.left_out {
        outln!("  left out: {what}, {count} times");
    }
    if imported.others > 0 {
        outln!(
            "  {} locations are no ranks (threads, accelerators): what they compute is not looked at",
            imported.others
        );
    }
    Ok(Exit::Success)
}
