//! The plan of a figure, before its points are computed.

use super::{Axis, DrawnCurve, Figure, Position, Published, Scale};
use crate::claims::Claim;

pub(super) const SIZE: Axis = Axis {
    name: "message size",
    unit: "B",
    scale: Scale::Log,
};
pub(super) const LATENCY: Axis = Axis {
    name: "latency",
    unit: "us",
    scale: Scale::Log,
};
pub(super) const BANDWIDTH: Axis = Axis {
    name: "bandwidth",
    unit: "MB/s",
    scale: Scale::Log,
};

pub(super) const fn ratio(name: &'static str) -> Axis {
    Axis {
        name,
        unit: "x",
        scale: Scale::Linear,
    }
}

/// Returns the axis of a count that doubles from point to point.
pub(super) const fn doubling(name: &'static str) -> Axis {
    Axis {
        name,
        unit: "",
        scale: Scale::Log,
    }
}

/// Returns a linear axis of any other quantity.
pub(super) const fn evenly(name: &'static str, unit: &'static str) -> Axis {
    Axis {
        name,
        unit,
        scale: Scale::Linear,
    }
}

/// A model's value at an x.
pub(super) type Measurement<'a> = dyn Fn(f64) -> f64 + Send + Sync + 'a;

pub(super) enum Ordinate<'a> {
    Measured(Box<Measurement<'a>>),
    /// One curve divided by another, each by figure and label.
    Quotient {
        of: (&'static str, &'static str),
        by: (&'static str, &'static str),
    },
}

pub(super) struct Line<'a> {
    pub label: &'static str,
    pub xs: Vec<f64>,
    pub ordinate: Ordinate<'a>,
}

/// A claim to mark on a curve.
struct Mark {
    claim: &'static str,
    /// Name of the value, if the claim has several.
    part: Option<&'static str>,
    curve: &'static str,
    place: Position,
}

pub(super) struct Sketch<'a> {
    /// Its name within the paper.
    pub what: &'static str,
    place: &'static str,
    title: &'static str,
    note: Option<&'static str>,
    x: Axis,
    y: Axis,
    pub curves: Vec<Line<'a>>,
    marks: Vec<Mark>,
}

impl<'a> Sketch<'a> {
    pub fn new(
        what: &'static str,
        place: &'static str,
        title: &'static str,
        axes: [Axis; 2],
    ) -> Sketch<'a> {
        let [x, y] = axes;
        Sketch {
            what,
            place,
            title,
            note: None,
            x,
            y,
            curves: Vec::new(),
            marks: Vec::new(),
        }
    }

    /// Adds a note for readers.
    pub fn note(self, note: &'static str) -> Sketch<'a> {
        Sketch {
            note: Some(note),
            ..self
        }
    }

    /// Adds a curve with a measurement at each x.
    pub fn curve(
        mut self,
        label: &'static str,
        xs: &[u64],
        at: impl Fn(u64) -> f64 + Send + Sync + 'a,
    ) -> Sketch<'a> {
        self.curves.push(Line {
            label,
            xs: xs.iter().map(|&x| x as f64).collect(),
            ordinate: Ordinate::Measured(Box::new(move |x| at(x as u64))),
        });
        self
    }

    /// Adds a curve that is the quotient of two measured curves; both have these x.
    pub fn quotient(
        mut self,
        label: &'static str,
        xs: &[u64],
        of: (&'static str, &'static str),
        by: (&'static str, &'static str),
    ) -> Sketch<'a> {
        self.curves.push(Line {
            label,
            xs: xs.iter().map(|&x| x as f64).collect(),
            ordinate: Ordinate::Quotient { of, by },
        });
        self
    }

    /// Marks a claim of the paper on a curve.
    pub fn claim(
        mut self,
        claim: &'static str,
        curve: &'static str,
        place: Position,
    ) -> Sketch<'a> {
        self.marks.push(Mark {
            claim,
            part: None,
            curve,
            place,
        });
        self
    }

    /// Marks one of a claim's several values on a curve.
    pub fn part(
        mut self,
        claim: &'static str,
        part: &'static str,
        curve: &'static str,
        place: Position,
    ) -> Sketch<'a> {
        self.marks.push(Mark {
            claim,
            part: Some(part),
            curve,
            place,
        });
        self
    }

    /// Returns the index of the curve with this label.
    fn number(&self, label: &str) -> usize {
        let found = self.curves.iter().position(|line| line.label == label);
        found.unwrap_or_else(|| panic!("{} has a curve {label:?}", self.what))
    }

    /// Returns the figure, with values by curve and x. Only marks of claims in `claims` are
    /// included.
    pub fn figure(
        &self,
        paper: &str,
        claims: &[Claim],
        value: impl Fn(&Line<'_>, f64) -> f64,
    ) -> Figure {
        let curve = |line: &Line<'_>| DrawnCurve {
            label: line.label.to_owned(),
            points: line.xs.iter().map(|&x| (x, value(line, x))).collect(),
        };
        Figure {
            id: format!("{paper}.{}", self.what),
            place: self.place,
            title: self.title,
            note: self.note,
            x: self.x,
            y: self.y,
            curves: self.curves.iter().map(curve).collect(),
            published: self
                .marks
                .iter()
                .filter_map(|mark| self.published(mark, paper, claims))
                .collect(),
        }
    }

    /// Returns the number of marked claims.
    #[cfg(test)]
    pub fn marked(&self) -> usize {
        self.marks.len()
    }

    fn published(&self, mark: &Mark, paper: &str, claims: &[Claim]) -> Option<Published> {
        let id = format!("{paper}.{}", mark.claim);
        let claim = claims.iter().find(|claim| claim.id == id)?;
        let value = match mark.part {
            Some(part) => claim.values.get(part).copied(),
            None => claim.value,
        };
        Some(Published {
            claim: id,
            curve: self.number(mark.curve),
            place: mark.place,
            value,
            low: claim.low,
            high: claim.high,
        })
    }
}
