//! The inline threshold: write latency with the payload in the request against payload fetched by
//! the adapter, by size. A program should stop using inline where the two curves cross.

use crate::agreement::attempt;
use crate::context::{Context, Mode};
use crate::latency::ping_pong::{Exchange, Inlining, PingPong, run};
use crate::parameters;
use crate::wiring::{LinkKind, Receives};
use verbena_fabric::*;

pub async fn sweep<F: Fabric>(context: &Context<'_, F>) -> Result<()> {
    let pairs: Vec<[usize; 2]> = context.pairing().into_iter().take(1).collect();
    let limit = context.fabric.capabilities().max_inline as usize;
    let all = context.choose(
        &[8, 64, 256, 1024],
        &[1, 8, 16, 32, 64, 128, 192, 256, 512, 1024],
    );
    for size in context.options.sizes.clone().unwrap_or(all) {
        for (word, placement) in [
            ("inline", Placement::Inline),
            ("reference", Placement::Reference),
        ] {
            if placement == Placement::Inline && size > limit {
                continue;
            }
            let parameters =
                parameters! { "size" => size, "transport" => "rc", "placement" => word };
            let spec = PingPong {
                exchange: Exchange::Write,
                kind: LinkKind::Rc,
                receives: Receives::Own,
                size,
                wait: Wait::Poll,
                inlining: Inlining::Fixed(placement),
            };
            attempt(
                context,
                &parameters,
                run(context, &parameters, spec, &pairs, Mode::Free),
            )
            .await?;
        }
    }
    Ok(())
}
