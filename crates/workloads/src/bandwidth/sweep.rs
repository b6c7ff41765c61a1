//! Message rate of small writes by parameters that a program can choose: messages in flight,
//! messages per doorbell, queue pairs.

use crate::agreement::{Outcome, attempt};
use crate::bandwidth::size::{Ways, point};
use crate::bandwidth::stream::{Flow, LONGEST_LIST, Stream};
use crate::context::Context;
use crate::parameters;
use crate::rates::rate;
use crate::sampling::Role;
use crate::test_data::{Checked, checking_pass};
use crate::wiring::{LinkKind, Setup, wire};
use verbena_fabric::*;
use verbena_measure::result::Parameters;

/// Default payload in bytes.
const SIZE: usize = 64;

fn size<F: Fabric>(context: &Context<'_, F>) -> usize {
    context
        .options
        .sizes
        .as_ref()
        .and_then(|sizes| sizes.first().copied())
        .unwrap_or(SIZE)
        .max(1)
}

pub async fn window<F: Fabric>(context: &Context<'_, F>) -> Result<()> {
    let pair = context.pairing()[0];
    let size = size(context);
    for window in context.choose(&[1u64, 8, 64], &[1, 2, 4, 8, 16, 32, 64, 128, 256]) {
        let parameters =
            parameters! { "size" => size, "transport" => "rc", "window" => window as usize };
        let stream = Stream {
            window,
            ..Stream::new(Flow::Write, size)
        };
        let point = point(context, &parameters, stream, Ways::One, pair);
        attempt(context, &parameters, point).await?;
    }
    Ok(())
}

pub async fn list<F: Fabric>(context: &Context<'_, F>) -> Result<()> {
    let pair = context.pairing()[0];
    let size = size(context);
    for list in context.choose(
        &[1usize, 8, LONGEST_LIST],
        &[1, 2, 4, 8, 16, 32, LONGEST_LIST],
    ) {
        let parameters = parameters! { "size" => size, "transport" => "rc", "list" => list };
        let stream = Stream {
            list,
            window: 128,
            ..Stream::new(Flow::Write, size)
        };
        let point = point(context, &parameters, stream, Ways::One, pair);
        attempt(context, &parameters, point).await?;
    }
    Ok(())
}

pub async fn queue_pairs<F: Fabric>(context: &Context<'_, F>) -> Result<()> {
    let pair = context.pairing()[0];
    let size = size(context);
    for number in context.choose(&[1usize, 4, 16], &[1, 2, 4, 8, 16, 32, 64, 128]) {
        let parameters =
            parameters! { "size" => size, "transport" => "rc", "queue-pairs" => number };
        attempt(
            context,
            &parameters,
            several(context, &parameters, size, number, pair),
        )
        .await?;
    }
    Ok(())
}

async fn several<F: Fabric>(
    context: &Context<'_, F>,
    parameters: &Parameters,
    size: usize,
    number: usize,
    pair: [usize; 2],
) -> Outcome<()> {
    let rank = context.rank();
    let stream = Stream {
        window: 128,
        ..Stream::new(Flow::Write, size)
    };
    let peers = match pair.iter().position(|&member| member == rank) {
        Some(side) => vec![pair[1 - side]; number],
        None => Vec::new(),
    };
    let wired = wire(context, &peers, Setup::new(LinkKind::Rc, stream.region())).await?;
    let link = (!peers.is_empty()).then_some(number - 1);
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
    let links: Vec<usize> = (0..number).collect();
    let role = if rank == pair[0] {
        Role::Timed
    } else {
        Role::Idle
    };
    let rated = rate(context, &[pair[0]], role, async |count| {
        stream.run(&wired, &links, count).await
    })
    .await?;
    let metrics = rated.metrics(size, None);
    let mut conduct = rated.conduct;
    conduct.validated = true;
    context.point(parameters, metrics, Vec::new(), conduct, rated.warnings, 1);
    Ok(())
}
