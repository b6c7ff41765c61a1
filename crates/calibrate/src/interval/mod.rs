//! Intervals of predictions, from the residuals of their class.
//!
//! A residual is the logarithm of published over model; an interval is the model's figure divided
//! and multiplied by one factor. The points of a source are correlated, so sources count: each has
//! the same weight, divided over its points.
//!
//! The factor of the 80 % interval is the quantile of the absolute residuals under these weights
//! (pooled distributions: Dunn, Wasserman, Ramdas, Distribution-free prediction sets for two-layer
//! hierarchical models, 2022; recalled). The wide interval guarantees its level for a further
//! source that is exchangeable with the known ones: the unknown source counts like a known one and
//! may err by any amount. The guarantee needs 19 sources for 95 %; with fewer, the level is lower.
//! Nothing is tuned: [`coverage`] measures the share of left-out sources' points that they hold.

pub mod coverage;
mod ratio;
mod weighted;

pub use ratio::{PredictedTime, Ratio, Verdict};

use crate::residual::{
    Basis, Era, FigureKind, FileError, Layer, Residuals, SizeClass, shipped, stand_in,
};
use serde::Serialize;
use std::collections::BTreeSet;
use weighted::{Scores, supported};

/// The shares of points that intervals shall hold.
pub const LEVELS: [f64; 2] = [0.8, 0.95];
/// Share of a blind interval's width, as logarithm, from which an anchor hardly narrows it.
const HARDLY: f64 = 0.75;
/// Largest factor between figures by whole messages and by packets, as tests hold them. Residuals
/// are of figures by packets.
const FIDELITY: f64 = 1.05;
/// Least number of sources of a class: with fewer, none can guarantee 80 %.
const LEAST_SOURCES: usize = 4;

/// A predicted figure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subject {
    /// Latency or bandwidth.
    pub figure: FigureKind,
    /// Verbs or MPI.
    pub layer: Layer,
    /// Size of the messages.
    pub size: SizeClass,
    /// Name of the adapter's profile, if it is known.
    pub adapter: Option<String>,
    /// Whether the model is anchored.
    pub basis: Basis,
    /// The benchmark whose curves stand in for those of another kind, of which none are published.
    pub stand_in: Option<&'static str>,
}

impl Subject {
    /// Returns the subject of a benchmark's figure with messages of `bytes` bytes; `None` if no
    /// published curve is of its kind, or stands in for it.
    pub fn of(benchmark: &str, figure: FigureKind, bytes: u64) -> Option<Subject> {
        let other = || stand_in(benchmark, figure).map(|(layer, name)| (layer, Some(name)));
        let own = Layer::of(benchmark).map(|layer| (layer, None));
        let (layer, stand_in) = own.or_else(other)?;
        Some(Subject {
            figure,
            layer,
            size: SizeClass::of(bytes),
            adapter: None,
            basis: Basis::Blind,
            stand_in,
        })
    }

    /// Returns the same subject of a model that is not anchored.
    fn blind(&self) -> Subject {
        Subject {
            basis: Basis::Blind,
            ..self.clone()
        }
    }

    /// Returns the words for a class, of another kind or not.
    fn class(&self, class: &Class) -> String {
        match self.stand_in {
            Some(name) => format!("{}, curves of another kind: {name}", class.text()),
            None => class.text(),
        }
    }
}

/// Which residuals apply; `None` is any.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Class {
    figure: FigureKind,
    layer: Option<Layer>,
    size: Option<SizeClass>,
    adapters: Adapters,
    basis: Basis,
}

/// Which adapters' residuals apply.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
enum Adapters {
    One(String),
    Era(Era),
    All,
}

impl Class {
    /// Returns the classes of a subject, the narrowest first.
    fn of(subject: &Subject) -> Vec<Class> {
        let class = |adapters, layer, size| Class {
            figure: subject.figure,
            layer,
            size,
            adapters,
            basis: subject.basis,
        };
        let (layer, size) = (Some(subject.layer), Some(subject.size));
        let adapter = subject.adapter.clone();
        let era = adapter.as_deref().and_then(Era::of).map(Adapters::Era);
        let narrow = adapter.map(Adapters::One).into_iter().chain(era.clone());
        let mut classes: Vec<Class> = narrow.map(|one| class(one, layer, size)).collect();
        classes.push(class(Adapters::All, layer, size));
        classes.extend(era.map(|era| class(era, None, size)));
        classes.push(class(Adapters::All, None, size));
        classes.push(class(Adapters::All, None, None));
        classes
    }

    fn holds(&self, curve: &Residuals) -> bool {
        let is_adapter = match &self.adapters {
            Adapters::One(adapter) => *adapter == curve.adapter,
            Adapters::Era(era) => Era::of(&curve.adapter) == Some(*era),
            Adapters::All => true,
        };
        is_adapter
            && self.figure == curve.figure
            && self.layer.is_none_or(|layer| layer == curve.layer)
    }

