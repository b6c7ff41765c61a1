//! Which algorithm a library takes for a collective operation, by the size of the message and the number of ranks.

use super::{Bytes, Count, Error, Field, Ratio, Section};
use crate::profile::reader::Origin;
use std::sync::Arc;

mod algorithms;

use algorithms::Algorithm;
pub use algorithms::{
    AllGather, AllReduce, AllToAll, Barrier, Broadcast, Reduce, ReduceScatter, Rooted,
};

/// What a number of ranks must be for a choice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ranks {
    /// 1, 2, 4, 8 and so on.
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

/// When a choice is taken: everything that it says must be so.
#[derive(Debug, Clone, Default)]
pub struct When {
    /// Fewer ranks than this, and than `ranks_per_byte` besides.
    pub ranks_below: Option<Ratio>,
    /// More ranks than this, and than `ranks_per_byte` besides.
    pub ranks_above: Option<Ratio>,
    /// How much more for each byte of the message.
    pub ranks_per_byte: Option<Ratio>,
    /// What their number is.
    pub ranks_are: Option<Ranks>,
    /// A message of fewer bytes.
    pub bytes_below: Option<Bytes>,
    /// Fewer bytes of all ranks together.
    pub whole_below: Option<Bytes>,
    /// Fewer bytes of it for each rank.
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

/// An algorithm, and when it is taken.
#[derive(Debug, Clone)]
pub struct Choice<A> {
    /// When.
    pub when: When,
    /// Which.
    pub algorithm: A,
    /// Pieces that the data are cut into; without it they are not.
    pub segment: Option<Bytes>,
    /// Of a tree by digits; without it two.
    pub radix: Option<Count>,
    /// Messages that begin together; without it all do.
    pub at_once: Option<Count>,
}

impl<A> Choice<A> {
    /// Messages that begin together, of so many.
    pub fn at_once(&self, all: usize) -> usize {
        self.at_once.map_or(all, |most| most.0 as usize)
    }

    /// Of a tree by digits.
    pub fn radix(&self) -> usize {
        self.radix.map_or(2, |radix| radix.0 as usize)
    }
}

/// The choices of an operation, in the order in which they are looked through; none if the library has none of its own.
#[derive(Debug, Clone)]
pub struct Choices<A>(Vec<Choice<A>>);

impl<A> Default for Choices<A> {
    fn default() -> Choices<A> {
        Choices(Vec::new())
    }
}

impl<A> Choices<A> {
    /// What is taken for a message of so many bytes among so many ranks: the first that fits.
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
                    "the last choice, and no other, has no conditions: there must be one for every message".to_owned(),
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
        return Err(row.about(key, "the algorithm does not go by it".to_owned()));
    }
    let limited = choice.when.ranks_below.is_some() || choice.when.ranks_above.is_some();
    if choice.when.ranks_per_byte.is_some() && !limited {
        let reason = "needs ranks_below or ranks_above, to which it is added";
        return Err(row.about("ranks_per_byte", reason.to_owned()));
    }
    row.finish()?;
    Ok(choice)
}

/// What a library chooses for each operation; without any, all is as in a library that chooses by the size alone.
#[derive(Debug, Clone, Default)]
pub struct Collectives {
    /// Waiting for all.
    pub barrier: Choices<Barrier>,
    /// By the message.
    pub broadcast: Choices<Broadcast>,
    /// By the message.
    pub reduce: Choices<Reduce>,
    /// By the message.
    pub all_reduce: Choices<AllReduce>,
    /// By what each has.
    pub all_gather: Choices<AllGather>,
    /// By what each has for each.
    pub all_to_all: Choices<AllToAll>,
    /// By what each gets.
    pub reduce_scatter: Choices<ReduceScatter>,
    /// By what each gets.
    pub scatter: Choices<Rooted>,
    /// By what each has.
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
