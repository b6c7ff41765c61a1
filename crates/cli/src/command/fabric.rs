//! `verbena fabric show FILE`: surveys the topology of an InfiniBand fabric.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use serde::Serialize;
use verbena_topology::{Error, LinkEnd, MOST_BYTES, OddLink, Rate, Survey, Topology};

use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{data, outln};
use crate::style::{Style, styled};

/// What to do with a fabric.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Show levels, oversubscription, bisection and unusual links
    Show(Show),
}

#[derive(Debug, clap::Args)]
struct Show {
    /// Topology file, `-` for standard input
    ///
    /// Output of ibnetdiscover (also -p and -g), opensm-subnet.lst, ibdiagnet2.db_csv, a net file
    /// of ibsim, or Slurm's topology.conf.
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// Print one JSON object instead of a table
    #[arg(long)]
    json: bool,
}

/// Number of unusual links in the table; JSON has all.
const LISTED: usize = 20;

/// Reads the file and prints the survey.
///
/// # Errors
///
/// Fails if the file cannot be read or its format is unknown.
pub fn run(arguments: Arguments) -> Result<Exit, Failure> {
    let Action::Show(show) = arguments.action;
    let topology = read(&show.file)?;
    let survey = Survey::of(&topology);
    match show.json {
        true => {
            let whole = Whole::of(&topology, &survey);
            let text = serde_json::to_string_pretty(&whole).expect("the survey is plain data");
            data!("{text}\n");
        }
        false => table(&topology, &survey),
    }
    Ok(Exit::Success)
}

fn read(path: &Path) -> Result<Topology, Failure> {
    let unreadable = |error| Failure::Input(format!("cannot read {}: {error}", path.display()));
    let mut content = Vec::new();
    let most = MOST_BYTES as u64 + 1;
    match path.as_os_str() == "-" {
        true => std::io::stdin().lock().take(most).read_to_end(&mut content),
        false => File::open(path)
            .map_err(unreadable)?
            .take(most)
            .read_to_end(&mut content),
    }
    .map_err(unreadable)?;
    verbena_topology::read(&content)
        .map_err(|error: Error| Failure::Input(format!("{}: {error}", path.display())))
}

/// The survey as JSON. Capacities are in Gbit/s and direction.
#[derive(Serialize)]
struct Whole {
    adapters: usize,
    hosts: usize,
    switches: usize,
    links: usize,
    rates: Vec<Count>,
    parts: usize,
    levels: Vec<LevelOut>,
    bisection: Option<BisectionOut>,
    unusual: Vec<String>,
    remarks: Vec<RemarkOut>,
}

#[derive(Serialize)]
struct Count {
    rate: Option<String>,
    links: usize,
}

#[derive(Serialize)]
struct LevelOut {
    level: usize,
    switches: usize,
    down: f64,
    up: f64,
    across: f64,
    oversubscription: Option<RatioOut>,
}

#[derive(Serialize)]
struct RatioOut {
    least: f64,
    median: f64,
    most: f64,
    switches_without: usize,
}

#[derive(Serialize)]
struct BisectionOut {
    capacity: f64,
    of_adapters: f64,
}

#[derive(Serialize)]
struct RemarkOut {
    text: &'static str,
    count: u64,
    examples: Vec<String>,
}

impl Whole {
    fn of(topology: &Topology, survey: &Survey) -> Whole {
        let levels = survey.levels.iter().map(|level| LevelOut {
            level: level.level,
            switches: level.switches,
            down: level.down,
            up: level.up,
            across: level.across,
            oversubscription: level.oversubscription.map(|ratio| RatioOut {
                least: ratio.least,
                median: ratio.median,
                most: ratio.most,
                switches_without: ratio.without,
            }),
        });
        let remarks = topology.remarks.iter().map(|remark| RemarkOut {
            text: remark.text,
            count: remark.count,
            examples: remark.examples.clone(),
        });
        let rates = survey.rates.iter().map(|&(rate, links)| Count {
            rate: rate.map(|rate| rate.to_string()),
            links,
        });
        Whole {
            adapters: survey.adapters,
            hosts: survey.hosts,
            switches: survey.switches,
            links: topology.links.len(),
            rates: rates.collect(),
            parts: survey.parts,
            levels: levels.collect(),
            bisection: survey.bisection.map(|bisection| BisectionOut {
                capacity: bisection.capacity,
                of_adapters: bisection.needed,
            }),
            unusual: survey
                .odd
                .iter()
                .map(|odd| sentence(topology, odd))
                .collect(),
            remarks: remarks.collect(),
        }
    }
}

