//! Two runs made ready for comparison: equal keys only, a figure a launch (rule 20), thresholds from a file.

use crate::gather::{key, rows};
use crate::run_directory::Loaded;
use verbena_measure::compare::{Change, Paired, compare};
use verbena_measure::result::{Parameters, Value};

/// Thresholds: a default and exceptions by benchmark or metric.
#[derive(Debug, Clone, PartialEq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Thresholds {
    /// The smallest relative effect that counts.
    #[serde(default = "usual")]
    pub default: f64,
    /// For benchmarks whose name begins so; the longest match holds.
    #[serde(default)]
    pub benchmarks: std::collections::BTreeMap<String, f64>,
}

fn usual() -> f64 {
    0.05
}

impl Default for Thresholds {
    fn default() -> Self {
        Thresholds {
            default: usual(),
            benchmarks: Default::default(),
        }
    }
}

impl Thresholds {
    /// Refuses a threshold that no change would exceed, or every one.
    pub fn check(&self) -> Result<(), String> {
        let named = self
            .benchmarks
            .iter()
            .map(|(name, value)| (name.as_str(), *value));
        for (name, value) in named.chain([("default", self.default)]) {
            if !(value.is_finite() && value >= 0.0) {
                return Err(format!(
                    "the threshold of {name} is {value}, not a share such as 0.05"
                ));
            }
        }
        Ok(())
    }

    /// The exceptions that none of these benchmarks begins with, misspelt perhaps.
    pub fn unused<'a>(&'a self, benchmarks: &[&str]) -> Vec<&'a str> {
        let used = |prefix: &str| benchmarks.iter().any(|name| name.starts_with(prefix));
        let prefixes = self.benchmarks.keys().map(String::as_str);
        prefixes.filter(|prefix| !used(prefix)).collect()
    }

    /// The threshold for a benchmark.
    pub fn of(&self, benchmark: &str) -> f64 {
        self.benchmarks
            .iter()
            .filter(|(prefix, _)| benchmark.starts_with(prefix.as_str()))
            .max_by_key(|(prefix, _)| prefix.len())
            .map_or(self.default, |(_, threshold)| *threshold)
    }
}

/// What two runs have in common, compared, and how many keys only one of them has.
pub struct Compared {
    /// Curves of several points, each as a whole.
    pub curves: Vec<Change>,
    /// A change for each key in both.
    pub changes: Vec<Change>,
    /// Keys in the first only.
    pub only_first: usize,
    /// Keys in the second only.
    pub only_second: usize,
}

/// The points of a benchmark that differ in numbers only, such as sizes and pairs.
fn curve(benchmark: &str, parameters: &Parameters, metric: &str) -> String {
    let mut words = parameters.clone();
    words.retain(|_, value| matches!(value, Value::Word(_)));
    format!("{}: {metric}", key(benchmark, &words))
}

/// Compares two runs by their headline metrics.
pub fn between(a: &Loaded, b: &Loaded, thresholds: &Thresholds) -> Compared {
    let (first, second) = (rows(a), rows(b));
    let find = |wanted: &str| {
        second
            .iter()
            .find(|row| key(&row.benchmark, &row.parameters) == wanted)
    };
    let mut pairs = Vec::new();
    for row in &first {
        let wanted = key(&row.benchmark, &row.parameters);
        let (Some(other), Some(mine)) = (find(&wanted), row.figures.first()) else {
            continue;
        };
        let Some(theirs) = other.figures.iter().find(|f| f.name == mine.name) else {
            continue;
        };
        pairs.push(Paired {
            key: format!("{wanted}: {}", mine.name),
            curve: curve(&row.benchmark, &row.parameters, &mine.name),
            better: mine.better,
            a: mine.launches.clone(),
            b: theirs.launches.clone(),
            threshold: thresholds.of(&row.benchmark),
        });
    }
    let common = pairs.len();
    let comparison = compare(&pairs);
    Compared {
        curves: comparison.curves,
        changes: comparison.points,
        only_first: first.len() - common,
        only_second: second.len().saturating_sub(common),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thresholds_that_decide_nothing_are_refused() {
        let of = |default, exception| Thresholds {
            default,
            benchmarks: [("latency.".to_owned(), exception)].into(),
        };
        assert!(of(0.0, 0.1).check().is_ok());
        assert!(of(f64::NAN, 0.1).check().unwrap_err().contains("default"));
        assert!(of(0.05, -1.0).check().unwrap_err().contains("latency."));
        assert!(of(0.05, f64::INFINITY).check().is_err());
    }

    #[test]
    fn exceptions_for_nothing_are_found() {
        let thresholds = Thresholds {
            benchmarks: [("latncy.".to_owned(), 0.1), ("latency.".to_owned(), 0.1)].into(),
            ..Thresholds::default()
        };
        assert_eq!(thresholds.unused(&["latency.write"]), ["latncy."]);
    }
}
