//! Address translation (memfree, section 4.3): buffer reuse from 100 to 0 %, footprint in pages
//! used in turn, and one large region against many small ones of the same total.

use crate::agreement::{Outcome, attempt};
use crate::bandwidth::size::{Ways, bound};
use crate::context::{Context, Mode, Sweep};
use crate::internals::contexts::report;
use crate::internals::knee_search::{Purpose, narrow_knee};
use crate::latency::ping_pong::emit;
use crate::parameters;
use crate::rates::rate;
use crate::sampling::{Role, sample_rounds};
use crate::test_data::{Checked, checking_pass};
use crate::wiring::{LinkKind, Setup, wire};
use verbena_fabric::*;
use verbena_measure::random::Random;
use verbena_measure::result::Parameters;

const PAGE: usize = 4096;
/// Message size of the reuse test in bytes, as in the paper.
const REUSE_SIZE: usize = 65_536;
/// Number of buffers of the reuse test.
const REUSE_BUFFERS: usize = 128;
/// Messages in flight of the reuse test.
const WINDOW: u64 = 16;
/// Payload of the footprint test in bytes.
const SIZE: usize = 8;

pub async fn reuse<F: Fabric>(context: &Context<'_, F>) -> Result<()> {
    let pair = context.pairing()[0];
    for percent in [100usize, 75, 50, 25, 0] {
        let parameters = parameters! {
            "reuse-percent" => percent, "size" => REUSE_SIZE, "transport" => "rc",
        };
        attempt(
            context,
            &parameters,
            reuse_point(context, &parameters, percent, pair),
        )
        .await?;
    }
    Ok(())
}

async fn reuse_point<F: Fabric>(
    context: &Context<'_, F>,
    parameters: &Parameters,
    percent: usize,
    pair: [usize; 2],
) -> Outcome<()> {
    let rank = context.rank();
    let peers: Vec<usize> = match pair.iter().position(|&member| member == rank) {
        Some(side) => vec![pair[1 - side]],
        None => Vec::new(),
    };
    let region = REUSE_SIZE * (REUSE_BUFFERS + 1);
    let wired = wire(context, &peers, Setup::new(LinkKind::Rc, region)).await?;
    let link = (!peers.is_empty()).then_some(0);
    let (size, placement) = (REUSE_SIZE, Placement::Reference);
    checking_pass(
        context,
        &wired,
        link,
        Checked::Write,
        size,
        REUSE_SIZE,
        placement,
    )
    .await?;
    // The seed determines in advance which messages reuse the last buffer; the others use the next.
    let mut random = Random::new(context.options.seed ^ percent as u64);
    let mut buffer = 0;
    let order: Vec<usize> = (0..1024)
        .map(|_| {
            if random.below(100) >= percent {
                buffer = (buffer + 1) % REUSE_BUFFERS;
            }
            buffer
        })
        .collect();
    let role = if rank == pair[0] {
        Role::Timed
    } else {
        Role::Idle
    };
    let mut turn = 0usize;
    let rated = rate(context, &[pair[0]], role, async |count| {
        let (mut posted, mut completed) = (0, 0);
        let mut into = [Completion::default(); 16];
        while completed < count {
            while posted < count && posted - completed < WINDOW {
                let at = order[turn % order.len()] * REUSE_SIZE;
                turn += 1;
                let to = wired.remotes[pair[1]].at(at);
                let operation = Operation::Write { to };
                wired
                    .post(0, operation, (at, size), Signal::Signalled, placement)
                    .await?;
                posted += 1;
            }
            let got = wired.sends.wait(&mut into, Wait::Poll).await?;
            for completion in &into[..got] {
                completion.check()?;
            }
            completed += got as u64;
        }
        Ok(())
    })
    .await?;
    let metrics = rated.metrics(REUSE_SIZE, bound(context, REUSE_SIZE, Ways::One));
    let mut conduct = rated.conduct;
    conduct.validated = true;
    context.point(parameters, metrics, Vec::new(), conduct, rated.warnings, 1);
    Ok(())
}

