//! `verbena coverage [OPTIONS] [-- CMD...]`: runs CMD on the adapter and reports which outcomes of
//! verbs calls it took, and which were never seen; without CMD, reports data files.
//!
//! All processes count in a data file that they map (`verbena_coverage::file`), so several runs may
//! add to one file at the same time, and a killed process loses nothing.

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::adapter_options::{self as options, Options};
use crate::exit::Exit;
use crate::failure::Failure;
use serde_json::{Map, Value, json};
use verbena_bench::temporary::Directory;
use verbena_coverage::file;
use verbena_coverage::possible::{GROUPS, Group, covered, percent};
use verbena_coverage::requirement::{self, Requirement, Threshold};
use verbena_coverage::seen::Seen;
use verbena_coverage::text::{Row, rows};
use verbena_report::file::replace;
use verbena_report::html::coverage_page;
use verbena_run::environment::Environment;
use verbena_run::libraries::Libraries;
use verbena_run::supervise;

/// The arguments of `verbena coverage`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Keep the counts in this file, for later reports and runs
    ///
    /// On a local file system. Without a command, report this file.
    #[arg(long, value_name = "FILE")]
    data_file: Option<PathBuf>,

    /// Add to the data file instead of replacing it
    ///
    /// Several runs may add to one file at the same time.
    #[arg(long, requires = "data_file")]
    append: bool,

    /// Report the sum of these data files; store it with --data-file
    ///
    /// May be repeated.
    #[arg(long, value_name = "FILE", conflicts_with = "command")]
    combine: Vec<PathBuf>,

    /// Write the report as JSON to this file, `-` for standard output
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,

    /// Write the report as an HTML page to this file
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,

    /// Fail (exit code 1) unless this was seen
    ///
    /// A completion status (`RNR_RETRY_EXC`, `RETRY_EXC:RDMA_WRITE`), a failure of a call
    /// (`ibv_reg_mr`, `ibv_reg_mr:ENOMEM`), an event (`PORT_ERR`, `REJECTED`, `REJECTED:28`), or
    /// all of a group (`statuses`, `calls`, `events`, `cm-events`). May be repeated.
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = requirement::parse)]
    require: Vec<Requirement>,

    /// Fail (exit code 1) if fewer percent were seen: N or GROUP=N
    ///
    /// Of all outcomes, or of a group (`statuses`, `calls`, `events`, `cm-events`). May be
    /// repeated.
    #[arg(
        long,
        value_name = "PERCENT",
        value_delimiter = ',',
        value_parser = requirement::parse_threshold
    )]
    fail_under: Vec<Threshold>,

    /// Print no report, only failures of --require and --fail-under
    #[arg(long)]
    quiet: bool,

    /// Use the system's libibverbs and its adapters
    #[arg(long, conflicts_with_all = ["path", "link", "interface", "allow", "tunnels"])]
    system: bool,

    #[command(flatten)]
    options: Options,

    /// Command to run, with its arguments
    #[arg(
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "CMD"
    )]
    command: Vec<OsString>,
}

/// Runs the command and reports its coverage, or reports data files.
///
/// # Errors
///
/// Fails if the command cannot be executed, or a file cannot be read or written.
pub fn run(arguments: Arguments) -> Result<Exit, Failure> {
    if arguments.command.is_empty() {
        return stored(&arguments);
    }
    let (exit, seen) = counted(&arguments)?;
    // On standard error, because standard output belongs to the command.
    if seen.is_empty() {
        eprintln!(
            "verbena: no verbs call was counted; programs that are linked statically or set \
             LD_PRELOAD themselves cannot be traced"
        );
    } else if !arguments.quiet {
        // In one write, because other processes may write to the same stream. Errors are ignored:
        // without a reader nothing is lost.
        let _ = io::stderr().write_all(seen.to_string().as_bytes());
    }
    let words = arguments.command.iter().map(|word| word.to_string_lossy());
    let verdict = reported(&arguments, &words.collect::<Vec<_>>().join(" "), &seen)?;
    // A failure of the program takes precedence over one of its coverage.
    Ok(if exit == Exit::OfCommand(0) {
        verdict
    } else {
        exit
    })
}

/// Runs the command and returns its counts, with --append added to the earlier ones of the file.
fn counted(arguments: &Arguments) -> Result<(Exit, Seen), Failure> {
    let directory = Directory::create()?;
    let path = match &arguments.data_file {
        None => directory.path().join("coverage"),
        // Programs may change their directory before their first call.
        Some(path) => std::path::absolute(path).map_err(Failure::system("find the directory"))?,
    };
    match arguments.append {
        true => file::create_or_keep(&path)?,
        false => file::create(&path)?,
    }
    let environment = match arguments.system {
        true => Environment::of_the_system(),
        false => arguments.options.environment()?,
    };
    let tracer = Libraries::beside_this_executable()?.tracer()?;
    let environment = environment.with_tracer(&tracer).with(file::VARIABLE, &path);
    let command = options::command("coverage", &arguments.command, &environment)?;
    let status = supervise::run(command, || options::name(&arguments.command))?;
    Ok((Exit::of_child(status), file::read(&path)?))
}

