//! `verbena sweep`: runs a parameter study on the timing models, on local cores or as the tasks of
//! a Slurm array.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::exit::Exit;
use crate::failure::Failure;
use crate::interrupt;
use crate::number;
use crate::output::{data, outln};
use crate::profiles::{FabricOptions, ProfileOptions, connections};
use verbena_bench::fabric_files::FabricFiles;
use verbena_bench::progress_line::Bar;
use verbena_bench::{forecast, time_budget};
use verbena_calibrate::study::{
    FabricSource, Part, Script, Store, Study, StudyPoint, run as compute,
};
use verbena_model::profile::{Library, Topology};
use verbena_reproduce::effort::Effort;

/// Arguments of `verbena sweep`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Study: a TOML file
    ///
    /// With benchmark, system, parameters and, under [profile], values; each one or a list.
    /// Sections [fabric.NAME] name a fabric's files: topology, routes and hosts.
    file: PathBuf,

    /// Write results to this directory [default: FILE-results]
    ///
    /// Existing results are not computed again.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,

    /// Compute on N threads; results do not depend on N
    #[arg(long, value_name = "N", default_value_t = 2,
        value_parser = number::between::<u32>(1..=1024))]
    threads: u32,

    /// Print the script of a Slurm array, and compute nothing
    ///
    /// With 16 tasks, or as many as given.
    #[arg(long, value_name = "TASKS", num_args = 0..=1, require_equals = true,
        default_missing_value = "16",
          value_parser = number::between::<u32>(1..=100_000), conflicts_with = "part")]
    slurm: Option<u32>,

    /// Compute one share of the points: NUMBER/TASKS, from 0
    ///
    /// Without merging: run again without --part to merge.
    #[arg(long, value_name = "NUMBER/TASKS")]
    part: Option<Part>,

    /// End after TIME (30s, 10m, 1.5h) with the points that are complete
    ///
    /// The others are named, and the exit code is 124. The same command computes them.
    #[arg(long, value_name = "TIME", value_parser = time_budget::parse, conflicts_with = "slurm")]
    budget: Option<Duration>,

    #[command(flatten)]
    profiles: ProfileOptions,

    #[command(flatten)]
    fabric: FabricOptions,
}

/// Reads a fabric that a study names; paths are relative to the study.
fn load(study: &Path, source: &FabricSource) -> Result<Topology, String> {
    let directory = study.parent().unwrap_or(Path::new(""));
    let hosts = source
        .hosts
        .as_ref()
        .map(|list| match list.strip_prefix('@') {
            Some(file) => format!("@{}", directory.join(file).display()),
            None => list.clone(),
        });
    let files = FabricFiles {
        topology: directory.join(&source.topology),
        routes: source.routes.as_ref().map(|file| directory.join(file)),
        hosts,
    };
    connections(&files).map_err(|error| error.to_string())
}

/// Missing points that are named.
const NAMED: usize = 40;

/// Computes the missing points and merges, or prints the script.
///
/// # Errors
///
/// Fails if the study or the profiles cannot be read, or results cannot be written.
pub fn run(arguments: Arguments) -> Result<Exit, Failure> {
    let input = |error: &dyn std::fmt::Display| Failure::Input(error.to_string());
    let file = arguments.file.display().to_string();
    let text = std::fs::read_to_string(&arguments.file)
        .map_err(|error| Failure::Input(format!("{file}: {error}")))?;
    let library = arguments.profiles.library()?;
    let common = arguments.fabric.connections()?;
    let load = |source: &FabricSource| load(&arguments.file, source);
    let study = Study::read(&file, &text, &library, common, load).map_err(|e| input(&e))?;
    let out = arguments
        .out
        .clone()
        .unwrap_or_else(|| beside(&arguments.file));
    if let Some(tasks) = arguments.slurm {
        data!("{}", script(&arguments, &out, study.size(), tasks)?);
        return Ok(Exit::Success);
    }
    let basis = study.basis(&library).map_err(|e| input(&e))?;
    let differences = study.differences(&library).map_err(|e| input(&e))?;
    let store = Store::open(&out, &text, &basis).map_err(|e| input(&e))?;
    let known = store.load().map_err(|e| input(&e))?.len();
    if known > 0 {
        eprintln!(
            "{known} of {} points are in {} already",
            study.size(),
            out.display()
        );
    }
    interrupt::watch()?;
    time_budget::begin(arguments.budget);
    let part = arguments.part.unwrap_or(Part::ALL);
    let threads = arguments.threads as usize;
    let missing = study.missing(&store, part).map_err(|e| input(&e))?;
    let announced = announce(&missing, &library, threads)?;
    let (study, store) = (Arc::new(study), Arc::new(store));
    let computed = interrupt::unless_interrupted({
        let (study, store) = (Arc::clone(&study), Arc::clone(&store));
        let bar = Bar::of_models(missing.len(), "points of the study");
        move || compute(&study, &library, &store, part, threads, &|_, _| bar.step())
    });
    drop(announced);
    if let Some(computed) = computed {
        computed.map_err(|e| input(&e))?;
    }
    let missing = study.missing(&store, part).map_err(|e| input(&e))?;
    if !missing.is_empty() {
        let known = store.load().map_err(|e| input(&e))?.len();
        let (all, out) = (study.size(), out.display());
        interrupt::tell(&format!(
            "{known} of {all} points are in {out}; the same command computes the others"
        ));
        for (number, point) in missing.iter().take(NAMED) {
            eprintln!("verbena: not computed: point {number}, {point}");
        }
        if missing.len() > NAMED {
            let more = missing.len() - NAMED;
            eprintln!("verbena: not computed: {more} more points");
        }
        return Ok(interrupt::exit());
    }
    match arguments.part {
        Some(part) => outln!(
            "share {}/{} is in {}; the same command without --part merges all",
            part.number,
            part.of,
            out.display()
        ),
        None => {
            let merged = store.merge().map_err(|e| input(&e))?;
            outln!("{merged} points in {}", out.join("sweep.csv").display());
            differences.iter().for_each(|one| outln!("{one}"));
        }
    }
    Ok(Exit::Success)
}

