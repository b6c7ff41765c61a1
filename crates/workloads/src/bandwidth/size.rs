//! Bandwidth by message size, unidirectional (writes, reads, sends) and bidirectional, with the
//! peak and N½ found by the suite.
//!
//! The headline is the bandwidth of programs that process their data: buffers used in turn, larger
//! than the caches, and read on arrival by the process that is notified (for plain writes none is).
//! Beside it is the bandwidth over one cached buffer that is not read, as in other tools.

use crate::agreement::{Outcome, agree, attempt};
use crate::bandwidth::receiver::Side;
use crate::bandwidth::stream::{Flow, Stream};
use crate::context::{Context, Record};
use crate::parameters;
use crate::rates::{Rated, rate};
use crate::sampling::Role;
use crate::test_data::{Checked, checking_pass};
use crate::wiring::{LinkKind, Setup, Wired, wire};
use verbena_fabric::*;
use verbena_measure::bound::{Bound, link_payload};
use verbena_measure::result::{Finding, Metric, Parameters};
use verbena_measure::stats::half_power::{HalfSize, half_power};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ways {
    One,
    Both,
}

impl Ways {
    fn number(self) -> f64 {
        match self {
            Ways::One => 1.0,
            Ways::Both => 2.0,
        }
    }
}

pub async fn write<F: Fabric>(context: &Context<'_, F>) -> Result<()> {
    by_size(context, Flow::Write, Ways::One).await
}

pub async fn write_immediate<F: Fabric>(context: &Context<'_, F>) -> Result<()> {
    by_size(context, Flow::WriteImmediate, Ways::One).await
}

pub async fn write_both<F: Fabric>(context: &Context<'_, F>) -> Result<()> {
    by_size(context, Flow::Write, Ways::Both).await
}

pub async fn read<F: Fabric>(context: &Context<'_, F>) -> Result<()> {
    by_size(context, Flow::Read, Ways::One).await
}

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
        let stream = Stream::as_used(flow, size);
        let point = beside_cached(context, &parameters, stream, ways, pair);
        if let Some(bandwidth) = attempt(context, &parameters, point).await? {
            curve.push((size as f64, bandwidth));
        }
    }
    findings(context, &curve);
    Ok(())
}

/// Measures a stream between the two processes of `pair` and emits bandwidth and message rate.
pub async fn point<F: Fabric>(
    context: &Context<'_, F>,
    parameters: &Parameters,
    stream: Stream,
    ways: Ways,
    pair: [usize; 2],
) -> Outcome<()> {
    let between = Between { pair, ways };
    let rated = between.measure(context, stream).await?;
    let metrics = rated.metrics(stream.size, bound(context, stream.size, ways));
    between.emit(context, parameters, metrics, rated);
    Ok(())
}

/// Like [`point`], with the bandwidth over one cached buffer beside it; returns the bandwidth.
async fn beside_cached<F: Fabric>(
    context: &Context<'_, F>,
    parameters: &Parameters,
    stream: Stream,
    ways: Ways,
    pair: [usize; 2],
) -> Outcome<f64> {
    let size = stream.size;
    let between = Between { pair, ways };
    let mut used = between.measure(context, stream).await?;
    let one = Stream::new(stream.flow, size);
    let cached = between.measure(context, one).await?;
    let mut metrics = used.metrics(size, bound_in_turn(context, size, ways));
    let cached = cached.metrics(size, bound(context, size, ways));
    metrics.extend(cached.into_iter().filter_map(|metric| {
        (metric.name == "bandwidth").then(|| Metric {
            name: "cached-bandwidth".to_owned(),
            ..metric
        })
    }));
    used.conduct.footprint = Some(stream.footprint() as u64);
    let reader = match stream.flow {
        Flow::Write => "nobody",
        Flow::Read => "initiator",
        Flow::Send | Flow::WriteImmediate => "receiver",
    };
    used.conduct.reader = Some(reader.to_owned());
    let headline = metrics[0].value;
    between.emit(context, parameters, metrics, used);
    Ok(headline)
}

#[derive(Clone, Copy)]
struct Between {
    pair: [usize; 2],
    ways: Ways,
}

impl Between {
    async fn measure<F: Fabric>(self, context: &Context<'_, F>, stream: Stream) -> Outcome<Rated> {
        let wired = self.wire(context, stream).await?;
        self.rate(context, &wired, stream).await
    }

    /// Connects queue pairs for a stream and runs the checking pass.
    async fn wire<F: Fabric>(self, context: &Context<'_, F>, stream: Stream) -> Outcome<Wired<F>> {
        let peers: Vec<usize> = match self.pair.iter().position(|&m| m == context.rank()) {
            Some(side) => vec![self.pair[1 - side]],
            None => Vec::new(),
        };
        let mut setup = Setup::new(LinkKind::Rc, stream.region());
        // Far more receives than messages in flight, as in perftest, so that the receiver is always
        // ready.
        let factor = if stream.flow.is_received() { 8 } else { 2 };
        let limit = context.fabric.capabilities().max_depth;
        setup.depth = (factor * stream.window.max(64) as u32).min(limit);
        if stream.placement == Placement::Inline {
            setup.inline = stream.size as u32;
        }
        let wired = wire(context, &peers, setup).await?;
        let checked = match stream.flow {
            Flow::Write => Checked::Write,
            Flow::WriteImmediate => Checked::WriteImmediate,
            Flow::Read => Checked::Read,
            Flow::Send => Checked::Send,
        };
        checking_pass(
            context,
            &wired,
            (!peers.is_empty()).then_some(0),
            checked,
            stream.size,
            stream.arrival,
            Placement::Reference,
        )
        .await?;
        Ok(wired)
    }

