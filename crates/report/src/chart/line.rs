//! Line charts with reference values: a paper's figure with a model's curves.

use super::escape;
use super::scale::{Kind, Scale};
use super::text::{LETTER, room};
use std::fmt::Write as _;
use verbena_measure::unit;

const WIDTH: f64 = 520.0;
const HEIGHT: f64 = 300.0;
const RIGHT: f64 = 30.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 46.0;
/// Space between the axis and its numbers.
const TICK: f64 = 12.0;
/// Number of colours in the style sheet.
pub const COLOURS: usize = 8;

/// Maximum number of points per series that are drawn and readable at the cursor.
const MOST_DOTS: usize = 40;

/// A series.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Series {
    /// Label for the legend.
    pub label: String,
    /// (x, y).
    pub points: Vec<(f64, f64)>,
}

/// A vertical mark, e.g. a knee or N½.
#[derive(Debug, Clone, PartialEq)]
pub struct Mark {
    /// Position.
    pub x: f64,
    /// Label.
    pub label: String,
}

/// A reference value for a series: a point, or a level over several x; a bound is drawn as a bar.
#[derive(Debug, Clone, PartialEq)]
pub struct Reference {
    /// Label.
    pub label: String,
    /// Index of its series.
    pub series: usize,
    /// Range of x; both ends are equal for a point.
    pub x: (f64, f64),
    /// The value.
    pub value: Option<f64>,
    /// Lower bound.
    pub low: Option<f64>,
    /// Upper bound.
    pub high: Option<f64>,
}

impl Reference {
    fn ys(&self) -> impl Iterator<Item = f64> {
        [self.value, self.low, self.high].into_iter().flatten()
    }
}

/// A chart.
#[derive(Debug, Clone, PartialEq)]
pub struct LineChart {
    /// Title, also for screen readers.
    pub title: String,
    /// Name of the x axis.
    pub x_name: String,
    /// Unit of x as in files.
    pub x_unit: String,
    /// Scale of x.
    pub x_kind: Kind,
    /// Unit of y as in files.
    pub y_unit: String,
    /// Scale of y.
    pub y_kind: Kind,
    /// The series.
    pub series: Vec<Series>,
    /// Marks.
    pub marks: Vec<Mark>,
    /// Reference values.
    pub references: Vec<Reference>,
}

impl LineChart {
    /// Returns the drawing with its legend.
    pub fn svg(&self) -> String {
        let all = || self.series.iter().flat_map(|series| &series.points);
        let marked = self.references.iter().flat_map(|r| [r.x.0, r.x.1]);
        let xs = all().map(|p| p.0).chain(marked);
        let ys = all().map(|p| p.1);
        let ys = ys.chain(self.references.iter().flat_map(Reference::ys));
        let y = Scale::over(self.y_kind, ys, HEIGHT - BOTTOM, TOP).to_decades();
        let ticks = y.ticks(6).into_iter();
        let left = room(ticks.map(|tick| unit::display(tick, &self.y_unit))) + TICK;
        let x = Scale::over(self.x_kind, xs, left, WIDTH - RIGHT);
        let mut out = format!(
            "<figure class=\"chart lines\"><svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" \
             aria-label=\"{}\">",
            escape(&self.title)
        );
        self.axes(&mut out, left, &x, &y);
        for (i, series) in self.series.iter().enumerate() {
            draw_series(
                &mut out,
                series,
                i % COLOURS,
                (&x, &self.x_unit),
                (&y, &self.y_unit),
            );
        }
        for reference in &self.references {
            draw_reference(&mut out, reference, &x, &y, &self.y_unit);
        }
        for mark in &self.marks {
            let (at, label) = (x.at(mark.x), escape(&mark.label));
            // A label that would cross the edge is on the other side of its line.
            let fits = at + 4.0 + room([&mark.label]) < WIDTH;
            let (beside, anchor) = if fits { (4.0, "start") } else { (-4.0, "end") };
            let _ = write!(
                out,
                "<line class=\"mark\" x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{TOP}\" y2=\"{:.1}\"/>\
                 <text class=\"label\" text-anchor=\"{anchor}\" x=\"{:.1}\" \
                 y=\"{:.1}\">{label}</text>",
                HEIGHT - BOTTOM,
                at + beside,
                TOP + 12.0
            );
        }
        out.push_str("</svg><figcaption>");
        for (i, series) in self.series.iter().enumerate() {
            let label = escape(&series.label);
            let _ = write!(out, "<span class=\"key c{}\">{label}</span> ", i % COLOURS);
        }
        if !self.references.is_empty() {
            out.push_str("<span class=\"note\">diamonds, levels and bars: published</span>");
        }
        out.push_str("</figcaption></figure>");
        out
    }

