//! A figure among comparable ones, as dots on one line, better to the right.

use super::escape;
use super::line::COLOURS;
use super::scale::{Kind, Scale};
use std::fmt::Write as _;
use verbena_measure::compare::Better;

const WIDTH: f64 = 260.0;
const HEIGHT: f64 = 26.0;
const EDGE: f64 = 9.0;

/// Kind of a dot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DotKind {
    /// The figure itself.
    Subject,
    /// Another run's figure, with the number of its colour.
    Run(usize),
    /// A published figure.
    Published,
}

/// A dot.
#[derive(Debug, Clone, PartialEq)]
pub struct Dot {
    /// Kind of the dot.
    pub kin: DotKind,
    /// Its value.
    pub value: f64,
    /// Name and value, shown on hover.
    pub title: String,
}

/// Draws the dots, the subject above the others.
pub fn svg(title: &str, dots: &[Dot], better: Better) -> String {
    let (from, to) = match better {
        Better::Higher => (EDGE, WIDTH - EDGE),
        Better::Lower => (WIDTH - EDGE, EDGE),
    };
    let x = Scale::over(Kind::Log, dots.iter().map(|dot| dot.value), from, to);
    let middle = HEIGHT / 2.0;
    let mut out = format!(
        "<svg class=\"strip\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{}\">\
         <line class=\"grid\" x1=\"{EDGE}\" x2=\"{:.1}\" y1=\"{middle}\" y2=\"{middle}\"/>",
        escape(title),
        WIDTH - EDGE
    );
    let rank = |dot: &&Dot| match dot.kin {
        DotKind::Published => 0,
        DotKind::Run(_) => 1,
        DotKind::Subject => 2,
    };
    let mut order: Vec<&Dot> = dots.iter().collect();
    order.sort_by_key(rank);
    for dot in order {
        let at = x.at(dot.value);
        let title = escape(&dot.title);
        let _ = match dot.kin {
            DotKind::Published => write!(
                out,
                "<path class=\"published\" d=\"M{at:.1} {:.1}l5 5l-5 5l-5 \
                 -5Z\"><title>{title}</title></path>",
                middle - 5.0
            ),
            DotKind::Run(colour) => write!(
                out,
                "<circle class=\"dot c{}\" cx=\"{at:.1}\" cy=\"{middle}\" \
                 r=\"4.5\"><title>{title}</title></circle>",
                colour % COLOURS
            ),
            DotKind::Subject => write!(
                out,
                "<circle class=\"dot c0 subject\" cx=\"{at:.1}\" cy=\"{middle}\" \
                 r=\"7\"><title>{title}</title></circle>"
            ),
        };
    }
    out.push_str("</svg>");
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn better_values_are_drawn_to_the_right() {
        let dot = |kin, value| Dot {
            kin,
            value,
            title: "<".to_owned(),
        };
        let dots = [dot(DotKind::Subject, 250.0), dot(DotKind::Run(1), 1000.0)];
        let at = |better| {
            let out = svg("t", &dots, better);
            assert!(out.contains("&lt;"));
            let place = out.split("cx=\"").nth(2).unwrap().split('"').next();
            place.unwrap().parse::<f64>().unwrap()
        };
        assert!(at(Better::Lower) > at(Better::Higher));
    }
}
