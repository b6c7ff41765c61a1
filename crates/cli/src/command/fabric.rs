//! `verbena fabric show FILE`: surveys the topology of an InfiniBand fabric.

use std::path::{Path, PathBuf};

use serde::Serialize;
use verbena_bench::fabric_files::{describe, read_forwarding, read_topology};
use verbena_topology::{LinkEnd, Network, OddLink, PathSurvey, Rate, Survey, Topology};

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

    /// Follow the paths of these forwarding tables between all adapters
    ///
    /// Output of dump_fts, dump_lfts.sh or ibroute, opensm-lfts.dump or opensm.fdbs.
    #[arg(long, value_name = "FILE")]
    routes: Option<PathBuf>,

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
    let topology = read_topology(&show.file)?;
    let survey = Survey::of(&topology);
    let paths = match &show.routes {
        Some(routes) => Some(Paths::of(&show.file, routes, &topology)?),
        None => None,
    };
    match show.json {
        true => {
            let whole = Whole::of(&topology, &survey, paths);
            let text = serde_json::to_string_pretty(&whole).expect("the survey is plain data");
            data!("{text}\n");
        }
        false => {
            table(&topology, &survey);
            if let Some(paths) = &paths {
                paths.table();
            }
        }
    }
    Ok(Exit::Success)
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
    #[serde(skip_serializing_if = "Option::is_none")]
    paths: Option<Paths>,
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
    fn of(topology: &Topology, survey: &Survey, paths: Option<Paths>) -> Whole {
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
            paths,
        }
    }
}

/// The paths of forwarding tables between all adapters.
#[derive(Serialize)]
struct Paths {
    /// Ordered pairs of adapters.
    pairs: usize,
    /// Number of pairs by the number of cables between switches.
    lengths: Vec<usize>,
    longer_than_shortest: usize,
    broken: usize,
    /// Some of the broken paths.
    examples: Vec<String>,
    /// Pairs over the cable, and direction, that carries most and that carries fewest.
    busiest: Option<CableOut>,
    idlest: Option<CableOut>,
    remarks: Vec<String>,
}

#[derive(Serialize)]
struct CableOut {
    from: String,
    to: String,
    pairs: usize,
}

impl Paths {
    fn of(file: &Path, routes: &Path, topology: &Topology) -> Result<Paths, Failure> {
        let network = Network::of(topology, None)
            .map_err(|error| Failure::Input(format!("{}: {error}", file.display())))?;
        let mut remarks = Vec::new();
        let (_, survey) = read_forwarding(routes, topology, &network, &mut remarks)?;
        let examples = survey.examples.iter().map(|(from, to, broken)| {
            let why = describe(topology, &network, broken);
            let [from, to] = [from, to].map(|&node| &network.names[node]);
            format!("packets from {from} to {to} {why}")
        });
        let links = 0..survey.load.len();
        let load = |link: &usize| survey.load[*link];
        let cable = |link| CableOut::of(topology, &network, &survey, link);
        Ok(Paths {
            pairs: survey.pairs,
            lengths: survey.lengths.clone(),
            longer_than_shortest: survey.longer,
            broken: survey.broken,
            examples: examples.collect(),
            busiest: links.clone().max_by_key(load).map(cable),
            idlest: links.min_by_key(load).map(cable),
            remarks,
        })
    }

    fn table(&self) {
        outln!("\n{}", styled(Style::Bold, "Paths"));
        let lengths = self.lengths.iter().enumerate();
        let lengths: Vec<String> = lengths
            .filter(|(_, pairs)| **pairs > 0)
            .map(|(cables, pairs)| format!("{pairs} over {cables}"))
            .collect();
        outln!(
            "  {} pairs; by cables between switches: {}",
            self.pairs,
            lengths.join(", ")
        );
        match self.longer_than_shortest {
            0 => outln!("  every path is a shortest one"),
            longer => outln!("  {longer} pairs have a longer path than the shortest"),
        }
        for (word, cable) in [("most", &self.busiest), ("fewest", &self.idlest)] {
            if let Some(cable) = cable {
                outln!(
                    "  {word} pairs on one cable: {}, from {} to {}",
                    cable.pairs,
                    cable.from,
                    cable.to
                );
            }
        }
        if self.broken > 0 {
            outln!("  {} pairs have no path", self.broken);
        }
        for line in self.examples.iter().chain(&self.remarks) {
            outln!("  {line}");
        }
    }
}

impl CableOut {
    fn of(topology: &Topology, network: &Network, survey: &PathSurvey, link: usize) -> CableOut {
        let (one, other) = network.cables[link / 2];
        let (at_one, at_other) = network.cable_ports[link / 2];
        let mut ends = [(one, at_one), (other, at_other)].map(|(switch, port)| {
            let name = topology.nodes[network.switches[switch]].name();
            format!("{name} port {port}")
        });
        if link % 2 == 1 {
            ends.reverse();
        }
        let [from, to] = ends;
        CableOut {
            from,
            to,
            pairs: survey.load[link],
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