    fn axes(&self, out: &mut String, left: f64, x: &Scale, y: &Scale) {
        let bottom = HEIGHT - BOTTOM;
        for tick in y.ticks(6) {
            let at = y.at(tick);
            let _ = write!(
                out,
                "<line class=\"grid\" x1=\"{left:.1}\" x2=\"{:.1}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/>\
                 <text class=\"tick\" text-anchor=\"end\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
                WIDTH - RIGHT,
                left - 6.0,
                at + 4.0,
                escape(&unit::display(tick, &self.y_unit))
            );
        }
        let mut last = f64::MIN;
        for tick in self.x_ticks(x) {
            let at = x.at(tick);
            let _ = write!(
                out,
                "<line class=\"grid\" x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{bottom}\" y2=\"{:.1}\"/>",
                bottom + 5.0
            );
            let text = unit::display(tick, &self.x_unit);
            let half = room([&text]) / 2.0;
            if at - half < last || at + half > WIDTH {
                continue;
            }
            last = at + half + LETTER;
            let _ = write!(
                out,
                "<text class=\"tick\" text-anchor=\"middle\" x=\"{at:.1}\" y=\"{:.1}\">{}</text>",
                bottom + 18.0,
                escape(&text)
            );
        }
        let _ = write!(
            out,
            "<line class=\"axis\" x1=\"{left:.1}\" x2=\"{:.1}\" y1=\"{bottom}\" y2=\"{bottom}\"/>\
             <text class=\"name\" text-anchor=\"middle\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            WIDTH - RIGHT,
            (left + WIDTH - RIGHT) / 2.0,
            HEIGHT - 8.0,
            escape(&self.x_name)
        );
    }

    /// Uses the x values themselves: sweeps are powers of two, and each gets a tick. Times are not
    /// swept.
    fn x_ticks(&self, x: &Scale) -> Vec<f64> {
        if self.x_unit == "ns" {
            return x.ticks(8);
        }
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

fn draw_series(
    out: &mut String,
    series: &Series,
    colour: usize,
    (x, x_unit): (&Scale, &str),
    (y, y_unit): (&Scale, &str),
) {
    let line = path(series.points.iter().copied(), x, y);
    let _ = write!(out, "<path class=\"line c{colour}\" d=\"{line}\"/>");
    // So many points are a curve: some of them are readable at the cursor, none is drawn.
    let every = series.points.len().div_ceil(MOST_DOTS).max(1);
    let class = if every == 1 { "dot" } else { "hit" };
    out.push_str("<g>");
    let dots = series.points.iter().step_by(every);
    for &(px, py) in dots.filter(|p| p.0.is_finite() && p.1.is_finite()) {
        let _ = write!(
            out,
            "<circle class=\"{class} c{colour}\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"3\"><title>{}, {}: \
             {}</title></circle>",
            x.at(px),
            y.at(py),
            escape(&series.label),
            escape(&unit::display(px, x_unit)),
            escape(&unit::display(py, y_unit))
        );
    }
    out.push_str("</g>");
}

/// Draws a value as a diamond, over several x as a level between two; a bound as a bar towards its
/// open side.
fn draw_reference(out: &mut String, reference: &Reference, x: &Scale, y: &Scale, unit: &str) {
    let colour = reference.series % COLOURS;
    let (from, to) = (x.at(reference.x.0), x.at(reference.x.1));
    let say = |value: f64| escape(&unit::display(value, unit));
    let label = escape(&reference.label);
    if reference.low.is_some() || reference.high.is_some() {
        let top = reference.high.map_or(TOP, |high| y.at(high));
        let bottom = reference.low.map_or(HEIGHT - BOTTOM, |low| y.at(low));
        let limits = match (reference.low, reference.high) {
            (Some(low), Some(high)) => format!("{} to {}", say(low), say(high)),
            (Some(low), None) => format!("at least {}", say(low)),
            (None, Some(high)) => format!("at most {}", say(high)),
            (None, None) => String::new(),
        };
        let _ = write!(
            out,
            "<rect class=\"range c{colour}\" x=\"{:.1}\" y=\"{top:.1}\" width=\"{:.1}\" \
             height=\"{:.1}\">\
             <title>{label}: {limits}</title></rect>",
            from - 3.0,
            to - from + 6.0,
            (bottom - top).max(1.0)
        );
    }
    let Some(value) = reference.value else {
        return;
    };
    let at = y.at(value);
    let _ = write!(
        out,
        "<g class=\"reference c{colour}\"><title>{label}: {}</title>",
        say(value)
    );
    if to > from {
        let _ = write!(
            out,
            "<line x1=\"{from:.1}\" x2=\"{to:.1}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/>"
        );
    }
    let ends = [from, to];
    for end in &ends[..if to > from { 2 } else { 1 }] {
        let _ = write!(
            out,
            "<path d=\"M{end:.1} {:.1}l6 6l-6 6l-6 -6Z\"/>",
            at - 6.0
        );
    }
    out.push_str("</g>");
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
            }],
            marks: vec![Mark {
                x: 8.0,
                label: "N½".to_owned(),
            }],
            references: vec![Reference {
                label: "<published>".to_owned(),
                series: 0,
                x: (8.0, 64.0),
                value: Some(900.0),
                low: None,
                high: Some(1000.0),
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
    fn a_reference_is_drawn_as_level_and_bar() {
        let svg = chart(vec![(1.0, 100.0)]);
        assert_eq!(svg.matches("<g class=\"reference c0\">").count(), 1);
        assert!(svg.contains("&lt;published&gt;: 900 ns") && svg.contains("at most 1 us"));
    }

    #[test]
    fn an_empty_chart_has_no_invalid_coordinates() {
        assert!(!chart(vec![]).contains("NaN"));
        assert!(!chart(vec![(1.0, f64::NAN)]).contains("d=\"NaN"));
    }
}
