//! Connection contexts (memfree, section 4.1): latency by the number of queue pairs used in turn.
//! When the contexts exceed the adapter's cache, every operation misses, and the curve steps up.
//! The suite finds the step by a fit, then measures between its neighbours until it is narrow.
//!
//! Control: the same number of queue pairs, of which one is used. If that rises too, the cause is
//! not the cache.

use crate::agreement::{Outcome, attempt};
use crate::context::{Context, Mode, Record, Sweep};
use crate::internals::knee_search::{Purpose, narrow_knee};
use crate::latency::ping_pong::emit;
use crate::parameters;
use crate::sampling::{Role, sample_rounds};
use crate::test_data::{Checked, checking_pass};
use crate::wiring::{LinkKind, Setup, Wired, wire};
use verbena_fabric::*;
use verbena_measure::result::{Finding, Parameters};
use verbena_measure::stats::interval::Interval;
use verbena_measure::stats::knee;

/// Payload in bytes.
const SIZE: usize = 8;

pub async fn active<F: Fabric>(context: &Context<'_, F>) -> Result<()> {
    let pair = context.pairing()[0];
    let mut curve = Vec::new();
    for number in numbers(context) {
        let value = measure(context, [number; 2], pair, "active", Purpose::Curve).await?;
        if let Some(value) = value {
            curve.push((number as f64, value));
        }
    }
    let most = curve
        .iter()
        .map(|point| point.0 as usize)
        .max()
        .unwrap_or(1);
    measure(context, [most, 1], pair, "created", Purpose::Curve).await?;
    let between = async |middle: usize| {
        let numbers = [middle; 2];
        measure(context, numbers, pair, "active", Purpose::Search).await
    };
    let knee = narrow_knee(curve, between).await?;
    report(context, knee, "context-knee", "queue pairs");
    Ok(())
}

fn numbers<F: Fabric>(context: &Context<'_, F>) -> Vec<usize> {
    let highest = match context.budget.sweep {
        Sweep::Coarse => 8,
        Sweep::Fine => 12,
    };
    let limit = context.fabric.capabilities().max_pairs as usize;
    (0..=highest)
        .map(|i| 1 << i)
        .filter(|&number| number < limit)
        .collect()
}

async fn measure<F: Fabric>(
    context: &Context<'_, F>,
    [created, used]: [usize; 2],
    pair: [usize; 2],
    series: &str,
    purpose: Purpose,
) -> Result<Option<f64>> {
    let parameters = parameters! {
        "queue-pairs" => created, "used" => used, "size" => SIZE, "transport" => "rc",
        "series" => series,
    };
    let point = point(context, &parameters, [created, used], pair, purpose);
    attempt(context, &parameters, point).await
}

async fn point<F: Fabric>(
    context: &Context<'_, F>,
    parameters: &Parameters,
    [created, used]: [usize; 2],
    pair: [usize; 2],
    purpose: Purpose,
) -> Outcome<f64> {
    let rank = context.rank();
    let peers = match pair.iter().position(|&member| member == rank) {
        Some(side) => vec![pair[1 - side]; created],
        None => Vec::new(),
    };
    let mut setup = Setup::new(LinkKind::Rc, 4096);
    setup.depth = 4;
    let wired = wire(context, &peers, setup).await?;
    let link = (!peers.is_empty()).then_some(created - 1);
    checking_pass(
        context,
        &wired,
        link,
        Checked::Write,
        SIZE,
        64,
        Placement::Reference,
    )
    .await?;
    let role = if rank == pair[0] {
        Role::Timed
    } else {
        Role::Idle
    };
    let mut sampled = sample_rounds(
        context,
        &[pair[0]],
        role,
        Mode::Free,
        used as u64,
        async |i| one_write(&wired, (i % used as u64) as usize).await,
    )
    .await?;
    sampled.conduct.search = purpose == Purpose::Search;
    let median = sampled.together().map_or(f64::NAN, |times| times.median());
    emit(
        context,
        parameters,
        sampled,
        &[pair],
        "completion-latency",
        None,
        1,
    );
    Ok(median)
}

#[inline]
async fn one_write<F: Fabric>(wired: &Wired<F>, link: usize) -> Result<()> {
    let to = wired.remotes[wired.links[link].peer].at(64);
    let operation = Operation::Write { to };
    wired
        .post(
            link,
            operation,
            (0, SIZE),
            Signal::Signalled,
            Placement::Reference,
        )
        .await?;
    wired.sends.done(Wait::Poll).await
}

/// Emits the finding on a knee, even if there is none.
pub fn report<F: Fabric>(
    context: &Context<'_, F>,
    knee: Option<knee::Knee>,
    name: &str,
    of_what: &str,
) {
    let text = match &knee {
        None => format!("no knee over the {of_what} measured"),
        Some(knee) => format!(
            "{:.0} {of_what} fit; beyond, {} instead of {}",
            knee.at,
            verbena_measure::unit::time(knee.after),
            verbena_measure::unit::time(knee.before)
        ),
    };
    context.emit(Record::Finding(Finding {
        benchmark: context.benchmark.to_owned(),
        launch: context.launch,
        name: name.to_owned(),
        parameters: Parameters::new(),
        value: knee.map(|knee| knee.at),
        unit: String::new(),
        range: knee.map(|knee| Interval {
            low: knee.low,
            high: knee.high,
        }),
        text,
    }));
}
