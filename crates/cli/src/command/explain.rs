//! `verbena explain`: breaks the time of one operation on a timing model down by stage.

use std::fmt::Write as _;
use std::path::PathBuf;

use crate::exit::Exit;
use crate::failure::Failure;
use crate::number;
use crate::output::out;
use crate::profiles::{AnchorOptions, ProfileOptions, print_remarks};
use verbena_bench::target::{Found, Target};
use verbena_calibrate::explain::{Explained, explain};
use verbena_measure::unit;
use verbena_report::chart::timeline::Bar;
use verbena_report::file::replace;
use verbena_report::html::{Operation, explanation};
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
    let benchmark = find(&arguments.benchmark).ok_or_else(|| {
        let name = &arguments.benchmark;
        Failure::Input(format!("no benchmark {name:?}; `verbena list` shows all"))
    })?;
    let anchors = &arguments.anchors;
    anchors.check(std::slice::from_ref(&arguments.target))?;
    let Found::Model(model) = anchors.find(&arguments.profiles, &arguments.target)? else {
        let text = "only models can be explained: use --on model:PROFILE; `verbena list` names the \
             profiles";
        return Err(Failure::Input(text.to_owned()));
    };
    let options = Options {
        sizes: Some(arguments.sizes.clone()),
        pairs: Some(arguments.pairs.clone()),
        mode: Some(Mode::Lockstep),
        transports: Some(arguments.transports.clone()),
        inline: arguments.inline,
        ..Options::default()
    };
    let explained = explain(model.machine.clone(), benchmark, options, model.fidelity)
        .map_err(|error| Failure::Suite(error.to_string()))?;
    if explained.is_empty() {
        let text = format!("{} measures nothing on {}", benchmark.name, model.label());
        return Err(Failure::Input(text));
    }
    print_remarks([model.as_ref()]);
    let mut operations = Vec::new();
    for one in &explained {
        let title = title(benchmark.name, one);
        let operation = operation(title, one);
        out!("{}", table(&operation, model.machine.name(), one));
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
