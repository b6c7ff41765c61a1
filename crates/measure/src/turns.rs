//! How two threads take turns at one processor, as the system's scheduler lets them: what programs with more threads than processors
//! live by, and what no word of the system's tells.
//!
//! One thread looks at the clock over and over and sees when it was away. The other computes, or does nothing but give way.

use crate::processors;
use std::hint;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// What was seen, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Turns {
    /// How long one of two that compute keeps the processor.
    pub turn: f64,
    /// What one that computes loses for each of its turns to one that only looks and gives way again.
    pub look: f64,
    /// From one that gives way to the other that gives way.
    pub give_way: f64,
}

/// For so long each pair is watched.
const WATCHED: Duration = Duration::from_millis(200);
/// Who is away for longer has lost its turn, and was not merely interrupted.
const TURN: f64 = 100_000.0;
/// Between two looks at the clock nothing else lies where less than this passes.
const AWAY: f64 = 400.0;

/// Watches pairs of threads on one processor, 0.6 s; none if this process may not choose one, or has seen no turn.
pub fn watched() -> Option<Turns> {
    let processor = *processors::allowed().last()?;
    let of = |own: Way, other: Way| watch(processor, own, other);
    let turns = of(Way::Computes, Way::Computes)?;
    let turn = median(turns.into_iter().filter(|gap| *gap > TURN).collect())?;
    let looks = of(Way::Computes, Way::GivesWay)?;
    let away: f64 = looks.into_iter().filter(|gap| *gap > AWAY).sum();
    let share = away / WATCHED.as_nanos() as f64;
    let both = median(of(Way::GivesWay, Way::GivesWay)?)?;
    Some(Turns {
        turn,
        look: share * turn,
        // Until this one has its turn again, both have given way.
        give_way: both / 2.0,
    })
}

#[derive(Debug, Clone, Copy)]
enum Way {
    Computes,
    GivesWay,
}

impl Way {
    fn moment(self) {
        match self {
            Way::Computes => hint::spin_loop(),
            Way::GivesWay => thread::yield_now(),
        }
    }
}

/// What passed between the looks of one thread at the clock, beside another.
fn watch(processor: usize, own: Way, other: Way) -> Option<Vec<f64>> {
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

fn gaps(own: Way) -> Vec<f64> {
    let mut gaps = Vec::with_capacity(1 << 20);
    let began = Instant::now();
    let mut last = began;
    while last.duration_since(began) < WATCHED {
        own.moment();
        let now = Instant::now();
        let gap = now.duration_since(last).as_nanos() as f64;
        // All of a thread that gives way; of one that computes only what is more than its own looking.
        if matches!(own, Way::GivesWay) || gap > AWAY {
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

    /// Whatever else the machine does: a turn is longer than giving way.
    #[test]
    fn threads_at_one_processor_are_seen_to_take_turns() {
        let turns = watched().expect("a processor can be chosen, and 200 ms see a turn");
        assert!(turns.turn > TURN, "{turns:?}");
        assert!(
            turns.give_way > 0.0 && turns.give_way < turns.turn,
            "{turns:?}"
        );
        assert!(turns.look >= 0.0 && turns.look < turns.turn, "{turns:?}");
    }
}
