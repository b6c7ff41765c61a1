//! Lines over an axis: latency or bandwidth by size, pairs, queue pairs; with a percentile band, a bound and marks.

use super::escape;
use super::scale::{Kind, Scale};
use std::fmt::Write as _;
use verbena_measure::unit;

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 340.0;
const LEFT: f64 = 76.0;
const RIGHT: f64 = 30.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 46.0;
/// Colours of the style sheet.
pub const COLOURS: usize = 8;

/// A series.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Series {
    /// For the legend.
    pub label: String,
    /// (x, y).
    pub points: Vec<(f64, f64)>,
    /// (x, low, high), drawn as a band.
    pub band: Vec<(f64, f64, f64)>,
}

/// A vertical mark, e.g. a knee or N½.
#[derive(Debug, Clone, PartialEq)]
pub struct Mark {
    /// Where.
    pub x: f64,
    /// What.
    pub label: String,
}

/// A chart.
#[derive(Debug, Clone, PartialEq)]
pub struct LineChart {
    /// For people and for readers of the screen.
    pub title: String,
    /// Name of the x axis.
    pub x_name: String,
    /// Unit of x as files name it.
    pub x_unit: String,
    /// How x is drawn.
    pub x_kind: Kind,
    /// Unit of y as files name it.
    pub y_unit: String,
    /// How y is drawn.
    pub y_kind: Kind,
    /// The series.
    pub series: Vec<Series>,
    /// A bound by x, dashed.
    pub bound: Vec<(f64, f64)>,
    /// Marks.
    pub marks: Vec<Mark>,
}

impl LineChart {
    /// The drawing with its legend.
    pub fn svg(&self) -> String {
        let all = || self.series.iter().flat_map(|series| &series.points);
        let bands = || self.series.iter().flat_map(|series| &series.band);
        let xs = all().map(|p| p.0);
        let x = Scale::over(self.x_kind, xs, LEFT, WIDTH - RIGHT);
        let ys = all().map(|p| p.1).chain(bands().flat_map(|b| [b.1, b.2]));
        let ys = ys.chain(self.bound.iter().map(|p| p.1));
        let y = Scale::over(self.y_kind, ys, HEIGHT - BOTTOM, TOP).to_decades();
        let mut out = format!(
            "<figure class=\"chart\"><svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{}\">",
            escape(&self.title)
        );
        self.axes(&mut out, &x, &y);
        for (i, series) in self.series.iter().enumerate() {
            draw_series(&mut out, series, i % COLOURS, &x, &y, &self.y_unit);
        }
        if !self.bound.is_empty() {
            let path = path(self.bound.iter().copied(), &x, &y);
            let _ = write!(out, "<path class=\"bound\" d=\"{path}\"/>");
        }
        for mark in &self.marks {
            let (at, label) = (x.at(mark.x), escape(&mark.label));
            let _ = write!(
                out,
                "<line class=\"mark\" x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{TOP}\" y2=\"{:.1}\"/>\
                 <text class=\"label\" x=\"{:.1}\" y=\"{:.1}\">{label}</text>",
                HEIGHT - BOTTOM,
                at + 4.0,
                TOP + 12.0
            );
        }
        out.push_str("</svg><figcaption>");
        for (i, series) in self.series.iter().enumerate() {
            let label = escape(&series.label);
            let _ = write!(out, "<span class=\"key c{}\">{label}</span> ", i % COLOURS);
        }
        if !self.bound.is_empty() {
            out.push_str("<span class=\"key bound\">bound</span> ");
        }
        if self.series.iter().any(|series| !series.band.is_empty()) {
            out.push_str("<span class=\"note\">band: smallest to 99th percentile</span>");
        }
        out.push_str("</figcaption></figure>");
        out
    }

