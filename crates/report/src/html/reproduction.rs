//! Published figures beside the timing models' results: the table of claims, the reasons for
//! misses, the papers' figures redrawn, and the fitted values.

use super::frame::{foot, head};
use super::validation::{self, Validation};
use crate::chart::escape;
use crate::chart::line::LineChart;
use std::fmt::Write as _;
use verbena_measure::unit;

/// All results of the reproduction.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Reproduction {
    /// Summary in a sentence.
    pub verdict: String,
    /// The papers in their order.
    pub papers: Vec<Paper>,
    /// The claims on an anchored system beside the blind ones, as text.
    pub anchored: Option<String>,
    /// Published curves that are not used for fitting, if they were computed.
    pub validation: Option<Validation>,
    /// The fitted values.
    pub fitted: Vec<Fitted>,
}

/// A paper.
#[derive(Debug, Clone, PartialEq)]
pub struct Paper {
    /// Its name.
    pub name: String,
    /// Its claims.
    pub claims: Vec<Claim>,
    /// Its figures.
    pub plots: Vec<Plot>,
}

/// A claim with the model's result, in words.
#[derive(Debug, Clone, PartialEq)]
pub struct Claim {
    /// Its name within the paper.
    pub name: String,
    /// Section, table or figure.
    pub place: String,
    /// The measured system and quantity.
    pub setup: String,
    /// Published value.
    pub published: String,
    /// The model's value.
    pub model: String,
    /// The relative error.
    pub error: String,
    /// The verdict.
    pub verdict: String,
    /// Whether it is met.
    pub met: bool,
    /// Reason for a miss.
    pub why: Option<String>,
}

/// A redrawn figure.
#[derive(Debug, Clone, PartialEq)]
pub struct Plot {
    /// Its name in the document.
    pub id: String,
    /// Section, table or figure of the paper.
    pub place: String,
    /// Note for readers.
    pub note: Option<String>,
    /// The drawing.
    pub chart: LineChart,
}

/// A fitted value.
#[derive(Debug, Clone, PartialEq)]
pub struct Fitted {
    /// Path of the value.
    pub path: String,
    /// Its value with its unit.
    pub value: String,
    /// The physical bounds.
    pub bounds: String,
    /// Data that it was fitted to.
    pub source: String,
    /// The claims that it affects, if that was computed.
    pub moves: Option<Vec<String>>,
}

/// Returns a separate page.
pub fn reproduction_page(command: &str, reproduction: &Reproduction) -> String {
    let mut out = head("Published figures and the timing models");
    let _ = write!(
        out,
        "<p class=\"lead\">Computed by the timing models, not measured. <code>{}</code></p><nav>",
        escape(command)
    );
    for paper in &reproduction.papers {
        let _ = write!(out, "<a href=\"#{0}\">{0}</a>", escape(&paper.name));
    }
    if reproduction.validation.is_some() {
        out.push_str("<a href=\"#validation\">Validation</a>");
    }
    out.push_str("<a href=\"#fitted\">Fitted values</a></nav>");
    out.push_str(&body(reproduction));
    out.push_str(NOTE);
    out.push_str(&foot());
    out
}

/// Returns the content without head and foot, to embed in another page.
pub fn body(reproduction: &Reproduction) -> String {
    let mut out = format!(
        "<div class=\"verdict\">{}{}</div>",
        escape(&reproduction.verdict),
        misses(reproduction)
    );
    if let Some(anchored) = &reproduction.anchored {
        let _ = write!(
            out,
            "<h2 id=\"anchored\">On the anchored system</h2><pre tabindex=\"0\">{}</pre>",
            escape(anchored)
        );
    }
    for paper in &reproduction.papers {
        let _ = write!(
            out,
            "<h2 id=\"{0}\">{0}</h2>{1}",
            escape(&paper.name),
            claims(paper)
        );
        out.push_str(&folded(
            &paper
                .plots
                .iter()
                .map(|plot| figure(plot, ""))
                .collect::<Vec<_>>(),
        ));
    }
    if let Some(validation) = &reproduction.validation {
        out.push_str(&validation::section(validation));
    }
    if !reproduction.fitted.is_empty() {
        out.push_str(&fitted(&reproduction.fitted));
    }
    out
}

