//! Ratios with their intervals, one line a key: what changed between two runs.

use super::escape;
use super::scale::{Kind, Scale};
use std::fmt::Write as _;
use verbena_measure::compare::{Change, Verdict};

const WIDTH: f64 = 760.0;
const LEFT: f64 = 400.0;
const ROW: f64 = 20.0;

/// Draws the changes given.
pub fn svg(changes: &[&Change]) -> String {
    let height = ROW * changes.len() as f64 + 40.0;
    let ends = changes.iter().flat_map(|change| {
        let interval = change
            .interval
            .map_or([change.ratio; 2], |i| [i.low, i.high]);
        [change.ratio, interval[0], interval[1], 1.0]
    });
    let x = Scale::over(Kind::Log, ends, LEFT, WIDTH - 20.0);
    let one = x.at(1.0);
    let mut out = format!(
        "<figure class=\"chart\"><svg viewBox=\"0 0 {WIDTH} {height:.0}\" role=\"img\" aria-label=\"ratios with intervals\">\
         <line class=\"axis\" x1=\"{one:.1}\" x2=\"{one:.1}\" y1=\"4\" y2=\"{:.1}\"/>\
         <text class=\"tick\" text-anchor=\"middle\" x=\"{one:.1}\" y=\"{:.1}\">1</text>",
        height - 28.0,
        height - 12.0
    );
    for (i, change) in changes.iter().enumerate() {
        let y = ROW * (i as f64 + 0.5) + 8.0;
        let class = match change.verdict {
            Verdict::Regressed => "worse",
            Verdict::Improved => "improved",
            Verdict::Same | Verdict::Undecided => "same",
        };
        let interval = change
            .interval
            .map_or((change.ratio, change.ratio), |i| (i.low, i.high));
        let _ = write!(
            out,
            "<text class=\"tick\" text-anchor=\"end\" x=\"{:.1}\" y=\"{:.1}\">{}</text>\
             <line class=\"interval {class}\" x1=\"{:.1}\" x2=\"{:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>\
             <circle class=\"ratio {class}\" cx=\"{:.1}\" cy=\"{y:.1}\" r=\"4\"><title>{:.3}</title></circle>",
            LEFT - 8.0,
            y + 4.0,
            escape(&change.key),
            x.at(interval.0),
            x.at(interval.1),
            x.at(change.ratio),
            change.ratio
        );
    }
    out.push_str("</svg></figure>");
    out
}
