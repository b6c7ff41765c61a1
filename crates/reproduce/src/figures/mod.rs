//! The papers' figures redrawn: the models' curves with the published points.
//!
//! A file per paper plans its figures (`Sketch`): axes, benchmarks, and the position of each
//! claim. The published values themselves come from the claims. Every point of every curve is
//! computed independently, so that threads can share the work.

mod connectx_multicore;
mod memfree;
mod pci_express;
mod qdr_evaluation;
mod rfio_infiniband;
mod sketch;

use crate::claims::{Bench, Claim};
use crate::workers::in_order;
use serde::Serialize;
use sketch::{Measurement, Ordinate, Sketch};
use std::collections::BTreeMap;
use verbena_model::profile::{Library, System};

/// Scale of an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scale {
    /// Evenly.
    Linear,
    /// By logarithm.
    Log,
}

/// An axis of a figure.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Axis {
    /// Name of the quantity.
    pub name: &'static str,
    /// Unit, as in the claims.
    pub unit: &'static str,
    /// Scale.
    pub scale: Scale,
}

/// A curve of the model.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DrawnCurve {
    /// Label for the legend.
    pub label: String,
    /// (x, y).
    pub points: Vec<(f64, f64)>,
}

/// Position of a claim on a figure.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Position {
    /// At an x.
    At(f64),
    /// From one x to another.
    Over(f64, f64),
    /// The published value is an x itself, e.g. a size or a number of readers.
    OnAxis,
}

/// A published point on a figure.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Published {
    /// The claim.
    pub claim: String,
    /// Index of its curve.
    pub curve: usize,
    /// Its position.
    pub place: Position,
    /// The published value.
    pub value: Option<f64>,
    /// Lower bound.
    pub low: Option<f64>,
    /// Upper bound.
    pub high: Option<f64>,
}

/// A figure of a paper as drawn by the models.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Figure {
    /// `<paper>.<what>`.
    pub id: String,
    /// Section, table or figure of the paper.
    #[serde(rename = "where")]
    pub place: &'static str,
    /// Title.
    pub title: &'static str,
    /// Note for readers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<&'static str>,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// The model's curves.
    pub curves: Vec<DrawnCurve>,
    /// The published points.
    pub published: Vec<Published>,
}

impl Figure {
    /// Returns the part of the id that names the paper.
    pub fn paper(&self) -> &str {
        self.id.split('.').next().unwrap_or(&self.id)
    }

    /// Adds the curves of the same figure on an anchored system, as far as they differ.
    fn add_anchored(&mut self, other: Figure) {
        let pairs = self.curves.iter().zip(other.curves);
        let differ = pairs.filter(|(blind, anchored)| blind.points != anchored.points);
        let added: Vec<DrawnCurve> = differ
            .map(|(_, anchored)| DrawnCurve {
                label: format!("{}, anchored", anchored.label),
                ..anchored
            })
            .collect();
        self.curves.extend(added);
    }
}

fn planned<'a>(bench: &'a Bench<'a>, paper: &str) -> Vec<Sketch<'a>> {
    match paper {
        "connectx_multicore" => connectx_multicore::figures(bench),
        "qdr_evaluation" => qdr_evaluation::figures(bench),
        "pci_express" => pci_express::figures(bench),
        "memfree" => memfree::figures(bench),
        "rfio_infiniband" => rfio_infiniband::figures(bench),
        _ => Vec::new(),
    }
}

/// Draws the figures of the claims' papers on `threads` threads; the result does not depend on
/// their number. Curves that differ on the system `anchored` are drawn for it, too.
pub fn draw(
    library: &Library,
    claims: &[Claim],
    threads: usize,
    anchored: Option<&System>,
) -> Vec<Figure> {
    let mut figures = draw_on(&Bench::new(library), claims, threads);
    if let Some(system) = anchored {
        let on_anchored = draw_on(&Bench::anchored(library, system), claims, threads);
        for (figure, other) in figures.iter_mut().zip(on_anchored) {
            figure.add_anchored(other);
        }
    }
    figures
}

