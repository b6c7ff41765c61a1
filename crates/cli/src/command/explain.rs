//! `verbena explain`: breaks the time of one operation on a timing model down by stage.

use std::fmt::Write as _;
use std::path::PathBuf;

use crate::exit::Exit;
use crate::failure::Failure;
use crate::number;
use crate::output::out;
use crate::profiles::{AnchorOptions, FabricOptions, ProfileOptions, find_in, print_remarks};
use verbena_bench::predicted::Predicting;
use verbena_bench::target::{Found, Target};
use verbena_calibrate::explain::{Explained, explain, explain_messages};
use verbena_measure::result::Value;
use verbena_measure::unit;
use verbena_report::chart::timeline::Bar;
use verbena_report::file::replace;
use verbena_report::html::{Operation, explanation};
use verbena_reproduce::messages;
use verbena_workloads::{Mode, Options, find};

/// What to explain.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Benchmark, e.g. latency.write; `verbena list` shows all
    benchmark: String,

    /// Choose the model: model:PROFILE[:message] or machine:NAME
    #[arg(long = "on", value_name = "TARGET")]
    target: Target,

    /// Use these message sizes, in bytes, KiB (4K) or MiB (1M)
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "8", value_parser = number::message_size)]
    sizes: Vec<usize>,

    /// Use these numbers of pairs in multi-pair benchmarks
    ///
    /// The pairs run in lockstep.
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "1", value_parser = number::between::<usize>(1..=512))]
    pairs: Vec<usize>,

    /// Use these transports: rc, uc, ud, xrc
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "rc", value_parser = ["rc", "uc", "ud", "xrc"])]
    transports: Vec<String>,

    /// Post messages up to this size inline
    #[arg(long, value_name = "BYTES", value_parser = number::inline_size)]
    inline: Option<u32>,

    #[command(flatten)]
    profiles: ProfileOptions,

    #[command(flatten)]
    fabric: FabricOptions,

    #[command(flatten)]
    anchors: AnchorOptions,

    /// Write the timelines to this HTML file
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// Prints the breakdown and writes the page of timelines if requested.
///
/// # Errors
///
/// Fails if the benchmark or model is unknown, the model does not support the benchmark, or the
/// page cannot be written.
pub fn run(arguments: Arguments) -> Result<Exit, Failure> {
    arguments
        .anchors
        .check(std::slice::from_ref(&arguments.target))?;
    let profiles = arguments.anchors.added_to(arguments.profiles.profiles());
    let profiles = arguments.fabric.added_to(profiles)?;
    let Found::Model(model) = find_in(&arguments.target, &profiles)? else {
        let text = "only models can be explained: use --on model:PROFILE; `verbena list` names the \
             profiles";
        return Err(Failure::Input(text.to_owned()));
    };
    let unknown = || {
        let name = &arguments.benchmark;
        Failure::Input(format!("no benchmark {name:?}; `verbena list` shows all"))
    };
    let system = model.machine.system();
    let explained = match (messages::find(&arguments.benchmark), system) {
        (Some(entry), Some(system)) => {
            let sizes: Vec<u64> = arguments.sizes.iter().map(|&size| size as u64).collect();
            explain_messages(system, entry, &sizes, model.fidelity)
        }
        (Some(_), None) => {
            let (name, model) = (&arguments.benchmark, model.machine.name());
            let text = format!("{name} needs a message-passing library, and {model} has none");
            return Err(Failure::Input(text));
        }
        (None, _) => {
            let benchmark = find(&arguments.benchmark).ok_or_else(unknown)?;
            explain(
                model.machine.clone(),
                benchmark,
                options(&arguments),
                model.fidelity,
            )
        }
    };
    let explained = explained.map_err(|error| Failure::Suite(error.to_string()))?;
    if explained.is_empty() {
        let text = format!(
            "{} measures nothing on {}",
            arguments.benchmark,
            model.label()
        );
        return Err(Failure::Input(text));
    }
    let predicting = Predicting::of(&model, &arguments.profiles.profiles())?;
    print_remarks([model.as_ref()]);
    arguments.profiles.report_basis([&arguments.target])?;
    let mut operations = Vec::new();
    for one in &explained {
        let title = title(&arguments.benchmark, one);
        let operation = operation(title, one);
        out!("{}", table(&operation, model.machine.name(), one));
        if let Some(predicting) = &predicting {
            out!("{}", interval(predicting, &arguments.benchmark, one));
        }
        operations.push(operation);
    }
    if let Some(out) = &arguments.out {
        let command = std::env::args().collect::<Vec<_>>().join(" ");
        let page = explanation(&model.label(), &command, &operations);
        replace(out, &page).map_err(|source| Failure::System {
            doing: "write the page",
            source,
        })?;
    }
    Ok(Exit::Success)
}

/// Returns the interval of the operation's time, in a line.
fn interval(predicting: &Predicting, benchmark: &str, explained: &Explained) -> String {
    let bytes = match explained.parameters.get("size") {
        Some(Value::Number(bytes)) => *bytes as u64,
        _ => 0,
    };
    let transport = match explained.parameters.get("transport") {
        Some(Value::Word(word)) => Some(word.as_str()),
        _ => None,
    };
    match predicting.interval(benchmark, transport, "ns", bytes) {
        Some(interval) => {
            let (low, high) = interval.range(explained.took.nanos());
            format!(
                "  {:.0} % interval {} to {}, {}\n",
                100.0 * interval.level,
                unit::time(low),
                unit::time(high),
                interval.origin()
            )
        }
        None => "  no interval: no published curve is of this kind\n".to_owned(),
    }
}

fn options(arguments: &Arguments) -> Options {
    Options {
        sizes: Some(arguments.sizes.clone()),
        pairs: Some(arguments.pairs.clone()),
        mode: Some(Mode::Lockstep),
        transports: Some(arguments.transports.clone()),
        inline: arguments.inline,
        ..Options::default()
    }
}

fn title(benchmark: &str, explained: &Explained) -> String {
    let words: Vec<String> = explained
        .parameters
        .iter()
        .map(|(name, value)| format!("{name} {value}"))
        .collect();
    format!("{benchmark}: {}", words.join(", "))
}

fn table(operation: &Operation, system: &str, explained: &Explained) -> String {
    let (title, duration) = (&operation.title, operation.duration());
    let mut out = format!("{title}, on {system}: {duration}\n");
    let _ = writeln!(
        out,
        "  {:<16} {:<8} {:>10} {:>8}",
        "stage", "where", "time", "share"
    );
    for share in &explained.shares {
        let _ = writeln!(
            out,
            "  {:<16} {:<8} {:>10} {:>6.1} %",
            share.stage,
            format!("node {}", share.node),
            unit::time(share.time.nanos()),
            share.time.nanos() / explained.took.nanos() * 100.0
        );
    }
    out
}

fn operation(title: String, explained: &Explained) -> Operation {
    let bars = explained.spans.iter().map(|span| Bar {
        lane: format!("{}, node {}", span.stage, span.place),
        kind: span.stage.to_owned(),
        start: span.start.nanos(),
        end: span.end.nanos(),
    });
    let shares = explained.shares.iter().map(|share| {
        let place = format!("node {}", share.node);
        (share.stage.to_owned(), place, share.time.nanos())
    });
    Operation {
        title,
        took: explained.took.nanos(),
        one_way: explained.one_way.map(|time| time.nanos()),
        bars: bars.collect(),
        shares: shares.collect(),
    }
}
