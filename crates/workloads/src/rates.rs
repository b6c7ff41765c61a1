//! Sampling of rates: blocks of many messages, timed from the agreed start to the last completion,
//! over the union of all processes' intervals (rules 8 to 11).

use crate::agreement::{Outcome, agree, pack, unpack};
use crate::context::Context;
use crate::disturbance::{SpeedChecks, SpeedMonitor};
use crate::sampling::Role;
use verbena_fabric::{Error, Fabric, Group, Pinning, Result};
use verbena_measure::bound::Bound;
use verbena_measure::compare::Better;
use verbena_measure::result::{Conduct, Metric};
use verbena_measure::sample::Sample;
use verbena_measure::warning::{Ends, Warning};

/// Fraction of the union interval in which all must be active (rule 10).
const LEAST_OVERLAP: f64 = 0.9;
/// Factors by which blocks are lengthened while the overlap is too small.
const LONGER: [u64; 3] = [1, 3, 9];
/// Factors with more processes than cores.
const CROWDED: [u64; 1] = [16];

/// The result of rate sampling, the same in every process, in messages per second.
pub struct Rated {
    /// Rate of all processes together, one value per block; `None` if refused, because they were
    /// not active together (rule 10).
    pub together: Option<Sample>,
    /// The same rate, also if it is refused: the total over the union interval.
    pub received: Option<Sample>,
    /// Median over blocks, by rank; `None` for those that did not run.
    pub by_rank: Vec<Option<f64>>,
    /// Sampling conditions.
    pub conduct: Conduct,
    /// Warnings.
    pub warnings: Vec<Warning>,
}

impl Rated {
    /// Returns the metrics of messages of `bytes` bytes: bandwidth and message rate of all
    /// processes together, unless refused, and the median process's bandwidth, if there are several
    /// or nothing else is known: launches may differ in the refusals.
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
        let mut metrics = Vec::new();
        if let Some(rates) = &self.together
            && let Some(bandwidths) = scaled(rates)
        {
            metrics = vec![
                Metric::rate("bandwidth", "bytes/s", &bandwidths).bounded(bound),
                Metric::rate("message-rate", "1/s", rates),
            ];
        }
        let each: Vec<f64> = self.by_rank.iter().flatten().copied().collect();
        if metrics.is_empty() || each.len() > 1 {
            let median = Sample::new(each).map_or(f64::NAN, |sample| sample.median());
            metrics.push(Metric::figure(
                "median-process-bandwidth",
                "bytes/s",
                Better::Higher,
                median * bytes as f64,
            ));
        }
        metrics
    }
}

/// Samples `run`, which sends the given number of messages and returns when all are complete.
///
/// # Errors
///
/// `run` fails in any process, no block took any time, or the run ends.
pub async fn rate<F: Fabric>(
    context: &Context<'_, F>,
    members: &[usize],
    role: Role,
    mut run: impl AsyncFnMut(u64) -> Result<()>,
) -> Outcome<Rated> {
    let warm = warm_up(context, members, role, &mut run).await?;
    let mut last = None;
    // Processes that share cores overlap only over many of the scheduler's time slices.
    let crowded = context
        .options
        .cores
        .is_some_and(|cores| members.len() > cores);
    let (lengths, number) = if crowded {
        (&CROWDED[..], 3)
    } else {
        (&LONGER[..], context.budget.rates.blocks)
    };
    let mut monitor = SpeedMonitor::new(context, members.len());
    let mut overlaps: Vec<(u64, f64)> = Vec::new();
    for (retry, &longer) in lengths.iter().enumerate() {
        let budget = context.budget.rates;
        let wanted = budget.block.as_nanos() as f64 * longer as f64;
        let extent = Extent {
            // Longer blocks need not be as many.
            number: number.saturating_sub(2 * retry).max(number.min(3)),
            count: ((wanted / warm.nanos_per_message).ceil() as u64)
                .clamp(budget.least, budget.most.saturating_mul(longer)),
        };
        let blocks = blocks(context, &mut monitor, members, role, extent, &mut run).await?;
        let overlap = blocks.overlap;
        last = Some(blocks);
        overlaps.push((longer, overlap));
        let next = lengths.get(retry + 1).copied();
        let is_vain = next.is_some_and(|next| {
            let expected = extrapolated(&overlaps, next);
            let is_long = warm.nanos_per_message >= EXTRAPOLATED;
            budget.extrapolates
                && is_long
                && expected.is_some_and(|expected| expected < LEAST_OVERLAP)
        });
        if overlap >= LEAST_OVERLAP || is_vain {
            break;
        }
    }
    let Some(blocks) = last.filter(|blocks| !blocks.is_empty()) else {
        return Err(Error::invalid("rate", "no block took any time").into());
    };
    let mut rated = blocks.rated(warm.messages);
    if members.len() < 2 {
        rated.conduct.start_skew = None;
    }
    if warm.unbound {
        rated.warnings.push(Warning::Unpinned);
    }
    Ok(rated)
}