fn draw_on(bench: &Bench<'_>, claims: &[Claim], threads: usize) -> Vec<Figure> {
    let mut papers: Vec<&str> = claims.iter().map(Claim::paper).collect();
    papers.dedup();
    let plans: Vec<(&str, Vec<Sketch<'_>>)> = papers
        .into_iter()
        .map(|paper| (paper, planned(bench, paper)))
        .collect();
    let measured: Vec<Measured<'_>> = plans
        .iter()
        .flat_map(|(paper, sketches)| sketches.iter().flat_map(|sketch| measured(paper, sketch)))
        .collect();
    let values = in_order(threads, measured.len(), |number| {
        let point = &measured[number];
        (point.at)(point.x)
    });
    let values: Values<'_> = measured.iter().map(|point| point.key).zip(values).collect();
    plans
        .iter()
        .flat_map(|(paper, sketches)| sketches.iter().map(|sketch| (*paper, sketch)))
        .map(|(paper, sketch)| {
            sketch.figure(paper, claims, |line, x| {
                let of = |(what, label)| values[&(paper, what, label, x.to_bits())];
                match line.ordinate {
                    Ordinate::Measured(_) => of((sketch.what, line.label)),
                    Ordinate::Quotient { of: one, by } => of(one) / of(by),
                }
            })
        })
        .collect()
}

/// Paper, figure, curve, and the bits of x of a point.
type Key<'a> = (&'a str, &'static str, &'static str, u64);

type Values<'a> = BTreeMap<Key<'a>, f64>;

struct Measured<'a> {
    key: Key<'a>,
    x: f64,
    at: &'a Measurement<'a>,
}

fn measured<'a>(paper: &'a str, sketch: &'a Sketch<'_>) -> Vec<Measured<'a>> {
    let mut points = Vec::new();
    for line in &sketch.curves {
        if let Ordinate::Measured(at) = &line.ordinate {
            points.extend(line.xs.iter().map(|&x| Measured {
                key: (paper, sketch.what, line.label, x.to_bits()),
                x,
                at,
            }));
        }
    }
    points
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claims::shipped;
    use std::collections::BTreeSet;
    use verbena_model::profile::Overrides;

    const PAPERS: [&str; 5] = [
        "connectx_multicore",
        "qdr_evaluation",
        "pci_express",
        "memfree",
        "rfio_infiniband",
    ];

    fn for_each_paper(check: impl Fn(&str, &[Sketch<'_>])) {
        let library = Library::shipped(&Overrides::none()).expect("shipped profiles are sound");
        let bench = Bench::new(&library);
        for paper in PAPERS {
            check(paper, &planned(&bench, paper));
        }
    }

    #[test]
    fn every_quotient_has_both_curves_at_every_x() {
        for_each_paper(|paper, sketches| {
            let points: Vec<Key<'_>> = sketches
                .iter()
                .flat_map(|sketch| measured(paper, sketch))
                .map(|point| point.key)
                .collect();
            let distinct: BTreeSet<&Key<'_>> = points.iter().collect();
            assert_eq!(distinct.len(), points.len(), "{paper}: a curve twice");
            for line in sketches.iter().flat_map(|sketch| &sketch.curves) {
                if let Ordinate::Quotient { of, by } = line.ordinate {
                    for (x, (what, label)) in line.xs.iter().flat_map(|x| [(x, of), (x, by)]) {
                        let key = (paper, what, label, x.to_bits());
                        assert!(distinct.contains(&key), "{paper}: no {key:?}");
                    }
                }
            }
        });
    }

    #[test]
    fn every_mark_is_a_claim_with_a_value() {
        let claims = shipped().expect("the claims are sound");
        for_each_paper(|paper, sketches| {
            for sketch in sketches {
                let figure = sketch.figure(paper, &claims, |_, _| 1.0);
                assert_eq!(figure.published.len(), sketch.marked(), "{}", figure.id);
                for published in figure.published {
                    let values = [published.value, published.low, published.high];
                    let drawn = values.iter().any(Option::is_some);
                    assert!(drawn, "{}: {} has no value", figure.id, published.claim);
                }
            }
        });
    }
}
