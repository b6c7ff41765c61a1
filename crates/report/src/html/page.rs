//! The page: everything in its order.

use super::Described;
use super::frame::head;
use super::reproduction::{self, Reproduction};
use super::section::{Shown, section};
use super::verdict::verdict;
use crate::chart::{escape, ratio};
use crate::comparison::{Thresholds, between};
use crate::gather::rows;
use crate::run_directory::Loaded;
use std::fmt::Write as _;
use verbena_measure::compare::{Change, Verdict};

/// Ratios drawn at most; the table of `verbena compare` has all.
const MOST_RATIOS: usize = 60;

/// The report over one or several runs, and what is known of real adapters where that was computed.
pub fn page(
    runs: &[Loaded],
    benchmarks: &[Described],
    reproduction: Option<&Reproduction>,
) -> String {
    let shown: Vec<Shown<'_>> = runs
        .iter()
        .map(|run| Shown {
            run,
            rows: rows(run),
        })
        .collect();
    let labels: Vec<&str> = runs.iter().map(|run| run.run.label.as_str()).collect();
    let title = format!("Evaluation of {}", labels.join(" and "));
    let mut out = head(&title);
    let measures = runs.iter().any(|run| run.run.fabric != "model");
    for run in runs {
        let lead = lead(run);
        // Models beside a measured adapter are there to be looked up.
        let _ = match measures && run.run.fabric == "model" {
            true => write!(
                out,
                "<details><summary>{lead}</summary>{}</details>",
                verdict(run)
            ),
            false => write!(out, "<p class=\"lead\">{lead}</p>{}", verdict(run)),
        };
    }
    let groups = groups(benchmarks, &shown);
    out.push_str("<nav>");
    for (i, group) in groups.iter().enumerate() {
        let _ = write!(out, "<a href=\"#group{i}\">{}</a>", escape(group));
    }
    if reproduction.is_some() {
        out.push_str("<a href=\"#published\">Published adapters</a>");
    }
    out.push_str("<a href=\"#environment\">Environment</a></nav>");
    // Two measured runs are compared; models may stand beside them.
    let measured: Vec<&Loaded> = runs.iter().filter(|r| r.run.fabric != "model").collect();
    if let ([first, second], _) | (_, [first, second]) = (
        measured.as_slice(),
        runs.iter().collect::<Vec<_>>().as_slice(),
    ) {
        out.push_str(&ratios(first, second));
    }
    for (i, group) in groups.iter().enumerate() {
        let sections: String = benchmarks
            .iter()
            .filter(|benchmark| benchmark.group == *group)
            .map(|benchmark| section(benchmark, &shown))
            .collect();
        let _ = write!(out, "<h2 id=\"group{i}\">{}</h2>{sections}", escape(group));
    }
    if let Some(reproduction) = reproduction {
        let _ = write!(out, "{PUBLISHED}{}", reproduction::body(reproduction));
    }
    for run in runs {
        out.push_str(&failures(run));
    }
    out.push_str("<h2 id=\"environment\">Environment</h2>");
    for run in runs {
        out.push_str(&environment(run));
    }
    out.push_str(METHODS);
    out.push_str("</body></html>\n");
    out
}

const PUBLISHED: &str = "<h2 id=\"published\">Published adapters</h2><p class=\"answers\">What was published of real \
adapters, beside the timing models of them. Computed, not measured; <code>verbena reproduce --out DIR</code> draws the \
papers' figures.</p>";

const METHODS: &str = "<h2>Methods</h2><p>Every sample is kept and no slow one is dropped. Percentiles are nearest-rank, and \
given only where ten samples lie beyond. One-way latency is half a round trip of a symmetric exchange; completion latency is a \
round trip. Rates are taken over the union of all processes' intervals after a common start. Several launches are \
combined by their median. The bound beside a figure says what limits it. All metrics are defined in docs/methods.md, all \
fields of the records in docs/results-schema.md.</p>";

/// What a run was; an import has neither device nor effort.
fn lead(run: &Loaded) -> String {
    let run = &run.run;
    let plural = if run.launches == 1 { "" } else { "es" };
    let adapter = format!("{} {}", run.fabric, run.device);
    let launches = format!("{} launch{plural}", run.launches);
    let words = [adapter.trim(), launches.as_str(), run.effort.as_str()];
    let words: Vec<&str> = words.into_iter().filter(|word| !word.is_empty()).collect();
    escape(&format!("{}: {}", run.label, words.join(", "))).to_string()
}

/// The groups of which there is something to show.
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

fn ratios(first: &Loaded, second: &Loaded) -> String {
    let compared = between(first, second, &Thresholds::default());
    let all = compared.curves.iter().chain(&compared.changes);
    let mut order: Vec<&Change> = all.filter(|change| change.ratio.is_finite()).collect();
    // What changed stands first, whole curves before points.
    let rank = |change: &Change| {
        let changed = matches!(change.verdict, Verdict::Improved | Verdict::Regressed);
        (!changed, change.points == 1)
    };
    let size = |change: &Change| change.ratio.ln().abs();
    order.sort_by(|a, b| rank(a).cmp(&rank(b)).then(size(b).total_cmp(&size(a))));
    order.truncate(MOST_RATIOS);
    if order.is_empty() {
        return String::new();
    }
    format!(
        "<h2>{} over {}</h2><p class=\"answers\">Ratio of medians, with 95 % intervals over launches where there are enough; \
         what changed first, then the largest. A key without a size is a whole curve.</p>{}",
        escape(&second.run.label),
        escape(&first.run.label),
        ratio::svg(&order)
    )
}

fn failures(run: &Loaded) -> String {
    if run.failures.is_empty() {
        return String::new();
    }
    let mut out = format!(
        "<h2>Not measured: {}</h2><div class=\"wide\"><table><thead><tr><th>benchmark</th><th class=\"text\">parameters</th>\
         <th class=\"text\">why</th></tr></thead><tbody>",
        escape(&run.run.label)
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
            "<tr><td>{}</td><td class=\"text\">{}</td><td class=\"{class}\">{}</td></tr>",
            escape(&failure.benchmark),
            escape(&parameters.join(", ")),
            escape(&failure.reason)
        );
    }
    out.push_str("</tbody></table></div>");
    out
}

fn environment(run: &Loaded) -> String {
    let mut out = format!(
        "<h3>{}</h3><p>Reproduce with <code>{}</code></p><table><tbody>",
        escape(&run.run.label),
        escape(&run.run.command)
    );
    for (name, value) in run.run.environment.iter().chain(&run.run.clock) {
        let _ = write!(
            out,
            "<tr><td>{}</td><td class=\"text\">{}</td></tr>",
            escape(name),
            escape(value)
        );
    }
    out.push_str("</tbody></table>");
    for warning in &run.run.warnings {
        let _ = write!(
            out,
            "<p class=\"warning\">{}: {}.</p>",
            escape(&warning.to_string()),
            escape(warning.advice())
        );
    }
    out
}
