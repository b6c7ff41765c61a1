//! Sampling of rates: blocks of many messages, timed from the agreed start to the last completion, over the union of all
//! processes' intervals (rules 8 to 11).

use crate::agreement::{Outcome, agree, pack, unpack};
use crate::context::Context;
use crate::disturbance::{Watch, between};
use crate::sampling::Role;
use verbena_fabric::{Error, Fabric, Group, Result, Ticks};
use verbena_measure::bound::Bound;
use verbena_measure::compare::Better;
use verbena_measure::result::{Conduct, Metric};
use verbena_measure::sample::Sample;
use verbena_measure::warning::Warning;

/// Share of the union interval in which all must be active (rule 10).
const LEAST_OVERLAP: f64 = 0.9;
/// When the overlap is too small, blocks get longer so many times, by this factor.
const LONGER: [u64; 3] = [1, 3, 9];
/// The same with more processes than cores.
const CROWDED: [u64; 1] = [16];

/// Messages of a block at least: the first one's way, and the last one's, are part of the time.
const FEWEST_MESSAGES: f64 = 64.0;
/// With fewer undisturbed blocks all count.
const FEWEST_BLOCKS: usize = 3;

/// What rate sampling yields, the same in every process: messages a second.
pub struct Rated {
    /// All processes together, a value a block; `None` when refused, because they were not active together (rule 10).
    pub together: Option<Sample>,
    /// By rank, the median over blocks; `None` for those that did not run.
    pub by_rank: Vec<Option<f64>>,
    pub conduct: Conduct,
    pub warnings: Vec<Warning>,
}

impl Rated {
    /// The metrics of messages of `bytes`: bandwidth and message rate of all together; where that is refused, the median
    /// process's bandwidth alone.
    pub fn metrics(&self, bytes: usize, bound: Option<Bound>) -> Vec<Metric> {
        let scaled = |sample: &Sample| {
            Sample::new(
                sample
                    .values()
                    .iter()
                    .map(|rate| rate * bytes as f64)
                    .collect(),
            )
        };
        if let Some(rates) = &self.together
            && let Some(bandwidths) = scaled(rates)
        {
            return vec![
                Metric::rate("bandwidth", "bytes/s", &bandwidths).bounded(bound),
                Metric::rate("message-rate", "1/s", rates),
            ];
        }
        let each = Sample::new(self.by_rank.iter().flatten().copied().collect());
        let median = each.map_or(f64::NAN, |sample| sample.median()) * bytes as f64;
        vec![Metric::figure(
            "median-process-bandwidth",
            "bytes/s",
            Better::Higher,
            median,
        )]
    }
}

/// Samples `run`, which is given a number of messages and returns when all are complete.
pub async fn rate<F: Fabric>(
    context: &Context<'_, F>,
    members: &[usize],
    role: Role,
    mut run: impl AsyncFnMut(u64) -> Result<()>,
) -> Outcome<Rated> {
    let warm = warm_up(context, members, role, &mut run).await?;
    let mut last = None;
    // Processes that take turns on the cores overlap only over many of the scheduler's slices.
    let crowded = context
        .options
        .cores
        .is_some_and(|cores| members.len() > cores);
    let (lengths, number) = if crowded {
        (&CROWDED[..], 3)
    } else {
        (&LONGER[..], context.budget.rates.blocks)
    };
    let watch = Watch::new(context, members.len());
    for (retry, &longer) in lengths.iter().enumerate() {
        let budget = context.budget.rates;
        // Longer blocks need not be as many.
        let number = number.saturating_sub(2 * retry).max(number.min(3));
        let wanted = budget.block.as_nanos() as f64 * longer as f64;
        let least = FEWEST_MESSAGES * warm.nanos_per_message * longer as f64;
        let pieces = watch.pieces(wanted, least);
        let count = ((wanted / pieces as f64 / warm.nanos_per_message).ceil() as u64)
            .clamp(budget.least, budget.most.saturating_mul(longer));
        let extent = Extent {
            number,
            pieces,
            count,
        };
        let blocks = blocks(context, &watch, members, role, extent, &mut run).await?;
        let overlap = blocks.overlap;
        last = Some(blocks);
        if overlap >= LEAST_OVERLAP {
            break;
        }
    }
    let blocks = last.expect("at least one length was tried");
    let mut warnings = Vec::new();
    let together = match blocks.overlap < LEAST_OVERLAP {
        true => {
            warnings.push(Warning::LowOverlap {
                fraction: blocks.overlap,
            });
            None
        }
        false => Sample::new(blocks.together),
    };
    if blocks.by_rank.iter().all(Option::is_none) {
        return Err(Error::invalid("rate", "no block took any time").into());
    }
    if blocks.disturbed {
        warnings.push(Warning::Disturbed);
    }
    let conduct = Conduct {
        warmup: warm.messages,
        first: None,
        batch: 1,
        start_skew: Some(blocks.skew).filter(|_| members.len() > 1),
        overlap: Some(blocks.overlap),
        mode: Some("free".to_owned()),
        validated: false,
        set_aside: blocks.set_aside,
    };
    Ok(Rated {
        together,
        by_rank: blocks.by_rank,
        conduct,
        warnings,
    })
}

