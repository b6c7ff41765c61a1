//! The processes of a job: ranks and nodes, the out-of-band exchange, barriers and the synchronised
//! start.

use crate::clock::Ticks;
use crate::error::Result;
use std::net::IpAddr;

/// The job as seen by one process.
///
/// Every process in `members` must make the same calls in the same order. `members` must be sorted
/// and contain the caller.
pub trait Group {
    /// Returns the rank of this process.
    fn rank(&self) -> usize;
    /// Returns the number of processes.
    fn size(&self) -> usize;
    /// Returns the node of a process; nodes are numbered from 0 in the order of their first
    /// process.
    fn node_of(&self, rank: usize) -> usize;
    /// Returns an address at which other nodes reach the node of a process, if known.
    fn address_of(&self, _rank: usize) -> Option<IpAddr> {
        None
    }
    /// Returns the pairs of the job, two ranks each: between the first two nodes if there are two,
    /// else neighbouring ranks.
    fn pairing(&self) -> Vec<[usize; 2]> {
        let on = |node: usize| (0..self.size()).filter(move |&rank| self.node_of(rank) == node);
        let across: Vec<[usize; 2]> = on(0).zip(on(1)).map(|(a, b)| [a, b]).collect();
        if !across.is_empty() {
            return across;
        }
        (0..self.size() / 2).map(|k| [2 * k, 2 * k + 1]).collect()
    }
    /// Exchanges bytes among all processes and returns them in the order of ranks. For connection
    /// data and results; not for timed code.
    ///
    /// # Errors
    ///
    /// Returns an error of rule 10 if the wait ends early.
    async fn all_gather(&self, mine: &[u8]) -> Result<Vec<Vec<u8>>>;
    /// Waits until all `members` have arrived. Uses the finest-grained means of the fabric, shared
    /// memory between processes of a node (connectx_multicore, section 3.1), so that it may be used
    /// between timed exchanges.
    ///
    /// # Errors
    ///
    /// Returns an error of rule 10 if the wait ends early.
    async fn barrier(&self, members: &[usize]) -> Result<()>;
    /// Performs a barrier, agrees on an instant shortly ahead and waits for it (measurement rule
    /// 11). Returns the agreed instant on this process's clock; the skew is the delay of the first
    /// operation after it.
    ///
    /// # Errors
    ///
    /// As [`Group::barrier`].
    async fn align(&self, members: &[usize]) -> Result<Ticks>;
    /// Measures the current latency of a cache line transfer between two members, in nanoseconds;
    /// `None` if they share no memory. Both must call it.
    ///
    /// # Errors
    ///
    /// As [`Group::barrier`].
    async fn line_time(&self, _members: &[usize]) -> Result<Option<f64>> {
        Ok(None)
    }
    /// Returns the uncertainty in nanoseconds of the instants agreed by the last [`Group::align`]
    /// across different clocks; infinite if these could not be compared, `None` if there is one
    /// clock.
    fn start_error(&self) -> Option<f64> {
        None
    }
}