    fn holds_size(&self, bytes: u64) -> bool {
        self.size.is_none_or(|size| size == SizeClass::of(bytes))
    }

    /// Returns the residuals of its points by source.
    fn by_source<'a>(&self, curves: impl Iterator<Item = &'a Residuals>) -> Members<'a> {
        let mut members = Members::default();
        for curve in curves.filter(|curve| self.holds(curve)) {
            let points = curve.points.iter();
            let points = points.filter(|point| self.holds_size(point.bytes));
            let ratios = points.filter_map(|point| {
                let ratio = point.log_ratio(self.basis)?;
                Some((point.bytes, ratio))
            });
            let ratios: Vec<(u64, f64)> = ratios.collect();
            if ratios.is_empty() {
                continue;
            }
            members.curves.insert(&curve.id);
            match members.sources.iter_mut().find(|one| one.0 == curve.source) {
                Some((_, all)) => all.extend(ratios),
                None => members.sources.push((&curve.source, ratios)),
            }
        }
        members
    }

    fn text(&self) -> String {
        let layer = match self.layer {
            Some(layer) => format!("{layer} "),
            None => "verbs and MPI ".to_owned(),
        };
        let size = match self.size {
            Some(size) => format!("{size}"),
            None => "all sizes".to_owned(),
        };
        let adapters = match &self.adapters {
            Adapters::One(name) => name.clone(),
            Adapters::Era(era) => era.to_string(),
            Adapters::All => "all adapters".to_owned(),
        };
        format!("{layer}{}, {size}, {adapters}", self.figure)
    }
}

/// The residuals of a class, as (bytes, log ratio), by source.
#[derive(Debug, Default)]
struct Members<'a> {
    curves: BTreeSet<&'a str>,
    sources: Vec<(&'a str, Vec<(u64, f64)>)>,
}

/// How far figures of a class may be from a real machine's.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Interval {
    /// The share of points that it holds, e.g. 0.8.
    pub level: f64,
    /// The real figure is within model / factor and model x factor.
    pub factor: f64,
    /// The level of the wide interval: 0.95, or the highest that the sources support.
    pub wide_level: f64,
    /// The factor of the wide interval.
    pub wide_factor: f64,
    /// Number of curves of the class.
    pub curves: usize,
    /// Number of sources of the class.
    pub sources: usize,
    /// The class in words.
    pub class: String,
    /// Whether the narrowest class, the adapter's own, has too few sources.
    pub is_broad: bool,
    /// Blind or anchored.
    pub basis: Basis,
    /// For an anchored model the factor of the blind one's interval, if it has one.
    pub blind_factor: Option<f64>,
    /// Whether it is of a figure by whole messages, and includes their difference to packets.
    pub is_by_messages: bool,
    /// Whether the model is anchored, but by figures of other kinds.
    pub is_beside_anchors: bool,
    /// Number of published curves that are newer than the residuals, and do not count.
    pub newer: usize,
}

impl Interval {
    /// Returns the range of a real figure for the model's.
    pub fn range(&self, model: f64) -> (f64, f64) {
        (model / self.factor, model * self.factor)
    }

    /// Returns the wide range of a real figure for the model's.
    pub fn wide_range(&self, model: f64) -> (f64, f64) {
        (model / self.wide_factor, model * self.wide_factor)
    }

    /// Returns the interval of a figure by whole messages.
    pub fn by_messages(self) -> Interval {
        Interval {
            factor: self.factor * FIDELITY,
            wide_factor: self.wide_factor * FIDELITY,
            blind_factor: self.blind_factor.map(|blind| blind * FIDELITY),
            is_by_messages: true,
            ..self
        }
    }

    /// Returns whether an anchor leaves most of a blind model's interval.
    fn is_hardly_narrowed(&self) -> bool {
        let blind = self.blind_factor.map(f64::ln);
        blind.is_some_and(|blind| self.factor.ln() > HARDLY * blind)
    }

    /// Returns where it comes from, e.g. `from 9 curves of 5 sources (...), blind`. Says so if an
    /// anchor hardly narrows the interval.
    pub fn origin(&self) -> String {
        let narrowed = match self.blind_factor.filter(|_| self.is_hardly_narrowed()) {
            Some(blind) => format!(
                "; the anchor hardly narrows it: divided to multiplied by {:.2}, blind {blind:.2}",
                self.factor
            ),
            None if self.is_beside_anchors => "; no anchor is of this kind".to_owned(),
            None => String::new(),
        };
        let fidelity = by_messages(self.is_by_messages);
        let newer = match self.newer {
            0 => String::new(),
            count => format!("; {count} newer curves are not counted"),
        };
        format!(
            "from {} curves of {} sources ({}), {}{narrowed}{fidelity}{newer}",
            self.curves,
            self.sources,
            self.class,
            self.basis.word()
        )
    }

