//! Round trip of a cache line between two threads on different cores: the lower bound of every
//! latency through memory.

use super::real_host;
use crate::agreement::attempt;
use crate::context::Context;
use crate::parameters;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;
use verbena_fabric::{Fabric, Result};
use verbena_measure::processors;
use verbena_measure::result::{Conduct, Metric};
use verbena_measure::sample::Sample;

/// Round trips per timed batch: reading the clock would cost as much as one.
const BATCH: u64 = 100;
const BATCHES: usize = 500;
const WARMUP: usize = 50;

#[repr(align(128))]
struct Line(AtomicU64);

pub async fn ping_pong<F: Fabric>(context: &Context<'_, F>) -> Result<()> {
    let parameters = parameters! { "size" => 8usize };
    let point = async {
        real_host(context, "a baseline of the host")?;
        if context.rank() != 0 {
            return Ok(());
        }
        let Some(sample) = Sample::new(measure()) else {
            return Ok(());
        };
        let conduct = Conduct {
            warmup: WARMUP as u64 * BATCH,
            batch: BATCH as u32,
            validated: true,
            ..Conduct::default()
        };
        let metrics = vec![Metric::mean_time("one-way-latency", &sample)];
        context.point(&parameters, metrics, Vec::new(), conduct, Vec::new(), 2);
        Ok(())
    };
    attempt(context, &parameters, point).await.map(drop)
}

/// Returns one-way times in nanoseconds, each the mean of a batch, between two processors of this
/// host.
pub fn measure() -> Vec<f64> {
    let before = processors::allowed();
    let own = before.first().copied().unwrap_or_default();
    let (there, back) = (Line(AtomicU64::new(0)), Line(AtomicU64::new(0)));
    let batches = (WARMUP + BATCHES) as u64;
    let yielding = AtomicBool::new(false);
    // A thread that the system does not let us bind may share a processor, and must yield.
    let bound = |processors: &[usize]| {
        let bound = !processors.is_empty() && processors::bind(processors);
        yielding.fetch_or(!bound, Ordering::Relaxed);
    };
    bound(&[own]);
    let times = std::thread::scope(|scope| {
        scope.spawn(|| {
            // The thread inherits the process's single processor, and needs another.
            processors::widen();
            let other = processors::allowed()
                .into_iter()
                .find(|other| *other != own);
            bound(other.as_slice());
            for i in 0..batches * BATCH {
                spin_until(&there, i + 1, &yielding);
                back.0.store(i + 1, Ordering::Release);
            }
        });
        let mut times = Vec::with_capacity(batches as usize);
        for batch in 0..batches {
            let start = Instant::now();
            for i in batch * BATCH..(batch + 1) * BATCH {
                there.0.store(i + 1, Ordering::Release);
                spin_until(&back, i + 1, &yielding);
            }
            times.push(start.elapsed().as_nanos() as f64 / BATCH as f64 / 2.0);
        }
        times
    });
    let _ = processors::bind(&before);
    times[WARMUP..].to_vec()
}

fn spin_until(line: &Line, value: u64, yielding: &AtomicBool) {
    let mut spins = 0u32;
    while line.0.load(Ordering::Acquire) < value {
        std::hint::spin_loop();
        spins += 1;
        if spins > 10_000 || yielding.load(Ordering::Relaxed) {
            std::thread::yield_now();
        }
    }
}
