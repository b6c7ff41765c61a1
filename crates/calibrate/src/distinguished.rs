//! Which of two modelled systems is faster, as far as the errors of the models allow to say, and
//! their differences beside adapters and hosts.

use crate::interval::{Intervals, PredictedTime, Subject, Verdict};
use crate::residual::{FigureKind, FileError};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use verbena_measure::unit;
use verbena_model::profile::{self, Library, Overrides, SETUP, differences};
use verbena_report::comparison::Compared;
use verbena_report::gather::{Figure, Row, key, rows};
use verbena_report::points_table::ANCHORS;
use verbena_report::run_directory::Loaded;

/// The reason why two systems cannot be distinguished.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A shipped profile is invalid.
    #[error(transparent)]
    Profile(#[from] profile::Error),
    /// The stored residuals are invalid.
    #[error(transparent)]
    Residuals(#[from] FileError),
}

/// A benchmark, its verdict with the interval, and the sizes of the points to which they apply.
type Group = (String, String, Vec<String>);

/// Key of a modelled run's fidelity in its environment.
pub const FIDELITY: &str = "fidelity";
/// The fidelity of whole messages there.
pub const BY_MESSAGES: &str = "whole messages";

/// Returns the key of a property of [`SETUP`] in the environment of a run on a model.
pub fn setup_key(property: &str) -> String {
    format!("modelled {property}")
}

/// Returns a warning if some of several systems by name are anchored, and others are blind.
pub fn anchored_beside_blind(systems: &[(&str, bool)]) -> Option<String> {
    let of = |is_anchored: bool| {
        let all = systems
            .iter()
            .filter(|(_, anchored)| *anchored == is_anchored);
        let names: BTreeSet<&str> = all.map(|(name, _)| *name).collect();
        names.into_iter().collect::<Vec<&str>>().join(", ")
    };
    let (anchored, blind) = (of(true), of(false));
    (!anchored.is_empty() && !blind.is_empty()).then(|| {
        format!(
            "warning: {anchored} anchored, {blind} blind: the anchor moves one side only and may \
             reverse the order; compare blind models, or anchor each of them"
        )
    })
}

/// Which of two modelled systems is faster.
#[derive(Debug, Default)]
pub struct Distinguished {
    /// The verdict on each benchmark, its rule, and the systems' other differences.
    pub text: String,
    /// The keys of the points at which the systems cannot be distinguished.
    doubtful: BTreeSet<String>,
}

impl Distinguished {
    /// Leaves the points undecided at which the systems cannot be distinguished.
    pub fn judge(&self, compared: &mut Compared) {
        let is_doubtful = |key: &str| {
            let point = key.rsplit_once(": ").map_or(key, |(point, _)| point);
            self.doubtful.contains(point)
        };
        compared.leave_undecided(
            is_doubtful,
            "the differences are within the errors of the models",
        );
    }
}

/// Returns which of two runs on models of different systems is faster. Empty for other runs.
///
/// # Errors
///
/// Fails if the shipped profiles or residuals cannot be read.
pub fn of(a: &Loaded, b: &Loaded) -> Result<Distinguished, Error> {
    let is_model = |run: &Loaded| run.run.fabric == "model";
    if !is_model(a) || !is_model(b) || a.run.device == b.run.device {
        return Ok(Distinguished::default());
    }
    let by_messages = |run: &Loaded| {
        run.run
            .environment
            .get(FIDELITY)
            .is_some_and(|one| one == BY_MESSAGES)
    };
    let is_by_messages = by_messages(a) || by_messages(b);
    let mut doubtful = BTreeSet::new();
    let library = Library::shipped(&Overrides::none())?;
    let intervals = Intervals::shipped()?;
    let adapter = |run: &Loaded| {
        let names = library.system_names(&run.run.device).ok()?;
        Some(names.adapter.clone())
    };
    let adapters = [adapter(a), adapter(b)];
    let others = rows(b);
    let mut verdicts: Vec<Group> = Vec::new();
    let mut rules = BTreeSet::new();
    let mut passes_messages = false;
    for row in rows(a) {
        let name = key(&row.benchmark, &row.parameters);
        let mut same = others.iter();
        let Some(other) = same.find(|other| key(&other.benchmark, &other.parameters) == name)
        else {
            continue;
        };
        let benchmark = &row.benchmark;
        passes_messages |= benchmark.starts_with("mpi.") || benchmark.starts_with("app.");
        let (Some(mine), Some(theirs)) = (row.figures.first(), other.figures.first()) else {
            continue;
        };
        let [one, another] = adapters.clone().map(|adapter| subject(&row, mine, adapter));
        let ratio = one.zip(another).filter(|_| mine.name == theirs.name);
        let ratio = ratio.and_then(|(one, another)| intervals.ratio(&one, &another));
        let ratio = ratio.map(|ratio| match is_by_messages {
            true => ratio.by_messages(),
            false => ratio,
        });
        let (word, range) = match ratio {
            Some(ratio) => {
                let times = (time(mine), time(theirs));
                let (low, high) = ratio.range(times.0, times.1);
                rules.insert(ratio.rule());
                let verdict = ratio.verdict(times.0, times.1);
                if verdict == Verdict::NotDistinguishable {
                    doubtful.insert(name);
                }
                (verdict.text(), Some((low, high)))
            }
            None => ("no verdict: no published curve is of this kind", None),
        };
        let size = row.number("size").map_or("all".to_owned(), unit::size);
        let verdict = match range {
            Some((low, high)) => format!("{word}, {low:.2} to {high:.2} times the time"),
            None => word.to_owned(),
        };
        let mut known = verdicts.iter_mut();
        match known.find(|known| known.0 == row.benchmark && known.1 == verdict) {
            Some((_, _, sizes)) if sizes.contains(&size) => {}
            Some((_, _, sizes)) => sizes.push(size),
            None => verdicts.push((row.benchmark, verdict, vec![size])),
        }
    }
    let mut out = format!("{}, against {}:\n", b.run.label, a.run.label);
    for (benchmark, verdict, sizes) in verdicts {
        let _ = writeln!(out, "  {benchmark}, {}: {verdict}", sizes.join(", "));
    }
    for rule in rules {
        let _ = writeln!(out, "  {rule}");
    }
    let of_run = |run: &'_ Loaded| run.run.environment.contains_key(ANCHORS);
    let names = [
        (a.run.device.as_str(), of_run(a)),
        (b.run.device.as_str(), of_run(b)),
    ];
    if let Some(warning) = anchored_beside_blind(&names) {
        let _ = writeln!(out, "  {warning}");
    }
    if let (Some(mine), Some(theirs)) = (setup(a), setup(b)) {
        let systems = [
            (a.run.device.as_str(), mine),
            (b.run.device.as_str(), theirs),
        ];
        for difference in differences(&systems, passes_messages) {
            let _ = writeln!(out, "  {difference}");
        }
    }
    Ok(Distinguished {
        text: out,
        doubtful,
    })
}

/// Returns the values of [`SETUP`] that a run records; `None` for runs of earlier versions.
fn setup(run: &Loaded) -> Option<[String; 3]> {
    let value = |property| run.run.environment.get(&setup_key(property)).cloned();
    let [library, mtu, network] = SETUP.map(value);
    Some([library?, mtu?, network?])
}

fn subject(row: &Row, figure: &Figure, adapter: Option<String>) -> Option<Subject> {
    let (kind, bytes) = (
        FigureKind::of_unit(&figure.unit),
        row.number("size").unwrap_or(0.0),
    );
    let subject = Subject::of(&row.benchmark, kind, bytes as u64)?;
    Some(Subject { adapter, ..subject })
}

/// Returns the time that a figure means, in any unit, with its bound.
fn time(figure: &Figure) -> PredictedTime {
    let time = |value: f64| match FigureKind::of_unit(&figure.unit) {
        FigureKind::Latency => value,
        FigureKind::Bandwidth => 1.0 / value,
    };
    PredictedTime {
        exact: 0.0,
        other: time(figure.value),
        least: figure.bound.as_ref().map_or(0.0, |(bound, _)| time(*bound)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use verbena_measure::compare::{Better, Verdict as Change};
    use verbena_measure::result::{Metric, Point};
    use verbena_report::comparison::{Thresholds, between};

    fn text(a: &Loaded, b: &Loaded) -> Result<String, Error> {
        of(a, b).map(|all| all.text)
    }

    #[test]
    fn points_that_cannot_be_distinguished_are_undecided() {
        let verdict = |latency| {
            let (old, new) = (run("connectx3-qdr", 1000.0), run("connectx5-edr", latency));
            let mut compared = between(&old, &new, &Thresholds::default());
            let before = compared.changes[0].verdict;
            of(&old, &new).unwrap().judge(&mut compared);
            (before, compared.changes[0].verdict, compared.sentence())
        };
        let (before, after, sentence) = verdict(980.0);
        assert_eq!((before, after), (Change::Improved, Change::Undecided));
        let wanted = "undecided: 1 of 1 point; the differences are within the errors of the models";
        assert_eq!(sentence, wanted);
        let (before, after, _) = verdict(50.0);
        assert_eq!((before, after), (Change::Improved, Change::Improved));
    }

    fn run(system: &str, latency: f64) -> Loaded {
        let mut run = Loaded::default();
        run.run.fabric = "model".to_owned();
        run.run.device = system.to_owned();
        run.run.label = system.to_owned();
        let metric = Metric::figure("one-way-latency", "ns", Better::Lower, latency);
        run.points.push(Point {
            benchmark: "latency.write".to_owned(),
            parameters: [("size".to_owned(), 8.0.into())].into(),
            metrics: vec![metric],
            ..Point::default()
        });
        run
    }

    #[test]
    fn small_differences_of_models_are_not_distinguishable() {
        let old = run("connectx3-qdr", 1000.0);
        let told = text(&old, &run("connectx5-edr", 980.0)).unwrap();
        assert!(
            told.contains("latency.write, 8 B: not distinguishable, 0."),
            "{told}"
        );
        let told = text(&old, &run("connectx5-edr", 50.0)).unwrap();
        assert!(
            told.contains("latency.write, 8 B: faster: sure, 0.0"),
            "{told}"
        );
        assert!(told.contains("the 80 % interval of the ratio"), "{told}");
        assert_eq!(text(&old, &old).unwrap(), "");
    }

    #[test]
    fn each_size_has_its_verdict() {
        let of = |system, short: f64, long: f64| {
            let mut run = run(system, short);
            let mut point = run.points[0].clone();
            point
                .parameters
                .insert("size".to_owned(), (1024.0 * 1024.0).into());
            point.metrics[0].value = long;
            run.points.push(point);
            run
        };
        let old = of("connectx3-qdr", 1000.0, 9000.0);
        let told = text(&old, &of("connectx5-edr", 980.0, 900.0)).unwrap();
        for words in [
            "latency.write, 8 B: not distinguishable, ",
            "latency.write, 1 MiB: faster: sure, ",
        ] {
            assert!(told.contains(words), "{told}");
        }
    }

    #[test]
    fn an_anchored_system_beside_a_blind_one_is_warned_of() {
        let (mut old, new) = (run("connectx3-qdr", 1000.0), run("connectx5-edr", 980.0));
        assert!(!text(&old, &new).unwrap().contains("blind: the anchor"));
        let anchors = (ANCHORS.to_owned(), "anchored to x".to_owned());
        old.run.environment.extend([anchors]);
        let told = text(&old, &new).unwrap();
        let wanted = "warning: connectx3-qdr anchored, connectx5-edr blind: the anchor moves";
        assert!(told.contains(wanted), "{told}");
    }

    #[test]
    fn other_differences_of_the_systems_are_named() {
        let recorded = |system, mtu: &str| {
            let mut run = run(system, 1000.0);
            for (property, value) in SETUP.into_iter().zip(["openmpi-5", mtu, "100gbe"]) {
                let key = setup_key(property);
                run.run.environment.insert(key, value.to_owned());
            }
            run
        };
        let told = text(&recorded("one", "1024 B"), &recorded("other", "4096 B")).unwrap();
        let wanted = "  the systems differ in their MTU: 1024 B (one); 4096 B (other)\n";
        assert!(told.ends_with(wanted), "{told}");
        assert_eq!(told.matches("differ").count(), 1, "{told}");
        // A benchmark of verbs does not depend on the library.
        let mut second = recorded("other", "1024 B");
        let library = setup_key(SETUP[0]);
        second.run.environment.insert(library, "mpich".to_owned());
        let told = text(&recorded("one", "1024 B"), &second).unwrap();
        assert!(!told.contains("differ"), "{told}");
    }
}
