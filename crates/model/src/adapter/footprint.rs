//! Host memory used by connections: memory that the driver gives the adapter for contexts, and the
//! queues themselves.
//!
//! Sources: `reference` layouts of mthca and mlx4 (a work queue entry has at least 64 bytes, a
//! completion 32); memfree, section 4.4.

use super::load::COMPLETION;
use crate::profile::{Adapter, ContextHome};

/// Smallest stride of a work queue entry.
const ENTRY: u64 = 64;
/// Queues are allocated in pages.
const PAGE: u64 = 4096;

/// Returns the bytes of host memory for the contexts of `connections` queue pairs, each table
/// rounded up to whole chunks. Queue pair contexts, extended contexts, completion queues,
/// translations and protection entries are separate tables with one entry per connection. Returns 0
/// if contexts reside on the adapter.
pub fn context_memory(adapter: &Adapter, connections: u64) -> u64 {
    if adapter.home == ContextHome::Adapter {
        return 0;
    }
    let caches = &adapter.caches;
    // Queue pair context, extended context, read resources (4 x 32 B), CQ context, protection
    // entry, translations.
    let tables = [
        caches.context.0.saturating_sub(32),
        32,
        128,
        64,
        64,
        caches.translation_line.0,
    ];
    tables
        .iter()
        .map(|entry| (entry * connections).next_multiple_of(caches.chunk.0))
        .sum()
}

/// Returns the bytes of a queue of `depth` work requests.
pub fn work_queue(depth: u64) -> u64 {
    (depth * ENTRY).next_multiple_of(PAGE)
}

/// Returns the bytes of a queue of `depth` completions.
pub fn completion_queue(depth: u64) -> u64 {
    (depth * COMPLETION).next_multiple_of(PAGE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::{Library, Overrides};

    #[test]
    fn only_memfree_adapters_use_host_memory() {
        let library = Library::shipped(&Overrides::none()).expect("shipped profiles are sound");
        let adapter = |name: &str| library.system(name).expect("a shipped system").adapter;
        assert_eq!(context_memory(&adapter("infinihost3-mem-sdr"), 128), 0);
        let one = context_memory(&adapter("infinihost3-memfree-sdr"), 1);
        let many = context_memory(&adapter("infinihost3-memfree-sdr"), 100_000);
        assert!(one > 0 && many > 100_000 * 256, "{one} {many}");
    }

    #[test]
    fn queues_occupy_whole_pages() {
        assert_eq!((work_queue(1), work_queue(65)), (4096, 8192));
        assert_eq!(completion_queue(0), 0);
    }
}
