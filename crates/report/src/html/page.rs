//! The page: the first screen, the changes, a page per question, and everything else folded.

use super::changes::changes;
use super::fitted_profile;
use super::frame::{foot, head};
use super::input::{Beside, Described};
use super::lead::lead;
use super::question;
use super::reproduction;
use super::section::section;
use super::shown::Shown;
use super::tile;
use super::verdict::verdict;
use crate::chart::escape;
use crate::gather::{Row, rows};
use crate::ip_table;
use crate::run_directory::Loaded;
use crate::summary;
use std::fmt::Write as _;

/// Returns the report over one or several runs, with data about real adapters.
pub fn page(runs: &[Loaded], benchmarks: &[Described], beside: &Beside<'_>) -> String {
    let shown: Vec<Shown<'_>> = runs
        .iter()
        .map(|run| Shown {
            run,
            rows: rows(run),
        })
        .collect();
    let mut out = head(&title(runs));
    out.push_str(&lead(runs));
    out.push_str(&first_screen(&shown, beside));
    out.push_str(&contents(&shown, beside));
    out.push_str(&changes(runs));
    out.push_str(&question::pages(&shown));
    out.push_str(&ip_table::html(&pairs(&shown), beside.ip));
    out.push_str(&all_benchmarks(benchmarks, &shown));
    out.push_str("<section class=\"fold\"><h2 id=\"findings\">All that was found</h2>");
    for run in runs {
        let _ = write!(
            out,
            "<details><summary>{}</summary>{}{}</details>",
            escape(&run.run.label),
            verdict(run),
            failures(run)
        );
    }
    out.push_str("</section>");
    if let Some(closed) = beside.fitted_profile {
        let _ = write!(
            out,
            "<h2 id=\"predicted\">How well it is predicted</h2><p>A profile was fitted to some of \
             the benchmarks and predicts the others. Dots show the model's figure over the \
             measured one.</p>{}",
            fitted_profile::body(closed)
        );
    }
    if let Some(reproduction) = beside.reproduction {
        let _ = write!(
            out,
            "<section class=\"fold\"><h2 id=\"published\">Published adapters</h2><p>Published \
             figures of real adapters, beside their timing models. \
             Computed, not measured; <code>verbena reproduce --out DIR</code> \
             draws the papers' figures.</p>\
             <details><summary>the claims</summary>{}</details></section>",
            reproduction::body(reproduction)
        );
    }
    out.push_str("<h2 id=\"environment\">How it was measured</h2>");
    for (at, run) in runs.iter().enumerate() {
        out.push_str(&environment(run, if at == 0 { " open" } else { "" }));
    }
    out.push_str(METHODS);
    out.push_str(&foot());
    out
}

/// Returns the title: the measured runs and the models beside them.
fn title(runs: &[Loaded]) -> String {
    let (models, measured): (Vec<&Loaded>, Vec<&Loaded>) =
        runs.iter().partition(|run| run.run.fabric == "model");
    let names = |runs: &[&Loaded]| {
        let names: Vec<&str> = runs.iter().map(|run| run.run.label.as_str()).collect();
        names.join(" and ")
    };
    match (measured.is_empty(), models.is_empty()) {
        (true, _) => format!("Evaluation of {}", names(&models)),
        (_, true) => format!("Evaluation of {}", names(&measured)),
        _ => format!(
            "Evaluation of {} beside {}",
            names(&measured),
            names(&models)
        ),
    }
}

/// Returns the runs with their rows.
fn pairs<'a>(shown: &'a [Shown<'_>]) -> Vec<(&'a Loaded, &'a [Row])> {
    let pairs = shown.iter().map(|shown| (shown.run, &shown.rows[..]));
    pairs.collect()
}