    /// Returns the interval relative to the figure, e.g. `80 % interval: /1.4 to x1.4`.
    pub fn text(&self) -> String {
        format!(
            "{:.0} % interval: divided to multiplied by {:.2}, {}",
            100.0 * self.level,
            self.factor,
            self.origin()
        )
    }
}

/// Returns the words for an interval of figures by whole messages.
fn by_messages(is_by_messages: bool) -> &'static str {
    match is_by_messages {
        true => "; 5 % wider, as computed by messages",
        false => "",
    }
}

/// The residuals from which intervals are made.
#[derive(Debug, Clone)]
pub struct Intervals {
    curves: Vec<Residuals>,
    newer: usize,
}

impl Intervals {
    /// Returns those of the residuals that come with the program.
    ///
    /// # Errors
    ///
    /// Fails if the stored residuals or the curves' sources are invalid.
    pub fn shipped() -> Result<Intervals, FileError> {
        let shipped = shipped()?;
        Ok(Intervals {
            curves: shipped.residuals,
            newer: shipped.missing.len(),
        })
    }

    /// Returns those of these residuals.
    pub fn of(curves: Vec<Residuals>) -> Intervals {
        Intervals { curves, newer: 0 }
    }

    /// Returns the residuals.
    pub fn curves(&self) -> &[Residuals] {
        &self.curves
    }

    /// Returns the interval of a figure: of the narrowest class with four sources or more. `None`
    /// if no class has as many.
    pub fn interval(&self, subject: &Subject) -> Option<Interval> {
        let interval = self.without(subject, None)?;
        let blind = match subject.basis {
            Basis::Blind => None,
            Basis::Anchored => self.without(&Subject::blind(subject), None),
        };
        Some(Interval {
            blind_factor: blind.map(|blind| blind.factor),
            ..interval
        })
    }

