//! Values put in place of profiles' own.

use std::collections::BTreeMap;

/// Values put in place of a profile's own, by path (`bensley.pcie.read_latency`), in the unit that the profile uses. Where profiles
/// of two kinds have one name and both such a value, the path begins with the kind (`host/x.memory.bandwidth`); it may always.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Overrides(BTreeMap<String, f64>);

impl Overrides {
    /// None.
    pub fn none() -> Overrides {
        Overrides::default()
    }

    /// The same and `value` at `path`.
    pub fn with(mut self, path: &str, value: f64) -> Overrides {
        self.0.insert(path.to_owned(), value);
        self
    }

    /// These and `later` ones, which take the place of these.
    pub(super) fn and(&self, later: &Overrides) -> Overrides {
        let mut all = self.clone();
        all.0
            .extend(later.0.iter().map(|(path, value)| (path.clone(), *value)));
        all
    }

    /// The value at `path`, if it is overridden.
    pub fn get(&self, path: &str) -> Option<f64> {
        self.0.get(path).copied()
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = (&str, f64)> {
        self.0.iter().map(|(path, value)| (path.as_str(), *value))
    }
}