/// Reports data files, and stores the sum of combined ones.
fn stored(arguments: &Arguments) -> Result<Exit, Failure> {
    let Arguments {
        data_file,
        combine,
        append,
        ..
    } = arguments;
    let mut paths: Vec<&Path> = combine.iter().map(PathBuf::as_path).collect();
    if let Some(path) = data_file
        && (combine.is_empty() || *append && path.exists())
    {
        paths.push(path);
    }
    if paths.is_empty() {
        let words = "give a command to run, or a data file to report (--data-file, --combine)";
        return Err(Failure::Input(words.into()));
    }
    let mut seen = Seen::default();
    for path in &paths {
        seen.add_all(&file::read(path)?);
    }
    if let (Some(path), false) = (data_file, combine.is_empty()) {
        file::write(path, &seen)?;
    }
    let to_stdout = arguments.json.as_deref() == Some(Path::new("-"));
    if !arguments.quiet && !to_stdout {
        let _ = io::stdout().write_all(seen.to_string().as_bytes());
    }
    let names: Vec<String> = paths
        .iter()
        .map(|path| path.display().to_string())
        .collect();
    reported(arguments, &names.join(" "), &seen)
}

/// Writes the reports that options name, and checks the requirements.
fn reported(arguments: &Arguments, subject: &str, seen: &Seen) -> Result<Exit, Failure> {
    let write = |path: &Path, text: &str| {
        replace(path, text)
            .map_err(|source| Failure::Input(format!("cannot write {}: {source}", path.display())))
    };
    if let Some(path) = &arguments.json {
        let text = format!("{:#}\n", as_json(seen));
        match path.as_os_str() == "-" {
            true => io::stdout()
                .write_all(text.as_bytes())
                .map_err(Failure::system("write the report"))?,
            false => write(path, &text)?,
        }
    }
    if let Some(path) = &arguments.html {
        write(path, &coverage_page(subject, seen))?;
    }
    let missing = arguments.require.iter().flat_map(|one| one.missing(seen));
    let missing: Vec<String> = missing.collect();
    let below = arguments
        .fail_under
        .iter()
        .filter_map(|one| one.missed(seen));
    let below: Vec<String> = below.collect();
    if !missing.is_empty() {
        eprintln!("verbena: required and never seen: {}", missing.join(", "));
    }
    for words in &below {
        eprintln!("verbena: {words}");
    }
    Ok(match missing.is_empty() && below.is_empty() {
        true => Exit::Success,
        false => Exit::NegativeResult,
    })
}

/// Returns the counts as JSON (docs/coverage.md).
fn as_json(seen: &Seen) -> Value {
    let row = |group: Group, row: Row| {
        let parts: Map<String, Value> = row
            .parts
            .into_iter()
            .map(|(name, count)| (name, count.into()))
            .collect();
        let mut item = json!({ "name": row.item.name, "count": row.item.count, "parts": parts });
        if group == Group::Calls {
            item["calls"] = row.calls.into();
        }
        item
    };
    let group = |group: Group| {
        let (count, all) = group.covered(seen);
        let items = rows(group, seen).into_iter().map(|one| row(group, one));
        let items: Vec<Value> = items.collect();
        json!({ "name": group.name(), "seen": count, "possible": all, "items": items })
    };
    json!({
        "version": 1,
        "processes": seen.processes,
        "not_counted": seen.lost,
        "percent": percent(covered(seen)),
        "groups": GROUPS.map(group),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use verbena_coverage::outcome::Outcome;

    #[test]
    fn json_has_each_group_with_its_items() {
        let mut seen = Seen::default();
        seen.add(Outcome::Completion(0, 0), 3);
        seen.add(Outcome::Call("ibv_reg_mr", 12), 1);
        seen.add(Outcome::Call("ibv_reg_mr", 0), 1);
        let json = as_json(&seen);
        let groups = json["groups"].as_array().unwrap();
        assert_eq!(groups.len(), 4);
        assert_eq!(
            groups[0]["items"][0],
            json!({"name": "SUCCESS", "count": 3, "parts": {"SEND": 3}})
        );
        assert_eq!(
            (&groups[0]["seen"], &groups[0]["possible"]),
            (&json!(1), &json!(17))
        );
        let failure = json!({"name": "ibv_reg_mr", "calls": 2, "count": 1, "parts": {"ENOMEM": 1}});
        assert_eq!(groups[1]["items"][0], failure);
        assert_eq!(groups[3]["possible"], 0);
    }
}
