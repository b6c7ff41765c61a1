//! A survey in words: JSON for scripts, and sections of lines for people.

use serde::Serialize;

use crate::build::{LinkEnd, Topology};
use crate::network::Network;
use crate::paths::{Broken, PathSurvey};
use crate::survey::{Level, OddLink, Oversubscription, Survey};

/// Number of lines of a list in a section; JSON has all.
const LISTED: usize = 20;
/// Number of shared descriptions that the text quotes.
const QUOTED: usize = 3;

/// A survey as JSON. Capacities are in `unit`: Gbit/s and direction, or links.
#[derive(Debug, Serialize)]
pub struct Description {
    adapters: usize,
    hosts: usize,
    shared_descriptions: Vec<Shared>,
    switches: usize,
    links: usize,
    unit: &'static str,
    unknown_rates: usize,
    rates: Vec<Count>,
    parts: usize,
    levels: Vec<DescribedLevel>,
    bisection: Option<DescribedBisection>,
    unusual: Vec<String>,
    remarks: Vec<DescribedRemark>,
    #[serde(skip_serializing_if = "Option::is_none")]
    paths: Option<DescribedPaths>,
}

/// Lines with a heading.
#[derive(Debug, PartialEq, Eq)]
pub struct Section {
    /// The heading; empty for none.
    pub heading: String,
    /// The lines below it.
    pub lines: Vec<String>,
}

#[derive(Debug, Serialize)]
struct Count {
    rate: Option<String>,
    links: usize,
}

#[derive(Debug, Serialize)]
struct Shared {
    description: String,
    adapters: usize,
}

#[derive(Debug, Serialize)]
struct DescribedLevel {
    level: usize,
    switches: usize,
    down: f64,
    up: f64,
    across: f64,
    oversubscription: Option<Ratio>,
}

#[derive(Debug, Serialize)]
struct Ratio {
    overall: f64,
    least: f64,
    most: f64,
    switches_without: usize,
}

#[derive(Debug, Serialize)]
struct DescribedBisection {
    capacity: f64,
    of_adapters: f64,
}

#[derive(Debug, Serialize)]
struct DescribedRemark {
    text: &'static str,
    count: u64,
    examples: Vec<String>,
}

/// The paths of forwarding tables between all adapters.
#[derive(Debug, Serialize)]
pub struct DescribedPaths {
    /// Ordered pairs of adapters.
    pairs: usize,
    /// Number of pairs by the number of cables between switches.
    lengths: Vec<usize>,
    longer_than_shortest: usize,
    broken: usize,
    /// Some of the broken paths.
    examples: Vec<String>,
    /// Pairs over the cable, and direction, that carries most and that carries fewest.
    busiest: Option<Cable>,
    idlest: Option<Cable>,
    remarks: Vec<String>,
}

#[derive(Debug, Serialize)]
struct Cable {
    from: String,
    to: String,
    pairs: usize,
}

impl Description {
    /// Describes a topology and, if forwarding tables are given, their paths.
    pub fn of(topology: &Topology, paths: Option<DescribedPaths>) -> Description {
        let survey = Survey::of(topology);
        let rates = survey.rates.iter().map(|&(rate, links)| Count {
            rate: rate.map(|rate| rate.to_string()),
            links,
        });
        let remarks = topology.remarks.iter().map(|remark| DescribedRemark {
            text: remark.text,
            count: remark.count,
            examples: remark.examples.clone(),
        });
        let unusual = survey.odd.iter().map(|odd| sentence(topology, odd));
        let shared = survey.shared.into_iter();
        let shared = shared.map(|(description, adapters)| Shared {
            description,
            adapters,
        });
        Description {
            adapters: survey.adapters,
            hosts: survey.hosts,
            shared_descriptions: shared.collect(),
            switches: survey.switches,
            links: topology.links.len(),
            unit: match survey.unknown_rates {
                0 => "Gbit/s",
                _ => "links",
            },
            unknown_rates: survey.unknown_rates,
            rates: rates.collect(),
            parts: survey.parts,
            levels: survey.levels.iter().map(DescribedLevel::of).collect(),
            bisection: survey.bisection.map(|bisection| DescribedBisection {
                capacity: bisection.capacity,
                of_adapters: bisection.needed,
            }),
            unusual: unusual.collect(),
            remarks: remarks.collect(),
            paths,
        }
    }

