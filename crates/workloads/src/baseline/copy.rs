//! Memory copy by one core, by size: the bound of every bandwidth through memory.

use super::real_host;
use crate::agreement::attempt;
use crate::bandwidth::stream::FOOTPRINT;
use crate::context::Context;
use crate::parameters;
use std::hint::black_box;
use std::time::{Duration, Instant};
use verbena_fabric::{Fabric, Result};
use verbena_measure::result::{Conduct, Metric};
use verbena_measure::sample::Sample;

/// Duration of a timed batch.
const BATCH: Duration = Duration::from_millis(3);
const BATCHES: usize = 9;

pub async fn bandwidth<F: Fabric>(context: &Context<'_, F>) -> Result<()> {
    let fine: Vec<usize> = (6..=26).step_by(2).map(|i| 1 << i).collect();
    let chosen = context.choose(&[64, 4096, 65_536, 1 << 20, 1 << 24], &fine);
    for size in context.options.sizes.clone().unwrap_or(chosen) {
        let parameters = parameters! { "size" => size };
        let point = async {
            real_host(context, "a baseline of the host")?;
            if context.rank() != 0 {
                return Ok(());
            }
            let Some(sample) = Sample::new(measure(size)) else {
                return Ok(());
            };
            let metrics = vec![Metric::rate("bandwidth", "bytes/s", &sample)];
            let conduct = Conduct {
                warmup: 1,
                batch: 1,
                validated: true,
                ..Conduct::default()
            };
            context.point(&parameters, metrics, Vec::new(), conduct, Vec::new(), 1);
            Ok(())
        };
        attempt(context, &parameters, point).await?;
    }
    Ok(())
}

/// Returns bytes per second, one value per batch, over one buffer that is reused.
pub fn measure(size: usize) -> Vec<f64> {
    in_turn(size, size)
}

/// Like [`measure`], over buffers used in turn that exceed the caches.
pub fn measure_in_turn(size: usize) -> Vec<f64> {
    in_turn(size, FOOTPRINT)
}

fn in_turn(size: usize, footprint: usize) -> Vec<f64> {
    let (source, mut target) = (vec![7u8; footprint], vec![1u8; footprint]);
    let buffers = (footprint / size) as u64;
    let mut copies = |count: u64| {
        let start = Instant::now();
        for copy in 0..count {
            let at = (copy % buffers) as usize * size;
            target[at..at + size].copy_from_slice(black_box(&source[at..at + size]));
            black_box(&mut target);
        }
        start.elapsed()
    };
    let mut count = buffers;
    while copies(count) < BATCH && count < 1 << 24 {
        count *= 2;
    }
    (0..BATCHES)
        .map(|_| copies(count).as_secs_f64())
        .filter(|seconds| *seconds > 0.0)
        .map(|seconds| count as f64 * size as f64 / seconds)
        .collect()
}
