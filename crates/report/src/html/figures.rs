//! The figures behind a drawing, folded: a table to read, and the same as tab-separated text, which
//! one click selects for a spreadsheet.

use super::curves::Curves;
use super::shown::Shown;
use crate::chart::escape;
use std::fmt::Write as _;
use verbena_measure::unit;

/// Maximum number of run columns that fit a narrow screen.
const MOST_COLUMNS: usize = 3;

/// Returns tab-separated text that one click selects.
pub fn copyable(lines: &[String]) -> String {
    format!(
        "<details class=\"copy\"><summary>as text to copy</summary><p class=\"note\">A click \
         selects all of it; units are nanoseconds, bytes, bytes a second.</p><pre \
         tabindex=\"0\">{}</pre></details>",
        escape(&lines.join("\n"))
    )
}

/// Returns the figures of curves: a row for each kind and x, a column per run.
pub fn of_curves(curves: &Curves, runs: &[Shown<'_>]) -> String {
    let present = |run: &usize| curves.all.iter().any(|curve| curve.run == *run);
    let columns: Vec<usize> = (0..runs.len()).filter(present).collect();
    let labels = columns.iter().map(|run| runs[*run].run.run.label.as_str());
    let labels: Vec<&str> = labels.collect();
    let mut text = vec![[&["", &curves.axis][..], &labels[..]].concat().join("\t")];
    // With more columns, a narrow screen shows the run's name with each figure.
    let is_labelled = labels.len() > MOST_COLUMNS;
    let mut out = format!(
        "<details class=\"figures\"><summary>the figures</summary><div \
         class=\"wide\"><table{}><thead><tr>\
         <th class=\"text\">of</th><th>{}</th>",
        if is_labelled {
            " class=\"labelled\""
        } else {
            ""
        },
        escape(&curves.axis)
    );
    for label in &labels {
        let _ = write!(out, "<th>{}</th>", escape(label));
    }
    out.push_str("</tr></thead><tbody>");
    for kind in curves.kinds() {
        let of_kind = || curves.all.iter().filter(|curve| curve.kind == kind);
        let mut xs: Vec<f64> = of_kind()
            .flat_map(|curve| curve.points.iter().map(|point| point.0))
            .collect();
        xs.sort_by(f64::total_cmp);
        xs.dedup();
        for x in xs {
            let value = |run: &usize| {
                let curve = of_kind().find(|curve| curve.run == *run)?;
                let point = curve.points.iter().find(|point| point.0 == x)?;
                Some(point.1)
            };
            let values: Vec<Option<f64>> = columns.iter().map(value).collect();
            let _ = write!(
                out,
                "<tr><td class=\"text\">{}</td><td>{}</td>",
                escape(kind),
                escape(&unit::display(x, curves.x_unit()))
            );
            let mut line = format!("{kind}\t{x}");
            for (value, label) in values.into_iter().zip(&labels) {
                let shown = value.map_or("-".to_owned(), |v| unit::display(v, &curves.unit));
                let label = match is_labelled {
                    true => format!(" data-of=\"{}\"", escape(label)),
                    false => String::new(),
                };
                let _ = write!(out, "<td{label}>{}</td>", escape(&shown));
                line += &value.map_or("\t".to_owned(), |v| format!("\t{v}"));
            }
            out.push_str("</tr>");
            text.push(line);
        }
    }
    out.push_str("</tbody></table></div>");
    out.push_str(&copyable(&text));
    out.push_str("</details>");
    out
}
