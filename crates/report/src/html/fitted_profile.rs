//! A profile fitted to a part of the measurements, and its predictions for the rest.

use crate::chart::{escape, ratio};
use std::fmt::Write as _;
use verbena_measure::compare::{Change, Verdict};
use verbena_measure::unit::display;

/// A fitted profile, judged by benchmarks that were held out.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct FittedProfile {
    /// Summary in a sentence.
    pub verdict: String,
    /// Target for the error of a benchmark's predictions, as a share.
    pub target: f64,
    /// Benchmarks used for judging.
    pub judged: Vec<Predicted>,
    /// Benchmarks used for fitting.
    pub fitted: Vec<Predicted>,
    /// The values: path, value with unit, standard error, bounds.
    pub values: Vec<[String; 4]>,
    /// Values that the measurements do not determine, and figures that the model cannot predict.
    pub notes: Vec<String>,
}

/// A benchmark's figures beside the model's.
#[derive(Debug, Clone, PartialEq)]
pub struct Predicted {
    /// Its name.
    pub benchmark: String,
    /// Mean absolute error, as a share.
    pub mean: f64,
    /// Its figures.
    pub figures: Vec<Figure>,
}

/// A figure beside the model's.
#[derive(Debug, Clone, PartialEq)]
pub struct Figure {
    /// Its point.
    pub label: String,
    /// Unit of both values.
    pub unit: String,
    /// Measured value.
    pub measured: f64,
    /// Predicted value.
    pub model: f64,
}

/// Returns the section, without its heading.
pub fn body(closed: &FittedProfile) -> String {
    let mut out = format!("<div class=\"verdict\">{}</div>", escape(&closed.verdict));
    out.push_str("<h3>Predicted, and not fitted to</h3>");
    out.push_str(&benchmarks(&closed.judged, closed.target));
    out.push_str("<h3>Fitted to</h3>");
    out.push_str(&benchmarks(&closed.fitted, closed.target));
    out.push_str(
        "<details><summary>the values</summary><div class=\"wide\"><table><thead><tr><th \
         class=\"text\">value</th><th>fitted</th>\
         <th>standard error</th><th>bounds</th></tr></thead><tbody>",
    );
    for [path, value, error, bounds] in &closed.values {
        let [path, value, error, bounds] = [path, value, error, bounds].map(|text| escape(text));
        let _ = write!(
            out,
            "<tr><td class=\"text\">{path}</td><td>{value}</td><td>{error}</td><td>{bounds}</td>\
             </tr>"
        );
    }
    out.push_str("</tbody></table></div></details>");
    for note in &closed.notes {
        let _ = write!(out, "<p class=\"note\">{}</p>", escape(note));
    }
    out
}

/// Returns each benchmark's error and, folded, the ratio of model over measurement for each figure.
pub(super) fn benchmarks(all: &[Predicted], target: f64) -> String {
    let mut out = String::new();
    for one in all {
        let changes: Vec<Change> = one
            .figures
            .iter()
            .map(|figure| change(figure, target))
            .collect();
        let changes: Vec<&Change> = changes.iter().collect();
        let _ = write!(
            out,
            "<details><summary>{} <span class=\"note\">{:.1} % off on average, \
             {}</span></summary>{}</details>",
            escape(&one.benchmark),
            one.mean * 100.0,
            match one.figures.len() {
                1 => "1 figure".to_owned(),
                count => format!("{count} figures"),
            },
            ratio::html(&changes)
        );
    }
    out
}

/// Returns a figure as a ratio of model over measurement: one that misses the target is drawn as a
/// regression.
fn change(figure: &Figure, target: f64) -> Change {
    let ratio = figure.model / figure.measured;
    let [measured, model] =
        [figure.measured, figure.model].map(|value| display(value, &figure.unit));
    Change {
        key: format!(
            "{}: {measured} measured, {model} in the model",
            figure.label
        ),
        a: figure.measured,
        b: figure.model,
        ratio,
        interval: None,
        points: 1,
        p: None,
        threshold: target,
        verdict: match (ratio - 1.0).abs() <= target {
            true => Verdict::Same,
            false => Verdict::Regressed,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missed_targets_are_highlighted_and_names_escaped() {
        let figure = |model| Figure {
            label: "size <8>".to_owned(),
            unit: "ns".to_owned(),
            measured: 100.0,
            model,
        };
        let closed = FittedProfile {
            target: 0.15,
            judged: vec![Predicted {
                benchmark: "latency.inline".to_owned(),
                mean: 0.2,
                figures: vec![figure(110.0), figure(130.0)],
            }],
            ..FittedProfile::default()
        };
        let page = body(&closed);
        assert_eq!(page.matches("ratio worse").count(), 1, "{page}");
        assert_eq!(page.matches("ratio same").count(), 1, "{page}");
        assert!(page.contains("size &lt;8&gt;: 100 ns measured"), "{page}");
        assert!(page.contains("20.0 % off on average, 2 figures"), "{page}");
    }
}
