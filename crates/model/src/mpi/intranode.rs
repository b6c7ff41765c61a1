//! Messages inside a node.
//!
//! Up to the buffer size both copies find the data in the cache, and the receiver copies while the
//! sender fills the next piece. Above it the data pass through memory and one buffer, which the
//! receiver must have emptied before the sender fills it again.

use super::envelope::{Envelope, Local};
use super::matching::Origin;
use super::world::{Rank, World};
use crate::cluster::CacheState;
use crate::kernel::Mailbox;
use std::rc::Rc;

/// Buffered messages that the receiver may lag behind.
const AHEAD: usize = 8;

impl Rank {
    fn passes_cache(&self, bytes: u64) -> bool {
        bytes <= self.world.mpi.intranode_buffer.0
    }

    pub(super) async fn send_inside(&self, to: usize, bytes: u64, origin: Origin) {
        let mpi = &self.world.mpi;
        self.compute(mpi.intranode).await;
        let state = match self.passes_cache(bytes) {
            true => CacheState::OtherCore,
            false => CacheState::Cold,
        };
        let buffer = match state {
            CacheState::OtherCore => None,
            CacheState::Cold => Some(self.world.buffer(self.number, to).acquire().await),
        };
        self.process.copy(bytes, state).await;
        let taken = Mailbox::new(self.process.sim());
        let world: Rc<World> = self.world.clone();
        // The cache line with the flag has to reach the other core.
        let sim = self.process.sim().clone();
        let due = sim.now() + self.process.node().cpu().miss;
        let local = Local {
            bytes,
            sent: self.cause(),
            taken: taken.clone(),
        };
        let behind = world.relations[to].inbox.behind(self.number) >= AHEAD;
        sim.clone().start(async move {
            sim.sleep_until(due).await;
            world.arrive(to, origin, Envelope::Local(local));
        });
        if state == CacheState::Cold || behind {
            self.wait_for(&taken).await;
        }
        drop(buffer);
    }

    pub(super) async fn receive_inside(&self, local: Local) -> u64 {
        self.compute(self.world.mpi.intranode).await;
        let state = match self.passes_cache(local.bytes) {
            true => CacheState::OtherCore,
            false => CacheState::Cold,
        };
        self.process.copy(local.bytes, state).await;
        local.taken.send(self.cause());
        local.bytes
    }
}
