//! Scatter over n queue pairs posted back to back (memfree, section 4.2): the time from the first
//! post to the last completion, which shows how the adapter handles many queue pairs under a loaded
//! bus.

use crate::agreement::{Outcome, attempt};
use crate::context::{Context, Mode};
use crate::latency::ping_pong::emit;
use crate::parameters;
use crate::sampling::{Role, sample};
use crate::test_data::{Checked, checking_pass};
use crate::wiring::{LinkKind, Setup, wire};
use verbena_fabric::*;
use verbena_measure::result::Parameters;

pub async fn back_to_back<F: Fabric>(context: &Context<'_, F>) -> Result<()> {
    let pair = context.pairing()[0];
    let sizes = context.choose(&[8, 4096], &[1, 64, 512, 4096, 16_384, 65_536]);
    for number in context.choose(&[1usize, 8, 32], &[1, 2, 4, 8, 16, 32, 64, 128]) {
        for size in context.options.sizes.clone().unwrap_or(sizes.clone()) {
            let parameters =
                parameters! { "queue-pairs" => number, "size" => size, "transport" => "rc" };
            attempt(
                context,
                &parameters,
                point(context, &parameters, number, size, pair),
            )
            .await?;
        }
    }
    Ok(())
}

async fn point<F: Fabric>(
    context: &Context<'_, F>,
    parameters: &Parameters,
    number: usize,
    size: usize,
    pair: [usize; 2],
) -> Outcome<()> {
    let rank = context.rank();
    let peers = match pair.iter().position(|&member| member == rank) {
        Some(side) => vec![pair[1 - side]; number],
        None => Vec::new(),
    };
    let arrival = size.next_multiple_of(64);
    let mut setup = Setup::new(LinkKind::Rc, arrival * (number + 1) + 64);
    setup.depth = 16;
    let wired = wire(context, &peers, setup).await?;
    let link = (!peers.is_empty()).then_some(0);
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
    let role = if rank == pair[0] {
        Role::Timed
    } else {
        Role::Idle
    };
    let mut into = [Completion::default(); 16];
    let sampled = sample(context, &[pair[0]], role, Mode::Free, async |_| {
        for link in 0..number {
            let to = wired.remotes[pair[1]].at(arrival * (link + 1));
            let operation = Operation::Write { to };
            wired
                .post(
                    link,
                    operation,
                    (0, size),
                    Signal::Signalled,
                    Placement::Reference,
                )
                .await?;
        }
        let mut done = 0;
        while done < number {
            let got = wired.sends.wait(&mut into, Wait::Poll).await?;
            for completion in &into[..got] {
                completion.check()?;
            }
            done += got;
        }
        Ok(())
    })
    .await?;
    emit(
        context,
        parameters,
        sampled,
        &[pair],
        "scatter-time",
        None,
        1,
    );
    Ok(())
}
