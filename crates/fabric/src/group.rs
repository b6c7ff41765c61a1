//! The processes of a job: who is who, the exchange outside of the adapter, barriers and the synchronised start.

use crate::clock::Ticks;
use crate::error::Result;
use std::net::IpAddr;

/// The job as one process sees it.
///
/// Every process of `members` must make the same calls in the same order. `members` is sorted and holds the caller.
pub trait Group {
    /// This process.
    fn rank(&self) -> usize;
    /// Number of processes.
    fn size(&self) -> usize;
    /// The node on which a process runs; nodes count from 0 in the order of their first process.
    fn node_of(&self, rank: usize) -> usize;
    /// An address at which other nodes reach the one of a process, where that is known.
    fn address_of(&self, _rank: usize) -> Option<IpAddr> {
        None
    }
    /// The pairs of the job, each of two ranks: between the first two nodes where there are two, else neighbours.
    fn pairing(&self) -> Vec<[usize; 2]> {
        let on = |node: usize| (0..self.size()).filter(move |&rank| self.node_of(rank) == node);
        let across: Vec<[usize; 2]> = on(0).zip(on(1)).map(|(a, b)| [a, b]).collect();
        if !across.is_empty() {
            return across;
        }
        (0..self.size() / 2).map(|k| [2 * k, 2 * k + 1]).collect()
    }
    /// Everybody's bytes, in the order of ranks: connection data and results. Not for what is timed.
    async fn all_gather(&self, mine: &[u8]) -> Result<Vec<Vec<u8>>>;
    /// Nobody leaves before all of `members` came. As fine-grained as the fabric can: shared memory between processes
    /// of a node (connectx_multicore, section 3.1), so that it may stand between timed exchanges.
    async fn barrier(&self, members: &[usize]) -> Result<()>;
    /// A barrier, then agreement on an instant shortly ahead, then a wait for it (measurement rule 11). Returns the
    /// agreed instant on this process's clock; the skew is how much later the first operation starts.
    async fn align(&self, members: &[usize]) -> Result<Ticks>;
    /// How long a cache line takes from one of two members to the other at this moment, in nanoseconds; `None` where they share
    /// no memory. Both call it.
    async fn line_time(&self, _members: &[usize]) -> Result<Option<f64>> {
        Ok(None)
    }
    /// By how many nanoseconds the agreed instants of the last [`Group::align`] may be apart, where clocks are several;
    /// infinite where they could not be compared.
    fn start_error(&self) -> Option<f64> {
        None
    }
}
