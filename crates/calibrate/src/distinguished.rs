//! Which of two modelled systems is faster, as far as the errors of the models allow to say.

use crate::interval::{Intervals, Subject};
use crate::residual::{Basis, FigureKind, FileError, Layer, SizeClass};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use verbena_measure::unit;
use verbena_model::profile::{self, Library, Overrides};
use verbena_report::gather::{Figure, Row, key, rows};
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

/// Returns the verdict on each benchmark of two runs on models of different systems, and its rule.
/// Empty for other runs.
///
/// # Errors
///
/// Fails if the shipped profiles or residuals cannot be read.
pub fn text(a: &Loaded, b: &Loaded) -> Result<String, Error> {
    let is_model = |run: &Loaded| run.run.fabric == "model";
    if !is_model(a) || !is_model(b) || a.run.device == b.run.device {
        return Ok(String::new());
    }
    let library = Library::shipped(&Overrides::none())?;
    let intervals = Intervals::shipped()?;
    let adapter = |run: &Loaded| {
        let names = library.system_names(&run.run.device).ok()?;
        Some(names.adapter.clone())
    };
    let adapters = [adapter(a), adapter(b)];
    let others = rows(b);
    let mut verdicts: BTreeMap<(String, &str), Vec<String>> = BTreeMap::new();
    let mut rules = BTreeSet::new();
    for row in rows(a) {
        let name = key(&row.benchmark, &row.parameters);
        let mut same = others.iter();
        let Some(other) = same.find(|other| key(&other.benchmark, &other.parameters) == name)
        else {
            continue;
        };
        let (Some(mine), Some(theirs)) = (row.figures.first(), other.figures.first()) else {
            continue;
        };
        let [one, another] = adapters.clone().map(|adapter| subject(&row, mine, adapter));
        let ratio = one.zip(another).filter(|_| mine.name == theirs.name);
        let ratio = ratio.and_then(|(one, another)| intervals.ratio(&one, &another));
        let word = match ratio {
            Some(ratio) => {
                let verdict = ratio.verdict((0.0, time(mine)), (0.0, time(theirs)));
                rules.insert(ratio.rule());
                verdict.text()
            }
            None => "no verdict: no published curve is of this kind",
        };
        let size = row.number("size").map_or("all".to_owned(), unit::size);
        let sizes = verdicts.entry((row.benchmark, word)).or_default();
        if !sizes.contains(&size) {
            sizes.push(size);
        }
    }
    let mut out = format!("{}, against {}:\n", b.run.label, a.run.label);
    for ((benchmark, word), sizes) in verdicts {
        let _ = writeln!(out, "  {benchmark}: {word} ({})", sizes.join(", "));
    }
    for rule in rules {
        let _ = writeln!(out, "  {rule}");
    }
    Ok(out)
}

fn subject(row: &Row, figure: &Figure, adapter: Option<String>) -> Option<Subject> {
    Some(Subject {
        figure: FigureKind::of_unit(&figure.unit),
        layer: Layer::of(&row.benchmark)?,
        size: SizeClass::of(row.number("size").unwrap_or(0.0) as u64),
        adapter,
        basis: Basis::Blind,
    })
}

/// Returns the time that a figure means, in any unit.
fn time(figure: &Figure) -> f64 {
    match FigureKind::of_unit(&figure.unit) {
        FigureKind::Latency => figure.value,
        FigureKind::Bandwidth => 1.0 / figure.value,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use verbena_measure::compare::Better;
    use verbena_measure::result::{Metric, Point};

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
            told.contains("latency.write: not distinguishable (8 B)"),
            "{told}"
        );
        let told = text(&old, &run("connectx5-edr", 50.0)).unwrap();
        assert!(told.contains("latency.write: faster: sure (8 B)"), "{told}");
        assert!(told.contains("the 80 % interval of the ratio"), "{told}");
        assert_eq!(text(&old, &old).unwrap(), "");
    }
}
