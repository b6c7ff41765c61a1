//! Records samples while the clock runs: each one up to a cap, then in a mergeable histogram (rule
//! 3).

mod histogram;

pub use histogram::Histogram;

/// A recorder of durations in ticks. Its memory is allocated and touched when it is created.
#[derive(Debug, Clone)]
pub struct Recorder {
    samples: Vec<u64>,
    cap: usize,
    beyond: Histogram,
}

impl Recorder {
    /// Returns a recorder that keeps `cap` individual samples.
    pub fn new(cap: usize) -> Recorder {
        // Written once, so that no page is first touched between two clock readings.
        let mut samples = vec![u64::MAX; cap.max(1)];
        samples.clear();
        Recorder {
            samples,
            cap: cap.max(1),
            beyond: Histogram::new(),
        }
    }

    /// Records a duration.
    #[inline]
    pub fn record(&mut self, ticks: u64) {
        if self.samples.len() < self.cap {
            self.samples.push(ticks);
        } else {
            self.beyond.record(ticks);
        }
    }

    /// Returns the number of durations recorded.
    pub fn count(&self) -> u64 {
        self.samples.len() as u64 + self.beyond.count()
    }

    /// Returns the individual samples, in the order of recording.
    pub fn samples(&self) -> &[u64] {
        &self.samples
    }

    /// Returns all values within the histogram's error: individual samples exactly, the others as
    /// the middle of their bucket, the latter thinned evenly to at most `limit`.
    pub fn values(&self, limit: usize) -> Vec<u64> {
        let mut values = self.samples.clone();
        values.extend(self.beyond.representatives(limit));
        values
    }

    /// Adds the durations recorded by `other`.
    pub fn absorb(&mut self, other: &Recorder) {
        other.samples.iter().for_each(|&ticks| self.record(ticks));
        self.beyond.merge(&other.beyond);
    }

    /// Discards all samples; the memory stays allocated.
    pub fn clear(&mut self) {
        self.samples.clear();
        self.beyond = Histogram::new();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absorbing_a_recorder_keeps_all_its_samples() {
        let mut all = Recorder::new(15);
        let mut block = Recorder::new(8);
        for number in 0..3u64 {
            block.clear();
            (0..10).for_each(|i| block.record(100 * number + i));
            all.absorb(&block);
        }
        assert_eq!(all.count(), 30);
        assert_eq!(all.samples()[..8], [0, 1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(all.samples()[8], 100);
    }

    #[test]
    fn values_beyond_the_cap_are_kept_in_the_histogram() {
        let mut recorder = Recorder::new(10);
        (0..100u64).for_each(|i| recorder.record(1000 + i));
        assert_eq!(recorder.count(), 100);
        assert_eq!(recorder.samples().len(), 10);
        let values = recorder.values(1000);
        assert_eq!(values.len(), 100);
        assert!(values.iter().all(|&v| (990..=1110).contains(&v)));
    }
}
