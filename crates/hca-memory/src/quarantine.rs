//! Quarantine: arena pages that are unused but may still be written to.
//!
//! A peer that was stopped inside an access section goes on where it was when it is continued. Its
//! target pages are kept out of use until it is known to have left that section, or to be dead.

use std::ops::Range;
use std::sync::Arc;

/// Returns whether the pages may be reused. Called from time to time; once true, it stays true.
pub type Release = Arc<dyn Fn() -> bool + Send + Sync>;

/// Ranges that wait for their release.
#[derive(Default)]
pub struct Quarantine {
    waiting: Vec<(Range<u64>, Release)>,
}

impl Quarantine {
    /// Keeps a range out of use until `release` returns true.
    pub fn add(&mut self, range: Range<u64>, release: Release) {
        if !range.is_empty() {
            self.waiting.push((range, release));
        }
    }

    /// Removes and returns the ranges that may be reused.
    pub fn released(&mut self) -> Vec<Range<u64>> {
        let mut released = Vec::new();
        self.waiting.retain(|(range, release)| {
            let over = release();
            if over {
                released.push(range.clone());
            }
            !over
        });
        released
    }

    /// Returns the number of bytes in quarantine.
    pub fn bytes(&self) -> u64 {
        let length = |(range, _): &(Range<u64>, Release)| range.end - range.start;
        self.waiting.iter().map(length).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[test]
    fn quarantined_range_waits_for_its_own_release() {
        let (first, second) = (
            Arc::new(AtomicBool::new(false)),
            Arc::new(AtomicBool::new(false)),
        );
        let when = |word: &Arc<AtomicBool>| -> Release {
            let word = word.clone();
            Arc::new(move || word.load(Ordering::SeqCst))
        };
        let mut quarantine = Quarantine::default();
        quarantine.add(0..10, when(&first));
        quarantine.add(20..30, when(&second));
        quarantine.add(40..40, when(&second));
        assert_eq!(quarantine.bytes(), 20);
        assert!(quarantine.released().is_empty());
        second.store(true, Ordering::SeqCst);
        assert_eq!(quarantine.released().pop(), Some(20..30));
        assert!(quarantine.released().is_empty());
        first.store(true, Ordering::SeqCst);
        assert_eq!(quarantine.released().pop(), Some(0..10));
        assert_eq!(quarantine.bytes(), 0);
    }
}
