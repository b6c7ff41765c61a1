//! Concurrent pairs: connectx_multicore, sections 3.1 to 3.3, for 1, 2, 4, 8... pairs of processes,
//! in both modes. Per-pair results are kept, because a mean over pairs hides the straggler (rule
//! 12).

use crate::agreement::{Outcome, attempt};
use crate::bandwidth::size::{Ways, bound_of_pairs};
use crate::bandwidth::stream::{Flow, Stream};
use crate::context::{Context, Mode};
use crate::latency::completion::{self, Request};
use crate::latency::ping_pong::{self, Exchange, Inlining, PingPong, straggler};
use crate::parameters;
use crate::rates::rate;
use crate::sampling::Role;
use crate::test_data::{Checked, checking_pass};
use crate::wiring::{LinkKind, Receives, Setup, wire};
use verbena_fabric::*;
use verbena_measure::result::{PairResult, Parameters};

/// Writes up to this size are inline: the limit of perftest's `ib_rdma_lat`, which the paper's
/// authors parallelized.
const INLINE: u32 = 400;

/// Returns the numbers of pairs: the user's, or powers of two, limited by the number of processes.
fn counts<F: Fabric>(context: &Context<'_, F>) -> Vec<usize> {
    let available = context.pairing().len();
    let wanted = context
        .options
        .pairs
        .clone()
        .unwrap_or_else(|| (0..=10).map(|i| 1 << i).collect());
    let counts: Vec<usize> = wanted
        .into_iter()
        .filter(|&n| n >= 1 && n <= available)
        .collect();
    if counts.is_empty() {
        vec![available.max(1)]
    } else {
        counts
    }
}

fn modes<F: Fabric>(context: &Context<'_, F>) -> Vec<Mode> {
    context
        .options
        .mode
        .map_or_else(|| vec![Mode::Free, Mode::Lockstep], |mode| vec![mode])
}

fn sizes<F: Fabric>(context: &Context<'_, F>) -> Vec<usize> {
    let fine: Vec<usize> = (0..=16).map(|i| 1 << i).collect();
    let chosen = context.choose(&[1, 256, 4096], &fine);
    context.options.sizes.clone().unwrap_or(chosen)
}

pub async fn write_latency<F: Fabric>(context: &Context<'_, F>) -> Result<()> {
    for mode in modes(context) {
        for count in counts(context) {
            for size in sizes(context) {
                let parameters = parameters! {
                    "pairs" => count, "size" => size, "transport" => "rc", "mode" => mode.word(),
                };
                let spec = PingPong {
                    exchange: Exchange::Write,
                    kind: LinkKind::Rc,
                    receives: Receives::Own,
                    size,
                    wait: Wait::Poll,
                    inlining: Inlining::UpTo(INLINE),
                };
                let pairs = &context.pairing()[..count];
                let point = ping_pong::run(context, &parameters, spec, pairs, mode);
                attempt(context, &parameters, point).await?;
            }
        }
    }
    Ok(())
}

pub async fn read_latency<F: Fabric>(context: &Context<'_, F>) -> Result<()> {
    for mode in modes(context) {
        for count in counts(context) {
            for size in sizes(context) {
                let parameters = parameters! {
                    "pairs" => count, "size" => size, "transport" => "rc", "mode" => mode.word(),
                };
                let pairs = &context.pairing()[..count];
                let point = completion::run(context, &parameters, Request::Read, size, pairs, mode);
                attempt(context, &parameters, point).await?;
            }
        }
    }
    Ok(())
}

pub async fn write_bandwidth<F: Fabric>(context: &Context<'_, F>) -> Result<()> {
    for count in counts(context) {
        for size in sizes(context) {
            let parameters = parameters! {
                "pairs" => count, "size" => size, "transport" => "rc", "mode" => "free",
            };
            let pairs = &context.pairing()[..count];
            attempt(
                context,
                &parameters,
                aggregate(context, &parameters, size, pairs),
            )
            .await?;
        }
    }
    Ok(())
}

async fn aggregate<F: Fabric>(
    context: &Context<'_, F>,
    parameters: &Parameters,
    size: usize,
    pairs: &[[usize; 2]],
) -> Outcome<()> {
    let rank = context.rank();
    let mine = pairs.iter().find(|pair| pair.contains(&rank));
    let peers: Vec<usize> = mine
        .map(|pair| pair[usize::from(pair[0] == rank)])
        .into_iter()
        .collect();
    let mut stream = Stream::new(Flow::Write, size);
    if let Some(every) = context.options.signal_every {
        stream.signal_every = every.max(1);
    }
    let wired = wire(context, &peers, Setup::new(LinkKind::Rc, stream.region())).await?;
    let (link, arrival) = (mine.map(|_| 0), stream.arrival);
    checking_pass(
        context,
        &wired,
        link,
        Checked::Write,
        size,
        arrival,
        Placement::Reference,
    )
    .await?;
    let members: Vec<usize> = pairs.iter().map(|pair| pair[0]).collect();
    let role = if members.contains(&rank) {
        Role::Timed
    } else {
        Role::Idle
    };
    let rated = rate(context, &members, role, async |count| {
        stream.run(&wired, &[0], count).await
    })
    .await?;
    let results: Vec<PairResult> = pairs
        .iter()
        .enumerate()
        .filter_map(|(k, pair)| {
            let value = rated.by_rank[pair[0]]? * size as f64;
            Some(PairResult {
                pair: k,
                ranks: *pair,
                value,
                min: value,
                max: value,
            })
        })
        .collect();
    let metrics = rated.metrics(size, bound_of_pairs(context, size, Ways::One, pairs.len()));
    let mut warnings = rated.warnings;
    // `straggler` compares times: convert rates.
    let times: Vec<PairResult> = results
        .iter()
        .map(|r| PairResult {
            value: 1.0 / r.value,
            ..r.clone()
        })
        .collect();
    if times.len() > 1 {
        warnings.extend(straggler(&times));
    }
    let mut conduct = rated.conduct;
    conduct.validated = true;
    let pair_results = if results.len() > 1 {
        results
    } else {
        Vec::new()
    };
    context.point(
        parameters,
        metrics,
        pair_results,
        conduct,
        warnings,
        members.len(),
    );
    Ok(())
}
