//! The table of methods: the errors of the models on the published curves to which nothing was
//! fitted, beside those of simpler predictions.
//!
//! The error of a point is figure over published, less one; that of a curve is the mean of its
//! points' absolute errors; that of a method is the mean over curves.

use crate::residual::{Basis, FigureKind, Residuals, SizeClass};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write;

/// Latency of the naive prediction in microseconds, the same for every adapter. The vendor states
/// latencies below one microsecond for ConnectX-3 (The Register, "Mellanox ConnectX-3", 6 June
/// 2011); older adapters are slower.
const NAIVE_LATENCY: f64 = 1.0;
/// Time between messages of the naive prediction in microseconds. Assumed: five million messages a
/// second of one process.
const NAIVE_GAP: f64 = 0.2;

/// A way to predict a curve.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Method {
    /// LogGP from the data sheet with generic constants.
    Naive,
    /// The model, from its profiles only.
    Blind,
    /// LogGP with both constants from two points of the curve.
    TwoPoints,
    /// The model with one point of the curve.
    Anchored,
    /// The model with the constant that fits the whole curve best.
    BestConstant,
}

impl Method {
    /// All methods, in the order of the table.
    pub const ALL: [Method; 5] = [
        Method::Naive,
        Method::Blind,
        Method::TwoPoints,
        Method::Anchored,
        Method::BestConstant,
    ];

    /// Returns the heading of its column.
    pub fn heading(self) -> &'static str {
        match self {
            Method::Naive => "naive",
            Method::Blind => "blind",
            Method::TwoPoints => "two-point",
            Method::Anchored => "anchored",
            Method::BestConstant => "best",
        }
    }

    /// Returns its definition.
    pub fn meaning(self) -> String {
        match self {
            Method::Naive => format!(
                "LogGP from the data sheet: the link's rate, with {NAIVE_LATENCY} us of latency \
                 (stated by a vendor) or {NAIVE_GAP} us between messages (assumed) for every \
                 machine"
            ),
            Method::Blind => "the model, from its profiles alone".to_owned(),
            Method::TwoPoints => "LogGP through two points of the curve itself, the anchor and \
                                  the largest message"
                .to_owned(),
            Method::Anchored => "the model corrected by one latency and one rate of the operation \
                                 on that machine, as far as its source has them: of the smallest \
                                 message of at least 8 B, and of at least 64 B"
                .to_owned(),
            Method::BestConstant => "the model shifted by the constant that fits the whole curve \
                                     best: the least that an anchor can leave"
                .to_owned(),
        }
    }

    /// Returns the mean absolute error on a curve.
    pub fn error(self, curve: &Residuals) -> f64 {
        match self {
            Method::Naive => curve.error(naive(curve).into_iter()),
            Method::Blind => curve.error(curve.points.iter().map(|point| point.blind)),
            Method::TwoPoints => curve.error(two_points(curve).into_iter()),
            Method::Anchored => curve.error(curve.points.iter().map(|point| point.anchored)),
            Method::BestConstant => best_constant(curve),
        }
    }
}

fn naive(curve: &Residuals) -> Vec<f64> {
    let constant = match curve.figure {
        FigureKind::Latency => NAIVE_LATENCY,
        FigureKind::Bandwidth => NAIVE_GAP,
    };
    linear(curve, constant, 1.0 / curve.rate)
}

/// Returns the figures of messages that take a constant time and a time per byte, in microseconds.
fn linear(curve: &Residuals, constant: f64, per_byte: f64) -> Vec<f64> {
    let of_size = |bytes: u64| {
        let time = constant + per_byte * bytes as f64;
        match curve.figure {
            FigureKind::Latency => time,
            FigureKind::Bandwidth => bytes as f64 / time,
        }
    };
    curve
        .points
        .iter()
        .map(|point| of_size(point.bytes))
        .collect()
}

fn two_points(curve: &Residuals) -> Vec<f64> {
    let first = curve.points.iter().find(|point| point.is_anchor);
    let last = curve.points.iter().max_by_key(|point| point.bytes);
    let (Some(first), Some(last)) = (first, last) else {
        return naive(curve);
    };
    let times = [first, last].map(|point| curve.time(point.bytes, point.published));
    let bytes = last.bytes as f64 - first.bytes as f64;
    let per_byte = match bytes > 0.0 {
        true => ((times[1] - times[0]) / bytes).max(0.0),
        false => 1.0 / curve.rate,
    };
    linear(
        curve,
        (times[0] - per_byte * first.bytes as f64).max(0.0),
        per_byte,
    )
}

/// Returns the error with the best of the constants that make a point exact: the mean absolute
/// error of latencies is least at one of them, that of rates nearly.
fn best_constant(curve: &Residuals) -> f64 {
    let offsets = curve.points.iter().map(|point| curve.offset_at(point));
    let errors = offsets.map(|offset| curve.error(curve.shifted(offset)));
    errors.fold(Method::Blind.error(curve), f64::min)
}

