//! Registered memory.
//!
//! A zero-copy transfer needs registered buffers on both sides. A library with a registration cache
//! reuses earlier registrations. Ranks here have no addresses: a rank has one buffer of each size,
//! as benchmarks have.

use super::world::Rank;
use crate::kernel::Time;
use crate::stage;

impl Rank {
    /// Ensures that the buffer of that size is registered.
    pub(super) async fn register(&self, bytes: u64) {
        let mpi = &self.world.mpi;
        if let Some(most) = mpi.registration_cache {
            let mut registered = self.world.relations(self.number).registered.borrow_mut();
            if registered.touch(bytes, most.0 as usize) {
                return;
            }
        }
        let page = self.world.cluster.system().adapter.caches.page.0;
        let pages = mpi.registration_page.unwrap_or_default() * bytes.div_ceil(page);
        let span = mpi.registration.unwrap_or_default() + pages;
        if span > Time::ZERO {
            self.spend(stage::REGISTRATION, span).await;
        }
    }
}
