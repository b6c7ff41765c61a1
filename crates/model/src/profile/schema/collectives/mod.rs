//! A library's choice of algorithm for a collective operation, by message size and number of ranks.

use crate::profile::error::Error;
use crate::profile::quantity::{Bytes, Count, Ratio};
use crate::profile::reader::{Field, Section};
use crate::profile::recorded::Origin;
use std::sync::Arc;

mod algorithms;

use algorithms::Algorithm;
pub use algorithms::{
    AllGather, AllReduce, AllToAll, Barrier, Broadcast, Reduce, ReduceScatter, Rooted,
};

/// Condition on the number of ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ranks {
    /// A power of two.
    PowerOfTwo,
    /// Even.
    Even,
}

impl Field for Option<Ranks> {
    fn take(section: &Section<'_>, key: &str) -> Result<Option<Ranks>, Error> {
        section.choice_if_there(
            key,
            &[("power-of-two", Ranks::PowerOfTwo), ("even", Ranks::Even)],
        )
    }
}

/// Condition of a choice: all given limits must hold.
#[derive(Debug, Clone, Default)]
pub struct When {
    /// Upper limit (exclusive) of the number of ranks, plus `ranks_per_byte` per byte of the
    /// message.
    pub ranks_below: Option<Ratio>,
    /// Lower limit (exclusive) of the number of ranks, plus `ranks_per_byte` per byte of the
    /// message.
    pub ranks_above: Option<Ratio>,
    /// Added to the limits of ranks per byte of the message.
    pub ranks_per_byte: Option<Ratio>,
    /// Condition on the number of ranks.
    pub ranks_are: Option<Ranks>,
    /// Upper limit (exclusive) of the message size.
    pub bytes_below: Option<Bytes>,
    /// Upper limit (exclusive) of the message size times the number of ranks.
    pub whole_below: Option<Bytes>,
    /// Upper limit (exclusive) of the message size divided by the number of ranks.
    pub share_below: Option<Bytes>,
}

impl When {
    fn holds(&self, bytes: u64, ranks: usize) -> bool {
        let slope = self.ranks_per_byte.map_or(0.0, |slope| slope.0);
        let limit = |at: Ratio| at.0 + slope * bytes as f64;
        let whole = bytes.saturating_mul(ranks as u64);
        self.ranks_below.is_none_or(|at| (ranks as f64) < limit(at))
            && self.ranks_above.is_none_or(|at| ranks as f64 > limit(at))
            && match self.ranks_are {
                None => true,
                Some(Ranks::PowerOfTwo) => ranks.is_power_of_two(),
                Some(Ranks::Even) => ranks.is_multiple_of(2),
            }
            && self.bytes_below.is_none_or(|most| bytes < most.0)
            && self.whole_below.is_none_or(|most| whole < most.0)
            && self
                .share_below
                .is_none_or(|most| bytes / (ranks as u64) < most.0)
    }

    fn says_nothing(&self) -> bool {
        let ranks = [self.ranks_below, self.ranks_above, self.ranks_per_byte];
        let bytes = [self.bytes_below, self.whole_below, self.share_below];
        ranks.iter().all(Option::is_none)
            && bytes.iter().all(Option::is_none)
            && self.ranks_are.is_none()
    }
}

/// An algorithm and the condition under which it is chosen.
#[derive(Debug, Clone)]
pub struct Choice<A> {
    /// Condition.
    pub when: When,
    /// Algorithm.
    pub algorithm: A,
    /// Segment size; if absent, the data are not segmented.
    pub segment: Option<Bytes>,
    /// Radix of a tree by digits; two if absent.
    pub radix: Option<Count>,
    /// Messages started together; all if absent.
    pub at_once: Option<Count>,
}

impl<A> Choice<A> {
    /// Returns the number of messages started together, out of `all`.
    pub fn at_once(&self, all: usize) -> usize {
        self.at_once.map_or(all, |most| most.0 as usize)
    }

    /// Returns the radix of a tree by digits.
    pub fn radix(&self) -> usize {
        self.radix.map_or(2, |radix| radix.0 as usize)
    }
}

/// The choices of an operation in order of precedence; empty if the library defines none.
#[derive(Debug, Clone)]
pub struct Choices<A>(Vec<Choice<A>>);

impl<A> Default for Choices<A> {
    fn default() -> Choices<A> {
        Choices(Vec::new())
    }
}