    fn axes(&self, out: &mut String, x: &Scale, y: &Scale) {
        let bottom = HEIGHT - BOTTOM;
        for tick in y.ticks(6) {
            let at = y.at(tick);
            let _ = write!(
                out,
                "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{:.1}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/>\
                 <text class=\"tick\" text-anchor=\"end\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
                WIDTH - RIGHT,
                LEFT - 6.0,
                at + 4.0,
                escape(&unit::display(tick, &self.y_unit))
            );
        }
        let mut last = f64::MIN;
        for tick in self.x_ticks() {
            let at = x.at(tick);
            let _ = write!(
                out,
                "<line class=\"grid\" x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{bottom}\" y2=\"{:.1}\"/>",
                bottom + 5.0
            );
            if at - last < 48.0 {
                continue;
            }
            last = at;
            let _ = write!(
                out,
                "<text class=\"tick\" text-anchor=\"middle\" x=\"{at:.1}\" y=\"{:.1}\">{}</text>",
                bottom + 18.0,
                escape(&unit::display(tick, &self.x_unit))
            );
        }
        let _ = write!(
            out,
            "<line class=\"axis\" x1=\"{LEFT}\" x2=\"{:.1}\" y1=\"{bottom}\" y2=\"{bottom}\"/>\
             <text class=\"name\" text-anchor=\"middle\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            WIDTH - RIGHT,
            (LEFT + WIDTH - RIGHT) / 2.0,
            HEIGHT - 8.0,
            escape(&self.x_name)
        );
    }

    /// The x values themselves: sweeps are of powers of two, and each is worth a tick.
    fn x_ticks(&self) -> Vec<f64> {
        let mut ticks: Vec<f64> = self
            .series
            .iter()
            .flat_map(|series| series.points.iter().map(|p| p.0))
            .collect();
        ticks.sort_by(f64::total_cmp);
        ticks.dedup();
        ticks
    }
}

fn draw_series(out: &mut String, series: &Series, colour: usize, x: &Scale, y: &Scale, unit: &str) {
    if !series.band.is_empty() {
        let upper = path(series.band.iter().map(|b| (b.0, b.2)), x, y);
        let lower = path(series.band.iter().rev().map(|b| (b.0, b.1)), x, y);
        let _ = write!(
            out,
            "<path class=\"band c{colour}\" d=\"{upper} L{}Z\"/>",
            &lower[1..]
        );
    }
    let line = path(series.points.iter().copied(), x, y);
    let _ = write!(out, "<path class=\"line c{colour}\" d=\"{line}\"/>");
    for &(px, py) in &series.points {
        let _ = write!(
            out,
            "<circle class=\"dot c{colour}\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"3\"><title>{}: {}</title></circle>",
            x.at(px),
            y.at(py),
            escape(&series.label),
            escape(&unit::display(py, unit))
        );
    }
}

fn path(points: impl Iterator<Item = (f64, f64)>, x: &Scale, y: &Scale) -> String {
    let mut out = String::new();
    for (px, py) in points.filter(|p| p.0.is_finite() && p.1.is_finite()) {
        let letter = if out.is_empty() { 'M' } else { 'L' };
        let _ = write!(out, "{letter}{:.1} {:.1}", x.at(px), y.at(py));
    }
    if out.is_empty() {
        "M0 0".to_owned()
    } else {
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(points: Vec<(f64, f64)>) -> String {
        LineChart {
            title: "a <b>".to_owned(),
            x_name: "size".to_owned(),
            x_unit: "bytes".to_owned(),
            x_kind: Kind::Log,
            y_unit: "ns".to_owned(),
            y_kind: Kind::Log,
            series: vec![Series {
                label: "\"x\" & y".to_owned(),
                points,
                band: vec![],
            }],
            bound: vec![],
            marks: vec![Mark {
                x: 8.0,
                label: "N½".to_owned(),
            }],
        }
        .svg()
    }

    #[test]
    fn every_point_is_drawn_and_text_is_escaped() {
        let svg = chart(vec![(1.0, 100.0), (8.0, 120.0), (64.0, 300.0)]);
        assert_eq!(svg.matches("<circle").count(), 3);
        assert!(svg.contains("a &lt;b&gt;") && svg.contains("&quot;x&quot; &amp; y"));
        assert!(!svg.contains("NaN"));
    }

    #[test]
    fn nothing_to_draw_is_still_a_drawing() {
        assert!(!chart(vec![]).contains("NaN"));
        assert!(!chart(vec![(1.0, f64::NAN)]).contains("d=\"NaN"));
    }
}
