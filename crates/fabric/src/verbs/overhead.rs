//! What the seam costs over bare verbs calls: the same write, posted and polled over a pair connected to itself, once by
//! the C functions with structures made beforehand, once through the seam.

use super::process::VerbsProcess;
use crate::clock::Ticks;
use crate::completion::{CompletionQueue, Wait};
use crate::error::Result;
use crate::executor::block_on;
use crate::operation::{Operation, Slice, WorkRequest};
use crate::pair::{PairRequest, QueuePair};
use crate::region::{Access, Region};
use crate::seam::{Fabric, QueueRequest};
use verbena_measure::sample::Sample;

const ROUNDS: usize = 41;
const WRITES: u64 = 5000;
const SIZE: usize = 8;

/// Nanoseconds a write, posted and polled, the medians over rounds that take turns.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Overhead {
    /// By the C functions.
    pub bare: f64,
    /// Through the seam.
    pub seam: f64,
    /// The median over rounds of their difference.
    pub difference: f64,
}

/// Measures it; the process needs no peers.
pub fn overhead(process: &VerbsProcess) -> Result<Overhead> {
    block_on(async {
        let region = process.region(4096, Access::READ_WRITE).await?;
        let queue = process
            .completions(QueueRequest {
                depth: 16,
                wait: Wait::Poll,
            })
            .await?;
        let first = process.pair(PairRequest::rc(&queue)).await?;
        let second = process.pair(PairRequest::rc(&queue)).await?;
        first.connect(&second.endpoint()).await?;
        second.connect(&first.endpoint()).await?;
        let to = region.remote().at(2048);
        let slices = [Slice::new(&region, 0, SIZE)];
        let per_write =
            |start: Ticks| process.clock().nanos(process.now().since(start)) / WRITES as f64;
        let (mut bare, mut seam) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            let start = process.now();
            let segment = region.part(0, SIZE).expect("the region is larger");
            first
                .inner
                .bare_writes(&queue.inner, segment, (to.address, to.key), WRITES)?;
            bare.push(per_write(start));
            let start = process.now();
            for id in 0..WRITES {
                let request = WorkRequest::new(id, Operation::Write { to }, &slices);
                first.post_send(&[request]).await?;
                queue.done(Wait::Poll).await?;
            }
            seam.push(per_write(start));
        }
        let differences = bare
            .iter()
            .zip(&seam)
            .map(|(bare, seam)| seam - bare)
            .collect();
        let median = |values| Sample::new(values).map_or(f64::NAN, |sample| sample.median());
        let (bare, seam) = (median(bare), median(seam));
        Ok(Overhead {
            bare,
            seam,
            difference: median(differences),
        })
    })
}
