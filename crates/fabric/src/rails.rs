//! The ports that the pairs of a job use in turn: one, or several of one or more adapters.

/// The ports, each as the number of its adapter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rails(Vec<usize>);

impl Rails {
    /// Returns a single port.
    pub fn single() -> Rails {
        Rails(vec![0])
    }

    /// Returns ports of the adapters with these names; a name occurs once per port.
    pub fn of(adapters: &[&str]) -> Rails {
        let number = |name: &&str| adapters.iter().position(|other| other == name);
        Rails(adapters.iter().filter_map(number).collect())
    }

    /// Returns the number of ports used by `pairs` pairs together.
    pub fn ports_of(&self, pairs: usize) -> usize {
        pairs.clamp(1, self.0.len().max(1))
    }

    /// Returns the number of adapters used by `pairs` pairs, each with its own bus.
    pub fn adapters_of(&self, pairs: usize) -> usize {
        let used = &self.0[..self.ports_of(pairs).min(self.0.len())];
        let is_first = |at: &usize| !used[..*at].contains(&used[*at]);
        (0..used.len()).filter(is_first).count().max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_use_all_ports_in_turn() {
        let two_each = Rails::of(&["a", "a", "b", "b"]);
        let used = |pairs| (two_each.ports_of(pairs), two_each.adapters_of(pairs));
        assert_eq!(
            [1, 2, 3, 4, 9].map(used),
            [(1, 1), (2, 1), (3, 2), (4, 2), (4, 2)]
        );
        let one = Rails::single();
        assert_eq!(
            [0, 1, 8].map(|pairs| (one.ports_of(pairs), one.adapters_of(pairs))),
            [(1, 1); 3]
        );
        let crossed = Rails::of(&["a", "b", "a"]);
        assert_eq!((crossed.ports_of(3), crossed.adapters_of(3)), (3, 2));
    }
}