    async fn rate<F: Fabric>(
        self,
        context: &Context<'_, F>,
        wired: &Wired<F>,
        stream: Stream,
    ) -> Outcome<Rated> {
        let rank = context.rank();
        let sends = rank == self.pair[0] || self.ways == Ways::Both && rank == self.pair[1];
        let received = stream.flow.is_received();
        let role = match sends {
            true => Role::Timed,
            false if received && rank == self.pair[1] => Role::Answering,
            false => Role::Idle,
        };
        if received {
            match role {
                Role::Timed => stream.prepare(wired, 0, Side::Sender).await?,
                Role::Answering => stream.prepare(wired, 0, Side::Receiver).await?,
                Role::Idle => {}
            }
            // Receives must be posted before a process sends.
            agree(context, &[]).await?;
        }
        let members: Vec<usize> = match self.ways {
            Ways::One if !received => vec![self.pair[0]],
            _ => {
                let mut both = self.pair.to_vec();
                both.sort_unstable();
                both
            }
        };
        rate(context, &members, role, async |count| match role {
            Role::Answering => stream.drain(wired, 0, count).await,
            _ => stream.run(wired, &[0], count).await,
        })
        .await
    }

    fn emit<F: Fabric>(
        self,
        context: &Context<'_, F>,
        parameters: &Parameters,
        metrics: Vec<Metric>,
        rated: Rated,
    ) {
        let mut conduct = rated.conduct;
        conduct.validated = true;
        let active = match self.ways {
            Ways::Both => 2,
            Ways::One => 1 + usize::from(conduct.reader.as_deref() == Some("receiver")),
        };
        context.point(
            parameters,
            metrics,
            Vec::new(),
            conduct,
            rated.warnings,
            active,
        );
    }
}

/// Returns the bound of a stream of such messages over one buffer.
pub fn bound<F: Fabric>(context: &Context<'_, F>, size: usize, ways: Ways) -> Option<Bound> {
    bound_of_pairs(context, size, ways, 1)
}

/// Returns the bound of several concurrent pairs.
pub fn bound_of_pairs<F: Fabric>(
    context: &Context<'_, F>,
    size: usize,
    ways: Ways,
    pairs: usize,
) -> Option<Bound> {
    link_bound(context, size, ways, pairs).or_else(|| {
        let reason = "memory copies of this size by one core of this host";
        let copies = context.options.copy_bandwidth(size)?;
        of_copies(context, copies, ways, reason)
    })
}

/// Returns the bound over buffers used in turn.
fn bound_in_turn<F: Fabric>(context: &Context<'_, F>, size: usize, ways: Ways) -> Option<Bound> {
    link_bound(context, size, ways, 1).or_else(|| {
        let reason = "memory copies over buffers in turn by one core of this host";
        of_copies(context, context.options.copies_in_turn?, ways, reason)
    })
}

fn link_bound<F: Fabric>(
    context: &Context<'_, F>,
    size: usize,
    ways: Ways,
    pairs: usize,
) -> Option<Bound> {
    let capabilities = context.fabric.capabilities();
    let link = capabilities.link?;
    let (ports, adapters) = (
        capabilities.rails.ports_of(pairs),
        capabilities.rails.adapters_of(pairs),
    );
    let rate = link.data_bits_per_second;
    let mut bound = link_payload(rate, link.mtu, link.packet_overhead, size as u64);
    bound.value *= ports as f64;
    if ports > 1 {
        bound.reason = format!("{ports} ports: {}", bound.reason);
    }
    bound.value *= ways.number();
    // The adapter cannot send faster than it reads and writes memory over the bus.
    if let Some(mut bus) = link.bus.map(|bus| bus.bound(ways.number())) {
        bus.value *= adapters as f64;
        if bus.value < bound.value {
            bound = bus;
        }
    }
    Some(bound)
}

fn of_copies<F: Fabric>(
    context: &Context<'_, F>,
    bandwidth: f64,
    ways: Ways,
    reason: &str,
) -> Option<Bound> {
    context.is_through_memory().then(|| Bound {
        value: bandwidth * ways.number(),
        reason: reason.to_owned(),
    })
}

fn findings<F: Fabric>(context: &Context<'_, F>, curve: &[(f64, f64)]) {
    let Some(found) = half_power(curve) else {
        return;
    };
    let finding = |name: &str, value: Option<f64>, unit: &str, text: String| {
        Record::Finding(Finding {
            benchmark: context.benchmark.to_owned(),
            launch: context.launch,
            name: name.to_owned(),
            parameters: parameters! { "transport" => "rc" },
            value,
            unit: unit.to_owned(),
            range: None,
            text,
        })
    };
    use verbena_measure::unit::{rate, size};
    let text = format!("peak of {} at {}", rate(found.peak), size(found.peak_size));
    context.emit(finding("peak-bandwidth", Some(found.peak), "bytes/s", text));
    let (value, text) = match found.half {
        // One size has no neighbor to interpolate from.
        HalfSize::UpTo(_) if curve.len() < 2 => return,
        HalfSize::UpTo(smallest) => (None, format!("at {} or below", size(smallest))),
        HalfSize::At(half) => (Some(half), format!("at {}", size(half))),
        HalfSize::Between(below, above) => {
            let text = format!("between {} and {}", size(below), size(above));
            (None, text)
        }
    };
    let text = format!("half of the peak is reached {text}");
    context.emit(finding("half-power-size", value, "bytes", text));
}
