//! Small multiples: panels that share two axes for comparison, with the name of each line at its
//! end.

use super::escape;
use super::line::COLOURS;
use super::scale::{Kind, Scale};
use super::text::{BOLD, LETTER, room, short};
use std::fmt::Write as _;
use verbena_measure::unit;

const WIDTH: f64 = 400.0;
const HEIGHT: f64 = 236.0;
const TOP: f64 = 10.0;
const BOTTOM: f64 = 40.0;
/// Margin at the right without names.
const EDGE: f64 = 16.0;
/// Maximum number of letters of a name.
const LETTERS: usize = 14;
/// Distance between the names of two lines.
const LEADING: f64 = 13.0;
/// With more lines, names are in the legend only.
const MOST_NAMES: usize = 12;
/// Space between the axis and its numbers.
const TICK: f64 = 12.0;
/// With more panels, there are four in a row.
const MOST_COLUMNS: usize = 7;
/// Maximum number of points per line that are drawn and readable at the cursor.
const MOST_DOTS: usize = 40;

/// A line.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Line {
    /// Number of its colour. Lines beyond the number of colours are dashed.
    pub colour: usize,
    /// A short name at its end; empty if no line needs one.
    pub name: String,
    /// Full title.
    pub title: String,
    /// (x, y).
    pub points: Vec<(f64, f64)>,
    /// (x, low, high), drawn as a band.
    pub band: Vec<(f64, f64, f64)>,
    /// (x, y) of its bound.
    pub bound: Vec<(f64, f64)>,
}

/// A labelled position on the x axis, e.g. a knee.
#[derive(Debug, Clone, PartialEq)]
pub struct Mark {
    /// Number of the colour of its line.
    pub colour: usize,
    /// Position.
    pub x: f64,
    /// Label.
    pub label: String,
}

/// A panel.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Panel {
    /// Title common to all of its lines.
    pub title: String,
    /// The lines.
    pub lines: Vec<Line>,
    /// The marks.
    pub marks: Vec<Mark>,
}

/// An axis of all panels.
#[derive(Debug, Clone, PartialEq)]
pub struct Axis {
    /// Name.
    pub name: String,
    /// Unit as in files.
    pub unit: String,
    /// Scale.
    pub kind: Kind,
}

/// The panels of one figure.
#[derive(Debug, Clone, PartialEq)]
pub struct Multiples {
    /// Title for screen readers.
    pub title: String,
    /// Horizontal axis.
    pub x: Axis,
    /// Vertical axis.
    pub y: Axis,
    /// The panels.
    pub panels: Vec<Panel>,
}

impl Multiples {
    /// Returns the drawing.
    pub fn html(&self) -> String {
        group(std::slice::from_ref(self))
    }

    /// Returns the panels one after another.
    fn figures(&self) -> String {
        let lines = || self.panels.iter().flat_map(|panel| &panel.lines);
        let named = lines().any(|line| !line.name.is_empty());
        let letters = lines().map(|line| line.name.chars().count().min(LETTERS));
        let right = match named {
            true => letters.max().unwrap_or(0) as f64 * BOLD + EDGE,
            false => EDGE,
        };
        let xs = lines().flat_map(|line| line.points.iter().map(|p| p.0));
        let ys = lines().flat_map(|line| {
            let bands = line.band.iter().flat_map(|b| [b.1, b.2]);
            let points = line.points.iter().chain(&line.bound).map(|p| p.1);
            points.chain(bands)
        });
        let y = Scale::zoomed(self.y.kind, ys, HEIGHT - BOTTOM, TOP);
        let ticks = y.ticks(5).into_iter();
        let left = room(ticks.map(|tick| unit::display(tick, &self.y.unit))) + TICK;
        let frame = Frame {
            x: Scale::zoomed(self.x.kind, xs, left, WIDTH - right),
            y,
            left,
            right: WIDTH - right,
            named,
        };
        let mut out = String::new();
        for panel in &self.panels {
            self.panel(&mut out, panel, &frame);
        }
        out
    }

    fn panel(&self, out: &mut String, panel: &Panel, frame: &Frame) {
        let title = escape(&panel.title);
        let _ = write!(
            out,
            "<figure class=\"panel\"><figcaption>{title}</figcaption><svg viewBox=\"0 \
             0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{}: {title}\">",
            escape(&self.title)
        );
        self.axes(out, panel, frame);
        for line in &panel.lines {
            frame.line(out, line, &self.x.unit, &self.y.unit);
        }
        for mark in &panel.marks {
            let at = frame.x.at(mark.x);
            let _ = write!(
                out,
                "<line class=\"mark s{}\" x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{TOP}\" \
                 y2=\"{:.1}\"><title>{} at {}</title></line>",
                mark.colour % COLOURS,
                HEIGHT - BOTTOM,
                escape(&mark.label),
                escape(&unit::display(mark.x, &self.x.unit))
            );
        }
        if frame.named && panel.lines.len() <= MOST_NAMES {
            frame.names(out, &panel.lines);
        }
        out.push_str("</svg></figure>");
    }

