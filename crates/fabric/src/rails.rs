//! The ports that the pairs of a job take in turn: one, or several of an adapter or of several adapters.

/// The ports, each by the number of its adapter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rails(Vec<usize>);

impl Rails {
    /// One port.
    pub fn single() -> Rails {
        Rails(vec![0])
    }

    /// Ports of the adapters of these names, of which each may occur often.
    pub fn of(adapters: &[&str]) -> Rails {
        let number = |name: &&str| adapters.iter().position(|other| other == name);
        Rails(adapters.iter().filter_map(number).collect())
    }

    /// Ports that so many pairs use together.
    pub fn ports_of(&self, pairs: usize) -> usize {
        pairs.clamp(1, self.0.len().max(1))
    }

    /// Adapters that they use, each with a bus of its own.
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
    fn pairs_use_as_many_as_there_are_in_turn() {
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
