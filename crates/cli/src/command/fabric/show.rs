//! `verbena fabric show FILE`: surveys the topology of an InfiniBand fabric.

use std::path::{Path, PathBuf};

use verbena_bench::fabric_files::{read_forwarding, read_topology};
use verbena_topology::{DescribedPaths, Description, Network, Topology};

use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{json, outln};
use crate::style::{Style, styled};

/// The arguments of `verbena fabric show`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Topology file, `-` for standard input
    ///
    /// Output of ibnetdiscover (also -p and -g), opensm-subnet.lst, ibdiagnet2.db_csv, a net file
    /// of ibsim, or Slurm's topology.conf.
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// Follow the paths of these forwarding tables between all adapters
    ///
    /// Output of dump_fts, dump_lfts.sh or ibroute, opensm-lfts.dump or opensm.fdbs.
    #[arg(long, value_name = "FILE")]
    routes: Option<PathBuf>,

    /// Print one JSON object instead of a table
    #[arg(long)]
    json: bool,
}

/// Reads the file and prints the survey.
///
/// # Errors
///
/// Fails if the file cannot be read or its format is unknown.
pub fn run(show: &Arguments) -> Result<Exit, Failure> {
    let topology = read_topology(&show.file)?;
    let paths = match &show.routes {
        Some(routes) => Some(paths(&show.file, routes, &topology)?),
        None => None,
    };
    let described = Description::of(&topology, paths);
    match show.json {
        true => json(&described),
        false => table(&described),
    }
    Ok(Exit::Success)
}

/// Follows the paths of forwarding tables.
fn paths(file: &Path, routes: &Path, topology: &Topology) -> Result<DescribedPaths, Failure> {
    let network = Network::of(topology, None)
        .map_err(|error| Failure::Input(format!("{}: {error}", file.display())))?;
    let mut remarks = Vec::new();
    let (_, survey) = read_forwarding(routes, topology, &network, &mut remarks)?;
    Ok(DescribedPaths::of(&network, &survey, remarks))
}

fn table(described: &Description) {
    for (number, section) in described.sections().iter().enumerate() {
        if number > 0 {
            outln!("");
        }
        if !section.heading.is_empty() {
            outln!("{}", styled(Style::Bold, &section.heading));
        }
        for line in &section.lines {
            outln!("{line}");
        }
    }
}
