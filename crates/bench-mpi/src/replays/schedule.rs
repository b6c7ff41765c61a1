//! Replays of a schedule of sends, receives and calculations, in GOAL's text format or as an
//! algorithm of MSCCL.

use std::path::Path;

use serde::Serialize;

use super::comparison::{Comparable, Compared, ToldVerdict, against_first, notes, verdicts};
use super::interval::{self, ASSUMED, Judge, Parts, ToldInterval};
use super::summary::{self, OnModel};
use super::{Setup, busiest, check_nodes, effort, hot_lines, hot_notes, input};
use crate::Failure;
use verbena_bench::model_target::ModelTarget;
use verbena_bench::profiles::Profiles;
use verbena_measure::result::HotPort;
use verbena_measure::unit;
use verbena_model::kernel::Time;
use verbena_replay::goal::{
    Ends as Outcome, Failure as Refusal, Schedule, is_msccl, least, run as replay,
};
use verbena_report::html::{Application, Assumptions, OnSystem, application};
use verbena_workloads::modelled::hot_ports;

pub use super::comparison::judge;

/// The error for `--bytes` with anything else than an algorithm of MSCCL.
pub const NO_BUFFER: &str = "only algorithms of MSCCL take --bytes";

/// The results of a replay; times in nanoseconds.
#[derive(Debug, Serialize)]
pub struct PrintedPoint {
    system: String,
    setup: Setup,
    ranks: usize,
    nodes: usize,
    operations: usize,
    messages: u64,
    bytes: u64,
    /// End of the last rank.
    nanoseconds: f64,
    /// Links and computing permit no less.
    least: f64,
    /// How far that may be from a real system's time.
    #[serde(skip_serializing_if = "Option::is_none")]
    interval: Option<ToldInterval>,
    /// The verdict against the first model, if there are several.
    #[serde(skip_serializing_if = "Option::is_none")]
    against_first: Option<ToldVerdict>,
    chain: ToldChain,
    /// The largest part of the critical path, and the busiest link, in words.
    limit: String,
    /// The hottest ports of a fabric that exists.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    hot_ports: Vec<HotPort>,
    /// End of each rank.
    ends: Vec<f64>,
    /// Anchors of the model, and how well it fits them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    anchors: Vec<String>,
}

/// The critical path.
#[derive(Debug, Serialize)]
struct ToldChain {
    /// Calculations of the schedule.
    computing: f64,
    /// The rest: overhead and wire.
    messages: f64,
}

/// A replay on a model.
pub struct Replayed {
    told: PrintedPoint,
    judge: Option<Judge>,
}

impl Replayed {
    /// Returns its results, for JSON.
    pub fn told(&self) -> &PrintedPoint {
        &self.told
    }
}

impl Comparable for Replayed {
    fn compared(&self) -> Compared<'_> {
        Compared {
            system: &self.told.system,
            parts: self.told.parts(),
            interval: self.told.interval.as_ref(),
            judge: self.judge.as_ref(),
        }
    }

    fn set_verdict(&mut self, verdict: Option<ToldVerdict>) {
        self.told.against_first = verdict;
    }
}

/// Replays a schedule of a file on a model, over `nodes` nodes or one a rank.
///
/// # Errors
///
/// Fails if the schedule cannot be run.
pub fn replay_on(
    model: &ModelTarget,
    file: &Path,
    schedule: &Schedule,
    nodes: Option<usize>,
    profiles: &Profiles,
) -> Result<Replayed, Failure> {
    check_nodes(nodes, schedule.ranks)?;
    let nodes = nodes.unwrap_or(schedule.ranks);
    let system = model.system()?;
    let cost = effort::of_schedule((system, model.fidelity), schedule, nodes);
    let what = format!("{} on {}", file.display(), model.name());
    let outcome = effort::announced(&what, cost, || {
        let outcome = replay(system, schedule, nodes, model.fidelity);
        outcome.map_err(|failure| match failure {
            Refusal::Schedule(fault) => within(file, &fault),
            Refusal::System(reason) => input(reason),
        })
    })?;
    let mut told = told(model, Setup::of(system, nodes), schedule, nodes, &outcome);
    let judge = Judge::of(model, profiles, schedule.sent())?;
    let in_order = judge.as_ref().map_or(Time::ZERO, |judge| {
        least(schedule, nodes, |bytes| judge.message(bytes))
    });
    let bottleneck = outcome.bottleneck.as_ref();
    told.least = interval::least(in_order, bottleneck);
    told.limit = told.limit(busiest(bottleneck, told.nanoseconds));
    told.interval = judge.as_ref().and_then(|judge| judge.told(told.parts()));
    Ok(Replayed { told, judge })
}

