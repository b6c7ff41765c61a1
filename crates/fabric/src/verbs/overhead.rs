//! Measures the cost of the fabric interface over bare verbs calls: the same write, posted and
//! polled over a queue pair on the same process, by the C functions with prepared structures and
//! through the interface.

use super::process::VerbsProcess;
use crate::clock::Ticks;
use crate::completion::{CompletionQueue, Wait};
use crate::error::{Error, Result};
use crate::executor::block_on;
use crate::interface::{Fabric, QueueRequest};
use crate::operation::{Operation, Slice, WorkRequest};
use crate::pair::{PairRequest, QueuePair};
use crate::region::{Access, Region};
use verbena_measure::sample::Sample;

const ROUNDS: usize = 41;
const WRITES: u64 = 5000;
const SIZE: usize = 8;

/// Nanoseconds per write, posted and polled: medians over alternating rounds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Overhead {
    /// With the C functions.
    pub bare: f64,
    /// Through the fabric interface.
    pub interface: f64,
    /// Median of the differences per round.
    pub difference: f64,
}

/// Measures the overhead; the process needs no peers.
///
/// # Errors
///
/// Returns an error if a call fails.
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
        let (mut bare, mut interface) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            let start = process.now();
            let segment = region
                .part(0, SIZE)
                .ok_or_else(|| Error::invalid("overhead", "the region is too short"))?;
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
            interface.push(per_write(start));
        }
        let differences = bare
            .iter()
            .zip(&interface)
            .map(|(bare, interface)| interface - bare)
            .collect();
        let median = |values| Sample::new(values).map_or(f64::NAN, |sample| sample.median());
        let (bare, interface) = (median(bare), median(interface));
        Ok(Overhead {
            bare,
            interface,
            difference: median(differences),
        })
    })
}
