//! Stacked bars: parts of a whole, one bar per row, with the same kinds in the same order.

use super::escape;
use super::line::COLOURS;
use super::scale::{Kind, Scale};
use super::text::{LETTER, short};
use std::fmt::Write as _;
use verbena_measure::unit;

const WIDTH: f64 = 520.0;
const LEFT: f64 = 16.0;
const RIGHT: f64 = 80.0;
const TOP: f64 = 6.0;
/// Height of a name and the bar under it.
const LANE: f64 = 36.0;
const NAME: f64 = 16.0;
const BOTTOM: f64 = 28.0;

/// A bar: its name and its amount of each kind in nanoseconds.
#[derive(Debug, Clone, PartialEq)]
pub struct Stack {
    /// Name of the bar.
    pub name: String,
    /// By kind.
    pub parts: Vec<f64>,
}

impl Stack {
    fn whole(&self) -> f64 {
        self.parts.iter().sum()
    }
}

/// Draws the bars over one axis of time, with the sum beside each.
pub fn svg(title: &str, kinds: &[&str], stacks: &[Stack]) -> String {
    let bottom = TOP + LANE * stacks.len() as f64;
    let height = bottom + BOTTOM;
    let ends = stacks.iter().map(Stack::whole).chain([0.0]);
    let x = Scale::over(Kind::Linear, ends, LEFT, WIDTH - RIGHT);
    let mut out = format!(
        "<figure class=\"chart stack\"><figcaption>{}</figcaption><p>",
        escape(title)
    );
    for (colour, kind) in kinds.iter().enumerate() {
        let colour = colour % COLOURS;
        let _ = write!(
            out,
            "<span class=\"key c{colour}\">{}</span> ",
            escape(kind)
        );
    }
    let _ = write!(
        out,
        "</p><svg viewBox=\"0 0 {WIDTH} {height:.0}\" role=\"img\" aria-label=\"{}\">",
        escape(title)
    );
    for tick in x.ticks(6) {
        let at = x.at(tick);
        let _ = write!(
            out,
            "<line class=\"grid\" x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{TOP}\" y2=\"{bottom:.1}\"/>\
             <text class=\"tick\" text-anchor=\"middle\" x=\"{at:.1}\" y=\"{:.1}\">{}</text>",
            bottom + 18.0,
            escape(&unit::time(tick))
        );
    }
    for (row, stack) in stacks.iter().enumerate() {
        out.push_str(&bar(stack, kinds, TOP + LANE * row as f64, &x));
    }
    out.push_str("</svg></figure>");
    out
}

fn bar(stack: &Stack, kinds: &[&str], top: f64, x: &Scale) -> String {
    let middle = top + NAME + (LANE - NAME) / 2.0 + 2.0;
    let letters = ((WIDTH - LEFT) / LETTER) as usize;
    let mut out = format!(
        "<text class=\"tick\" x=\"{LEFT}\" y=\"{:.1}\">{}<title>{}</title></text>",
        top + NAME - 3.0,
        escape(&short(&stack.name, letters)),
        escape(&stack.name)
    );
    let mut from = 0.0;
    for (colour, (part, kind)) in stack.parts.iter().zip(kinds).enumerate() {
        let (start, end) = (x.at(from), x.at(from + part));
        from += part;
        let _ = write!(
            out,
            "<rect class=\"dot c{}\" x=\"{start:.2}\" y=\"{:.1}\" width=\"{:.2}\" \
             height=\"{:.1}\"><title>{}: {} {}</title></rect>",
            colour % COLOURS,
            top + NAME,
            end - start,
            LANE - NAME - 4.0,
            escape(&stack.name),
            escape(kind),
            escape(&unit::time(*part))
        );
    }
    let _ = write!(
        out,
        "<text class=\"tick\" x=\"{:.1}\" y=\"{middle:.1}\">{}</text>",
        x.at(from) + 6.0,
        escape(&unit::time(from))
    );
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_stacked_and_totals_are_labelled() {
        let stack = |name: &str, parts: [f64; 2]| Stack {
            name: name.to_owned(),
            parts: parts.to_vec(),
        };
        let out = svg(
            "t",
            &["one", "two"],
            &[stack("a<b", [100.0, 300.0]), stack("c", [50.0, 0.0])],
        );
        assert!(out.contains(">a&lt;b<title>") && !out.contains("a<b"));
        let numbers = |name: &str| -> Vec<f64> {
            let all = out.split("<rect").skip(1);
            let value = |text: &str| {
                text.split(&format!(" {name}=\""))
                    .nth(1)?
                    .split('"')
                    .next()?
                    .parse()
                    .ok()
            };
            all.filter_map(value).collect()
        };
        let (starts, widths) = (numbers("x"), numbers("width"));
        assert_eq!(starts.len(), 4);
        assert!((starts[0] + widths[0] - starts[1]).abs() < 0.02);
        assert!((widths[1] / widths[0] - 3.0).abs() < 0.01);
        assert!((widths[2] / widths[0] - 0.5).abs() < 0.01);
        assert!(out.contains(">400 ns</text>"), "{out}");
    }
}