/// Reads a schedule in either format; `bytes` is the size of an algorithm's buffer.
///
/// # Errors
///
/// Fails if the text is no schedule, or `bytes` is missing or does not apply.
pub fn read(file: &Path, text: &str, bytes: Option<u64>) -> Result<Schedule, Failure> {
    let schedule = match (is_msccl(text), bytes) {
        (true, Some(bytes)) => Schedule::of_msccl(text, bytes),
        (false, None) => Schedule::read(text),
        (true, None) => {
            let file = file.display();
            let reason = format!("{file} is an algorithm of MSCCL: add --bytes SIZE, its buffer");
            return Err(input(reason));
        }
        (false, Some(_)) => return Err(input(NO_BUFFER)),
    };
    schedule.map_err(|fault| within(file, &fault))
}

/// Names the file with a fault in the schedule.
fn within(file: &Path, fault: &verbena_replay::goal::Fault) -> Failure {
    input(format!("{}, {fault}", file.display()))
}

fn told(
    model: &ModelTarget,
    setup: Setup,
    schedule: &Schedule,
    nodes: usize,
    outcome: &Outcome,
) -> PrintedPoint {
    let (bytes, messages) = schedule.sent();
    let (all, computing) = (outcome.last().nanos(), outcome.computing.nanos());
    PrintedPoint {
        system: model.name().to_owned(),
        setup,
        ranks: schedule.ranks,
        nodes,
        operations: schedule.size(),
        messages,
        bytes,
        nanoseconds: all,
        least: 0.0,
        interval: None,
        against_first: None,
        chain: ToldChain {
            computing,
            messages: all - computing,
        },
        limit: String::new(),
        hot_ports: hot_ports(&outcome.hot_ports),
        ends: outcome.ends.iter().map(|end| end.nanos()).collect(),
        anchors: model.remarks.clone(),
    }
}

/// Returns the results as text: each replay, and several side by side.
pub fn text(all: &[Replayed], differences: &[String], in_blocks: bool) -> String {
    let mut out: String = all.iter().map(|one| one.told.text()).collect();
    let compared: Vec<Compared<'_>> = all.iter().map(Replayed::compared).collect();
    match all {
        [] => {}
        [one] => {
            if let Some(interval) = &one.told.interval {
                let (range, origin) = (interval.range(), interval.origin());
                out += &format!("  {range}, {origin}; {ASSUMED}\n");
            }
        }
        _ => {
            let models = compared.iter().map(|one| OnModel {
                system: one.system,
                took: one.parts.all,
                spent: None,
            });
            let judge = |first: usize, other: usize| compared[first].judged(&compared[other]);
            out += &summary::several(&models.collect::<Vec<_>>(), judge, in_blocks);
            out += &format!("\n{}", verdicts(&compared));
        }
    }
    let differences = differences.iter().map(|one| format!("  {one}\n"));
    out + &differences.collect::<String>()
}

