//! Polling against events: the latency cost of sleeping until the adapter wakes the process.

use crate::agreement::attempt;
use crate::context::{Context, Mode};
use crate::latency::ping_pong::{Exchange, Inlining, PingPong, run};
use crate::parameters;
use crate::wiring::{LinkKind, Receives};
use verbena_fabric::*;

pub async fn compare<F: Fabric>(context: &Context<'_, F>) -> Result<()> {
    let pairs: Vec<[usize; 2]> = context.pairing().into_iter().take(1).collect();
    let all = context.choose(&[8, 4096], &[8, 512, 4096, 65_536]);
    for size in context.options.sizes.clone().unwrap_or(all) {
        for (word, wait) in [("poll", Wait::Poll), ("event", Wait::Event)] {
            let parameters = parameters! { "size" => size, "transport" => "rc", "wait" => word };
            let point = async {
                if wait == Wait::Event && !context.fabric.capabilities().operations.events {
                    let fabric = context.fabric.capabilities().device.clone();
                    let what = "a completion event".to_owned();
                    return Err(Error::unsupported(what, fabric).into());
                }
                let spec = PingPong {
                    exchange: Exchange::Send,
                    kind: LinkKind::Rc,
                    receives: Receives::Own,
                    size,
                    wait,
                    inlining: Inlining::Usual,
                };
                run(context, &parameters, spec, &pairs, Mode::Free).await
            };
            attempt(context, &parameters, point).await?;
        }
    }
    Ok(())
}
