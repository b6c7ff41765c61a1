//! A matrix as a heat map: host by host, one cell per pair.

use super::escape;
use std::fmt::Write as _;
use verbena_measure::unit;

/// Draws values by (row, column); shades range from the smallest to the largest value, and every
/// cell contains its figure.
pub fn svg(title: &str, cells: &[(usize, usize, f64)], unit_name: &str) -> String {
    let size = cells.iter().map(|c| c.0.max(c.1) + 1).max().unwrap_or(1);
    let (low, high) = cells
        .iter()
        .filter(|c| c.2.is_finite())
        .fold((f64::MAX, f64::MIN), |(a, b), c| (a.min(c.2), b.max(c.2)));
    let cell = (560.0 / size as f64).clamp(12.0, 72.0);
    let extent = cell * size as f64 + 40.0;
    let mut out = format!(
        "<figure class=\"chart matrix\"><svg viewBox=\"0 0 {extent:.0} {extent:.0}\" \
         style=\"max-width:{extent:.0}px\" role=\"img\" aria-label=\"{}\">",
        escape(title)
    );
    for i in 0..size {
        let at = 34.0 + cell * (i as f64 + 0.5);
        let _ = write!(
            out,
            "<text class=\"tick\" text-anchor=\"middle\" x=\"{at:.1}\" y=\"24\">{i}</text>\
             <text class=\"tick\" text-anchor=\"end\" x=\"28\" y=\"{:.1}\">{i}</text>",
            at + 4.0
        );
    }
    for &(row, column, value) in cells {
        let share = if high > low {
            (value - low) / (high - low)
        } else {
            0.0
        };
        let text = unit::display(value, unit_name);
        for (r, c) in [(row, column), (column, row)] {
            let (x, y) = (34.0 + cell * c as f64, 34.0 + cell * r as f64);
            let _ = write!(
                out,
                "<rect class=\"cell\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{:.1}\" \
                 fill-opacity=\"{:.2}\"><title>{r} to {c}: {}</title></rect>",
                cell - 2.0,
                cell - 2.0,
                0.1 + 0.5 * share,
                escape(&text)
            );
            if cell >= 56.0 {
                let _ = write!(
                    out,
                    "<text class=\"figure\" text-anchor=\"middle\" x=\"{:.1}\" \
                     y=\"{:.1}\">{}</text>",
                    x + cell / 2.0 - 1.0,
                    y + cell / 2.0 + 4.0,
                    escape(&text)
                );
            }
        }
    }
    out.push_str("</svg></figure>");
    out
}
