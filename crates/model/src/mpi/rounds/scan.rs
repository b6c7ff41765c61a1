//! Scan: each member gets the combination of the contributions up to its own.

use super::{Member, Round};

impl Member {
    /// Combines `bytes` of all previous members at each member: recursive doubling.
    pub fn scan(self, bytes: u64) -> Vec<Round> {
        let peers = self.doublings().map(|distance| self.place ^ distance);
        let present = peers.filter(|&peer| peer < self.size);
        present.map(|peer| self.with(peer, bytes)).collect()
    }
}