pub async fn footprint<F: Fabric>(context: &Context<'_, F>) -> Result<()> {
    let pair = context.pairing()[0];
    let highest = if context.budget.sweep == Sweep::Coarse {
        11
    } else {
        14
    };
    let mut curve = Vec::new();
    for pages in (0..=highest).map(|i| 1usize << i) {
        if let Some(value) = pages_point(context, pages, pair, Purpose::Curve).await? {
            curve.push((pages as f64, value));
        }
    }
    let between = async |middle| pages_point(context, middle, pair, Purpose::Search).await;
    let knee = narrow_knee(curve, between).await?;
    report(context, knee, "translation-knee", "pages");
    Ok(())
}

async fn pages_point<F: Fabric>(
    context: &Context<'_, F>,
    pages: usize,
    pair: [usize; 2],
    purpose: Purpose,
) -> Result<Option<f64>> {
    let parameters = parameters! { "pages" => pages, "size" => SIZE, "transport" => "rc" };
    let point = async {
        let rank = context.rank();
        let peers: Vec<usize> = match pair.iter().position(|&member| member == rank) {
            Some(side) => vec![pair[1 - side]],
            None => Vec::new(),
        };
        let wired = wire(context, &peers, Setup::new(LinkKind::Rc, pages * PAGE)).await?;
        let (link, placement) = ((!peers.is_empty()).then_some(0), Placement::Reference);
        checking_pass(context, &wired, link, Checked::Write, SIZE, 64, placement).await?;
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
            pages as u64,
            async |i| {
                let at = (i % pages as u64) as usize * PAGE;
                let operation = Operation::Write {
                    to: wired.remotes[pair[1]].at(at),
                };
                wired
                    .post(0, operation, (at, SIZE), Signal::Signalled, placement)
                    .await?;
                wired.sends.done(Wait::Poll).await
            },
        )
        .await?;
        sampled.conduct.search = purpose == Purpose::Search;
        let median = sampled.together().map_or(f64::NAN, |times| times.median());
        emit(
            context,
            &parameters,
            sampled,
            &[pair],
            "completion-latency",
            None,
            1,
        );
        Ok(median)
    };
    attempt(context, &parameters, point).await
}

pub async fn regions<F: Fabric>(context: &Context<'_, F>) -> Result<()> {
    let pair = context.pairing()[0];
    let total = 256usize;
    for number in context.choose(&[1usize, 16, 256], &[1, 2, 4, 8, 16, 32, 64, 128, 256]) {
        let parameters = parameters! {
            "regions" => number, "pages" => total, "size" => SIZE, "transport" => "rc",
        };
        let point = regions_point(context, &parameters, number, total, pair);
        attempt(context, &parameters, point).await?;
    }
    Ok(())
}

async fn regions_point<F: Fabric>(
    context: &Context<'_, F>,
    parameters: &Parameters,
    number: usize,
    total: usize,
    pair: [usize; 2],
) -> Outcome<()> {
    let rank = context.rank();
    let peers: Vec<usize> = match pair.iter().position(|&member| member == rank) {
        Some(side) => vec![pair[1 - side]],
        None => Vec::new(),
    };
    let wired = wire(context, &peers, Setup::new(LinkKind::Rc, total * PAGE)).await?;
    let (link, placement) = ((!peers.is_empty()).then_some(0), Placement::Reference);
    checking_pass(context, &wired, link, Checked::Write, SIZE, 64, placement).await?;
    let mut regions = Vec::new();
    if rank == pair[0] {
        for _ in 0..number {
            regions.push(
                context
                    .fabric
                    .region(total / number * PAGE, Access::LOCAL)
                    .await?,
            );
        }
    }
    let role = if rank == pair[0] {
        Role::Timed
    } else {
        Role::Idle
    };
    let sampled = sample_rounds(
        context,
        &[pair[0]],
        role,
        Mode::Free,
        total as u64,
        async |i| {
            let page = (i % total as u64) as usize;
            let each = total / number;
            let slices = [Slice::new(&regions[page / each], page % each * PAGE, SIZE)];
            let operation = Operation::Write {
                to: wired.remotes[pair[1]].at(page * PAGE),
            };
            wired.links[0]
                .pair
                .post_send(&[WorkRequest::new(0, operation, &slices)])
                .await?;
            wired.sends.done(Wait::Poll).await
        },
    )
    .await?;
    emit(
        context,
        parameters,
        sampled,
        &[pair],
        "completion-latency",
        None,
        1,
    );
    Ok(())
}