struct Warm {
    messages: u64,
    nanos_per_message: f64,
}

async fn warm_up<F: Fabric>(
    context: &Context<'_, F>,
    members: &[usize],
    role: Role,
    run: &mut impl AsyncFnMut(u64) -> Result<()>,
) -> Outcome<Warm> {
    let mut count = 1u64;
    let mut messages = 0;
    loop {
        let mut spent = 0.0;
        if role != Role::Idle {
            context.fabric.group().align(members).await?;
            let start = context.fabric.now();
            run(count).await?;
            spent = context.nanos(context.fabric.now().since(start));
        }
        messages += count;
        let votes = agree(context, &pack(&[spent])).await?;
        let longest = votes.iter().map(|vote| unpack(vote)[0]).fold(0.0, f64::max);
        if longest >= context.budget.warmup.as_nanos() as f64 || count >= 1 << 24 {
            return Ok(Warm {
                messages,
                nanos_per_message: (longest / count as f64).max(0.01),
            });
        }
        count *= 2;
    }
}

struct Blocks {
    together: Vec<f64>,
    by_rank: Vec<Option<f64>>,
    overlap: f64,
    skew: f64,
    /// How many were set aside.
    set_aside: u32,
    /// Whether too few were not.
    disturbed: bool,
}

/// A timed process in a block: its rank, first and last instant in nanoseconds since the agreed one.
type Span = (usize, f64, f64);

/// A block, or a piece of one: who ran when, and whether a processor was disturbed.
struct Block {
    spans: Vec<Span>,
    disturbed: bool,
}

impl Block {
    /// The piece at this place in what the processes told: by rank first and last instant and whether it was disturbed, of
    /// each piece one after the other.
    fn of_piece(piece: usize, told: &[Vec<f64>]) -> Block {
        let of = |vote: &Vec<f64>| vote.as_chunks::<3>().0.get(piece).copied();
        let told = told.iter().map(of).enumerate();
        let told = told.filter_map(|(rank, told)| Some((rank, told?)));
        let spans = told.clone().filter(|(_, [start, ..])| start.is_finite());
        Block {
            spans: spans
                .map(|(rank, [start, end, _])| (rank, start, end))
                .collect(),
            disturbed: told.clone().any(|(_, [.., disturbed])| disturbed == 1.0),
        }
    }
}

/// What is run.
struct Extent {
    /// Blocks, after each of which the processes tell each other what they saw.
    number: usize,
    /// Pieces of a block, each from an agreed start to its last completion.
    pieces: usize,
    /// Messages of a piece.
    count: u64,
}

async fn blocks<F: Fabric>(
    context: &Context<'_, F>,
    watch: &Watch<'_, F>,
    members: &[usize],
    role: Role,
    Extent {
        number,
        pieces,
        count,
    }: Extent,
    run: &mut impl AsyncFnMut(u64) -> Result<()>,
) -> Outcome<Blocks> {
    let mut done: Vec<Block> = Vec::new();
    let mut counted = 0;
    for _ in 0..watch.attempts(number as u32, context.budget.rates.block) {
        let mut mine = Vec::with_capacity(pieces);
        if role != Role::Idle {
            let mut looks = vec![watch.is_disturbed()];
            for _ in 0..pieces {
                let preemptions = watch.preemptions();
                // The agreed instant is the common origin; processes of several nodes have no other.
                let agreed = context.fabric.group().align(members).await?;
                let start = context.fabric.now();
                run(count).await?;
                let end = context.fabric.now();
                // A latency's median survives that the system takes the processor away for a while; a rate is a mean.
                looks.push(watch.is_disturbed() || watch.preemptions() > preemptions);
                mine.push(match role {
                    Role::Timed => {
                        let since = |instant: Ticks| context.nanos(instant.since(agreed));
                        [since(start), since(end), 0.0]
                    }
                    _ => [f64::NAN, f64::NAN, 0.0],
                });
            }
            for (told, disturbed) in mine.iter_mut().zip(between(&looks)) {
                told[2] = f64::from(u8::from(disturbed));
            }
        }
        let votes = agree(context, &pack(&mine.concat())).await?;
        let votes: Vec<Vec<f64>> = votes.iter().map(|vote| unpack(vote)).collect();
        for piece in 0..pieces {
            let block = Block::of_piece(piece, &votes);
            counted += usize::from(!block.disturbed);
            done.push(block);
        }
        if counted >= number * pieces {
            break;
        }
    }
    let measured = done.len();
    let disturbed = set_aside(&mut done, number * pieces);
    Ok(Blocks {
        set_aside: (measured - done.len()) as u32,
        disturbed,
        ..evaluate(&done, context.size(), count)
    })
}

