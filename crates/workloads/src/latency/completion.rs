//! Time from posting to completion of reads, atomics and writes, measured by the initiator. A round
//! trip (rule 14); the target process is passive (one-sided).

use crate::agreement::{Outcome, agree, attempt};
use crate::context::{Context, Mode};
use crate::latency::buffer_offsets;
use crate::latency::ping_pong::emit;
use crate::parameters;
use crate::sampling::{Role, sample};
use crate::test_data::{Checked, checking_pass};
use crate::wiring::{INLINE_BY_DEFAULT, LinkKind, Setup, wire};
use std::slice;
use verbena_fabric::*;
use verbena_measure::result::Parameters;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Request {
    Write,
    Read,
    FetchAdd,
    CompareSwap,
}

pub async fn read<F: Fabric>(context: &Context<'_, F>) -> Result<()> {
    by_size(context, Request::Read).await
}

pub async fn write<F: Fabric>(context: &Context<'_, F>) -> Result<()> {
    by_size(context, Request::Write).await
}

pub async fn fetch_add<F: Fabric>(context: &Context<'_, F>) -> Result<()> {
    one_word(context, Request::FetchAdd).await
}

pub async fn compare_swap<F: Fabric>(context: &Context<'_, F>) -> Result<()> {
    one_word(context, Request::CompareSwap).await
}

async fn by_size<F: Fabric>(context: &Context<'_, F>, request: Request) -> Result<()> {
    let pairs: Vec<[usize; 2]> = context.pairing().into_iter().take(1).collect();
    for size in context.sizes(1 << 22) {
        let parameters = parameters! { "size" => size, "transport" => "rc" };
        let point = run(context, &parameters, request, size, &pairs, Mode::Free);
        attempt(context, &parameters, point).await?;
    }
    Ok(())
}

async fn one_word<F: Fabric>(context: &Context<'_, F>, request: Request) -> Result<()> {
    let pairs: Vec<[usize; 2]> = context.pairing().into_iter().take(1).collect();
    let parameters = parameters! { "size" => 8usize, "transport" => "rc" };
    let point = run(context, &parameters, request, 8, &pairs, Mode::Free);
    attempt(context, &parameters, point).await?;
    Ok(())
}

/// Runs over all `pairs` at once (connectx_multicore, section 3.2, for reads) and emits the point.
pub async fn run<F: Fabric>(
    context: &Context<'_, F>,
    parameters: &Parameters,
    request: Request,
    size: usize,
    pairs: &[[usize; 2]],
    mode: Mode,
) -> Outcome<()> {
    let atomic = matches!(request, Request::FetchAdd | Request::CompareSwap);
    if atomic && !context.fabric.capabilities().operations.atomics {
        let fabric = context.fabric.capabilities().device.clone();
        return Err(Error::unsupported("an atomic", fabric).into());
    }
    let rank = context.rank();
    let mine = pairs.iter().find(|pair| pair.contains(&rank));
    let peers: Vec<usize> = mine
        .map(|pair| pair[usize::from(pair[0] == rank)])
        .into_iter()
        .collect();
    let arrival = buffer_offsets::arrival(size);
    let setup = Setup::new(LinkKind::Rc, 2 * arrival + 64);
    let (setup, placement) = match request {
        Request::Write => setup.inline_up_to(size, context.inline_most(INLINE_BY_DEFAULT)),
        _ => (setup, Placement::Reference),
    };
    let wired = wire(context, &peers, setup).await?;
    let checked = if request == Request::Write {
        Checked::Write
    } else {
        Checked::Read
    };
    let pass = Placement::Reference;
    checking_pass(
        context,
        &wired,
        mine.map(|_| 0),
        checked,
        size,
        arrival,
        pass,
    )
    .await?;
    if atomic && mine.is_some() {
        wired.region.store_word(0, 0);
    }
    // The target's word must be set before the first atomic.
    agree(context, &[]).await?;
    let members: Vec<usize> = pairs.iter().map(|pair| pair[0]).collect();
    let role = if members.contains(&rank) {
        Role::Timed
    } else {
        Role::Idle
    };
    let local = match request {
        Request::Write => 0,
        _ => arrival,
    };
    let slices = [wired.slice((local, size))];
    let operation = |count: u64| {
        let remote = wired.remotes[peers[0]];
        match request {
            Request::Write => Operation::Write {
                to: remote.at(arrival),
            },
            Request::Read => Operation::Read { from: remote.at(0) },
            Request::FetchAdd => Operation::FetchAdd {
                at: remote.at(0),
                add: 1,
            },
            Request::CompareSwap => Operation::CompareSwap {
                at: remote.at(0),
                compare: count,
                swap: count + 1,
            },
        }
    };
    let mut prepared = mine.map(|_| {
        let signal = Signal::Signalled;
        wired.request(0, operation(0), &slices, signal, placement)
    });
    let mut count = 0u64;
    let sampled = sample(context, &members, role, mode, async |_| {
        let Some(work) = &mut prepared else {
            return Ok(());
        };
        if request == Request::CompareSwap {
            work.operation = operation(count);
        }
        wired.links[0].pair.post_send(slice::from_ref(work)).await?;
        wired.sends.done(Wait::Poll).await?;
        if atomic {
            let old = wired.region.load_word(arrival);
            if old != count {
                let reason = format!("atomic {count} gave {old} as the old value");
                return Err(Error::adapter("verification", reason));
            }
        }
        count += 1;
        Ok(())
    })
    .await?;
    emit(
        context,
        parameters,
        sampled,
        pairs,
        "completion-latency",
        None,
        members.len(),
    );
    Ok(())
}