    fn axes(&self, out: &mut String, panel: &Panel, frame: &Frame) {
        let bottom = HEIGHT - BOTTOM;
        for tick in frame.y.ticks(5) {
            let at = frame.y.at(tick);
            let _ = write!(
                out,
                "<line class=\"grid\" x1=\"{:.1}\" x2=\"{:.1}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/>\
                 <text class=\"tick\" text-anchor=\"end\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
                frame.left,
                frame.right,
                frame.left - 6.0,
                at + 4.0,
                escape(&unit::display(tick, &self.y.unit))
            );
        }
        let mut last = f64::MIN;
        for tick in self.x_ticks(panel, &frame.x) {
            let at = frame.x.at(tick);
            let text = unit::display(tick, &self.x.unit);
            let half = room([&text]) / 2.0;
            if at - half < last || at + half > WIDTH {
                continue;
            }
            last = at + half + LETTER;
            let _ = write!(
                out,
                "<line class=\"axis\" x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{bottom}\" y2=\"{:.1}\"/>\
                 <text class=\"tick\" text-anchor=\"middle\" x=\"{at:.1}\" y=\"{:.1}\">{}</text>",
                bottom + 4.0,
                bottom + 17.0,
                escape(&text)
            );
        }
        let _ = write!(
            out,
            "<line class=\"axis\" x1=\"{3:.1}\" x2=\"{0:.1}\" y1=\"{bottom}\" y2=\"{bottom}\"/>\
             <text class=\"name\" text-anchor=\"end\" x=\"{0:.1}\" y=\"{1:.1}\">{2}</text>",
            frame.right,
            HEIGHT - 5.0,
            escape(&self.x.name),
            frame.left
        );
    }

    /// Uses the x values themselves: sweeps are powers of two. Times are not swept.
    fn x_ticks(&self, panel: &Panel, x: &Scale) -> Vec<f64> {
        if self.x.unit == "ns" {
            return x.ticks(5);
        }
        let points = panel.lines.iter().flat_map(|line| &line.points);
        let mut ticks: Vec<f64> = points.map(|point| point.0).collect();
        ticks.sort_by(f64::total_cmp);
        ticks.dedup();
        ticks
    }
}

/// Returns the panels of several figures side by side, with as many columns as they fill.
pub fn group(figures: &[Multiples]) -> String {
    let count: usize = figures.iter().map(|figure| figure.panels.len()).sum();
    let panels: String = figures.iter().map(Multiples::figures).collect();
    format!(
        "<div class=\"panels n{}\">{panels}</div>",
        count.min(MOST_COLUMNS)
    )
}

/// The scales that all panels share.
struct Frame {
    x: Scale,
    y: Scale,
    /// Left end of the drawing, beside the numbers of its axis.
    left: f64,
    /// Right end of the drawing, where the names begin.
    right: f64,
    named: bool,
}

impl Frame {
    fn line(&self, out: &mut String, line: &Line, x_unit: &str, y_unit: &str) {
        let colour = line.colour % COLOURS;
        let dash = if line.colour < COLOURS { "" } else { " dashed" };
        let title = escape(&line.title);
        if !line.band.is_empty() {
            let upper = self.path(line.band.iter().map(|b| (b.0, b.2)));
            let lower = self.path(line.band.iter().rev().map(|b| (b.0, b.1)));
            let _ = write!(
                out,
                "<path class=\"band c{colour}\" d=\"{upper}L{}Z\"/>",
                lower.trim_start_matches('M')
            );
        }
        if line.bound.len() > 1 {
            let _ = write!(
                out,
                "<path class=\"bound s{colour}\" d=\"{}\"><title>bound of {title}</title></path>",
                self.path(line.bound.iter().copied())
            );
        }
        let _ = write!(
            out,
            "<path class=\"line c{colour}{dash}\" d=\"{}\"><title>{title}</title></path>",
            self.path(line.points.iter().copied())
        );
        // So many points are a curve: some of them are readable at the cursor, none is drawn.
        let every = line.points.len().div_ceil(MOST_DOTS).max(1);
        let class = if every == 1 { "dot" } else { "hit" };
        let dots = line.points.iter().step_by(every);
        out.push_str("<g>");
        for &(x, y) in dots.filter(|p| p.0.is_finite() && p.1.is_finite()) {
            let _ = write!(
                out,
                "<circle class=\"{class} c{colour}\" cx=\"{:.1}\" cy=\"{:.1}\" \
                 r=\"2.6\"><title>{title}, {}: {}</title></circle>",
                self.x.at(x),
                self.y.at(y),
                escape(&unit::display(x, x_unit)),
                escape(&unit::display(y, y_unit))
            );
        }
        out.push_str("</g>");
    }

