//! Timing errors of a run: counts of each process, in a file of a fixed layout, and their sum in
//! words.
//!
//! The file is 4 KiB: the line `verbena lateness 2`, the PID and the name of the process, a line
//! each, zeros up to [`WORDS_AT`], then the 64-bit words of [`Word`] and of the two distributions
//! in the machine's byte order.

use std::fmt;
use std::time::Duration;

/// First line of a report.
pub const HEADER: &str = "verbena lateness 2";

/// Length of a report in bytes.
pub const LENGTH: usize = 4096;

/// Offset of the words.
pub const WORDS_AT: usize = 1024;

/// Number of classes of lateness: four for each power of two, from 1 ns to 2^32 ns.
pub const CLASSES: usize = 128;

/// A counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Word {
    /// Requests that were emulated, without those to other hosts.
    Requests,
    /// Those whose data or completion was late.
    Late,
    /// Requests whose posting ended so late that later ones could not make up for it.
    SlowPosts,
    /// Requests to other hosts.
    Packets,
    /// Those that took longer than on the emulated adapter, because the network is slower.
    LatePackets,
    /// Completions that were late, of those that are in the distribution.
    LateCompletions,
}

/// Number of counters in front of the distributions.
const COUNTERS: usize = 6;

/// Least number of completions whose share counts by itself.
const LEAST_COMPLETIONS: u64 = 20;

/// Number of words.
pub const WORDS: usize = COUNTERS + 2 * CLASSES;

/// The end of a request whose lateness is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The arrival of its data.
    Arrival,
    /// Its completion.
    Completion,
}

/// Returns the index of a counter.
pub fn counter(word: Word) -> usize {
    word as usize
}

/// Returns the index of the class of a lateness in nanoseconds.
pub fn class(side: Side, late: u64) -> usize {
    let first = match side {
        Side::Arrival => COUNTERS,
        Side::Completion => COUNTERS + CLASSES,
    };
    first + class_of(late)
}

/// Returns whether a lateness counts: more than 50 ns, and more than 5 % of the request's time.
pub fn is_late(late: u64, time: u64) -> bool {
    late > 50 && late > time / 20
}

fn class_of(late: u64) -> usize {
    let late = late.max(1);
    let octave = late.ilog2() as usize;
    let quarter = match octave {
        0 => 0,
        1 => ((late & 1) << 1) as usize,
        _ => (late >> (octave - 2) & 3) as usize,
    };
    (4 * octave + quarter).min(CLASSES - 1)
}

/// Returns the largest lateness of a class, in nanoseconds.
fn end_of(class: usize) -> u64 {
    let (octave, quarter) = (class / 4, class as u64 % 4);
    ((4 + quarter + 1) << octave)
        .div_ceil(4)
        .saturating_sub(1)
        .max(1 << octave)
}

/// The reports of all processes of a run.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Lateness {
    words: Vec<u64>,
    /// Number of processes.
    pub processes: usize,
    /// Reports that could not be read.
    pub broken: usize,
}

impl Lateness {
    /// Adds the report of a process.
    pub fn add(&mut self, file: &[u8]) {
        let has_header = file.strip_prefix(HEADER.as_bytes());
        let words = file.get(WORDS_AT..WORDS_AT + 8 * WORDS);
        let (Some([b'\n', ..]), Some(words)) = (has_header, words) else {
            self.broken += 1;
            return;
        };
        self.words.resize(WORDS, 0);
        for (sum, word) in self.words.iter_mut().zip(words.as_chunks().0) {
            *sum = sum.saturating_add(u64::from_ne_bytes(*word));
        }
        self.processes += 1;
    }

    /// Returns a counter's sum.
    pub fn count(&self, word: Word) -> u64 {
        self.words.get(counter(word)).copied().unwrap_or(0)
    }

    /// Returns the lateness that a share of the requests does not exceed, to a quarter of its size.
    pub fn quantile(&self, side: Side, share: f64) -> Option<Duration> {
        let classes = self.classes(side);
        let all: u64 = classes.iter().fold(0, |sum, one| sum.saturating_add(*one));
        let wanted = ((all as f64 * share).ceil() as u64).max(1);
        let mut seen = 0u64;
        let reached = classes.iter().position(|one| {
            seen = seen.saturating_add(*one);
            seen >= wanted
        });
        reached.map(|class| Duration::from_nanos(end_of(class)))
    }

    /// Returns the share of requests that were late, or that of the completions that programs look
    /// for, if it is larger.
    pub fn share_late(&self) -> f64 {
        let share = |late: Word, all: u64| self.count(late) as f64 / all.max(1) as f64;
        let requests = share(Word::Late, self.count(Word::Requests));
        let completions = self.classes(Side::Completion).iter();
        let completions = completions.fold(0, |sum: u64, one| sum.saturating_add(*one));
        match completions < LEAST_COMPLETIONS {
            true => requests,
            false => requests.max(share(Word::LateCompletions, completions)),
        }
    }