impl<A> Choices<A> {
    /// Returns the first choice that applies to a message of `bytes` bytes among `ranks` ranks.
    pub fn of(&self, bytes: u64, ranks: usize) -> Option<&Choice<A>> {
        self.0.iter().find(|choice| choice.when.holds(bytes, ranks))
    }
}

impl<A: Algorithm> Field for Choices<A> {
    fn take(section: &Section<'_>, key: &str) -> Result<Choices<A>, Error> {
        let Some(operation) = section.section(key)? else {
            return Ok(Choices::default());
        };
        let (origin, rows) = operation.tables("choices")?;
        let mut choices = Vec::new();
        for (number, row) in rows.iter().enumerate() {
            let choice = choice(row, &origin)?;
            if choice.when.says_nothing() != (number + 1 == rows.len()) {
                return Err(row.about_itself(
                    "only the last choice must be without conditions, so that every message has \
                     one"
                    .to_owned(),
                ));
            }
            choices.push(choice);
        }
        operation.finish()?;
        Ok(Choices(choices))
    }
}

fn choice<A: Algorithm>(row: &Section<'_>, origin: &Origin) -> Result<Choice<A>, Error> {
    let choice = Choice {
        when: When {
            ranks_below: row.bare("ranks_below", "1", origin)?,
            ranks_above: row.bare("ranks_above", "1", origin)?,
            ranks_per_byte: row.bare("ranks_per_byte", "1", origin)?,
            ranks_are: Field::take(row, "ranks_are")?,
            bytes_below: row.bare("bytes_below", "B", origin)?,
            whole_below: row.bare("whole_below", "B", origin)?,
            share_below: row.bare("share_below", "B", origin)?,
        },
        algorithm: row.choice("algorithm", A::WORDS)?,
        segment: row.bare("segment", "B", origin)?,
        radix: row.bare("radix", "1", origin)?,
        at_once: row.bare("at_once", "1", origin)?,
    };
    let further = [
        ("segment", choice.segment.is_some()),
        ("radix", choice.radix.is_some()),
        ("at_once", choice.at_once.is_some()),
    ];
    let takes = choice.algorithm.takes();
    if let Some((key, _)) = further
        .iter()
        .find(|(key, there)| *there && !takes.contains(key))
    {
        return Err(row.about(key, "the algorithm does not use it".to_owned()));
    }
    let limited = choice.when.ranks_below.is_some() || choice.when.ranks_above.is_some();
    if choice.when.ranks_per_byte.is_some() && !limited {
        let reason = "needs ranks_below or ranks_above, to which it is added";
        return Err(row.about("ranks_per_byte", reason.to_owned()));
    }
    row.finish()?;
    Ok(choice)
}

/// A library's choices for each operation; an operation without any uses the default, which depends
/// on the size alone.
#[derive(Debug, Clone, Default)]
pub struct Collectives {
    /// Barrier.
    pub barrier: Choices<Barrier>,
    /// Broadcast, by message size.
    pub broadcast: Choices<Broadcast>,
    /// Reduction, by message size.
    pub reduce: Choices<Reduce>,
    /// All-reduce, by message size.
    pub all_reduce: Choices<AllReduce>,
    /// All-gather, by the size of one rank's contribution.
    pub all_gather: Choices<AllGather>,
    /// All-to-all, by the size per pair of ranks.
    pub all_to_all: Choices<AllToAll>,
    /// Reduce-scatter, by the size of one rank's result.
    pub reduce_scatter: Choices<ReduceScatter>,
    /// Scatter, by the size of one rank's result.
    pub scatter: Choices<Rooted>,
    /// Gather, by the size of one rank's contribution.
    pub gather: Choices<Rooted>,
}

impl Field for Arc<Collectives> {
    fn take(section: &Section<'_>, key: &str) -> Result<Arc<Collectives>, Error> {
        let Some(section) = section.section(key)? else {
            return Ok(Arc::default());
        };
        let collectives = Collectives {
            barrier: Field::take(&section, "barrier")?,
            broadcast: Field::take(&section, "broadcast")?,
            reduce: Field::take(&section, "reduce")?,
            all_reduce: Field::take(&section, "all_reduce")?,
            all_gather: Field::take(&section, "all_gather")?,
            all_to_all: Field::take(&section, "all_to_all")?,
            reduce_scatter: Field::take(&section, "reduce_scatter")?,
            scatter: Field::take(&section, "scatter")?,
            gather: Field::take(&section, "gather")?,
        };
        section.finish()?;
        Ok(Arc::new(collectives))
    }
}
