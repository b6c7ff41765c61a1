//! One-sided access to another rank's memory.

use super::cause::Cause;
use super::world::Rank;
use crate::adapter::{Kind, Placement, Request};
use crate::cluster::CacheState;
use crate::kernel::{JoinHandle, Mailbox};
use crate::profile::Channel;
use crate::stage;

impl Rank {
    /// Writes `bytes` into a rank's memory; returns when they have arrived.
    pub async fn write_to(&self, to: usize, bytes: u64) {
        self.access(Kind::Write, to, bytes).await;
    }

    /// Reads `bytes` of a rank's memory.
    pub async fn read_from(&self, from: usize, bytes: u64) {
        self.access(Kind::Read, from, bytes).await;
    }

    /// Starts a write that proceeds in the background.
    pub fn begin_write_to(&self, to: usize, bytes: u64) -> JoinHandle<()> {
        let own = self.clone();
        let sim = self.process.sim();
        sim.spawn(async move { own.write_to(to, bytes).await })
    }

    /// Starts a read that proceeds in the background.
    pub fn begin_read_from(&self, from: usize, bytes: u64) -> JoinHandle<()> {
        let own = self.clone();
        let sim = self.process.sim();
        sim.spawn(async move { own.read_from(from, bytes).await })
    }

    /// Performs an access; inside the node memory is shared, and an access is a copy.
    async fn access(&self, kind: Kind, peer: usize, bytes: u64) {
        self.spend(stage::SEND, self.world.access).await;
        if self.world.node(peer) == self.world.node(self.number) {
            let state = CacheState::OtherCore(self.world.cores(self.number, peer));
            return self.process.copy(bytes, state).await;
        }
        if self.world.mpi.channel == Channel::Socket {
            let (out, back) = match kind {
                Kind::Read => (0, bytes),
                _ => (bytes, 0),
            };
            return Box::pin(self.ask(peer, out, back)).await;
        }
        let completions: Mailbox<Cause> = Mailbox::new(self.process.sim());
        let pair = self.world.pair(self.number, peer, 0);
        let request = Request::new(kind, bytes, Placement::Reference);
        self.post_and_tell(&pair, request, &completions).await;
        self.wait_for(&completions).await;
        self.process.take_completion().await;
    }
}
