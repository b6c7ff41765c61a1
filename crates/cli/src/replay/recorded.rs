//! A recorded MPI program.

use std::fs;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::print_json;
use crate::failure::Failure;
use crate::output::outln;
use crate::suite::virtual_session::ModelTarget;
use verbena_measure::unit;
use verbena_model::kernel::Time;
use verbena_predict::application::cyclic;
use verbena_predict::recorded::{
    Error, Outcome, Parts, Program, Replay, goal, programs, run as replay,
};
use verbena_trace::{Summary, Trace};

/// How a trace is replayed.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// Of a trace: so many ranks in a row share a node
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=4096))]
    ranks_per_node: Option<u64>,

    /// Of a trace: what computing takes, of what it took where the program was recorded
    #[arg(long, value_name = "X", value_parser = scale)]
    compute_scale: Option<f64>,

    /// Of a trace: write it as a schedule in GOAL's text format, too, with the collective operations of the model's library
    #[arg(long, value_name = "FILE")]
    write_goal: Option<PathBuf>,
}

/// A factor that makes sense.
fn scale(word: &str) -> Result<f64, String> {
    match word.parse() {
        Ok(scale) if (1e-3..=1e3).contains(&scale) => Ok(scale),
        _ => Err("expected a number from 0.001 to 1000".to_owned()),
    }
}

impl Options {
    /// Refuses what says nothing about schedules.
    pub fn refuse(&self) -> Result<(), Failure> {
        let given = [
            ("--ranks-per-node", self.ranks_per_node.is_some()),
            ("--compute-scale", self.compute_scale.is_some()),
            ("--write-goal", self.write_goal.is_some()),
        ];
        match given.iter().find(|(_, given)| *given) {
            Some((option, _)) => Err(Failure::Input(format!(
                "{option} is for traces, which are directories that `verbena record` has written"
            ))),
            None => Ok(()),
        }
    }

    /// The node of each rank.
    fn placed(&self, ranks: usize, nodes: Option<usize>) -> Result<Vec<usize>, Failure> {
        if nodes == Some(0) {
            return Err(Failure::Input("a trace needs a node at least".to_owned()));
        }
        Ok(match (self.ranks_per_node, nodes) {
            (Some(together), _) => (0..ranks).map(|rank| rank / together as usize).collect(),
            (None, nodes) => cyclic(ranks, nodes.unwrap_or(ranks)),
        })
    }
}

/// What is told of a run; times in nanoseconds.
#[derive(Serialize)]
struct Told {
    system: String,
    ranks: usize,
    nodes: usize,
    calls: u64,
    /// Of the program's own: collective operations are counted by what they were given.
    messages: u64,
    bytes: u64,
    collective_bytes: u64,
    compute_scale: f64,
    /// When all had ended.
    nanoseconds: f64,
    by_rank: Vec<ToldRank>,
}

#[derive(Serialize)]
struct ToldRank {
    computing: f64,
    overhead: f64,
    waiting: f64,
    end: f64,
}

/// A replay and what is told of it.
struct Replayed {
    told: Told,
    outcome: Outcome,
}

/// Reads the trace, runs it on each model, says how long it took.
pub fn run(
    directory: &Path,
    models: &[ModelTarget],
    nodes: Option<usize>,
    options: &Options,
    json: bool,
) -> Result<(), Failure> {
    if options.write_goal.is_some() && models.len() > 1 {
        let text =
            "--write-goal writes the collective operations of one model's library: give one --on";
        return Err(Failure::Input(text.to_owned()));
    }
    let trace = Trace::open(directory)?;
    let replayed = models
        .iter()
        .map(|model| replay_on(model, directory, &trace, nodes, options))
        .collect::<Result<Vec<Replayed>, Failure>>()?;
    match (json, &replayed[..]) {
        (true, all) => print_json(&all.iter().map(|one| &one.told).collect::<Vec<_>>()),
        (false, [one]) => table(&one.told, &one.outcome),
        (false, several) => beside(several),
    }
    Ok(())
}

fn replay_on(
    model: &ModelTarget,
    directory: &Path,
    trace: &Trace,
    nodes: Option<usize>,
    options: &Options,
) -> Result<Replayed, Failure> {
    let system = &model.system;
    let Some(library) = &system.mpi else {
        let name = &system.name;
        return Err(Failure::Input(format!(
            "{name} has no message-passing library: a profile of kind system names one as `mpi`"
        )));
    };
    let programs = programs(trace, library).map_err(|error| match error {
        Error::Trace(error) => Failure::Trace(error),
        other => Failure::Input(format!("{}: {other}", directory.display())),
    })?;
    let run = Replay {
        system,
        fidelity: model.fidelity,
        nodes: options.placed(programs.len(), nodes)?,
        compute_scale: options.compute_scale.unwrap_or(1.0),
    };
    if let Some(file) = &options.write_goal {
        write_goal(file, &programs, run.compute_scale)?;
    }
    let outcome = replay(&run, programs)
        .map_err(|failure| Failure::Input(format!("{}: {failure}", directory.display())))?;
    let told = told(&run, &Summary::of(trace), &outcome);
    Ok(Replayed { told, outcome })
}

