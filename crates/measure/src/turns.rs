//! Measures how the scheduler alternates two threads on one processor. Programs with more threads
//! than processors depend on these times, and no system interface reports them.
//!
//! One thread polls the clock and detects when it was off the processor. The other computes, or
//! only yields.

use crate::processors;
use std::hint;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Observed times in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Turns {
    /// Time slice of one of two computing threads.
    pub turn: f64,
    /// Time a computing thread loses per time slice to a thread that only polls and yields.
    pub look: f64,
    /// Time from one thread's yield to the other's, if both only yield.
    pub give_way: f64,
}

/// Observation time of each pair.
const WATCHED: Duration = Duration::from_millis(200);
/// Shortest gap that counts as a lost time slice rather than an interrupt, in nanoseconds.
const TURN: f64 = 100_000.0;
/// Shortest gap between two clock readings that counts as time off the processor, in nanoseconds.
const AWAY: f64 = 400.0;

/// Observes pairs of threads on one processor for 0.6 s; `None` if this process may not bind
/// threads, or no time slice was observed.
pub fn watched() -> Option<Turns> {
    let processor = *processors::allowed().last()?;
    let of = |own: WaitMode, other: WaitMode| watch(processor, own, other);
    let turns = of(WaitMode::Computes, WaitMode::Computes)?;
    let turn = median(turns.into_iter().filter(|gap| *gap > TURN).collect())?;
    let looks = of(WaitMode::Computes, WaitMode::GivesWay)?;
    let away: f64 = looks.into_iter().filter(|gap| *gap > AWAY).sum();
    let share = away / WATCHED.as_nanos() as f64;
    let both = median(of(WaitMode::GivesWay, WaitMode::GivesWay)?)?;
    Some(Turns {
        turn,
        look: share * turn,
        // Both threads yield between two readings of this one.
        give_way: both / 2.0,
    })
}

#[derive(Debug, Clone, Copy)]
enum WaitMode {
    Computes,
    GivesWay,
}

impl WaitMode {
    fn moment(self) {
        match self {
            WaitMode::Computes => hint::spin_loop(),
            WaitMode::GivesWay => thread::yield_now(),
        }
    }
}

/// Returns the gaps between one thread's clock readings, beside another thread.
fn watch(processor: usize, own: WaitMode, other: WaitMode) -> Option<Vec<f64>> {
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let beside = scope.spawn(|| {
            let bound = processors::bind(&[processor]);
            while bound && !over.load(Ordering::Relaxed) {
                other.moment();
            }
            bound
        });
        let watching = scope.spawn(|| processors::bind(&[processor]).then(|| gaps(own)));
        let gaps = watching.join().ok().flatten();
        over.store(true, Ordering::Relaxed);
        beside.join().ok().filter(|bound| *bound).and(gaps)
    })
}

fn gaps(own: WaitMode) -> Vec<f64> {
    let mut gaps = Vec::with_capacity(1 << 20);
    let began = Instant::now();
    let mut last = began;
    while last.duration_since(began) < WATCHED {
        own.moment();
        let now = Instant::now();
        let gap = now.duration_since(last).as_nanos() as f64;
        // All gaps of a yielding thread; of a computing one, only those longer than polling itself.
        if matches!(own, WaitMode::GivesWay) || gap > AWAY {
            gaps.push(gap);
        }
        last = now;
    }
    gaps
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Holds under any load: a time slice is longer than a yield.
    #[test]
    fn threads_sharing_a_cpu_are_detected() {
        let turns = watched().expect("a processor can be chosen, and 200 ms see a turn");
        assert!(turns.turn > TURN, "{turns:?}");
        assert!(
            turns.give_way > 0.0 && turns.give_way < turns.turn,
            "{turns:?}"
        );
        assert!(turns.look >= 0.0 && turns.look < turns.turn, "{turns:?}");
    }
}