fn misses(reproduction: &Reproduction) -> String {
    let mut out = String::from("<ul>");
    for paper in &reproduction.papers {
        for claim in paper.claims.iter().filter(|claim| !claim.met) {
            let why = claim.why.as_deref();
            let _ = write!(
                out,
                "<li>{}.{} ({}; {} published, {} in the model): {}</li>",
                escape(&paper.name),
                escape(&claim.name),
                escape(&claim.verdict),
                escape(&claim.published),
                escape(&claim.model),
                escape(why.unwrap_or("no reason is known: the shipped profiles meet it."))
            );
        }
    }
    out.push_str("</ul>");
    out
}

fn claims(paper: &Paper) -> String {
    let mut out = String::from(
        "<details open><summary>claims</summary><div class=\"wide\"><table \
         class=\"claims\"><thead><tr><th>claim</th><th class=\"text\">where</th>\
         <th class=\"text\">what</th><th class=\"text\">published</th><th \
         class=\"text\">model</th><th>error</th>\
         <th class=\"text\">verdict</th></tr></thead><tbody>",
    );
    for claim in &paper.claims {
        let class = if claim.met { "text" } else { "text warning" };
        let _ = write!(
            out,
            "<tr><td>{}</td><td class=\"text\">{}</td><td class=\"text\">{}</td><td \
             class=\"text\">{}</td>\
             <td class=\"text\">{}</td><td>{}</td><td class=\"{class}\">{}</td></tr>",
            escape(&claim.name),
            escape(&claim.place),
            escape(&claim.setup),
            escape(&claim.published),
            escape(&claim.model),
            escape(&claim.error),
            escape(&claim.verdict)
        );
    }
    out.push_str("</tbody></table></div></details>");
    out
}

/// Returns folded figures, side by side.
pub(super) fn folded(figures: &[String]) -> String {
    let count = match figures.len() {
        0 => return String::new(),
        1 => "1 figure".to_owned(),
        count => format!("{count} figures"),
    };
    format!(
        "<details class=\"group\"><summary>{count}</summary><div \
         class=\"benchmarks\">{}</div></details>",
        figures.concat()
    )
}

/// Returns a drawing with its figures, and additional folded content.
pub(super) fn figure(plot: &Plot, more: &str) -> String {
    let mut out = format!(
        "<section class=\"benchmark one\"><div class=\"about\"><h3 id=\"{}\">{}</h3><p \
         class=\"answers\">{}{}</p></div>",
        escape(&plot.id),
        escape(&plot.chart.title),
        escape(&plot.place),
        plot.note
            .as_ref()
            .map_or(String::new(), |note| format!(". {}", escape(note)))
    );
    out.push_str(&plot.chart.svg());
    out.push_str(&data(&plot.chart));
    out.push_str(more);
    out.push_str("</section>");
    out
}

/// Returns the figures of a chart: a row per x, then the published values.
fn data(chart: &LineChart) -> String {
    let mut xs: Vec<f64> = chart
        .series
        .iter()
        .flat_map(|series| series.points.iter().map(|point| point.0))
        .collect();
    xs.sort_by(f64::total_cmp);
    xs.dedup();
    let mut out = format!(
        "<details class=\"figures\"><summary>the figures</summary><div class=\"wide\"><table \
         class=\"labelled\"><thead><tr>\
         <th>{}</th>",
        escape(&chart.x_name)
    );
    for series in &chart.series {
        let _ = write!(out, "<th>{}</th>", escape(&series.label));
    }
    out.push_str("</tr></thead><tbody>");
    for x in xs {
        let _ = write!(out, "<tr><td class=\"text\">{}</td>", say(x, &chart.x_unit));
        for series in &chart.series {
            let point = series.points.iter().find(|point| point.0 == x);
            let text = point.map_or("-".to_owned(), |point| say(point.1, &chart.y_unit));
            let label = escape(&series.label);
            let _ = write!(out, "<td data-of=\"{label}\">{text}</td>");
        }
        out.push_str("</tr>");
    }
    out.push_str("</tbody></table>");
    if !chart.references.is_empty() || !chart.marks.is_empty() {
        out.push_str(&references(chart));
    }
    out.push_str("</div></details>");
    out
}