/// Returns the page of the replays of a schedule; `command` is the command line that computed them,
/// `differences` has those of the systems.
pub fn page(
    command: &str,
    file: &Path,
    all: &[Replayed],
    assumptions: &[Assumptions],
    differences: &[String],
) -> String {
    let compared: Vec<Compared<'_>> = all.iter().map(Replayed::compared).collect();
    let on = all.iter().zip(against_first(&compared));
    let on = on.map(|(Replayed { told, .. }, verdict)| OnSystem {
        system: told.system.clone(),
        took: told.nanoseconds,
        mean: None,
        ranks: Vec::new(),
        interval: told
            .interval
            .as_ref()
            .map_or(String::new(), ToldInterval::range),
        verdict,
        limit: told.limit.clone(),
    });
    let hot = all
        .iter()
        .flat_map(|Replayed { told, .. }| hot_notes(&told.system, &told.hot_ports));
    let hot: Vec<String> = hot.collect();
    let page = all.first().map(|Replayed { told, .. }| Application {
        name: format!(
            "{}, {} ranks on {} nodes",
            file.file_name().unwrap_or(file.as_os_str()).display(),
            told.ranks,
            told.nodes
        ),
        ranks: told.ranks,
        content: format!(
            "{} operations, {} messages of {} together",
            told.operations,
            told.messages,
            unit::size(told.bytes as f64)
        ),
        on: on.collect(),
        notes: [&notes(&compared)[..], &hot, differences].concat(),
    });
    application(command, page.as_slice(), assumptions, None)
}

impl PrintedPoint {
    fn parts(&self) -> Parts {
        Parts {
            all: self.nanoseconds,
            computing: self.chain.computing,
            least: self.least,
        }
    }

    /// Returns the larger part of the critical path, with its share, and the busiest link.
    fn limit(&self, busiest: Option<String>) -> String {
        let (computing, messages) = (self.chain.computing, self.chain.messages);
        let (name, time) = match computing > messages {
            true => ("computing", computing),
            false => ("overhead and wire", messages),
        };
        let share = 100.0 * time / self.nanoseconds.max(f64::MIN_POSITIVE);
        let busiest = busiest.map_or(String::new(), |busiest| format!("; {busiest}"));
        format!("{name} ({share:.0} % of the critical path){busiest}")
    }

