//! Host memory that connections cost: what the driver gives the adapter for contexts, and the queues themselves.
//!
//! Sources: `reference` layouts of mthca and mlx4 (entries of a queue are 64 bytes at least, a completion 32); memfree,
//! section 4.4.

use crate::profile::{Adapter, ContextHome};

/// Smallest stride of a work queue entry.
const ENTRY: u64 = 64;
/// A completion queue entry.
const COMPLETION: u64 = 32;
/// Queues are allocated in pages.
const PAGE: u64 = 4096;

/// Bytes of host memory that the contexts of `connections` queue pairs take: for each table the pieces that the driver
/// gives the adapter. Queue pair and extended contexts are a table each, completion queues, translations and protection
/// entries others; one of each a connection. Nothing where contexts live on the adapter.
pub fn context_memory(adapter: &Adapter, connections: u64) -> u64 {
    if adapter.home == ContextHome::Adapter {
        return 0;
    }
    let caches = &adapter.caches;
    // Queue pair context, extended context, read resources (4 x 32 B), CQ context, protection entry, translations.
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

/// Bytes of a queue of `depth` work requests.
pub fn work_queue(depth: u64) -> u64 {
    (depth * ENTRY).next_multiple_of(PAGE)
}

/// Bytes of a queue of `depth` completions.
pub fn completion_queue(depth: u64) -> u64 {
    (depth * COMPLETION).next_multiple_of(PAGE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::{Library, Overrides};

    #[test]
    fn only_an_adapter_without_memory_takes_the_host_s() {
        let library = Library::shipped(&Overrides::none()).expect("shipped profiles are sound");
        let adapter = |name: &str| library.system(name).expect("a shipped system").adapter;
        assert_eq!(context_memory(&adapter("infinihost3-mem-sdr"), 128), 0);
        let one = context_memory(&adapter("infinihost3-memfree-sdr"), 1);
        let many = context_memory(&adapter("infinihost3-memfree-sdr"), 100_000);
        assert!(one > 0 && many > 100_000 * 256, "{one} {many}");
    }

    #[test]
    fn queues_are_whole_pages() {
        assert_eq!((work_queue(1), work_queue(65)), (4096, 8192));
        assert_eq!(completion_queue(0), 0);
    }
}
