//! A log-linear histogram.
//!
//! Values below 128 have a bucket each. Above, every power of two is divided into 128 equal
//! buckets, so a bucket at value v is at most v/128 wide, and its middle differs from any value in
//! it by at most v/256: under 0.4 % (rule 3 requires under 1 %). Histograms of the same shape can
//! be merged.

const SUB_BITS: u32 = 7;
const SUB: u64 = 1 << SUB_BITS;
const BUCKETS: usize = ((64 - SUB_BITS + 1) as usize) << SUB_BITS;

/// A histogram of 64-bit values.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Histogram {
    counts: Vec<u64>,
    total: u64,
}

impl Histogram {
    /// Returns an empty histogram; the buckets are allocated with the first value.
    pub fn new() -> Histogram {
        Histogram::default()
    }

    /// Counts a value.
    pub fn record(&mut self, value: u64) {
        if self.counts.is_empty() {
            self.counts = vec![0; BUCKETS];
        }
        self.counts[bucket(value)] += 1;
        self.total += 1;
    }

    /// Returns the number of values.
    pub fn count(&self) -> u64 {
        self.total
    }

    /// Adds the counts of another histogram.
    pub fn merge(&mut self, other: &Histogram) {
        if other.counts.is_empty() {
            return;
        }
        if self.counts.is_empty() {
            self.counts = vec![0; BUCKETS];
        }
        for (mine, theirs) in self.counts.iter_mut().zip(&other.counts) {
            *mine += theirs;
        }
        self.total += other.total;
    }

    /// Returns the middles of buckets, each as often as it was hit, thinned evenly to about `limit`
    /// values.
    pub fn representatives(&self, limit: usize) -> Vec<u64> {
        let keep_one_in = self.total.div_ceil(limit.max(1) as u64).max(1);
        let mut values = Vec::new();
        let mut seen = 0u64;
        for (index, &count) in self.counts.iter().enumerate() {
            let before = seen.div_ceil(keep_one_in);
            seen += count;
            let after = seen.div_ceil(keep_one_in);
            values.extend(std::iter::repeat_n(
                middle(index),
                (after - before) as usize,
            ));
        }
        values
    }
}

fn bucket(value: u64) -> usize {
    if value < SUB {
        return value as usize;
    }
    let exponent = 63 - value.leading_zeros();
    let shift = exponent - SUB_BITS;
    let within = (value >> shift) - SUB;
    (((shift + 1) as usize) << SUB_BITS) + within as usize
}

fn middle(index: usize) -> u64 {
    let (row, within) = ((index >> SUB_BITS) as u32, (index as u64) & (SUB - 1));
    if row == 0 {
        return within;
    }
    let shift = row - 1;
    let low = (SUB + within) << shift;
    low + ((1u64 << shift) >> 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn bucket_middles_are_within_the_stated_error(value in 0u64..) {
            let middle = middle(bucket(value));
            prop_assert!(middle.abs_diff(value) as f64 <= value as f64 / 256.0 + 0.5);
        }

        #[test]
        fn merging_equals_counting_all_values(a in prop::collection::vec(0u64.., 0..50),
                                        b in prop::collection::vec(0u64.., 0..50)) {
            let count = |values: &[u64]| {
                let mut h = Histogram::new();
                values.iter().for_each(|&v| h.record(v));
                h
            };
            let mut merged = count(&a);
            merged.merge(&count(&b));
            let both: Vec<u64> = a.iter().chain(&b).copied().collect();
            prop_assert_eq!(merged, count(&both));
        }
    }

    #[test]
    fn the_largest_value_has_a_bucket() {
        assert!(bucket(u64::MAX) < BUCKETS);
        assert_eq!(bucket(0), 0);
    }

    #[test]
    fn thinning_keeps_the_proportions() {
        let mut histogram = Histogram::new();
        (0..900).for_each(|_| histogram.record(10));
        (0..100).for_each(|_| histogram.record(1000));
        let values = histogram.representatives(100);
        assert_eq!(values.len(), 100);
        assert_eq!(values.iter().filter(|&&v| v == 10).count(), 90);
    }
}