/// Nanoseconds of a message from which the overlap of longer blocks is extrapolated. The rates of
/// short ones differ by up to a percent with the length of the blocks.
const EXTRAPOLATED: f64 = 20_000.0;

/// Returns the overlap of blocks of the next length, from those of two lengths: processes start and
/// end apart by a constant time, and by a constant share of the block. `None` from fewer.
fn extrapolated(overlaps: &[(u64, f64)], next: u64) -> Option<f64> {
    let [.., (shorter, less), (longer, more)] = *overlaps else {
        return None;
    };
    let [shorter, longer, next] = [shorter, longer, next].map(|length| length as f64);
    let endless = (more * longer - less * shorter) / (longer - shorter);
    Some(endless - (endless - more) * longer / next)
}

struct Warm {
    messages: u64,
    nanos_per_message: f64,
    /// Whether the system refused to bind a process to its own processor.
    unbound: bool,
}

async fn warm_up<F: Fabric>(
    context: &Context<'_, F>,
    members: &[usize],
    role: Role,
    run: &mut impl AsyncFnMut(u64) -> Result<()>,
) -> Outcome<Warm> {
    let pinning = match role {
        Role::Idle => Pinning::Own,
        _ => context.fabric.pin_cpu(members),
    };
    let unbound = f64::from(u8::from(pinning == Pinning::Unbound));
    let mut count = 1u64;
    let mut warm = Warm {
        messages: 0,
        nanos_per_message: f64::INFINITY,
        unbound: false,
    };
    loop {
        let mut spent = 0.0;
        if role != Role::Idle {
            context.fabric.group().align(members).await?;
            let start = context.fabric.now();
            run(count).await?;
            spent = context.nanos(context.fabric.now().since(start));
        }
        warm.messages += count;
        let votes = agree(context, &pack(&[spent, unbound])).await?;
        let votes: Vec<Vec<f64>> = votes.iter().map(|vote| unpack(vote)).collect();
        let largest = |of: usize| votes.iter().map(|vote| vote[of]).fold(0.0, f64::max);
        warm.unbound = largest(1) > 0.0;
        // The minimum over several repetitions: one in which the process was preempted is no
        // warm-up.
        warm.nanos_per_message = warm
            .nanos_per_message
            .min(largest(0) / count as f64)
            .max(0.01);
        let warmed = warm.nanos_per_message * count as f64;
        let long_enough = warmed >= context.budget.warmup.as_nanos() as f64 && count > 1;
        if long_enough || count >= 1 << 24 {
            return Ok(warm);
        }
        count *= 2;
    }
}

/// Evaluation of blocks.
pub struct Blocks {
    together: Vec<f64>,
    by_rank: Vec<Option<f64>>,
    overlap: f64,
    /// Of the block with the least overlap.
    ends: Option<Ends>,
    skew: f64,
    start_error: f64,
    checks: SpeedChecks,
}

impl Blocks {
    /// Returns the rates, unless they are refused, after `warmup` uncounted messages.
    pub fn rated(self, warmup: u64) -> Rated {
        let mut warnings = Vec::new();
        let received = Sample::new(self.together);
        let together = match self.overlap < LEAST_OVERLAP {
            true => {
                warnings.push(Warning::LowOverlap {
                    fraction: self.overlap,
                    ends: self.ends,
                });
                None
            }
            false => received.clone(),
        };
        warnings.extend(self.checks.warning());
        // Without comparable clocks the overlap is unknown.
        let is_known = self.start_error.is_finite();
        if !is_known {
            warnings.push(Warning::UnknownStart);
        }
        let conduct = Conduct {
            warmup,
            batch: 1,
            start_skew: is_known.then_some(self.skew),
            start_error: Some(self.start_error).filter(|error| *error > 0.0 && is_known),
            overlap: is_known.then_some(self.overlap),
            mode: Some("free".to_owned()),
            disturbed: self.checks.share(),
            ..Conduct::default()
        };
        Rated {
            together,
            received,
            by_rank: self.by_rank,
            conduct,
            warnings,
        }
    }

    /// Returns whether no process took any time.
    pub fn is_empty(&self) -> bool {
        self.by_rank.iter().all(Option::is_none)
    }
}

/// A timed process in a block: rank, first and last time in nanoseconds since the agreed start.
pub type Span = (usize, f64, f64);

/// The extent of a measurement.
struct Extent {
    /// Number of blocks, each from an agreed start to its last completion.
    number: usize,
    /// Messages per block.
    count: u64,
}