    fn text(&self) -> String {
        let slowest = self.ends.iter().position(|end| *end == self.nanoseconds);
        let mut out = format!(
            "{} ranks on {} nodes of {}{}: {}\n  fabric: {}\n",
            self.ranks,
            self.nodes,
            self.system,
            self.setup.within(),
            unit::time(self.nanoseconds),
            self.setup.fabric
        );
        out += &format!(
            "  {} operations, {} messages of {} bytes together; rank {} ends last\n",
            self.operations,
            self.messages,
            self.bytes,
            slowest.unwrap_or_default()
        );
        out += &format!(
            "  critical path: {} computing, {} overhead and wire\n",
            unit::time(self.chain.computing),
            unit::time(self.chain.messages)
        );
        out += &format!("  limit: {}\n", self.limit);
        out += &hot_lines(&self.hot_ports);
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use verbena_bench::anchors::find;
    use verbena_fabric::model::Fidelity;

    const ALGORITHM: &str = "<algo nchunksperloop=\"1\" ngpus=\"1\"><gpu id=\"0\"/></algo>";

    #[test]
    fn more_nodes_than_ranks_are_refused() {
        let schedule = Schedule::read("num_ranks 2\nrank 0 {\n}\nrank 1 {\n}\n").unwrap();
        let profiles = Profiles::default();
        let library = profiles.library().unwrap();
        let model = find(&library, "connectx6-hdr", Fidelity::Message, &[]).unwrap();
        let on = |nodes| replay_on(&model, Path::new("s.goal"), &schedule, nodes, &profiles);
        assert!(on(Some(2)).is_ok());
        let text = on(None).unwrap().told.text();
        let fabric = "\n  fabric: one quantum switch of 40 ports\n";
        assert!(text.contains(fabric), "{text}");
        let told = on(Some(3)).err().expect("is refused").to_string();
        let reason = "--nodes 3 is more than the 2 ranks of the program";
        assert!(told.contains(reason), "{told}");
    }

    #[test]
    fn calculations_are_exact_and_systems_are_ordered() {
        let text = "num_ranks 2\nrank 0 {\na: calc 1000000\nb: send 100000b to 1\nb requires a\n}\n\
                    rank 1 {\nrecv 100000b from 0\n}\n";
        let schedule = Schedule::read(text).unwrap();
        let profiles = Profiles::default();
        let library = profiles.library().unwrap();
        let systems = ["connectx6-hdr", "infinihost-pcix", "tcp-100gbe"];
        let replays = systems.map(|name| {
            let model = find(&library, name, Fidelity::Message, &[]).unwrap();
            replay_on(&model, Path::new("s.goal"), &schedule, None, &profiles).unwrap()
        });
        let mut all = Vec::from(replays);
        judge(&mut all);
        let told = |number: usize| all[number].told();
        assert_eq!(told(0).chain.computing, 1e6);
        let text = told(0).interval.as_ref().expect("there are curves").range();
        assert!(text.starts_with("1.01 ms to 1.0"), "{text}");
        let against = told(1).against_first.as_ref().expect("is judged");
        assert_eq!(
            (against.verdict(), against.against()),
            ("slower: sure", "connectx6-hdr")
        );
        assert!(told(0).against_first.is_none() && told(2).against_first.is_none());
        let told = super::text(&all, &[], false);
        assert!(told.contains("connectx6-hdr: 1.02 ms"), "{told}");
        assert!(told.contains("critical path: 1 ms computing"), "{told}");
        let limit = "  limit: computing (98 % of the critical path)\n";
        assert!(told.contains(limit), "{told}");
        assert!(told.contains("  slower: sure; "), "{told}");
        assert!(told.contains("Slowest    infinihost-pcix: "), "{told}");
        let page = page("c", Path::new("s.goal"), &all, &[], &[]);
        for words in [
            "slower: sure",
            "computing (98 % of the critical path)",
            "s.goal, 2 ranks",
        ] {
            assert!(page.contains(words), "{words}");
        }
    }

    #[test]
    fn times_end_at_the_link_and_its_name_is_told() {
        // Two ranks send 8 MiB each to a third one, after 1 ms of computing.
        let rank = |peer| {
            let messages = (0..8).map(|tag| {
                format!("s{tag}: send 1048576b to {peer} tag {tag}\ns{tag} requires c\n")
            });
            format!("c: calc 1000000\n{}", messages.collect::<String>())
        };
        let receives = (0..8)
            .flat_map(|tag| [1, 2].map(|from| format!("recv 1048576b from {from} tag {tag}\n")));
        let text = format!(
            "num_ranks 3\nrank 0 {{\n{}}}\nrank 1 {{\n{}}}\nrank 2 {{\n{}}}\n",
            receives.collect::<String>(),
            rank(0),
            rank(0)
        );
        let schedule = Schedule::read(&text).unwrap();
        let profiles = Profiles::default();
        let library = profiles.library().unwrap();
        let model = find(&library, "connectx6-hdr", Fidelity::Message, &[]).unwrap();
        let replayed = replay_on(&model, Path::new("s.goal"), &schedule, None, &profiles);
        let told = replayed.unwrap().told;
        // 16 MiB at 24.7 GB/s take 0.68 ms.
        let interval = told.interval.as_ref().expect("there are curves");
        let range = interval.range();
        assert!(range.starts_with("1.68 ms to "), "{range}");
        assert!((1.67e6..told.nanoseconds).contains(&told.least), "{told:?}");
        let other = find(&library, "connectx5-edr", Fidelity::Message, &[]).unwrap();
        let anchored = ModelTarget {
            remarks: vec!["anchored".to_owned()],
            ..other
        };
        let told = super::super::differences(&[anchored, model]).unwrap();
        let warning = "warning: connectx5-edr anchored, connectx6-hdr blind: ";
        assert!(told[0].starts_with(warning), "{told:?}");
    }

    #[test]
    fn an_algorithm_needs_the_size_of_its_buffer_and_nothing_else_takes_one() {
        let read = |text, bytes| read(Path::new("ring.xml"), text, bytes);
        let goal = "num_ranks 1\nrank 0 {\n}\n";
        assert_eq!(read(ALGORITHM, Some(8)).unwrap().ranks, 1);
        assert_eq!(read(goal, None).unwrap().ranks, 1);
        for (text, bytes, reason) in [
            (
                ALGORITHM,
                None,
                "ring.xml is an algorithm of MSCCL: add --bytes",
            ),
            (goal, Some(8), "only algorithms of MSCCL"),
            ("<algo>", Some(8), "ring.xml, line 1: "),
        ] {
            let told = read(text, bytes).expect_err("is refused").to_string();
            assert!(told.contains(reason), "{told}");
        }
    }
}
