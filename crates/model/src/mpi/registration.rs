//! Registered memory.
//!
//! A zero-copy transfer needs registered buffers on both sides. A library with a registration cache
//! reuses earlier registrations. Ranks here have no addresses: a rank has one buffer of each size,
//! as benchmarks have.

use super::Rank;

/// Sizes of the registered buffers, the most recently used last.
#[derive(Debug, Default)]
pub(super) struct Registered(Vec<u64>);

impl Registered {
    /// Registers a buffer, with at most `most` kept; returns whether it was registered already.
    fn touch(&mut self, bytes: u64, most: usize) -> bool {
        let known = self.0.iter().position(|&known| known == bytes);
        if let Some(known) = known {
            self.0.remove(known);
        }
        self.0.push(bytes);
        if self.0.len() > most {
            self.0.remove(0);
        }
        known.is_some()
    }
}

impl Rank {
    /// Ensures that the buffer of that size is registered.
    pub(super) async fn register(&self, bytes: u64) {
        let mpi = &self.world.mpi;
        if let Some(most) = mpi.registration_cache {
            let mut registered = self.world.relations[self.number].registered.borrow_mut();
            if registered.touch(bytes, most.0 as usize) {
                return;
            }
        }
        let page = self.world.cluster.system().adapter.caches.page.0;
        let pages = mpi.registration_page.unwrap_or_default() * bytes.div_ceil(page);
        let span = mpi.registration.unwrap_or_default() + pages;
        if span > crate::kernel::Time::ZERO {
            self.compute(span).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_recently_used_buffer_is_evicted() {
        let mut registered = Registered::default();
        let mut touch = |bytes| registered.touch(bytes, 2);
        assert_eq!(
            [1, 2, 1, 3, 1, 2].map(&mut touch),
            [false, false, true, false, true, false]
        );
    }
}
