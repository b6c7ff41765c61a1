//! Blocks of samples in which a processor was not all ours (rule 5: trim by load state, never by value).

use crate::context::Context;
use verbena_fabric::Fabric;
use verbena_measure::pace;

/// Of a point's blocks, at most so many more are measured because others are set aside.
pub const ATTEMPTS: u32 = 2;

/// Looks whether this processor runs at its full speed.
pub struct Watch<'a, F> {
    fabric: &'a F,
    /// Ticks from which on it does not; `None` where nobody knows what full speed is, as in virtual time.
    limit: Option<f64>,
}

/// A processor before a block.
pub struct BeforeRate {
    disturbed: bool,
    preemptions: Option<u64>,
}

impl<'a, F: Fabric> Watch<'a, F> {
    /// For points with so many processes at work. More than there are cores disturb each other always; then nothing is set
    /// aside.
    pub fn new(context: &Context<'a, F>, processes: usize) -> Watch<'a, F> {
        let nanos_per_tick = context.fabric.clock().nanos_per_tick;
        let crowded = context.options.cores.is_some_and(|cores| processes > cores);
        let limit = context.options.pace.filter(|_| !crowded);
        Watch {
            fabric: context.fabric,
            limit: limit.map(|nanos| nanos / nanos_per_tick * pace::DISTURBED),
        }
    }

    /// How many blocks are measured at most to get `blocks`.
    pub fn attempts(&self, blocks: u32) -> u32 {
        match self.limit {
            Some(_) => blocks * ATTEMPTS,
            None => blocks,
        }
    }

    /// What is to be handed to [`Watch::disturbed_since`] after a block of a rate.
    pub fn before_rate(&self) -> BeforeRate {
        BeforeRate {
            disturbed: self.is_disturbed(),
            preemptions: self.limit.and_then(|_| pace::preemptions()),
        }
    }

    /// Whether a rate since then is not what this processor can do. A latency's median survives that the system takes the
    /// processor away for a while; a rate is a mean.
    pub fn disturbed_since(&self, before: &BeforeRate) -> bool {
        let preempted = before
            .preemptions
            .is_some_and(|count| pace::preemptions().is_some_and(|now| now > count));
        before.disturbed || preempted || self.is_disturbed()
    }

    /// Whether something shares this processor's core now. Takes some microseconds.
    pub fn is_disturbed(&self) -> bool {
        let pace = || pace::pace(|| self.fabric.now().0) as f64;
        self.limit.is_some_and(|limit| pace() > limit)
    }
}