    /// Returns the text.
    pub fn sections(&self) -> Vec<Section> {
        let mut sections = vec![section("", self.sizes())];
        if !self.levels.is_empty() {
            let heading = format!(
                "{:<8}{:>9}{:>13}{:>13}{:>13}   {}",
                "level",
                "switches",
                format!("down {}", self.unit),
                format!("up {}", self.unit),
                "across",
                "oversubscription"
            );
            let levels = self.levels.iter().map(DescribedLevel::line);
            sections.push(section(&heading, levels.collect()));
        }
        if let Some(bisection) = &self.bisection {
            let line = format!(
                "Bisection: at most {:.0} {} between halves whose adapters have {:.0} ({:.0} %)",
                bisection.capacity,
                self.unit,
                bisection.of_adapters,
                100.0 * bisection.capacity / bisection.of_adapters
            );
            sections.push(section("", vec![line]));
        }
        let remarks = self.remarks.iter().map(|remark| {
            let examples = remark.examples.join("; ");
            format!("{} ({}), such as {examples}", remark.text, remark.count)
        });
        sections.extend(list("Unusual", self.unusual.iter().cloned()));
        sections.extend(list("The file", remarks));
        sections.extend(self.paths.as_ref().map(DescribedPaths::section));
        sections
    }

    fn sizes(&self) -> Vec<String> {
        let rates = self.rates.iter().map(|count| {
            let rate = count.rate.as_deref().unwrap_or("of unknown rate");
            format!("{} {rate}", count.links)
        });
        let mut lines = vec![format!(
            "{} switches, {} adapters in {} hosts, {} links: {}",
            self.switches,
            self.adapters,
            self.hosts,
            self.links,
            rates.collect::<Vec<_>>().join(", ")
        )];
        lines.extend(self.shared());
        if self.unknown_rates > 0 {
            lines.push(format!(
                "{} of {} links have no rate in the file: capacities are numbers of links.",
                self.unknown_rates, self.links
            ));
        }
        if self.parts > 1 {
            lines.push(format!(
                "The fabric has {} parts without a connection.",
                self.parts
            ));
        }
        lines
    }
}

impl Description {
    /// Returns how adapters that share a description are counted.
    fn shared(&self) -> Option<String> {
        let quoted: Vec<String> = self.shared_descriptions.iter().map(Shared::text).collect();
        let mut text = quoted.get(..QUOTED).unwrap_or(&quoted).join("; ");
        if quoted.len() > QUOTED {
            text += &format!("; {} more descriptions are shared", quoted.len() - QUOTED);
        }
        (!quoted.is_empty())
            .then(|| format!("Adapters that share a description count as a host each: {text}."))
    }
}

impl Shared {
    fn text(&self) -> String {
        format!("{} are {:?}", self.adapters, self.description)
    }
}

fn section(heading: &str, lines: Vec<String>) -> Section {
    Section {
        heading: heading.to_owned(),
        lines,
    }
}

/// Returns a section with the first lines of a list; `None` for an empty list.
fn list(heading: &str, lines: impl ExactSizeIterator<Item = String>) -> Option<Section> {
    let count = lines.len();
    let shown = lines.take(LISTED).map(|line| format!("  {line}"));
    let more = (count > LISTED).then(|| format!("  and {} more; --json lists all", count - LISTED));
    (count > 0).then(|| section(heading, shown.chain(more).collect()))
}

impl DescribedLevel {
    fn of(level: &Level) -> DescribedLevel {
        let ratio = |ratio: Oversubscription| Ratio {
            overall: ratio.overall,
            least: ratio.least,
            most: ratio.most,
            switches_without: ratio.without,
        };
        DescribedLevel {
            level: level.level,
            switches: level.switches,
            down: level.down,
            up: level.up,
            across: level.across,
            oversubscription: level.oversubscription.map(ratio),
        }
    }

    fn line(&self) -> String {
        let ratio = self.oversubscription.as_ref();
        format!(
            "{:<8}{:>9}{:>13.0}{:>13.0}{:>13.0}   {}",
            self.level,
            self.switches,
            self.down,
            self.up,
            self.across,
            ratio.map_or("none above".to_owned(), Ratio::text)
        )
    }
}