/// The errors of all methods on a curve.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Judged {
    /// Id of the curve.
    pub id: String,
    /// Group of the curve, e.g. `verbs latency`.
    pub group: String,
    /// Mean absolute errors, as shares.
    pub errors: BTreeMap<Method, f64>,
    /// Error of the anchored model without the point at which it is anchored.
    pub anchored_elsewhere: f64,
}

/// The table of methods.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Table {
    /// A row for each curve.
    pub curves: Vec<Judged>,
}

impl Table {
    /// Returns the errors of all methods on all curves.
    pub fn of(curves: &[Residuals]) -> Table {
        let judged = |curve: &Residuals| Judged {
            id: curve.id.clone(),
            group: format!("{} {}", curve.layer, curve.figure),
            errors: Method::ALL
                .map(|method| (method, method.error(curve)))
                .into(),
            anchored_elsewhere: elsewhere(curve),
        };
        Table {
            curves: curves.iter().map(judged).collect(),
        }
    }

    /// Returns the mean error of a method over all curves.
    pub fn mean(&self, method: Method) -> f64 {
        mean(self.curves.iter().map(|one| one.errors[&method]))
    }

    /// Returns the ids of the curves on which the naive prediction is better than `method`.
    pub fn worse_than_naive(&self, method: Method) -> Vec<&str> {
        let is_worse = |one: &&Judged| one.errors[&Method::Naive] < one.errors[&method];
        let worse = self.curves.iter().filter(is_worse);
        worse.map(|one| one.id.as_str()).collect()
    }

    /// Returns the table as text, in per cent.
    pub fn text(&self) -> String {
        let wide = self.curves.iter().map(|one| one.id.len()).max();
        let wide = wide.unwrap_or(0).max(24);
        let mut out = format!("{:<wide$}", "mean error by method, %");
        for method in Method::ALL {
            let _ = write!(out, " {:>9}", method.heading());
        }
        out.push('\n');
        let mut groups: BTreeMap<&str, Vec<&Judged>> = BTreeMap::new();
        for one in &self.curves {
            groups.entry(&one.group).or_default().push(one);
            row(&mut out, wide, &one.id, |method| one.errors[&method]);
        }
        for (group, curves) in groups {
            let name = format!("{group} ({} curves)", curves.len());
            let of_group = |method| mean(curves.iter().map(|one| one.errors[&method]));
            row(&mut out, wide, &name, of_group);
        }
        let name = format!("all ({} curves)", self.curves.len());
        row(&mut out, wide, &name, |method| self.mean(method));
        let elsewhere = mean(self.curves.iter().map(|one| one.anchored_elsewhere));
        let _ = writeln!(
            out,
            "The error of a point is predicted over published, less one; of a curve the mean of \
             the absolute errors\nof its points; of a method the mean over curves. Without the \
             points at which it is anchored, the anchored\nmodel errs by {:.1} %.",
            100.0 * elsewhere
        );
        for method in Method::ALL {
            let _ = writeln!(out, "  {:<9} {}", method.heading(), method.meaning());
        }
        for method in [Method::Blind, Method::Anchored] {
            let _ = writeln!(out, "{}", self.against_naive(method));
        }
        out
    }

    /// Returns on how many curves the naive prediction is better, in a sentence.
    pub fn against_naive(&self, method: Method) -> String {
        let worse = self.worse_than_naive(method);
        let names = match worse.is_empty() {
            true => String::new(),
            false => format!(": {}", worse.join(", ")),
        };
        format!(
            "The naive prediction is better than the {} model on {} of {} curves{names}.",
            method.heading(),
            worse.len(),
            self.curves.len()
        )
    }
}

fn row(out: &mut String, wide: usize, name: &str, error: impl Fn(Method) -> f64) {
    let _ = write!(out, "{name:<wide$}");
    for method in Method::ALL {
        let _ = write!(out, " {:>9.1}", 100.0 * error(method));
    }
    out.push('\n');
}

fn elsewhere(curve: &Residuals) -> f64 {
    let others = curve.points.iter().filter(|point| !point.is_anchor);
    mean(others.map(|point| (point.anchored / point.published - 1.0).abs()))
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = values.fold((0.0, 0_usize), |(sum, count), one| (sum + one, count + 1));
    sum / count.max(1) as f64
}

/// Mean absolute error of a part of all points.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Part {
    /// By which property the points are divided.
    pub property: &'static str,
    /// Its value, e.g. the name of an adapter's profile.
    pub value: String,
    /// Number of points.
    pub points: usize,
    /// Number of curves.
    pub curves: usize,
    /// Mean absolute error of the blind model over these points.
    pub blind: f64,
    /// Mean absolute error of the anchored model over these points, without anchors.
    pub anchored: f64,
}

