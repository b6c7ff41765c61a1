//! Published curves that are not used for fitting: each beside the model's, with the error of each
//! point.

use super::fitted_profile::{Predicted, benchmarks};
use super::reproduction::{Plot, figure, folded};
use crate::chart::escape;

/// All validation curves.
#[derive(Debug, Clone, PartialEq)]
pub struct Validation {
    /// Summary in a sentence.
    pub verdict: String,
    /// Target for the error of a point, as a share.
    pub target: f64,
    /// The curves.
    pub curves: Vec<Held>,
    /// Tables about the quality of the predictions, as text.
    pub tables: String,
}

/// A published curve beside the model's.
#[derive(Debug, Clone, PartialEq)]
pub struct Held {
    /// Plot of both curves.
    pub plot: Plot,
    /// Ratio of model over published value for each point.
    pub judged: Predicted,
}

/// Returns the section: the curves and, folded, the errors.
pub(super) fn section(validation: &Validation) -> String {
    let mut out = format!(
        "<h2 id=\"validation\">Validation</h2><div class=\"verdict\">{}</div>",
        escape(&validation.verdict)
    );
    let one = |held: &Held| {
        let residuals = benchmarks(std::slice::from_ref(&held.judged), validation.target);
        figure(&held.plot, &residuals)
    };
    out.push_str(&folded(
        &validation.curves.iter().map(one).collect::<Vec<_>>(),
    ));
    if !validation.tables.is_empty() {
        out += "<details class=\"copy\"><summary>Methods, causes of errors, coverage of \
                intervals</summary><pre tabindex=\"0\">";
        out += &escape(&validation.tables);
        out += "</pre></details>";
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chart::line::{LineChart, Series};
    use crate::chart::scale::Kind;
    use crate::html::Figure;

    #[test]
    fn a_curve_is_drawn_with_the_model_and_its_residuals() {
        let points = |at: &[f64]| Series {
            label: "<curve>".to_owned(),
            points: at.iter().map(|y| (8.0 * y, *y)).collect(),
        };
        let figure = |model| Figure {
            label: "8 B".to_owned(),
            unit: "ns".to_owned(),
            measured: 100.0,
            model,
        };
        let held = Held {
            plot: Plot {
                id: "source.latency".to_owned(),
                place: "Table <1>".to_owned(),
                note: None,
                chart: LineChart {
                    title: "source.latency".to_owned(),
                    x_name: "message size".to_owned(),
                    x_unit: "bytes".to_owned(),
                    x_kind: Kind::Log,
                    y_unit: "ns".to_owned(),
                    y_kind: Kind::Log,
                    series: vec![points(&[1.0, 2.0]), points(&[1.0, 3.0])],
                    marks: Vec::new(),
                    references: Vec::new(),
                },
            },
            judged: Predicted {
                benchmark: "residuals".to_owned(),
                mean: 0.3,
                figures: vec![figure(110.0), figure(150.0)],
            },
        };
        let page = section(&Validation {
            verdict: "1 curve".to_owned(),
            target: 0.25,
            curves: vec![held],
            tables: "by <method>".to_owned(),
        });
        assert_eq!(page.matches("<figure class=\"chart lines\">").count(), 1);
        assert_eq!(page.matches("ratio worse").count(), 1, "{page}");
        assert_eq!(page.matches("ratio same").count(), 1, "{page}");
        assert!(page.contains("Table &lt;1&gt;") && page.contains("&lt;curve&gt;"));
        assert!(page.contains("<pre tabindex=\"0\">by &lt;method&gt;</pre>"));
        assert!(page.contains("30.0 % off on average, 2 figures"), "{page}");
    }
}