/// Returns tiles and sentences of the first run, beside the other runs and published figures.
fn first_screen(shown: &[Shown<'_>], beside: &Beside<'_>) -> String {
    let pairs = pairs(shown);
    let Some((own, others)) = pairs.split_first() else {
        return String::new();
    };
    let summary = summary::of_rows(*own, others, beside.published);
    match summary.tiles.is_empty() {
        true => String::new(),
        false => format!("{}{}", tile::html(&summary), tile::sentences(&summary)),
    }
}

fn contents(shown: &[Shown<'_>], beside: &Beside<'_>) -> String {
    let mut out = String::from("<nav>");
    for (id, asks) in question::contents(shown) {
        let _ = write!(out, "<a href=\"#{id}\">{asks}</a>");
    }
    if ip_table::is_shown(shown.iter().flat_map(|shown| &shown.rows)) {
        let _ = write!(out, "<a href=\"#ip\">{}</a>", ip_table::TITLE);
    }
    out.push_str(
        "<a href=\"#benchmarks\">All benchmarks</a><a href=\"#findings\">All that was found</a>",
    );
    if beside.fitted_profile.is_some() {
        out.push_str("<a href=\"#predicted\">How well it is predicted</a>");
    }
    if beside.reproduction.is_some() {
        out.push_str("<a href=\"#published\">Published adapters</a>");
    }
    out.push_str("<a href=\"#environment\">How it was measured</a></nav>");
    out
}

/// Returns the benchmarks by group, each with all of its curves and figures.
fn all_benchmarks(benchmarks: &[Described], shown: &[Shown<'_>]) -> String {
    let mut out = String::from("<section class=\"fold\"><h2 id=\"benchmarks\">All benchmarks</h2>");
    let mut count = 0;
    for (at, group) in groups(benchmarks, shown).into_iter().enumerate() {
        let sections: Vec<String> = benchmarks
            .iter()
            .filter(|benchmark| benchmark.group == group)
            .map(|benchmark| section(benchmark, shown))
            .filter(|section| !section.is_empty())
            .collect();
        count += sections.len();
        let _ = write!(
            out,
            "<details class=\"group\" id=\"group{at}\"><summary>{} <span \
             class=\"note\">{}</span></summary>\
             <div class=\"benchmarks\">{}</div></details>",
            escape(group),
            match sections.len() {
                1 => "1 benchmark".to_owned(),
                number => format!("{number} benchmarks"),
            },
            sections.concat()
        );
    }
    let _ = write!(
        out,
        "</section><p class=\"printed note\">The curves and figures of {count} benchmarks are not \
         printed; unfold them first, or read them in the file.</p>"
    );
    out
}

const METHODS: &str = "\
<h2>How to read it</h2><p>A figure is <em>strong</em>, <em>fair</em> or <em>weak</em> by two \
marks, which the tile names and which depend on where it was measured: within one host, over a \
wire, or by a model. The weak mark is at a third of the bar, the strong one at two thirds. \
<em>Unsure</em>: the launches, or a busy machine, allow several of these words, the figure is \
better than its bound, or no source states an expected value. Marks are stated or follow from the \
link's rate; measurements of the day do not move them. Only figures of one kind are ranked. On \
the line of dots better is to the right: the large dot is the figure itself, coloured ones the \
other runs, diamonds published values. The table of the marks is in docs/methods.md.</p><p>Every \
sample is kept and no slow one is dropped. Percentiles are nearest-rank, and given only where ten \
samples lie beyond. One-way latency is half a round trip of a symmetric exchange; completion \
latency is a round trip. Rates are taken over the union of all processes' intervals after a \
common start. Several launches are combined by their median. The bound of a figure is its limit. \
All metrics are defined in docs/methods.md, all fields of the records in \
docs/results-schema.md.</p>";

fn groups<'a>(benchmarks: &'a [Described], shown: &[Shown<'_>]) -> Vec<&'a str> {
    let rows = || shown.iter().flat_map(|shown| &shown.rows);
    let mut groups: Vec<&str> = Vec::new();
    for benchmark in benchmarks {
        if rows().any(|row| row.benchmark == benchmark.name)
            && !groups.contains(&benchmark.group.as_str())
        {
            groups.push(&benchmark.group);
        }
    }
    groups
}

fn failures(run: &Loaded) -> String {
    if run.failures.is_empty() {
        return String::new();
    }
    let mut out = String::from(
        "<h3>Not measured</h3><table><thead><tr><th class=\"text\">benchmark</th><th \
         class=\"text\">parameters</th>\
         <th class=\"text\">why</th></tr></thead><tbody>",
    );
    for failure in &run.failures {
        let parameters: Vec<String> = failure
            .parameters
            .iter()
            .map(|(name, value)| format!("{name} {value}"))
            .collect();
        let class = if failure.unsupported {
            "text"
        } else {
            "text warning"
        };
        let _ = write!(
            out,
            "<tr><td class=\"text\">{}</td><td class=\"text\">{}</td><td \
             class=\"{class}\">{}</td></tr>",
            escape(&failure.benchmark),
            escape(&parameters.join(", ")),
            escape(&failure.reason)
        );
    }
    out.push_str("</tbody></table>");
    out
}

fn environment(run: &Loaded, open: &str) -> String {
    let mut out = format!(
        "<details{open}><summary>{}</summary><p>Reproduce with <code>{}</code></p>",
        escape(&run.run.label),
        escape(&run.run.command)
    );
    for warning in &run.run.warnings {
        let _ = write!(
            out,
            "<p class=\"warning\">{}: {}.</p>",
            escape(&warning.to_string()),
            escape(warning.advice())
        );
    }
    out.push_str("<dl>");
    for (name, value) in run.run.environment.iter().chain(&run.run.clock) {
        let _ = write!(
            out,
            "<div><dt>{}</dt><dd>{}</dd></div>",
            escape(name),
            escape(value)
        );
    }
    out.push_str("</dl></details>");
    out
}