/// Divides the errors of all points by size, adapter, host, MPI library and set-up.
pub fn decompose(curves: &[Residuals]) -> Vec<Part> {
    type Key = (usize, String);
    const PROPERTIES: [&str; 5] = ["size", "adapter", "host", "library", "set-up"];
    #[derive(Default)]
    struct Sums<'a> {
        curves: Vec<&'a str>,
        blind: Vec<f64>,
        anchored: Vec<f64>,
    }
    let mut sums: BTreeMap<Key, Sums<'_>> = BTreeMap::new();
    for curve in curves {
        let library = curve.library.as_deref().unwrap_or("none (verbs)");
        for point in &curve.points {
            let size = SizeClass::of(point.bytes);
            let keys = [
                // Classes in the order of their sizes.
                format!("{}{size}", size as u8),
                curve.adapter.clone(),
                curve.host.clone(),
                library.to_owned(),
                curve.setup.clone(),
            ];
            for key in keys.into_iter().enumerate() {
                let sum = sums.entry(key).or_default();
                if sum.curves.last() != Some(&curve.id.as_str()) {
                    sum.curves.push(&curve.id);
                }
                let error = |basis| (point.model(basis) / point.published - 1.0).abs();
                sum.blind.push(error(Basis::Blind));
                if !point.is_anchor {
                    sum.anchored.push(error(Basis::Anchored));
                }
            }
        }
    }
    let part = |((property, value), sums): (Key, Sums<'_>)| Part {
        property: PROPERTIES[property],
        value: match property {
            0 => value[1..].to_owned(),
            _ => value,
        },
        points: sums.blind.len(),
        curves: sums.curves.len(),
        blind: mean(sums.blind.into_iter()),
        anchored: mean(sums.anchored.into_iter()),
    };
    sums.into_iter().map(part).collect()
}

/// Returns the parts as a table, in per cent.
pub fn decomposition_text(parts: &[Part]) -> String {
    let mut out = format!(
        "{:<9} {:<36} {:>7} {:>7} {:>9} {:>9}\n",
        "mean error by cause, %", "", "points", "curves", "blind", "anchored"
    );
    let mut last = "";
    for part in parts {
        let property = match part.property == last {
            true => "",
            false => part.property,
        };
        last = part.property;
        let _ = writeln!(
            out,
            "  {property:<8} {:<36} {:>9} {:>7} {:>9.1} {:>9.1}",
            part.value,
            part.points,
            part.curves,
            100.0 * part.blind,
            100.0 * part.anchored
        );
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::residual::{Layer, ResidualPoint};

    fn curve(figure: FigureKind, points: &[(u64, f64, f64)]) -> Residuals {
        let point =
            |(number, (bytes, published, blind)): (usize, &(u64, f64, f64))| ResidualPoint {
                bytes: *bytes,
                published: *published,
                blind: *blind,
                anchored: *blind,
                is_anchor: number == 0,
            };
        Residuals {
            id: "source.curve".to_owned(),
            source: "source".to_owned(),
            figure,
            layer: Layer::Verbs,
            adapter: "connectx".to_owned(),
            host: "pcie2".to_owned(),
            library: None,
            setup: "bare metal".to_owned(),
            rate: 1000.0,
            points: points.iter().enumerate().map(point).collect(),
        }
    }

    #[test]
    fn a_line_is_met_by_two_points_and_by_its_own_constants() {
        let points = [(8, 1.008, 2.008), (1000, 2.0, 3.0), (4000, 5.0, 6.0)];
        let latency = curve(FigureKind::Latency, &points);
        for method in [Method::Naive, Method::TwoPoints, Method::BestConstant] {
            assert!(method.error(&latency) < 1e-9, "{method:?}");
        }
        let blind = (1.0 / 1.008 + 0.5 + 0.2) / 3.0;
        assert!((Method::Blind.error(&latency) - blind).abs() < 1e-9);
        let rate = |bytes: u64| bytes as f64 / (0.2 + bytes as f64 / 1000.0);
        let points = [8, 64, 4096].map(|bytes| (bytes, rate(bytes), 2.0 * rate(bytes)));
        let stream = curve(FigureKind::Bandwidth, &points);
        assert!(Method::Naive.error(&stream) < 1e-9);
        assert!(Method::TwoPoints.error(&stream) < 1e-9);
    }

    #[test]
    fn the_table_names_the_curves_on_which_the_naive_prediction_is_better() {
        let table = Table::of(&[curve(FigureKind::Latency, &[(8, 1.008, 2.0)])]);
        assert_eq!(table.worse_than_naive(Method::Blind), ["source.curve"]);
        let text = table.text();
        assert!(text.contains("better than the blind model on 1 of 1 curves: source.curve."));
        assert!(text.contains("verbs latency (1 curves)"), "{text}");
    }

    #[test]
    fn errors_are_divided_by_cause() {
        let points = [(8, 1.0, 1.5), (1024, 1.0, 1.1), (4096, 1.0, 0.7)];
        let parts = decompose(&[curve(FigureKind::Latency, &points)]);
        let sizes: Vec<_> = parts
            .iter()
            .filter(|part| part.property == "size")
            .collect();
        assert_eq!(sizes[0].value, "up to 64 B");
        assert!((sizes[0].blind - 0.5).abs() < 1e-9 && sizes[0].anchored == 0.0);
        assert!((sizes[1].blind - 0.2).abs() < 1e-9 && sizes[1].points == 2);
        assert!(
            parts
                .iter()
                .any(|part| part.value == "bare metal" && part.curves == 1)
        );
        assert!(decomposition_text(&parts).contains("bare metal"));
    }
}
