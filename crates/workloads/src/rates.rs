//! Sampling of rates: blocks of many messages, timed from the agreed start to the last completion, over the union of all
//! processes' intervals (rules 8 to 11).

use crate::agreement::{Outcome, agree, pack, unpack};
use crate::context::Context;
use crate::sampling::Role;
use verbena_fabric::{Error, Fabric, Group, Result};
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
    for (retry, &longer) in lengths.iter().enumerate() {
        let budget = context.budget.rates;
        // Longer blocks need not be as many.
        let number = number.saturating_sub(2 * retry).max(number.min(3));
        let wanted = budget.block.as_nanos() as f64 * longer as f64;
        let count = ((wanted / warm.nanos_per_message).ceil() as u64)
            .clamp(budget.least, budget.most.saturating_mul(longer));
        let blocks = blocks(context, members, role, (number, count), &mut run).await?;
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
    let conduct = Conduct {
        warmup: warm.messages,
        first: None,
        batch: 1,
        start_skew: Some(blocks.skew).filter(|_| members.len() > 1),
        overlap: Some(blocks.overlap),
        mode: Some("free".to_owned()),
        validated: false,
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
}

async fn blocks<F: Fabric>(
    context: &Context<'_, F>,
    members: &[usize],
    role: Role,
    (number, count): (usize, u64),
    run: &mut impl AsyncFnMut(u64) -> Result<()>,
) -> Outcome<Blocks> {
    let size = context.size();
    let mut together = Vec::new();
    let mut rates: Vec<Vec<f64>> = vec![Vec::new(); size];
    let mut overlaps = Vec::new();
    let mut skew: f64 = 0.0;
    for _ in 0..number {
        let mut mine = [f64::NAN, f64::NAN];
        if role != Role::Idle {
            // The agreed instant is the common origin; processes of several nodes have no other.
            let agreed = context.fabric.group().align(members).await?;
            let start = context.fabric.now();
            run(count).await?;
            let end = context.fabric.now();
            if role == Role::Timed {
                mine = [
                    context.nanos(start.since(agreed)),
                    context.nanos(end.since(agreed)),
                ];
            }
        }
        let votes = agree(context, &pack(&mine)).await?;
        let spans: Vec<(usize, f64, f64)> = votes
            .iter()
            .map(|vote| unpack(vote))
            .enumerate()
            .filter(|(_, span)| span.len() == 2 && span[0].is_finite())
            .map(|(rank, span)| (rank, span[0], span[1]))
            .collect();
        let edge = |pick: fn(f64, f64) -> f64, of: fn(&(usize, f64, f64)) -> f64| {
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
        for (rank, start, end) in spans {
            if end > start {
                rates[rank].push(count as f64 / (end - start) * 1e9);
            }
        }
    }
    let overlap = Sample::new(overlaps).map_or(1.0, |sample| sample.median());
    let by_rank = rates
        .into_iter()
        .map(|values| Sample::new(values).map(|sample| sample.median()))
        .collect();
    Ok(Blocks {
        together,
        by_rank,
        overlap,
        skew,
    })
}
