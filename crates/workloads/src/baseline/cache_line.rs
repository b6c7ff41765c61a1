//! A cache line from one core to another and back, between two threads: the floor of every latency through memory.

use super::real_host;
use crate::agreement::attempt;
use crate::context::Context;
use crate::disturbance::{between, in_any};
use crate::parameters;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use verbena_fabric::{Fabric, Result};
use verbena_measure::result::{Conduct, Metric};
use verbena_measure::sample::Sample;
use verbena_measure::{pace, start};

/// Round trips timed together: reading the clock would cost as much as one.
const BATCH: u64 = 100;
/// Batches.
const BATCHES: usize = 500;
const WARMUP: usize = 50;
/// With fewer undisturbed batches all count.
const FEWEST: usize = 20;
/// How long a core is watched for its full speed.
const PACE: Duration = Duration::from_millis(30);

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
            warmup: WARMUP as u64 * BATCH,
            batch: BATCH as u32,
            validated: true,
            ..Conduct::default()
        };
        let metrics = vec![Metric::time("one-way-latency", &sample)];
        context.point(&parameters, metrics, Vec::new(), conduct, Vec::new(), 2);
        Ok(())
    };
    attempt(context, &parameters, point).await.map(drop)
}

/// One-way times in nanoseconds, each the mean of a batch. Batches in which a core was not all ours are set aside (rule 5),
/// unless they are nearly all.
pub fn measure() -> Vec<f64> {
    let origin = Instant::now();
    let nanos = || origin.elapsed().as_nanos() as u64;
    let limit = pace::undisturbed(PACE, nanos) as f64 * pace::DISTURBED;
    let (there, back) = (Line(AtomicU64::new(0)), Line(AtomicU64::new(0)));
    let batches = WARMUP + BATCHES;
    let yielding = start::cores() < 2;
    let (times, disturbed) = std::thread::scope(|scope| {
        let answering = scope.spawn(|| {
            // The launcher bound this process to one core; the answering thread needs another.
            start::widen();
            start::pin(1);
            let mut looks = vec![false];
            for batch in 0..batches as u64 {
                for i in batch * BATCH..(batch + 1) * BATCH {
                    spin_until(&there, i + 1, yielding);
                    back.0.store(i + 1, Ordering::Release);
                }
                looks.push(pace::slower_than(limit, nanos));
            }
            between(&looks)
        });
        let mut times = Vec::with_capacity(batches);
        let mut looks = vec![false];
        for batch in 0..batches as u64 {
            let start = Instant::now();
            for i in batch * BATCH..(batch + 1) * BATCH {
                there.0.store(i + 1, Ordering::Release);
                spin_until(&back, i + 1, yielding);
            }
            times.push(start.elapsed().as_nanos() as f64 / BATCH as f64 / 2.0);
            looks.push(pace::slower_than(limit, nanos));
        }
        let answering = answering.join().unwrap_or_default();
        (
            times,
            in_any([&between(&looks)[..], &answering].into_iter()),
        )
    });
    let counted = times.iter().zip(&disturbed).skip(WARMUP);
    let undisturbed = counted.filter(|(_, disturbed)| !**disturbed);
    let undisturbed: Vec<f64> = undisturbed.map(|(time, _)| *time).collect();
    match undisturbed.len() >= FEWEST {
        true => undisturbed,
        false => times[WARMUP..].to_vec(),
    }
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