/// Shows an estimate of the time of all points together, if they take long.
///
/// # Errors
///
/// Fails if a point needs more memory than there is.
fn announce(
    points: &[(usize, StudyPoint)],
    library: &Library,
    threads: usize,
) -> Result<forecast::Computation, Failure> {
    let mut all = Effort::default();
    let mut memory = Vec::new();
    for (number, point) in points {
        let effort = point.effort(library).unwrap_or_default();
        if let Some(reason) = forecast::shortage(effort.memory) {
            let text = format!("point {number}, {point}: {reason}");
            return Err(Failure::Input(text));
        }
        memory.push(effort.memory);
        all = all.and(effort);
    }
    // The largest ones may be computed at the same time.
    memory.sort_unstable_by(|one, other| other.cmp(one));
    let largest = &memory[..memory.len().min(threads.max(1))];
    if let Some(reason) = forecast::shortage(largest.iter().sum()) {
        let number = largest.len();
        let text = format!("{number} points at a time: {reason}; fewer --threads need less");
        return Err(Failure::Input(text));
    }
    let threads = threads.max(1) as u64;
    let of_thread = Effort {
        messages: all.messages / threads,
        parts: all.parts / threads,
        ..all
    };
    let what = format!("{} points", points.len());
    Ok(forecast::begin(&what, of_thread))
}

/// Returns the default output directory: in the working directory, named after the study.
fn beside(file: &Path) -> PathBuf {
    let stem = file.file_stem().unwrap_or_default().to_string_lossy();
    PathBuf::from(format!("{stem}-results"))
}

/// Returns the Slurm script. Paths are absolute, because its tasks start in other directories on
/// other hosts.
fn script(arguments: &Arguments, out: &Path, points: usize, tasks: u32) -> Result<String, Failure> {
    let whole = |path: &Path| {
        let path = std::path::absolute(path).map_err(|source| Failure::Directory {
            path: path.to_owned(),
            source,
        })?;
        Ok::<_, Failure>(path.display().to_string())
    };
    let program = std::env::current_exe().map_err(Failure::system("find this program"))?;
    let threads = arguments.threads as usize;
    let mut command = vec![
        whole(&program)?,
        "sweep".to_owned(),
        whole(&arguments.file)?,
        "--out".to_owned(),
        whole(out)?,
        "--threads".to_owned(),
        threads.to_string(),
    ];
    for setting in &arguments.profiles.set {
        command.extend(["--set".to_owned(), setting.clone()]);
    }
    for directory in &arguments.profiles.profiles {
        command.extend(["--profiles".to_owned(), whole(directory)?]);
    }
    let fabric = &arguments.fabric;
    for (option, path) in [
        ("--topology", &fabric.topology),
        ("--routes", &fabric.routes),
    ] {
        match path {
            Some(path) if path.as_os_str() == "-" => {
                let reason = format!("{option} -: the tasks of an array have no standard input");
                return Err(Failure::Input(reason));
            }
            Some(path) => command.extend([option.to_owned(), whole(path)?]),
            None => {}
        }
    }
    if let Some(list) = &fabric.hosts {
        let list = match list.strip_prefix('@') {
            Some("-") => {
                let reason = "--hosts @-: the tasks of an array have no standard input";
                return Err(Failure::Input(reason.to_owned()));
            }
            Some(file) => format!("@{}", whole(Path::new(file))?),
            None => list.clone(),
        };
        command.extend(["--hosts".to_owned(), list]);
    }
    let script = Script {
        command,
        file: &arguments.file,
        points,
        tasks: (tasks as usize).min(points),
        threads,
    };
    Ok(script.text())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_named_after_the_study() {
        assert_eq!(
            beside(Path::new("/a/read-buffer.toml")),
            Path::new("read-buffer-results")
        );
    }
}