    fn path(&self, points: impl Iterator<Item = (f64, f64)>) -> String {
        let mut out = String::new();
        for (x, y) in points.filter(|p| p.0.is_finite() && p.1.is_finite()) {
            let letter = if out.is_empty() { 'M' } else { 'L' };
            let _ = write!(out, "{letter}{:.1} {:.1}", self.x.at(x), self.y.at(y));
        }
        match out.is_empty() {
            true => "M0 0".to_owned(),
            false => out,
        }
    }

    /// Puts each name beside the end of its line, or as near as the others permit.
    fn names(&self, out: &mut String, lines: &[Line]) {
        let mut ends: Vec<(f64, f64, &Line)> = lines
            .iter()
            .filter_map(|line| {
                let end = line
                    .points
                    .iter()
                    .rfind(|p| p.0.is_finite() && p.1.is_finite())?;
                Some((self.x.at(end.0), self.y.at(end.1), line))
            })
            .collect();
        ends.sort_by(|a, b| a.1.total_cmp(&b.1));
        let wanted: Vec<f64> = ends.iter().map(|end| end.1).collect();
        let places = spread(&wanted, TOP + 4.0, HEIGHT - BOTTOM);
        for ((x, y, line), place) in ends.iter().zip(places) {
            let colour = line.colour % COLOURS;
            let _ = write!(
                out,
                "<path class=\"lead s{colour}\" d=\"M{:.1} {y:.1}L{:.1} {place:.1}\"/>\
                 <text class=\"end c{colour}\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
                x + 4.0,
                self.right + 8.0,
                self.right + 10.0,
                place + 4.0,
                escape(&short(&line.name, LETTERS))
            );
        }
    }
}

/// Returns positions at least a line of text apart, in order, each as near as possible to the
/// wanted one.
fn spread(wanted: &[f64], top: f64, bottom: f64) -> Vec<f64> {
    let mut places = wanted.to_vec();
    for i in 1..places.len() {
        places[i] = places[i].max(places[i - 1] + LEADING);
    }
    let mut limit = bottom;
    for place in places.iter_mut().rev() {
        *place = place.min(limit);
        limit = *place - LEADING;
    }
    let mut least = top;
    for place in &mut places {
        *place = place.max(least);
        least = *place + LEADING;
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    fn multiples(lines: usize, points: &[(f64, f64)]) -> Multiples {
        let axis = |name: &str, unit: &str| Axis {
            name: name.to_owned(),
            unit: unit.to_owned(),
            kind: Kind::Log,
        };
        let line = |colour: usize| Line {
            colour,
            name: format!("run<{colour}>"),
            title: format!("run<{colour}>: rc"),
            points: points.to_vec(),
            ..Line::default()
        };
        Multiples {
            title: "t".to_owned(),
            x: axis("size", "bytes"),
            y: axis("time", "ns"),
            panels: vec![Panel {
                title: "a <b>".to_owned(),
                lines: (0..lines).map(line).collect(),
                marks: vec![],
            }],
        }
    }

    #[test]
    fn more_lines_than_colours_are_drawn_and_named() {
        let out = multiples(11, &[(1.0, 210.0), (8.0, 390.0)]).html();
        assert_eq!(out.matches("<path class=\"line ").count(), 11);
        assert_eq!(out.matches("<text class=\"end ").count(), 11);
        assert_eq!(out.matches(" dashed\"").count(), 3);
        assert!(out.contains("a &lt;b&gt;") && !out.contains("run<"));
    }

    #[test]
    fn a_narrow_range_has_numbers_on_its_axis() {
        let out = multiples(1, &[(1.0, 210.0), (8.0, 390.0)]).html();
        assert!(out.contains("300 ns"), "{out}");
    }

    #[test]
    fn labels_do_not_overlap() {
        let places = spread(&[50.0, 51.0, 52.0, 195.0, 196.0], 14.0, 196.0);
        assert!(places.windows(2).all(|p| p[1] - p[0] >= LEADING - 1e-9));
        assert!(places[0] >= 14.0 && places[4] <= 196.0, "{places:?}");
    }

    #[test]
    fn empty_panels_have_no_invalid_coordinates() {
        assert!(!multiples(2, &[]).html().contains("NaN"));
        assert!(!multiples(2, &[(1.0, f64::NAN)]).html().contains("NaN"));
    }
}
