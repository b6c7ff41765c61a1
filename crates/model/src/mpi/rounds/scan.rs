//! Each gets the combination of what those before it have.

use super::{Member, Round};

impl Member {
    /// Each gets the combination of `bytes` of those before it: recursive doubling.
    pub fn scan(self, bytes: u64) -> Vec<Round> {
        let peers = self.doublings().map(|distance| self.place ^ distance);
        let present = peers.filter(|&peer| peer < self.size);
        present.map(|peer| self.with(peer, bytes)).collect()
    }
}
