//! Replays recorded MPI programs.

use std::path::PathBuf;

use super::{Inputs, Missing, collected, command, print_json, write_page};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::number;
use crate::output::out;
use crate::terminal;
use verbena_bench::progress_line::Bar;
use verbena_bench_mpi::replays::differences;
use verbena_bench_mpi::replays::recorded::{
    Examined, Found, OnEach, Settings, assumptions, changes, judge, page, replay_on, text,
};
use verbena_model::profile::Rate;

/// How traces are replayed.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// Put N consecutive ranks of a trace on each node
    #[arg(long, value_name = "N", value_parser = number::between::<u64>(1..=4096))]
    ranks_per_node: Option<u64>,

    /// Multiply the computing time of a trace by X
    ///
    /// 1 is the recorded time.
    #[arg(long, value_name = "X", value_parser = scale)]
    compute_scale: Option<f64>,

    /// Charge computing with this memory bandwidth, a rank
    ///
    /// With its unit, e.g. 1.5GB/s or 800MB/s. The ranks of a node share its memory.
    #[arg(long, value_name = "RATE", value_parser = rate)]
    memory_traffic: Option<Rate>,

    /// Write an HTML page of the replay
    ///
    /// The predicted time on each model, and how the ranks of a trace spend it.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,

    /// Search the assumed values that would change a verdict
    ///
    /// Of several models: each assumed value is halved and doubled, one at a time, and the traces
    /// are replayed again on all models.
    #[arg(long)]
    sensitivity: bool,

    /// Write a trace as a schedule in GOAL's text format, too
    ///
    /// With the collective operations of the model's library.
    #[arg(long, value_name = "FILE")]
    write_goal: Option<PathBuf>,

    /// Write a timeline of a trace for Perfetto or Chrome
    ///
    /// The activity of each rank over time; open it in ui.perfetto.dev or chrome://tracing.
    #[arg(long, value_name = "FILE")]
    write_timeline: Option<PathBuf>,
}

/// Parses the factor for computing time.
fn scale(word: &str) -> Result<f64, String> {
    match word.parse() {
        Ok(scale) if (1e-3..=1e3).contains(&scale) => Ok(scale),
        _ => Err("expected a number from 0.001 to 1000".to_owned()),
    }
}

/// Parses a rate in bytes per second, with a unit as in profiles.
fn rate(word: &str) -> Result<Rate, String> {
    let wrong = || {
        "expected a number from 0.001 to 1000000 followed by MB/s or GB/s, e.g. 1.5GB/s".to_owned()
    };
    let (number, unit) = word
        .strip_suffix("MB/s")
        .map(|number| (number, 1e6))
        .or_else(|| word.strip_suffix("GB/s").map(|number| (number, 1e9)))
        .ok_or_else(wrong)?;
    match number.trim_end().parse::<f64>() {
        Ok(number) if (1e-3..=1e6).contains(&number) => Ok(Rate(number * unit)),
        _ => Err(wrong()),
    }
}

impl Options {
    /// Returns the file for the page.
    pub fn out(&self) -> Option<PathBuf> {
        self.out.clone()
    }

    /// Rejects options that do not apply to schedules.
    ///
    /// # Errors
    ///
    /// Names such an option if it was given.
    pub fn refuse(&self) -> Result<(), Failure> {
        let given = [
            ("--ranks-per-node", self.ranks_per_node.is_some()),
            ("--compute-scale", self.compute_scale.is_some()),
            ("--memory-traffic", self.memory_traffic.is_some()),
            ("--sensitivity", self.sensitivity),
            ("--write-goal", self.write_goal.is_some()),
            ("--write-timeline", self.write_timeline.is_some()),
        ];
        match given.iter().find(|(_, given)| *given) {
            Some((option, _)) => Err(Failure::Input(format!(
                "{option} is for traces, the directories that `verbena record` writes"
            ))),
            None => Ok(()),
        }
    }

    /// Rejects options that need one replay, or several.
    fn check(&self, inputs: &Inputs) -> Result<(), Failure> {
        let is_single = inputs.replays() == 1;
        let text = if self.sensitivity && inputs.models.len() < 2 {
            "--sensitivity is about verdicts: give --on at least twice"
        } else if self.write_goal.is_some() && !is_single {
            "--write-goal writes one trace for the MPI library of one model: give one TRACE and \
             one --on"
        } else if self.write_goal.is_some() && self.memory_traffic.is_some() {
            "--write-goal cannot express --memory-traffic: the ranks of a schedule share no memory"
        } else if self.write_timeline.is_some() && !is_single {
            "--write-timeline writes one replay: give one TRACE and one --on"
        } else {
            return Ok(());
        };
        Err(Failure::Input(text.to_owned()))
    }

    fn settings(&self) -> Settings {
        Settings {
            nodes: None,
            ranks_per_node: self.ranks_per_node,
            compute_scale: self.compute_scale.unwrap_or(1.0),
            memory_traffic: self.memory_traffic,
            write_goal: self.write_goal.clone(),
            write_timeline: self.write_timeline.clone(),
        }
    }
}