    /// Returns the distribution of a side; none without reports.
    fn classes(&self, side: Side) -> &[u64] {
        let first = class(side, 1);
        self.words.get(first..first + CLASSES).unwrap_or_default()
    }

    /// Returns whether more than one post in twenty took longer than on the adapter: then rates of
    /// messages are too low.
    pub fn posts_are_slow(&self) -> bool {
        let (slow, requests) = (self.count(Word::SlowPosts), self.count(Word::Requests));
        requests > 0 && slow.saturating_mul(20) > requests
    }

    /// Returns the share of requests to other hosts for which the network was too slow.
    pub fn share_behind(&self) -> f64 {
        match self.count(Word::Packets) {
            0 => 0.0,
            all => self.count(Word::LatePackets) as f64 / all as f64,
        }
    }

    /// Returns the verdict.
    pub fn verdict(&self) -> Verdict {
        match (self.count(Word::Requests), self.share_late()) {
            (0, _) => Verdict::Nothing,
            (_, share) if share <= 0.05 => Verdict::Good,
            (_, share) if share <= 0.5 => Verdict::Disturbed,
            _ => Verdict::Wrong,
        }
    }
}

/// How good an emulation was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// No request was emulated.
    Nothing,
    /// At most one in twenty was late.
    Good,
    /// At most half were late: medians hold, means and extremes do not.
    Disturbed,
    /// More were late.
    Wrong,
}

impl fmt::Display for Verdict {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(match self {
            Verdict::Nothing => "its programs posted no requests, so nothing was emulated",
            Verdict::Good => "times match the model",
            Verdict::Disturbed => "disturbed: medians are valid, means and tail latencies are not",
            Verdict::Wrong => "this machine cannot reproduce the model's times: do not use them",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn report(words: &[(usize, u64)]) -> Vec<u8> {
        let mut file = vec![0; LENGTH];
        let header = format!("{HEADER}\n7\nx\n");
        file[..header.len()].copy_from_slice(header.as_bytes());
        for (index, word) in words {
            let at = WORDS_AT + 8 * index;
            file[at..at + 8].copy_from_slice(&word.to_ne_bytes());
        }
        file
    }

    #[test]
    fn reports_are_added_and_broken_ones_counted() {
        let mut all = Lateness::default();
        let (requests, late) = (counter(Word::Requests), counter(Word::Late));
        let slow = class(Side::Completion, 1000);
        all.add(&report(&[
            (requests, 80),
            (late, 3),
            (class(Side::Completion, 10), 97),
            (slow, 2),
        ]));
        all.add(&report(&[(requests, 20), (late, 2), (slow, 1)]));
        all.add(b"verbena lateness 1\n");
        assert_eq!((all.processes, all.broken), (2, 1));
        assert_eq!(all.share_late(), 0.05);
        assert_eq!(all.verdict(), Verdict::Good);
        let behind = counter(Word::LateCompletions);
        let mut often = all.clone();
        often.add(&report(&[(behind, 50)]));
        assert_eq!(
            (often.share_late(), often.verdict()),
            (0.5, Verdict::Disturbed)
        );
        assert_eq!(
            all.quantile(Side::Completion, 0.5),
            Some(Duration::from_nanos(11))
        );
        assert_eq!(
            all.quantile(Side::Completion, 0.99),
            Some(Duration::from_nanos(1023))
        );
        assert_eq!(all.quantile(Side::Arrival, 0.5), None);
        assert_eq!(Lateness::default().verdict(), Verdict::Nothing);
    }

    #[test]
    fn short_requests_may_be_50_nanoseconds_late() {
        assert!(!is_late(50, 100));
        assert!(is_late(51, 100));
        assert!(!is_late(51, 10_000));
        assert!(is_late(501, 10_000));
    }

    proptest! {
        #[test]
        fn a_lateness_is_in_a_class_that_ends_less_than_a_quarter_above(late in 1..1u64 << 31) {
            let class = class_of(late);
            prop_assert!(class < CLASSES);
            prop_assert!(end_of(class) >= late);
            prop_assert!(end_of(class) as f64 <= late as f64 * 1.25);
            prop_assert!(class == 0 || class_of(late + 1) >= class);
        }

        #[test]
        fn malformed_reports_do_not_panic(file: Vec<u8>) {
            let mut all = Lateness::default();
            all.add(&file);
            let _ = (all.quantile(Side::Arrival, 0.5), all.verdict());
        }
    }
}
