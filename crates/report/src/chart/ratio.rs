//! Ratios with their intervals, one line per key: the changes between two runs. Drawn as a table of
//! small drawings, so that names wrap on a narrow screen.

use super::escape;
use super::scale::{Kind, Scale};
use std::fmt::Write as _;
use verbena_measure::compare::{Change, Verdict};

const WIDTH: f64 = 240.0;
const HEIGHT: f64 = 16.0;
const EDGE: f64 = 8.0;

/// Draws the given changes.
pub fn html(changes: &[&Change]) -> String {
    let ends = changes.iter().flat_map(|change| {
        let interval = change
            .interval
            .map_or([change.ratio; 2], |i| [i.low, i.high]);
        [change.ratio, interval[0], interval[1], 1.0]
    });
    let x = Scale::over(Kind::Log, ends, EDGE, WIDTH - EDGE);
    let one = x.at(1.0);
    let mut out = String::from("<table class=\"ratios\"><tbody>");
    for change in changes {
        let class = match change.verdict {
            Verdict::Regressed => "worse",
            Verdict::Improved => "improved",
            Verdict::Same | Verdict::Undecided => "same",
        };
        let interval = change
            .interval
            .map_or((change.ratio, change.ratio), |i| (i.low, i.high));
        let middle = HEIGHT / 2.0;
        let _ = write!(
            out,
            "<tr><td class=\"text\">{}</td><td class=\"drawn\"><svg viewBox=\"0 \
             0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"ratio {ratio:.3}\"><line \
             class=\"axis\" x1=\"{one:.1}\" x2=\"{one:.1}\" y1=\"0\" y2=\"{HEIGHT}\"/>\
             <line class=\"interval {class}\" x1=\"{:.1}\" x2=\"{:.1}\" y1=\"{middle}\" \
             y2=\"{middle}\"/>\
             <circle class=\"ratio {class}\" cx=\"{:.1}\" cy=\"{middle}\" \
             r=\"4\"/></svg></td><td>{ratio:.2}</td></tr>",
            escape(&change.key),
            x.at(interval.0),
            x.at(interval.1),
            x.at(change.ratio),
            ratio = change.ratio
        );
    }
    out.push_str("</tbody></table>");
    out
}
