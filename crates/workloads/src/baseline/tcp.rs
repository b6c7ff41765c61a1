//! TCP between the same two hosts, for comparison: ping-pong by size, and a stream.

use super::real_clock;
use crate::agreement::attempt;
use crate::context::Context;
use crate::parameters;
use crate::tcp::{Ends, ping_pong, stream};
use verbena_fabric::{Fabric, Result};

/// Message size of the stream in bytes.
const STREAM: usize = 65_536;

pub async fn run<F: Fabric>(context: &Context<'_, F>) -> Result<()> {
    let pair = context.pairing()[0];
    for size in context.choose(
        &[8, 4096, 65_536],
        &[1, 8, 64, 512, 4096, 16_384, 65_536, 1 << 18],
    ) {
        let parameters = parameters! { "size" => size, "flow" => "ping-pong" };
        attempt(context, &parameters, async {
            real_clock(context)?;
            ping_pong(context, &parameters, Ends::Hosts, size, pair).await
        })
        .await?;
    }
    let parameters = parameters! { "size" => STREAM, "flow" => "stream" };
    attempt(context, &parameters, async {
        real_clock(context)?;
        stream(context, &parameters, Ends::Hosts, (STREAM, false), pair).await
    })
    .await?;
    Ok(())
}