/// Leaves the undisturbed blocks, but for next to none: a median of one or two says less than one of many that were
/// disturbed. Whether less than half of the `wanted` ones were undisturbed, so that chance decided which seemed so.
fn set_aside(blocks: &mut Vec<Block>, wanted: usize) -> bool {
    let counted = blocks.iter().filter(|block| !block.disturbed).count();
    if counted >= wanted.min(FEWEST_BLOCKS) {
        blocks.retain(|block| !block.disturbed);
    }
    counted < wanted.div_ceil(2)
}

/// What blocks of `count` messages come to, in a job of `size` processes.
fn evaluate(blocks: &[Block], size: usize, count: u64) -> Blocks {
    let mut together = Vec::new();
    let mut rates: Vec<Vec<f64>> = vec![Vec::new(); size];
    let mut overlaps = Vec::new();
    let mut skew: f64 = 0.0;
    for Block { spans, .. } in blocks {
        let edge = |pick: fn(f64, f64) -> f64, of: fn(&Span) -> f64| {
            spans.iter().map(of).reduce(pick).unwrap_or(0.0)
        };
        let (first, last_start) = (edge(f64::min, |s| s.1), edge(f64::max, |s| s.1));
        let (first_end, end) = (edge(f64::min, |s| s.2), edge(f64::max, |s| s.2));
        let union = end - first;
        if union > 0.0 {
            together.push(count as f64 * spans.len() as f64 / union * 1e9);
            overlaps.push(((first_end - last_start) / union).max(0.0));
            skew = skew.max(last_start - first);
        }
        for &(rank, start, end) in spans {
            if end > start {
                rates[rank].push(count as f64 / (end - start) * 1e9);
            }
        }
    }
    Blocks {
        together,
        by_rank: rates
            .into_iter()
            .map(|values| Sample::new(values).map(|sample| sample.median()))
            .collect(),
        overlap: Sample::new(overlaps).map_or(1.0, |sample| sample.median()),
        skew,
        set_aside: 0,
        disturbed: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blocks(disturbed: &[bool]) -> Vec<Block> {
        let block = |(i, &disturbed): (usize, &bool)| Block {
            spans: vec![(0, 0.0, 1000.0 + i as f64)],
            disturbed,
        };
        disturbed.iter().enumerate().map(block).collect()
    }

    #[test]
    fn disturbed_blocks_go_when_enough_are_left() {
        let mut some = blocks(&[false, true, false, true, false]);
        assert!(set_aside(&mut some, 7), "less than half");
        let mut half = blocks(&[false, true, false, true, false]);
        assert!(!set_aside(&mut half, 6));
        assert_eq!(half.len(), 3);
        assert_eq!(evaluate(&some, 1, 10).together.len(), 3);
        let mut few = blocks(&[false, true, false, true]);
        assert!(set_aside(&mut few, 7));
        assert_eq!(few.len(), 4);
        let mut none = blocks(&[true, true, true]);
        assert!(set_aside(&mut none, 3));
        assert_eq!(none.len(), 3);
    }

    #[test]
    fn values_do_not_decide() {
        let mut slow = blocks(&[false, false, true, false]);
        slow[1].spans[0].2 = 1e9;
        slow[2].spans[0].2 = 1.0;
        assert!(!set_aside(&mut slow, 3));
        let rates = evaluate(&slow, 1, 10).together;
        assert_eq!(rates.len(), 3);
        assert!(rates[1] < 11.0, "{rates:?}");
    }
}