    /// Returns the interval without the curves of one source.
    fn without(&self, subject: &Subject, left_out: Option<&str>) -> Option<Interval> {
        let classes = Class::of(subject);
        let narrowest = classes.first().cloned();
        classes.into_iter().find_map(|class| {
            let known = self.curves.iter();
            let known = known.filter(|curve| left_out != Some(curve.source.as_str()));
            let members = class.by_source(known);
            let sources = members.sources.len();
            if sources < LEAST_SOURCES {
                return None;
            }
            let absolute = |all: &Vec<(u64, f64)>| all.iter().map(|(_, one)| one.abs()).collect();
            let groups: Vec<Vec<f64>> =
                members.sources.iter().map(|one| absolute(&one.1)).collect();
            let scores = Scores::of_groups(&groups);
            let wide_level = LEVELS[1].min(supported(sources));
            let wide_factor = scores.guaranteed(wide_level, sources)?.exp();
            // The errors of verbs say little about a library's, and those of two nodes little about
            // patterns of many, so the interval is widened.
            let is_widened = class.layer.is_none() || subject.stand_in.is_some();
            let factor = match is_widened {
                false => scores.quantile(LEVELS[0])?.exp(),
                true => wide_factor,
            };
            Some(Interval {
                level: LEVELS[0],
                factor,
                wide_level,
                wide_factor,
                curves: members.curves.len(),
                sources,
                class: match is_widened {
                    false => class.text(),
                    true => format!("{}; widened", subject.class(&class)),
                },
                is_broad: narrowest.as_ref() != Some(&class),
                basis: subject.basis,
                blind_factor: None,
                is_by_messages: false,
                is_beside_anchors: false,
                newer: self.newer,
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::residual::ResidualPoint;

    /// Returns a curve of a source whose published figures are these multiples of the model's.
    pub(super) fn curve(source: &str, adapter: &str, ratios: &[f64]) -> Residuals {
        let point = |(number, ratio): (usize, &f64)| ResidualPoint {
            bytes: 1 << number,
            published: *ratio,
            blind: 1.0,
            anchored: 1.0,
            is_anchor: number == 0,
        };
        Residuals {
            id: format!("{source}.curve"),
            source: source.to_owned(),
            figure: FigureKind::Latency,
            layer: Layer::Verbs,
            adapter: adapter.to_owned(),
            host: "pcie3".to_owned(),
            library: None,
            setup: "bare metal".to_owned(),
            rate: 1000.0,
            points: ratios.iter().enumerate().map(point).collect(),
        }
    }

    pub(super) fn subject(adapter: &str, basis: Basis) -> Subject {
        Subject {
            figure: FigureKind::Latency,
            layer: Layer::Verbs,
            size: SizeClass::Short,
            adapter: Some(adapter.to_owned()),
            basis,
            stand_in: None,
        }
    }

    fn five() -> Vec<Residuals> {
        let sources = [("a", 1.1), ("b", 1.2), ("c", 0.5), ("d", 1.4), ("e", 1.05)];
        let curves = sources.map(|(source, ratio)| curve(source, "connectx5", &[ratio; 3]));
        curves.to_vec()
    }

    #[test]
    fn sources_count_and_points_do_not() {
        let few = Intervals::of(five());
        let mut curves = five();
        // One source with many points does not narrow the interval.
        curves[0] = curve("a", "connectx5", &[1.1; 6]);
        let many = Intervals::of(curves);
        let of = |all: &Intervals| all.interval(&subject("connectx5", Basis::Blind)).unwrap();
        assert_eq!(of(&few).factor, of(&many).factor);
        // Four of five sources are within it, and all within the wide one.
        assert!((of(&few).factor - 1.4).abs() < 1e-9, "{:?}", of(&few));
        assert!((of(&few).wide_factor - 2.0).abs() < 1e-9, "{:?}", of(&few));
        assert_eq!((of(&few).sources, of(&few).curves), (5, 5));
        // Five sources cannot guarantee 95 %.
        assert!((of(&few).wide_level - 5.0 / 6.0).abs() < 1e-9);
        let (low, high) = of(&few).range(10.0);
        assert!((low - 10.0 / 1.4).abs() < 1e-9 && (high - 14.0).abs() < 1e-9);
    }

    #[test]
    fn too_few_sources_fall_back_to_a_broader_class() {
        let all = Intervals::of(five());
        let own = all.interval(&subject("connectx5", Basis::Blind)).unwrap();
        assert!(!own.is_broad && own.class.ends_with("connectx5"), "{own:?}");
        let other = all.interval(&subject("connectx7", Basis::Blind)).unwrap();
        assert!(
            other.is_broad && other.class.contains("PCI Express 3"),
            "{other:?}"
        );
        let mine = all.interval(&subject("mine", Basis::Blind)).unwrap();
        assert!(mine.class.ends_with("all adapters"));
        let mpi = Subject {
            layer: Layer::Mpi,
            ..subject("connectx5", Basis::Blind)
        };
        let mpi = all.interval(&mpi).unwrap();
        assert!(mpi.class.ends_with("; widened"), "{mpi:?}");
        assert_eq!(mpi.factor, mpi.wide_factor);
        let none = Intervals::of(five()[..3].to_vec());
        assert_eq!(none.interval(&subject("connectx5", Basis::Blind)), None);
    }

    #[test]
    fn an_anchor_that_hardly_narrows_says_so() {
        let origin = |anchored: f64| {
            let mut curves = five();
            for point in curves.iter_mut().flat_map(|curve| &mut curve.points) {
                point.anchored = point.published / anchored;
            }
            let all = Intervals::of(curves);
            let told = all
                .interval(&subject("connectx5", Basis::Anchored))
                .unwrap();
            (told.blind_factor, told.origin())
        };
        let (blind, told) = origin(1.35);
        assert!((blind.unwrap() - 1.4).abs() < 1e-9);
        let words = "; the anchor hardly narrows it: divided to multiplied by 1.35, blind 1.40";
        assert!(told.ends_with(words), "{told}");
        assert!(origin(1.1).1.ends_with("anchored"));
    }

    #[test]
    fn curves_of_another_kind_give_the_wide_interval() {
        let all = Intervals::of(five());
        let own = all.interval(&subject("connectx5", Basis::Blind)).unwrap();
        let halo = Subject::of("patterns.halo", FigureKind::Latency, 4).expect("has a stand-in");
        let halo = Subject {
            adapter: Some("connectx5".to_owned()),
            ..halo
        };
        let told = all.interval(&halo).expect("five sources");
        assert_eq!((told.factor, told.level), (own.wide_factor, own.level));
        assert!(told.factor > own.factor);
        let words = "connectx5, curves of another kind: latency.write; widened";
        assert!(told.class.ends_with(words), "{told:?}");
        let ratio = |subject: &Subject| all.ratio(subject, subject).expect("five sources");
        let (two, many) = (ratio(&subject("connectx5", Basis::Blind)), ratio(&halo));
        assert!(
            many.factor >= two.factor && many.class == told.class,
            "{many:?}"
        );
        assert_eq!(Subject::of("rfio.readers", FigureKind::Bandwidth, 8), None);
    }

    #[test]
    fn anchors_are_no_residuals() {
        let all = Intervals::of(
            five()
                .into_iter()
                .map(|mut curve| {
                    curve.points.truncate(1);
                    curve
                })
                .collect(),
        );
        assert!(all.interval(&subject("connectx5", Basis::Blind)).is_some());
        assert_eq!(all.interval(&subject("connectx5", Basis::Anchored)), None);
    }
}
