//! Loopback: two queue pairs of one process connected to each other, so that only host, bus and
//! adapter take part (memfree, section 3); and the same with buffers in device memory, to separate
//! the two memories.

use crate::agreement::{Outcome, attempt};
use crate::context::{Context, Mode};
use crate::latency::ping_pong::emit;
use crate::parameters;
use crate::sampling::{Role, sample};
use verbena_fabric::*;
use verbena_measure::result::Parameters;

pub async fn bus<F: Fabric>(context: &Context<'_, F>) -> Result<()> {
    for size in context.sizes(1 << 20) {
        let parameters = parameters! { "size" => size, "transport" => "rc", "memory" => "host" };
        let point = point(context, &parameters, size, Location::Host);
        attempt(context, &parameters, point).await?;
    }
    Ok(())
}

pub async fn device_memory<F: Fabric>(context: &Context<'_, F>) -> Result<()> {
    for (word, location) in [("host", Location::Host), ("adapter", Location::Device)] {
        for size in context.sizes(4096) {
            let parameters = parameters! { "size" => size, "transport" => "rc", "memory" => word };
            let point = async {
                let offered = context.fabric.capabilities().operations.device_memory;
                if location == Location::Device && !offered {
                    let fabric = context.fabric.capabilities().device.clone();
                    let what = "memory on the adapter".to_owned();
                    return Err(Error::unsupported(what, fabric).into());
                }
                point(context, &parameters, size, location).await
            };
            attempt(context, &parameters, point).await?;
        }
    }
    Ok(())
}

async fn point<F: Fabric>(
    context: &Context<'_, F>,
    parameters: &Parameters,
    size: usize,
    location: Location,
) -> Outcome<()> {
    let fabric = context.fabric;
    let length = size.next_multiple_of(4096);
    let buffer = async || {
        let request = BufferRequest { length, location };
        fabric
            .register(fabric.allocate(request).await?, Access::READ_WRITE)
            .await
    };
    let (source, target) = (buffer().await?, buffer().await?);
    let queue = fabric
        .completions(QueueRequest {
            depth: 16,
            wait: Wait::Poll,
        })
        .await?;
    let request = || PairRequest {
        send_depth: 8,
        receive_depth: 8,
        ..PairRequest::<F>::rc(&queue)
    };
    let (first, second) = (fabric.pair(request()).await?, fabric.pair(request()).await?);
    first.connect(&second.endpoint()).await?;
    second.connect(&first.endpoint()).await?;
    crate::test_data::fill(&source, 0, size, 3)?;
    let slices = [Slice::new(&source, 0, size)];
    let list = [WorkRequest::new(
        1,
        Operation::Write {
            to: target.remote().at(0),
        },
        &slices,
    )];
    first.post_send(&list).await?;
    queue.done(Wait::Poll).await?;
    crate::test_data::verify(&target, 0, size, 3)?;
    let role = if context.rank() == 0 {
        Role::Timed
    } else {
        Role::Idle
    };
    let sampled = sample(context, &[0], role, Mode::Free, async |_| {
        first.post_send(&list).await?;
        queue.done(Wait::Poll).await
    })
    .await?;
    emit(
        context,
        parameters,
        sampled,
        &[[0, 0]],
        "completion-latency",
        None,
        1,
    );
    Ok(())
}
