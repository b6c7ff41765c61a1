//! Estimates of the time and memory of computations on models, before they start.
//!
//! An estimate rests on the computations that this command has already done, in proportion to
//! their stated costs ([`Effort`]); before the first one, on the stated costs alone.

use crate::progress_line;
use crate::time_budget;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use verbena_measure::memory::available;
use verbena_measure::unit;
use verbena_reproduce::effort::Effort;

/// Time from which an estimate is shown.
const LONG: Duration = Duration::from_secs(5);
/// Stated time in seconds from which a computation is a measure of this machine's speed: shorter
/// ones mostly build their systems.
const TELLING: f64 = 0.05;
/// Longest time that is shown as a number.
const MOST: Duration = Duration::from_secs(1000 * 365 * 24 * 3600);

/// The speed of the computations so far.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Speed {
    /// Their stated time in seconds.
    stated: f64,
    /// The time they took in seconds.
    took: f64,
    /// Their number.
    number: usize,
}

impl Speed {
    /// Adds a computation that took a time.
    pub fn add(&mut self, effort: &Effort, took: Duration) {
        if effort.seconds() >= TELLING {
            self.stated += effort.seconds();
            self.took += took.as_secs_f64();
            self.number += 1;
        }
    }

    /// Estimates the time of a computation.
    pub fn time_of(&self, effort: &Effort) -> Duration {
        let ratio = match self.number {
            0 => 1.0,
            _ => self.took / self.stated,
        };
        Duration::try_from_secs_f64(effort.seconds() * ratio).map_or(MOST, |time| time.min(MOST))
    }

    /// Returns the basis of an estimate in words.
    fn basis(&self, effort: &Effort) -> String {
        match self.number {
            0 => format!(
                "from a stated cost of {} a message",
                unit::time(effort.seconds() * 1e9 / effort.messages.max(1) as f64)
            ),
            1 => "from the speed of the computation before it".to_owned(),
            several => format!("from the speed of the {several} computations before it"),
        }
    }

    /// Returns the announcement of a computation, if it takes long; `left` is the time left of a
    /// budget.
    pub fn text(&self, what: &str, effort: &Effort, left: Option<Duration>) -> Option<String> {
        let time = self.time_of(effort);
        if time < LONG {
            return None;
        }
        let memory = unit::size(effort.memory as f64);
        let (words, basis) = (time_budget::words(time), self.basis(effort));
        let late = match left {
            Some(left) if left < time => {
                let left = time_budget::words(left);
                format!("; --budget ends in {left}")
            }
            _ => String::new(),
        };
        Some(format!(
            "{what}: about {words} and {memory} of memory, {basis}{late}"
        ))
    }
}

static SPEED: Mutex<Speed> = Mutex::new(Speed {
    stated: 0.0,
    took: 0.0,
    number: 0,
});

/// Numbers and expected ends of the computations that run.
static RUNNING: Mutex<Vec<(usize, Instant)>> = Mutex::new(Vec::new());
/// Number of computations so far.
static NUMBER: AtomicUsize = AtomicUsize::new(0);

/// Returns the estimated time left of the running computations, of which the longest counts; `None`
/// without any, or if they are late.
pub fn left() -> Option<Duration> {
    let running = RUNNING.lock().expect("nothing panics under this lock");
    let last = running.iter().map(|(_, end)| *end).max()?;
    let left = last.checked_duration_since(Instant::now())?;
    (left >= Duration::from_secs(1)).then_some(left)
}

fn speed() -> Speed {
    *SPEED.lock().expect("nothing panics under this lock")
}

/// Returns the reason to refuse a computation that needs more memory than this process may use.
pub fn shortage(needed: u64) -> Option<String> {
    verbena_measure::memory::shortage(needed, available()?)
}

/// A computation that runs.
#[derive(Debug)]
pub struct Computation {
    number: usize,
    effort: Effort,
    begun: Instant,
}

/// Begins a computation: shows an estimate on standard error if it takes long.
pub fn begin(what: &str, effort: Effort) -> Computation {
    let speed = speed();
    if let Some(text) = speed.text(what, &effort, time_budget::left()) {
        progress_line::note(&text);
    }
    let (number, begun) = (NUMBER.fetch_add(1, Ordering::Relaxed), Instant::now());
    if let Some(end) = begun.checked_add(speed.time_of(&effort)) {
        let mut running = RUNNING.lock().expect("nothing panics under this lock");
        running.push((number, end));
    }
    Computation {
        number,
        effort,
        begun,
    }
}

impl Computation {
    /// Ends it: its speed counts for the estimates of others.
    pub fn end(self) {
        let mut speed = SPEED.lock().expect("nothing panics under this lock");
        speed.add(&self.effort, self.begun.elapsed());
    }
}

impl Drop for Computation {
    fn drop(&mut self) {
        let mut running = RUNNING.lock().expect("nothing panics under this lock");
        running.retain(|(number, _)| *number != self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn effort(messages: u64) -> Effort {
        Effort {
            nodes: 64,
            messages,
            parts: 0,
            memory: 3 << 20,
        }
    }

    #[test]
    fn an_estimate_rests_on_the_computations_before_it() {
        let mut speed = Speed::default();
        let (small, large) = (effort(1_000_000), effort(10_000_000));
        assert_eq!(speed.time_of(&large), Duration::from_secs(50));
        let text = speed.text("a point", &large, None).unwrap();
        assert_eq!(
            text,
            "a point: about 50 s and 3 MiB of memory, from a stated cost of 5 us a message"
        );
        speed.add(&small, Duration::from_secs(10));
        assert_eq!(speed.time_of(&large), Duration::from_secs(100));
        speed.add(&small, Duration::from_secs(20));
        assert_eq!(speed.time_of(&large), Duration::from_secs(150));
        let text = speed.text("a point", &large, None).unwrap();
        assert!(
            text.ends_with("from the speed of the 2 computations before it"),
            "{text}"
        );
    }

    #[test]
    fn short_computations_are_neither_shown_nor_a_measure() {
        let mut speed = Speed::default();
        speed.add(&effort(10), Duration::from_secs(1));
        assert_eq!(speed, Speed::default());
        assert_eq!(speed.text("a point", &effort(1000), None), None);
    }

    #[test]
    fn a_budget_that_ends_before_is_named() {
        let speed = Speed::default();
        let text = |left| speed.text("a point", &effort(10_000_000), left).unwrap();
        let text_of = |seconds| text(Some(Duration::from_secs(seconds)));
        assert!(text_of(10).ends_with("; --budget ends in 10 s"));
        assert!(text_of(100).ends_with("a message"));
    }

    #[test]
    fn endless_computations_have_a_finite_estimate() {
        let endless = effort(u64::MAX);
        assert!(Speed::default().text("a point", &endless, None).is_some());
    }
}
