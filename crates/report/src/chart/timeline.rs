//! A timeline: events by time, with one lane per stage and place.

use super::escape;
use super::line::COLOURS;
use super::scale::{Kind, Scale};
use super::text::{room, short};
use std::fmt::Write as _;
use verbena_measure::unit;

const WIDTH: f64 = 520.0;
const RIGHT: f64 = 30.0;
/// Maximum number of letters of a lane's name.
const LETTERS: usize = 22;
const TOP: f64 = 10.0;
const LANE: f64 = 22.0;
const BOTTOM: f64 = 40.0;
/// Minimum visible width of a bar.
const NARROWEST: f64 = 1.0;

/// An event with a duration.
#[derive(Debug, Clone, PartialEq)]
pub struct Bar {
    /// Its lane; lanes are drawn in the order of first appearance.
    pub lane: String,
    /// Its kind, which determines its colour: kinds are numbered in the order of first appearance.
    pub kind: String,
    /// Start in nanoseconds.
    pub start: f64,
    /// End in nanoseconds.
    pub end: f64,
}

/// Draws bars over `whole` nanoseconds.
pub fn svg(title: &str, bars: &[Bar], whole: f64) -> String {
    let lanes = distinct(bars.iter().map(|bar| bar.lane.as_str()));
    let kinds = distinct(bars.iter().map(|bar| bar.kind.as_str()));
    let names: Vec<String> = lanes.iter().map(|lane| short(lane, LETTERS)).collect();
    let left = room(&names) + 8.0;
    let bottom = TOP + LANE * lanes.len() as f64;
    let height = bottom + BOTTOM;
    let ends = [0.0, whole].into_iter();
    let x = Scale::over(Kind::Linear, ends, left, WIDTH - RIGHT);
    let mut out = format!(
        "<figure class=\"chart\"><svg viewBox=\"0 0 {WIDTH} {height:.0}\" role=\"img\" \
         aria-label=\"{}\">",
        escape(title)
    );
    for tick in x.ticks(5) {
        let at = x.at(tick);
        let _ = write!(
            out,
            "<line class=\"grid\" x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{TOP}\" y2=\"{bottom:.1}\"/>\
             <text class=\"tick\" text-anchor=\"middle\" x=\"{at:.1}\" y=\"{:.1}\">{}</text>",
            bottom + 18.0,
            escape(&unit::time(tick))
        );
    }
    for (i, (lane, name)) in lanes.iter().zip(&names).enumerate() {
        let _ = write!(
            out,
            "<text class=\"tick\" text-anchor=\"end\" x=\"{:.1}\" \
             y=\"{:.1}\">{}<title>{}</title></text>",
            left - 8.0,
            TOP + LANE * (i as f64 + 0.5) + 4.0,
            escape(name),
            escape(lane)
        );
    }
    for bar in bars {
        let lane = lanes.iter().position(|lane| *lane == bar.lane).unwrap_or(0);
        let kind = kinds.iter().position(|kind| *kind == bar.kind).unwrap_or(0);
        let (from, to) = (x.at(bar.start), x.at(bar.end));
        let _ = write!(
            out,
            "<rect class=\"dot c{}\" x=\"{from:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\">\
             <title>{}: {} from {}</title></rect>",
            kind % COLOURS,
            TOP + LANE * lane as f64 + 4.0,
            (to - from).max(NARROWEST),
            LANE - 8.0,
            escape(&bar.lane),
            escape(&unit::time(bar.end - bar.start)),
            escape(&unit::time(bar.start))
        );
    }
    out.push_str("</svg></figure>");
    out
}

fn distinct<'a>(names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut seen = Vec::new();
    for name in names {
        if !seen.contains(&name) {
            seen.push(name);
        }
    }
    seen
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lane_is_drawn_once_and_names_are_escaped() {
        let bar = |lane: &str, start| Bar {
            lane: lane.to_owned(),
            kind: lane.to_owned(),
            start,
            end: start + 10.0,
        };
        let out = svg(
            "t",
            &[bar("a<b", 0.0), bar("wire", 5.0), bar("a<b", 20.0)],
            40.0,
        );
        assert_eq!(out.matches("<rect").count(), 3);
        assert_eq!(out.matches(">a&lt;b<title>").count(), 1);
        assert!(!out.contains("a<b"));
    }

    #[test]
    fn an_empty_timeline_is_a_valid_image() {
        assert!(svg("t", &[], 0.0).contains("</svg>"));
    }
}
