//! Bandwidth by message size: one way (writes, reads, sends) and both ways, with the peak and N½ found by the suite.

use crate::agreement::{Outcome, attempt};
use crate::bandwidth::stream::{Flow, Stream};
use crate::context::{Context, Record};
use crate::parameters;
use crate::pattern::{Checked, checking_pass};
use crate::rates::rate;
use crate::sampling::Role;
use crate::wiring::{Kind, Setup, wire};
use verbena_fabric::*;
use verbena_measure::bound::{Bound, link_payload};
use verbena_measure::result::{Finding, Parameters};
use verbena_measure::stats::half_power::half_power;

/// In which directions messages flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ways {
    One,
    Both,
}

/// `bandwidth.write`.
pub async fn write<F: Fabric>(context: &Context<'_, F>) -> Result<()> {
    by_size(context, Flow::Write, Ways::One).await
}

/// `bandwidth.write-both`.
pub async fn write_both<F: Fabric>(context: &Context<'_, F>) -> Result<()> {
    by_size(context, Flow::Write, Ways::Both).await
}

/// `bandwidth.read`.
pub async fn read<F: Fabric>(context: &Context<'_, F>) -> Result<()> {
    by_size(context, Flow::Read, Ways::One).await
}

/// `bandwidth.send`.
pub async fn send<F: Fabric>(context: &Context<'_, F>) -> Result<()> {
    by_size(context, Flow::Send, Ways::One).await
}

async fn by_size<F: Fabric>(context: &Context<'_, F>, flow: Flow, ways: Ways) -> Result<()> {
    let pair = context.pairing()[0];
    let mut curve = Vec::new();
    for size in context.sizes(1 << 22) {
        let parameters = parameters! {
            "size" => size, "transport" => "rc",
            "ways" => if ways == Ways::Both { "both" } else { "one" },
        };
        let point = point(context, &parameters, Stream::new(flow, size), ways, pair);
        if let Some(bandwidth) = attempt(context, &parameters, point).await? {
            curve.push((size as f64, bandwidth));
        }
    }
    findings(context, &curve);
    Ok(())
}

/// Measures a stream between the two processes of `pair`, emits bandwidth and message rate, gives the bandwidth.
pub async fn point<F: Fabric>(
    context: &Context<'_, F>,
    parameters: &Parameters,
    stream: Stream,
    ways: Ways,
    pair: [usize; 2],
) -> Outcome<f64> {
    let rank = context.rank();
    let peers: Vec<usize> = pair
        .contains(&rank)
        .then(|| pair[usize::from(pair[0] == rank)])
        .into_iter()
        .collect();
    let mut setup = Setup::new(Kind::Rc, stream.region());
    // Far more receives than messages in flight, as perftest has them, so that the receiver is always ready.
    let factor = if stream.flow == Flow::Send { 8 } else { 2 };
    let limit = context.fabric.capabilities().max_depth;
    setup.depth = (factor * stream.window.max(64) as u32).min(limit);
    if stream.placement == Placement::Inline {
        setup.inline = stream.size as u32;
    }
    let wired = wire(context, &peers, setup).await?;
    let link = (!peers.is_empty()).then_some(0);
    let checked = match stream.flow {
        Flow::Write => Checked::Write,
        Flow::Read => Checked::Read,
        Flow::Send => Checked::Send,
    };
    let (size, arrival) = (stream.size, stream.arrival);
    checking_pass(
        context,
        &wired,
        link,
        checked,
        size,
        arrival,
        Placement::Reference,
    )
    .await?;
    let sender = rank == pair[0] || ways == Ways::Both && rank == pair[1];
    let drains = stream.flow == Flow::Send && rank == pair[1];
    if drains {
        wired
            .post_receives(0, (arrival, size), setup.depth as usize - 16)
            .await?;
    }
    let role = match (sender, drains) {
        (true, _) => Role::Timed,
        (_, true) => Role::Answering,
        _ => Role::Idle,
    };
    let members: Vec<usize> = match ways {
        Ways::One if stream.flow != Flow::Send => vec![pair[0]],
        _ => {
            let mut both = pair.to_vec();
            both.sort_unstable();
            both
        }
    };
    let rated = rate(context, &members, role, async |count| match role {
        Role::Answering => stream.drain(&wired, 0, count).await,
        _ => stream.run(&wired, &[0], count).await,
    })
    .await?;
    let metrics = rated.metrics(size, bound(context, size, ways));
    let headline = metrics[0].value;
    let mut conduct = rated.conduct;
    conduct.validated = true;
    let active = if ways == Ways::Both { 2 } else { members.len() };
    context.point(
        parameters,
        metrics,
        Vec::new(),
        conduct,
        rated.warnings,
        active,
    );
    Ok(headline)
}

/// What limits a stream of such messages.
pub fn bound<F: Fabric>(context: &Context<'_, F>, size: usize, ways: Ways) -> Option<Bound> {
    let factor = if ways == Ways::Both { 2.0 } else { 1.0 };
    if let Some(link) = context.fabric.capabilities().link {
        let rate = link.data_bits_per_second;
        let mut bound = link_payload(rate, link.mtu, link.packet_overhead, size as u64);
        bound.value *= factor;
        return Some(bound);
    }
    context.options.copy_bandwidth(size).map(|value| Bound {
        value: value * factor,
        reason: "memory copies of this size by one core of this host".to_owned(),
    })
}

fn findings<F: Fabric>(context: &Context<'_, F>, curve: &[(f64, f64)]) {
    let Some(found) = half_power(curve) else {
        return;
    };
    let finding = |name: &str, value: f64, unit: &str, text: String| {
        Record::Finding(Finding {
            benchmark: context.benchmark.to_owned(),
            launch: context.launch,
            name: name.to_owned(),
            parameters: parameters! { "transport" => "rc" },
            value: Some(value),
            unit: unit.to_owned(),
            range: None,
            text,
        })
    };
    use verbena_measure::unit::{rate, size};
    let text = format!("peak of {} at {}", rate(found.peak), size(found.peak_size));
    context.emit(finding("peak-bandwidth", found.peak, "bytes/s", text));
    let text = format!("half of the peak is reached at {}", size(found.half_size));
    context.emit(finding("half-power-size", found.half_size, "bytes", text));
}
