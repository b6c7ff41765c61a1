//! A page of charts, each with lines of text below it.

use super::frame::{foot, head};
use crate::chart::escape;
use crate::chart::line::LineChart;
use std::fmt::Write as _;

/// A chart and the text below it.
#[derive(Debug, Clone, PartialEq)]
pub struct ChartSection {
    /// The drawing.
    pub chart: LineChart,
    /// Sentences.
    pub lines: Vec<String>,
}

/// Returns the page; `command` is the command line that it is about, `lead` a sentence.
pub fn charts_page(title: &str, command: &str, lead: &str, sections: &[ChartSection]) -> String {
    let mut out = head(title);
    let _ = write!(
        out,
        "<p class=\"lead\"><code>{}</code></p><p>{}</p>",
        escape(command),
        escape(lead)
    );
    for section in sections {
        let _ = write!(
            out,
            "<section><h2>{}</h2>{}",
            escape(&section.chart.title),
            section.chart.svg()
        );
        for line in &section.lines {
            let _ = write!(out, "<p>{}</p>", escape(line));
        }
        out.push_str("</section>");
    }
    out.push_str(&foot());
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chart::line::Series;
    use crate::chart::scale::Kind;

    #[test]
    fn the_page_has_each_chart_and_escapes_texts() {
        let chart = LineChart {
            title: "time <latency>".into(),
            x_name: "latency".into(),
            x_unit: "ns".into(),
            x_kind: Kind::Linear,
            y_unit: "ns".into(),
            y_kind: Kind::Linear,
            series: vec![Series {
                label: "median".into(),
                points: vec![(1.0, 2.0), (2.0, 3.0)],
            }],
            marks: Vec::new(),
            references: Vec::new(),
        };
        let section = ChartSection {
            chart,
            lines: vec!["1 < 2".into()],
        };
        let page = charts_page("T", "./a <b>", "three runs", &[section.clone(), section]);
        assert_eq!(page.matches("<svg").count(), 2);
        assert!(
            page.contains("./a &lt;b&gt;") && page.contains("1 &lt; 2"),
            "{page}"
        );
        assert!(!page.contains("<latency>"), "{page}");
    }
}