impl Ratio {
    fn text(&self) -> String {
        let without = match self.switches_without {
            0 => String::new(),
            without => format!("; {without} without links upwards"),
        };
        let range = match self.least == self.most {
            true => String::new(),
            false => format!(" (switches: {:.2} to {:.2})", self.least, self.most),
        };
        format!("{:.2}:1{range}{without}", self.overall)
    }
}

impl DescribedPaths {
    /// Describes the paths of a network; `remarks` are those on the file of the tables.
    pub fn of(network: &Network, survey: &PathSurvey, remarks: Vec<String>) -> DescribedPaths {
        let examples = survey.examples.iter().map(|(from, to, broken)| {
            let why = broken.text(network);
            let [from, to] = [from, to].map(|&node| &network.names[node]);
            format!("packets from {from} to {to} {why}")
        });
        let links = 0..survey.load.len();
        let load = |link: &usize| survey.load[*link];
        let cable = |link| Cable::of(network, survey, link);
        DescribedPaths {
            pairs: survey.pairs,
            lengths: survey.lengths.clone(),
            longer_than_shortest: survey.longer,
            broken: survey.broken,
            examples: examples.collect(),
            busiest: links.clone().max_by_key(load).map(cable),
            idlest: links.min_by_key(load).map(cable),
            remarks,
        }
    }

    fn section(&self) -> Section {
        let lengths = self.lengths.iter().enumerate();
        let lengths: Vec<String> = lengths
            .filter(|(_, pairs)| **pairs > 0)
            .map(|(cables, pairs)| format!("{pairs} over {cables}"))
            .collect();
        let mut lines = vec![format!(
            "  {} pairs; by cables between switches: {}",
            self.pairs,
            lengths.join(", ")
        )];
        lines.push(match self.longer_than_shortest {
            0 => "  every path is a shortest one".to_owned(),
            longer => format!("  {longer} pairs have a longer path than the shortest"),
        });
        for (word, cable) in [("most", &self.busiest), ("fewest", &self.idlest)] {
            lines.extend(cable.as_ref().map(|Cable { from, to, pairs }| {
                format!("  {word} pairs on one cable: {pairs}, from {from} to {to}")
            }));
        }
        if self.broken > 0 {
            lines.push(format!("  {} pairs have no path", self.broken));
        }
        let further = self.examples.iter().chain(&self.remarks);
        lines.extend(further.map(|line| format!("  {line}")));
        section("Paths", lines)
    }
}

impl Cable {
    fn of(network: &Network, survey: &PathSurvey, link: usize) -> Cable {
        let mut ends = network.cable_link(link / 2);
        if link % 2 == 1 {
            ends.reverse();
        }
        let [from, to] = ends;
        Cable {
            from,
            to,
            pairs: survey.load[link],
        }
    }
}

impl Broken {
    /// Returns why a path does not reach its end, to follow "packets from A to B".
    pub fn text(&self, network: &Network) -> String {
        let name = |switch: usize| network.switch_names[switch].as_str();
        match self {
            Broken::Cycle(switches) => {
                let first = switches.first().copied();
                let way: Vec<&str> = switches.iter().copied().chain(first).map(name).collect();
                format!("go in a cycle: {}", way.join(" -> "))
            }
            Broken::End(switch) => format!("end at {}, whose table has no way", name(*switch)),
            Broken::Elsewhere(switch, port) => {
                format!(
                    "leave {} by port {port}, which leads elsewhere",
                    name(*switch)
                )
            }
        }
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_list_names_the_rest() {
        let all = list("Unusual", vec!["a".to_owned(); 22].into_iter()).unwrap();
        assert_eq!(all.lines.len(), 21);
        assert_eq!(all.lines[20], "  and 2 more; --json lists all");
        assert_eq!(list("Unusual", Vec::new().into_iter()), None);
    }

    #[test]
    fn a_ratio_has_a_range_where_switches_differ() {
        let ratio = |least, switches_without| Ratio {
            overall: 1.75,
            least,
            most: 2.0,
            switches_without,
        };
        assert_eq!(ratio(2.0, 0).text(), "1.75:1");
        assert_eq!(
            ratio(1.0, 3).text(),
            "1.75:1 (switches: 1.00 to 2.00); 3 without links upwards"
        );
    }
}
