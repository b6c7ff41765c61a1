//! Streams in patterns: fan-in (all to one), fan-out (one to all), ring (each to the next),
//! bisection (each half to the other). Measures the aggregate rate over the union interval, and
//! each sender's rate.

use crate::agreement::{Outcome, attempt};
use crate::bandwidth::stream::{Flow, Stream};
use crate::context::Context;
use crate::parameters;
use crate::rates::rate;
use crate::sampling::Role;
use crate::test_data::{Checked, checking_pass};
use crate::wiring::{LinkKind, Setup, wire};
use verbena_fabric::*;
use verbena_measure::result::{PairResult, Parameters};

/// (sender, receiver).
type Edges = Vec<(usize, usize)>;

pub async fn fan_in<F: Fabric>(context: &Context<'_, F>) -> Result<()> {
    by_size(context, (1..context.size()).map(|rank| (rank, 0)).collect()).await
}

pub async fn fan_out<F: Fabric>(context: &Context<'_, F>) -> Result<()> {
    by_size(context, (1..context.size()).map(|rank| (0, rank)).collect()).await
}

pub async fn ring<F: Fabric>(context: &Context<'_, F>) -> Result<()> {
    let size = context.size();
    by_size(
        context,
        (0..size).map(|rank| (rank, (rank + 1) % size)).collect(),
    )
    .await
}

pub async fn bisection<F: Fabric>(context: &Context<'_, F>) -> Result<()> {
    let half = context.size() / 2;
    let there = (0..half).map(|rank| (rank, rank + half));
    let back = (0..half).map(|rank| (rank + half, rank));
    by_size(context, there.chain(back).collect()).await
}

async fn by_size<F: Fabric>(context: &Context<'_, F>, edges: Edges) -> Result<()> {
    let fine: Vec<usize> = (3..=20).step_by(2).map(|i| 1 << i).collect();
    let chosen = context.choose(&[64, 16_384], &fine);
    for size in context.options.sizes.clone().unwrap_or(chosen) {
        let parameters = parameters! {
            "size" => size, "transport" => "rc", "processes" => context.size(),
        };
        attempt(
            context,
            &parameters,
            point(context, &parameters, size, &edges),
        )
        .await?;
    }
    Ok(())
}

async fn point<F: Fabric>(
    context: &Context<'_, F>,
    parameters: &Parameters,
    size: usize,
    edges: &Edges,
) -> Outcome<()> {
    let rank = context.rank();
    let outgoing: Vec<usize> = edges
        .iter()
        .filter(|(from, _)| *from == rank)
        .map(|(_, to)| *to)
        .collect();
    let incoming = edges
        .iter()
        .filter(|(_, to)| *to == rank)
        .map(|(from, _)| *from);
    // Outgoing links come first; the k-th link to a process matches its k-th link to this one, in
    // either role.
    let mut peers = outgoing.clone();
    peers.extend(incoming);
    peers.sort_unstable();
    peers.dedup();
    let links: Vec<usize> = outgoing
        .iter()
        .map(|to| {
            peers
                .iter()
                .position(|peer| peer == to)
                .expect("outgoing are peers")
        })
        .collect();
    let stream = Stream {
        window: 64.max(links.len() as u64),
        ..Stream::new(Flow::Write, size)
    };
    let wired = wire(context, &peers, Setup::new(LinkKind::Rc, stream.region())).await?;
    // The checking pass works in pairs: neighbours of even and odd rank that share a link, if any.
    let partner = rank ^ 1;
    let link = peers.iter().position(|&peer| peer == partner);
    let arrival = stream.arrival;
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
    let mut members: Vec<usize> = edges.iter().map(|(from, _)| *from).collect();
    members.sort_unstable();
    members.dedup();
    let role = if links.is_empty() {
        Role::Idle
    } else {
        Role::Timed
    };
    let mut rated = rate(context, &members, role, async |count| {
        stream.run(&wired, &links, count).await
    })
    .await?;
    // The total into one receiver is a rate also where some senders end early: the others take
    // their share.
    if edges.windows(2).all(|two| two[0].1 == two[1].1) {
        rated.together = rated.received.take();
    }
    let bytes = size as f64;
    let senders = members.iter().enumerate().filter_map(|(k, &from)| {
        let value = rated.by_rank[from]? * bytes;
        let to = edges
            .iter()
            .find(|edge| edge.0 == from)
            .map_or(from, |edge| edge.1);
        Some(PairResult {
            pair: k,
            ranks: [from, to],
            value,
            min: value,
            max: value,
        })
    });
    let metrics = rated.metrics(size, None);
    let senders: Vec<PairResult> = senders.collect();
    let mut conduct = rated.conduct;
    conduct.validated = true;
    let active = members.len();
    context.point(
        parameters,
        metrics,
        senders,
        conduct,
        rated.warnings,
        active,
    );
    Ok(())
}
