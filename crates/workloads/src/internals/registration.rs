//! Cost of registering and deregistering memory, by size.

use crate::agreement::{Outcome, attempt};
use crate::baseline::real_host;
use crate::context::{Context, Mode};
use crate::parameters;
use crate::sampling::{Role, sample};
use verbena_fabric::*;
use verbena_measure::result::{Metric, Parameters};
use verbena_measure::sample::Sample;

pub async fn cost<F: Fabric>(context: &Context<'_, F>) -> Result<()> {
    let all = context.choose(
        &[4096, 65_536, 1 << 20],
        &[4096, 16_384, 65_536, 1 << 18, 1 << 20, 1 << 22, 1 << 24],
    );
    for size in context.options.sizes.clone().unwrap_or(all) {
        let parameters = parameters! { "size" => size };
        let point = async {
            real_host(context, "the cost of registering memory")?;
            point(context, &parameters, size).await
        };
        attempt(context, &parameters, point).await?;
    }
    Ok(())
}

async fn point<F: Fabric>(
    context: &Context<'_, F>,
    parameters: &Parameters,
    size: usize,
) -> Outcome<()> {
    let role = if context.rank() == 0 {
        Role::Timed
    } else {
        Role::Idle
    };
    let mut buffer = match role {
        Role::Timed => Some(context.fabric.allocate(BufferRequest::host(size)).await?),
        _ => None,
    };
    let mut releases: Vec<f64> = Vec::new();
    let sampled = sample(context, &[0], role, Mode::Lockstep, async |_| {
        let taken = buffer.take().expect("the step before gave it back");
        let region = context.fabric.register(taken, Access::READ_WRITE).await?;
        // Timed separately within the step, which is registration and deregistration together.
        let start = context.fabric.now();
        buffer = Some(context.fabric.deregister(region).await?);
        releases.push(context.nanos(context.fabric.now().since(start)));
        Ok(())
    })
    .await?;
    let Some(both) = sampled.together() else {
        return Ok(());
    };
    let mut metrics = vec![Metric::times("register-and-deregister", &both)];
    // Operations before the first counted one were warm-up.
    let releases = releases.split_off((sampled.first as usize).min(releases.len()));
    if let Some(releases) = Sample::new(releases) {
        metrics.push(Metric::time("deregister", &releases));
    }
    context.point(
        parameters,
        metrics,
        Vec::new(),
        sampled.conduct,
        sampled.warnings,
        1,
    );
    Ok(())
}