async fn blocks<F: Fabric>(
    context: &Context<'_, F>,
    monitor: &mut SpeedMonitor<'_, F>,
    members: &[usize],
    role: Role,
    Extent { number, count }: Extent,
    run: &mut impl AsyncFnMut(u64) -> Result<()>,
) -> Outcome<Blocks> {
    let mut done: Vec<Vec<Span>> = Vec::new();
    let mut checks = SpeedChecks::default();
    let mut start_error: f64 = 0.0;
    for _ in 0..number {
        if !monitor.rest(context, members, role).await? {
            break;
        }
        let mut span = [f64::NAN; 2];
        let mut error = 0.0;
        if role != Role::Idle {
            monitor.check();
            // The agreed time is the common origin, even if each node measures it by its own clock.
            let agreed = context.fabric.group().align(members).await?;
            error = context.fabric.group().start_error().unwrap_or(0.0);
            let start = context.fabric.now();
            run(count).await?;
            let end = context.fabric.now();
            monitor.check();
            if role == Role::Timed {
                span = [start, end].map(|instant| context.nanos(instant.since(agreed)));
            }
        }
        let SpeedChecks { all, slow } = monitor.seen;
        let votes = agree(context, &pack(&[span[0], span[1], all, slow, error])).await?;
        let votes = votes.iter().map(|vote| unpack(vote)).enumerate();
        let votes: Vec<(usize, Vec<f64>)> = votes.collect();
        let seen = votes.iter().map(|(_, vote)| SpeedChecks {
            all: vote[2],
            slow: vote[3],
        });
        checks = SpeedChecks::together(seen);
        start_error = votes
            .iter()
            .map(|(_, vote)| vote[4])
            .fold(start_error, f64::max);
        let spans = votes.iter().map(|(rank, vote)| (*rank, vote[0], vote[1]));
        done.push(spans.filter(|(_, start, _)| start.is_finite()).collect());
    }
    Ok(Blocks {
        checks,
        start_error,
        ..evaluate(&done, context.size(), count)
    })
}

/// Evaluates blocks of `count` messages, in a job of `size` processes.
pub fn evaluate(blocks: &[Vec<Span>], size: usize, count: u64) -> Blocks {
    let mut together = Vec::new();
    let mut rates: Vec<Vec<f64>> = vec![Vec::new(); size];
    let mut overlaps = Vec::new();
    let mut uneven: Option<(f64, &[Span])> = None;
    let mut skew: f64 = 0.0;
    for spans in blocks {
        let edge = |pick: fn(f64, f64) -> f64, of: fn(&Span) -> f64| {
            spans.iter().map(of).reduce(pick).unwrap_or(0.0)
        };
        let (first, last_start) = (edge(f64::min, |s| s.1), edge(f64::max, |s| s.1));
        let (first_end, end) = (edge(f64::min, |s| s.2), edge(f64::max, |s| s.2));
        let union = end - first;
        if union > 0.0 {
            together.push(count as f64 * spans.len() as f64 / union * 1e9);
            let overlap = ((first_end - last_start) / union).max(0.0);
            overlaps.push(overlap);
            if uneven.is_none_or(|(least, _)| overlap < least) {
                uneven = Some((overlap, spans));
            }
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
        ends: uneven.and_then(|(_, spans)| {
            let ends: Vec<_> = spans.iter().map(|span| (span.0, span.2)).collect();
            Ends::of(&ends)
        }),
        overlap: Sample::new(overlaps).map_or(1.0, |sample| sample.median()),
        skew,
        start_error: 0.0,
        checks: SpeedChecks::default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn low_overlap_names_early_and_late_processes() {
        let spans = [(1, 6.88e6), (2, 6.9e6), (3, 7e6), (9, 12.8e6), (10, 12.7e6)];
        let spans = spans.map(|(rank, end)| (rank, 0.0, end)).to_vec();
        let warnings = evaluate(&[spans], 11, 10).rated(0).warnings;
        assert_eq!(
            warnings[0].to_string(),
            "all pairs were active for only 54 % of the time: processes ended between 6.88 ms and \
             12.8 ms, 1-3 early, 9-10 late"
        );
    }

    #[test]
    fn an_overlap_is_extrapolated_from_two_lengths() {
        // 0.95 less 0.6 of the first length.
        let overlap = |length: f64| 0.95 - 0.6 / length;
        let known = [(1, overlap(1.0)), (3, overlap(3.0))];
        let expected = extrapolated(&known, 9).unwrap();
        assert!((expected - overlap(9.0)).abs() < 1e-12, "{expected}");
        assert_eq!(extrapolated(&known[..1], 3), None);
        let constant = extrapolated(&[(1, 0.5), (3, 0.5)], 9);
        assert_eq!(constant, Some(0.5));
    }

    #[test]
    fn slow_blocks_count_in_the_rate() {
        let block = |end: f64| vec![(0, 0.0, end)];
        let blocks = evaluate(&[block(1e3), block(1e9), block(2e3)], 1, 10);
        assert_eq!(blocks.together.len(), 3);
        assert!(blocks.together[1] < 11.0, "{:?}", blocks.together);
        assert_eq!(blocks.by_rank[0], Some(5e6));
    }
}