fn write_goal(file: &Path, programs: &[Program], scale: f64) -> Result<(), Failure> {
    let mut text = String::new();
    goal(programs, scale, &mut text).expect("texts take everything");
    fs::write(file, text)
        .map_err(|error| Failure::Input(format!("cannot write {}: {error}", file.display())))
}

fn told(run: &Replay<'_>, summary: &Summary, outcome: &Outcome) -> Told {
    let rank = |parts: &Parts| ToldRank {
        computing: parts.computing.nanos(),
        overhead: parts.overhead.nanos(),
        waiting: parts.waiting.nanos(),
        end: parts.end.nanos(),
    };
    Told {
        system: run.system.name.clone(),
        ranks: outcome.ranks.len(),
        nodes: run.nodes.iter().max().map_or(0, |node| node + 1),
        calls: summary.all.calls,
        messages: summary.all.messages,
        bytes: summary.all.bytes,
        collective_bytes: summary.all.collective_bytes,
        compute_scale: run.compute_scale,
        nanoseconds: outcome.last().nanos(),
        by_rank: outcome.ranks.iter().map(rank).collect(),
    }
}

/// Ranks that the table shows; of more, those with the least and the most computing, overhead and waiting.
const SHOWN: usize = 16;

fn table(told: &Told, outcome: &Outcome) {
    outln!(
        "{} ranks on {} nodes of {}: {}",
        told.ranks,
        told.nodes,
        told.system,
        unit::time(told.nanoseconds)
    );
    content(told);
    let columns = ["computing", "overhead", "waiting", "end"];
    let [one, two, three, four] = columns;
    outln!("  {:<8} {one:>10} {two:>10} {three:>10} {four:>10}", "rank");
    for (rank, parts) in shown(outcome) {
        let time = |time: Time| unit::time(time.nanos());
        outln!(
            "  {rank:<8} {:>10} {:>10} {:>10} {:>10}",
            time(parts.computing),
            time(parts.overhead),
            time(parts.waiting),
            time(parts.end)
        );
    }
    let [computing, overhead, waiting, end] = means(outcome).map(unit::time);
    outln!(
        "  {:<8} {computing:>10} {overhead:>10} {waiting:>10} {end:>10}",
        "mean"
    );
}

/// What the program does, wherever it runs.
fn content(told: &Told) {
    outln!(
        "  {} calls, {} messages of {} together, {} given to collectives; computing x {}",
        told.calls,
        told.messages,
        unit::size(told.bytes as f64),
        unit::size(told.collective_bytes as f64),
        told.compute_scale
    );
}

/// What it would take on each: times, against the first, and where ranks spend it on average.
fn beside(all: &[Replayed]) {
    let first = &all[0].told;
    outln!("{} ranks on {} nodes", first.ranks, first.nodes);
    content(first);
    let width = all
        .iter()
        .map(|one| one.told.system.len())
        .max()
        .unwrap_or(0);
    outln!(
        "  {:<width$} {:>10} {:>9} {:>10} {:>10} {:>10}",
        "system",
        "time",
        "to first",
        "computing",
        "overhead",
        "waiting"
    );
    for Replayed { told, outcome } in all {
        let [computing, overhead, waiting, _] = means(outcome).map(unit::time);
        outln!(
            "  {:<width$} {:>10} {:>8.3}x {computing:>10} {overhead:>10} {waiting:>10}",
            told.system,
            unit::time(told.nanoseconds),
            told.nanoseconds / first.nanoseconds
        );
    }
}

/// Over ranks, in nanoseconds: computing, overhead, waiting, end.
fn means(outcome: &Outcome) -> [f64; 4] {
    let parts: [fn(&Parts) -> Time; 4] = [
        |rank| rank.computing,
        |rank| rank.overhead,
        |rank| rank.waiting,
        |rank| rank.end,
    ];
    parts.map(|part| {
        let sum: f64 = outcome.ranks.iter().map(|rank| part(rank).nanos()).sum();
        sum / outcome.ranks.len() as f64
    })
}

/// All ranks, or those at the ends of each column.
fn shown(outcome: &Outcome) -> Vec<(usize, Parts)> {
    let all = outcome.ranks.iter().copied().enumerate();
    if outcome.ranks.len() <= SHOWN {
        return all.collect();
    }
    let columns: [fn(&Parts) -> Time; 3] = [
        |rank| rank.computing,
        |rank| rank.overhead,
        |rank| rank.waiting,
    ];
    let mut chosen: Vec<(usize, Parts)> = columns
        .iter()
        .flat_map(|column| {
            let key = |(_, parts): &(usize, Parts)| column(parts);
            [all.clone().min_by_key(key), all.clone().max_by_key(key)]
        })
        .flatten()
        .collect();
    chosen.sort_by_key(|(rank, _)| *rank);
    chosen.dedup_by_key(|(rank, _)| *rank);
    chosen
}
