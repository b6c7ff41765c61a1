//! A cache line from one core to another and back, between two threads: the floor of every latency through memory.

use super::real_host;
use crate::agreement::attempt;
use crate::context::Context;
use crate::parameters;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;
use verbena_fabric::{Fabric, Result};
use verbena_measure::result::{Conduct, Metric};
use verbena_measure::sample::Sample;
use verbena_measure::start;

/// Round trips timed together: reading the clock would cost as much as one.
const BATCH: u32 = 100;
/// Batches.
const BATCHES: usize = 500;
const WARMUP: usize = 50;

#[repr(align(128))]
struct Line(AtomicU64);

/// `baseline.cache-line`.
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
            warmup: (WARMUP * BATCH as usize) as u64,
            batch: BATCH,
            validated: true,
            ..Conduct::default()
        };
        let metrics = vec![Metric::time("one-way-latency", &sample)];
        context.point(&parameters, metrics, Vec::new(), conduct, Vec::new(), 2);
        Ok(())
    };
    attempt(context, &parameters, point).await.map(drop)
}

/// One-way times in nanoseconds, each the mean of a batch.
pub fn measure() -> Vec<f64> {
    let (there, back) = (Line(AtomicU64::new(0)), Line(AtomicU64::new(0)));
    let rounds = (WARMUP + BATCHES) as u64 * u64::from(BATCH);
    let yielding = start::cores() < 2;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // The launcher bound this process to one core; the answering thread needs another.
            start::widen();
            start::pin(1);
            for i in 1..=rounds {
                spin_until(&there, i, yielding);
                back.0.store(i, Ordering::Release);
            }
        });
        let mut i = 0;
        let mut times = Vec::with_capacity(BATCHES);
        for batch in 0..WARMUP + BATCHES {
            let start = Instant::now();
            for _ in 0..BATCH {
                i += 1;
                there.0.store(i, Ordering::Release);
                spin_until(&back, i, yielding);
            }
            if batch >= WARMUP {
                times.push(start.elapsed().as_nanos() as f64 / f64::from(BATCH) / 2.0);
            }
        }
        times
    })
}

fn spin_until(line: &Line, value: u64, yielding: bool) {
    let mut spins = 0u32;
    while line.0.load(Ordering::Acquire) < value {
        std::hint::spin_loop();
        spins += 1;
        if yielding || spins > 10_000 {
            std::thread::yield_now();
        }
    }
}
