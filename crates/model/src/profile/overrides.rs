//! Overrides of profile values.

use std::collections::BTreeMap;

/// Overridden values by path (`bensley.pcie.read_latency`), in the unit that the profile uses. If
/// profiles of two kinds share a name and both have the value, the path must begin with the kind
/// (`host/x.memory.bandwidth`); it may always do so.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Overrides(BTreeMap<String, f64>);

impl Overrides {
    /// Creates an empty set.
    pub fn none() -> Overrides {
        Overrides::default()
    }

    /// Adds `value` at `path`.
    pub fn with(mut self, path: &str, value: f64) -> Overrides {
        self.0.insert(path.to_owned(), value);
        self
    }

    /// Merges with `later`, whose values take precedence.
    pub(super) fn and(&self, later: &Overrides) -> Overrides {
        let mut all = self.clone();
        all.0
            .extend(later.0.iter().map(|(path, value)| (path.clone(), *value)));
        all
    }

    /// Returns the value at `path`, if it is overridden.
    pub fn get(&self, path: &str) -> Option<f64> {
        self.0.get(path).copied()
    }

    /// Iterates over all overrides.
    pub fn iter(&self) -> impl Iterator<Item = (&str, f64)> {
        self.0.iter().map(|(path, value)| (path.as_str(), *value))
    }
}