fn references(chart: &LineChart) -> String {
    let mut out = format!(
        "<table><thead><tr><th class=\"text\">published</th><th \
         class=\"text\">curve</th><th>{}</th><th>value</th></tr></thead><tbody>",
        escape(&chart.x_name)
    );
    for reference in &chart.references {
        let (from, to) = reference.x;
        let place = match from == to {
            true => say(from, &chart.x_unit),
            false => format!("{} to {}", say(from, &chart.x_unit), say(to, &chart.x_unit)),
        };
        let y = |value: f64| say(value, &chart.y_unit);
        let value = match (reference.value, reference.low, reference.high) {
            (Some(value), _, _) => y(value),
            (None, Some(low), Some(high)) => format!("{} to {}", y(low), y(high)),
            (None, Some(low), None) => format!("at least {}", y(low)),
            (None, None, Some(high)) => format!("at most {}", y(high)),
            (None, None, None) => "-".to_owned(),
        };
        let curve = chart.series.get(reference.series);
        let _ = write!(
            out,
            "<tr><td class=\"text\">{}</td><td \
             class=\"text\">{}</td><td>{place}</td><td>{value}</td></tr>",
            escape(&reference.label),
            escape(curve.map_or("", |series| &series.label))
        );
    }
    for mark in &chart.marks {
        let _ = write!(
            out,
            "<tr><td class=\"text\">{}</td><td class=\"text\"></td><td>{}</td><td>-</td></tr>",
            escape(&mark.label),
            say(mark.x, &chart.x_unit)
        );
    }
    out.push_str("</tbody></table>");
    out
}

fn say(value: f64, unit_name: &str) -> String {
    escape(&unit::display(value, unit_name))
}

fn fitted(values: &[Fitted]) -> String {
    let computed = values.iter().any(|value| value.moves.is_some());
    let mut out = String::from(
        "<h2 id=\"fitted\">Fitted values</h2><div class=\"wide\"><table \
         class=\"fitted\"><thead><tr><th>value</th><th>is</th><th>bounds</th>\
         <th class=\"text\">fitted to</th>",
    );
    if computed {
        out.push_str("<th>claims</th><th class=\"text\">which it moves</th>");
    }
    out.push_str("</tr></thead><tbody>");
    for value in values {
        let _ = write!(
            out,
            "<tr><td>{}</td><td>{}</td><td>{}</td><td class=\"text\">{}</td>",
            escape(&value.path),
            escape(&value.value),
            escape(&value.bounds),
            escape(&value.source)
        );
        if let Some(moves) = &value.moves {
            let _ = write!(
                out,
                "<td>{}</td><td class=\"text\">{}</td>",
                moves.len(),
                escape(&moves.join(", "))
            );
        }
        out.push_str("</tr>");
    }
    out.push_str("</tbody></table></div>");
    out
}

const NOTE: &str = "\
<h2>How to read it</h2><p>Curves are the models', diamonds and bars the published values: a \
diamond is a value, two joined by a line a value over several places, a bar a bound. A claim is \
met within 5 % of an absolute value, 10 % of a ratio, inside a bound, or if the curve has the \
stated shape. The profiles' fitted values were chosen to meet these same claims, so this is the \
quality of a fit. The held-out curves show the quality of predictions: published and computed, \
with each point's residual, the ratio of the two, highlighted where it is more than a quarter \
off. Parts and equations are in docs/models-parts.md, \
sources in docs/models-profiles.md; claims.json has everything as data.</p>";