fn table(topology: &Topology, survey: &Survey) {
    let rates: Vec<String> = survey
        .rates
        .iter()
        .map(|&(rate, links)| format!("{links} {}", name(rate)))
        .collect();
    outln!(
        "{} switches, {} adapters in {} hosts, {} links: {}",
        survey.switches,
        survey.adapters,
        survey.hosts,
        topology.links.len(),
        rates.join(", ")
    );
    if survey.parts > 1 {
        outln!(
            "The fabric has {} parts without a connection.",
            survey.parts
        );
    }
    if !survey.levels.is_empty() {
        let heading = format!(
            "{:<8}{:>9}{:>13}{:>13}{:>13}   {}",
            "level", "switches", "down Gbit/s", "up Gbit/s", "across", "oversubscription"
        );
        outln!("\n{}", styled(Style::Bold, &heading));
    }
    for level in &survey.levels {
        let ratio = level
            .oversubscription
            .map_or("none above".to_owned(), |ratio| {
                let without = match ratio.without {
                    0 => String::new(),
                    without => format!("; {without} without links upwards"),
                };
                match ratio.least == ratio.most {
                    true => format!("{:.2}:1{without}", ratio.median),
                    false => format!(
                        "{:.2}:1, from {:.2} to {:.2}{without}",
                        ratio.median, ratio.least, ratio.most
                    ),
                }
            });
        outln!(
            "{:<8}{:>9}{:>13.0}{:>13.0}{:>13.0}   {ratio}",
            level.level,
            level.switches,
            level.down,
            level.up,
            level.across
        );
    }
    if let Some(bisection) = survey.bisection {
        outln!(
            "\nBisection: at most {:.0} Gbit/s between halves whose adapters have {:.0} ({:.0} %)",
            bisection.capacity,
            bisection.needed,
            100.0 * bisection.capacity / bisection.needed
        );
    }
    list(
        "Unusual",
        survey.odd.iter().map(|odd| sentence(topology, odd)),
    );
    list(
        "The file",
        topology.remarks.iter().map(|remark| {
            format!(
                "{} ({}), such as {}",
                remark.text,
                remark.count,
                remark.examples.join("; ")
            )
        }),
    );
}

fn list(title: &str, lines: impl ExactSizeIterator<Item = String>) {
    let count = lines.len();
    if count > 0 {
        outln!("\n{}", styled(Style::Bold, title));
    }
    for line in lines.take(LISTED) {
        outln!("  {line}");
    }
    if count > LISTED {
        outln!("  and {} more; --json lists all", count - LISTED);
    }
}

fn name(rate: Option<Rate>) -> String {
    rate.map_or("of unknown rate".to_owned(), |rate| rate.to_string())
}

fn sentence(topology: &Topology, odd: &OddLink) -> String {
    let node = |node: usize| topology.nodes[node].name();
    let end = |end: LinkEnd| format!("{} port {}", node(end.node), end.port);
    match *odd {
        OddLink::Slow { ends, rate, usual } => format!(
            "{} to {}: {rate}, most links like it are {usual}",
            end(ends[0]),
            end(ends[1])
        ),
        OddLink::FewUplinks {
            switch,
            links,
            usual,
        } => format!(
            "{}: {links} links upwards, most switches of its level have {usual}",
            node(switch)
        ),
        OddLink::Loop { ends } => format!(
            "{}: a cable between its ports {} and {}",
            node(ends[0].node),
            ends[0].port,
            ends[1].port
        ),
        OddLink::Unconnected { node: one } => format!("{}: no link", node(one)),
    }
}
