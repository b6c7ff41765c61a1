//! Quantiles of scores in groups of equal weight.

/// Tolerance for sums of weights.
const EXACT: f64 = 1e-9;

/// Absolute residuals with their weights, in ascending order.
#[derive(Debug)]
pub struct Scores(Vec<(f64, f64)>);

impl Scores {
    /// Returns the scores of groups, each with the same weight, divided over its scores.
    pub fn of_groups(groups: &[Vec<f64>]) -> Scores {
        let mut scores = Vec::new();
        for group in groups {
            let each = 1.0 / (groups.len() * group.len()) as f64;
            scores.extend(group.iter().map(|score| (*score, each)));
        }
        scores.sort_by(|a, b| a.0.total_cmp(&b.0));
        Scores(scores)
    }

    /// Returns the least score that has at least `level` of the weight below or at it; `None` if
    /// there are no scores, or the level is above 1.
    pub fn quantile(&self, level: f64) -> Option<f64> {
        let mut sum = 0.0;
        let reached = self.0.iter().find(|(_, weight)| {
            sum += weight;
            sum >= level - EXACT
        });
        reached.map(|(score, _)| *score)
    }

    /// Returns the score that a point of a further, exchangeable group does not exceed with a
    /// probability of at least `level`: the unknown group counts like each of the `groups` known
    /// ones, with infinite scores. `None` if there are too few groups for the level.
    pub fn guaranteed(&self, level: f64, groups: usize) -> Option<f64> {
        self.quantile(level / supported(groups))
    }
}

/// Returns the highest level that a number of groups can guarantee.
pub fn supported(groups: usize) -> f64 {
    groups as f64 / (groups + 1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_have_equal_weight() {
        let scores = Scores::of_groups(&[vec![1.0], vec![2.0, 4.0], vec![3.0]]);
        let quantiles = [0.3, 0.4, 0.8, 0.9, 1.0].map(|level| scores.quantile(level));
        assert_eq!(quantiles, [1.0, 2.0, 3.0, 4.0, 4.0].map(Some));
        assert_eq!(scores.quantile(1.1), None);
    }

    #[test]
    fn a_guarantee_reserves_the_weight_of_an_unknown_group() {
        let scores = Scores::of_groups(&[vec![1.0], vec![2.0], vec![3.0]]);
        assert_eq!(scores.guaranteed(0.25, 3), Some(1.0));
        assert_eq!(scores.guaranteed(supported(3), 3), Some(3.0));
        assert_eq!(scores.guaranteed(0.8, 3), None);
    }
}