/// Replays each trace on each model and prints the times.
///
/// # Errors
///
/// Fails if options conflict, a trace cannot be read or replayed, or a file cannot be written.
pub fn run(inputs: Inputs, options: Options, json: bool) -> Result<Exit, Failure> {
    options.check(&inputs)?;
    let count = inputs.replays();
    let assumptions = match options.out {
        Some(_) => assumptions(&inputs.models, &inputs.profiles)?,
        None => Vec::new(),
    };
    let (settings, is_searched) = (options.settings(), options.sensitivity);
    let nodes: Vec<Option<usize>> = match &inputs.nodes[..] {
        [] => vec![None],
        some => some.iter().copied().map(Some).collect(),
    };
    let differences = differences(&inputs.models)?;
    let changes = match is_searched {
        true => changes(&inputs.models, &inputs.profiles)?,
        false => 0,
    };
    let replays = count + changes * inputs.sources.len() * nodes.len();
    let planned = planned(&inputs, &nodes, is_searched);
    let bar = match is_searched {
        true => Bar::with_lines(replays, "replays"),
        false => Bar::of_models(replays, "replays"),
    };
    let kept = collected(move |keep| {
        let step = || bar.step();
        for (number, source) in inputs.sources.into_iter().enumerate() {
            let trace = source.trace()?;
            for (place, nodes) in nodes.iter().enumerate() {
                let group = (number, place);
                let settings = Settings {
                    nodes: *nodes,
                    ..settings.clone()
                };
                let mut on_each = OnEach::new();
                for model in &inputs.models {
                    let replayed = replay_on(model, &trace, &settings, &inputs.profiles)?;
                    step();
                    match is_searched {
                        true => on_each.push(replayed),
                        false => keep((group, vec![replayed], None)),
                    }
                }
                if !is_searched {
                    continue;
                }
                judge(&mut on_each);
                let examined = Examined {
                    trace: &trace,
                    models: &inputs.models,
                    settings: &settings,
                    profiles: &inputs.profiles,
                };
                let found = examined.search(&on_each, step)?;
                keep((group, on_each, Some(found)));
            }
        }
        Ok(())
    })?;
    let (replayed, found) = grouped(kept);
    let found = is_searched.then(|| Found::of(found));
    let done: usize = replayed.iter().map(Vec::len).sum();
    let missing = Missing::new(planned.into_iter().skip(done).collect());
    let notes = [differences, missing.notes()].concat();
    match json {
        true => {
            let told = replayed.iter().flatten().map(|one| &one.told);
            print_json(&told.collect::<Vec<_>>(), &missing);
        }
        false if done > 0 => {
            let in_blocks = terminal::shows_blocks();
            let text = text(&replayed, &notes, found.as_ref(), in_blocks);
            out!("{text}");
        }
        false => {}
    }
    if let Some(file) = options.out.filter(|_| done > 0) {
        let page = page(&command(), &replayed, &assumptions, &notes, found.as_ref());
        write_page(&file, &page)?;
    }
    Ok(missing.concluded(done))
}

/// Returns the replays in order, in words.
fn planned(inputs: &Inputs, nodes: &[Option<usize>], is_searched: bool) -> Vec<String> {
    let mut all = Vec::new();
    for source in &inputs.sources {
        for nodes in nodes {
            for model in &inputs.models {
                let mut words = format!("{} on {}", source.path().display(), model.name());
                if let Some(nodes) = nodes {
                    words += &format!(" with {nodes} nodes");
                }
                if is_searched {
                    words += " and its assumed values";
                }
                all.push(words);
            }
        }
    }
    all
}

/// Replays of one trace on one number of nodes, by their indices, and the search if it is complete.
type Kept = ((usize, usize), OnEach, Option<Found>);

/// Returns the replays of the same trace on the same nodes together, with verdicts, and the
/// searches.
fn grouped(kept: Vec<Kept>) -> (Vec<OnEach>, Vec<Found>) {
    let mut groups: Vec<((usize, usize), OnEach)> = Vec::new();
    let mut searches = Vec::new();
    for (group, on_each, found) in kept {
        searches.extend(found);
        match groups.last_mut() {
            Some((last, all)) if *last == group => all.extend(on_each),
            _ => groups.push((group, on_each)),
        }
    }
    let mut groups: Vec<OnEach> = groups.into_iter().map(|(_, all)| all).collect();
    for on_each in &mut groups {
        judge(on_each);
    }
    (groups, searches)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_a_number_with_its_unit() {
        let rates = ["1.5GB/s", "1500 MB/s", "0.001MB/s"].map(|word| rate(word).map(|rate| rate.0));
        assert_eq!(rates, [Ok(1.5e9), Ok(1.5e9), Ok(1e3)]);
        for word in [
            "", "1", "GB/s", "0GB/s", "-1GB/s", "nanGB/s", "infMB/s", "1e7GB/s", "1Gflop/s",
            "1 gb/s",
        ] {
            assert!(rate(word).is_err(), "{word}");
        }
    }
}
