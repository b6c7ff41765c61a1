//! Counters of the adapter's operations, for `verbena run --stats` and `verbena info`.

mod file;

use file::CounterFile;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use verbena_hca_os::thread_number;

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Counters of one thread. They only grow. Counters are 8 bytes each, in the order of
        /// `NAMES`.
        #[derive(Default)]
        #[repr(C, align(128))]
        pub struct Shard {
            $($(#[$doc])* pub $name: Counter,)*
        }

        impl Shard {
            fn share(&self) {
                $(self.$name.0.fetch_or(SHARED, Ordering::Relaxed);)*
            }
        }

        const NAMES: &[&str] = &[$(stringify!($name)),*];

        impl Counters {
            /// Returns names and values, summed over all threads.
            pub fn all(&self) -> Vec<(&'static str, u64)> {
                vec![$((
                    stringify!($name),
                    self.shards().iter().map(|shard| shard.$name.value()).sum(),
                )),*]
            }
        }
    };
}

counters! {
    /// Messages sent to a receive queue.
    send_operations,
    /// RDMA writes.
    write_operations,
    /// RDMA reads.
    read_operations,
    /// Compare-and-swap, fetch-and-add, atomic write.
    atomic_operations,
    /// Flushes, window binds, invalidations.
    other_operations,
    /// Bytes of all of these.
    operation_bytes,
    /// Messages taken from a receive queue.
    receive_operations,
    /// Bytes of them.
    receive_bytes,
    /// Operations done by a copy or an atomic on shared pages.
    mapped_path_operations,
    /// Bytes of them.
    mapped_path_bytes,
    /// Operations in which the kernel copied.
    cma_path_operations,
    /// Bytes of them.
    cma_path_bytes,
    /// Records sent through a channel.
    ring_path_operations,
    /// Bytes of payload in them.
    ring_path_bytes,
    /// Messages sent by a lane.
    lane_path_operations,
    /// Bytes of them.
    lane_path_bytes,
    /// Operations sent to a queue pair of another host, by packets.
    udp_path_operations,
    /// Bytes of them.
    udp_path_bytes,
    /// Packets sent, including retransmissions.
    packets_sent,
    /// Intact packets received for a local queue pair.
    packets_received,
    /// Intact packets received at a private port, which replaces 4791 where another program has
    /// that.
    private_port_packets,
    /// Packets received through the TCP fallback, where UDP does not pass.
    tunnel_packets_received,
    /// Packets received from hosts that are not allowed to send any.
    foreign_packets,
    /// Packets received with a wrong ICRC.
    damaged_packets,
    /// Packets received that a congested switch had marked.
    marked_packets,
    /// Congestion notifications (CNP) sent.
    congestion_notifications_sent,
    /// Congestion notifications (CNP) received.
    congestion_notifications_received,
    /// Receiver-not-ready answers received.
    rnr_retries,
    /// Operations retried because the peer did not answer.
    lost_retries,
    /// Completions with an error.
    failed_completions,
}

/// Number of shards: the last one is shared by all later threads.
const SHARDS: u32 = 64;

/// Counters of a process: a shard a thread, so that exact counting needs no locked instruction.
///
/// With VERBENA_STATS_DIR they live in a file of that directory, mapped shared: a reader of the
/// file sees them at any time, also after the process has ended in any way.
pub struct Counters {
    shards: NonNull<Shard>,
    _memory: ShardMemory,
}

/// Owner of the shards.
enum ShardMemory {
    Heap(NonNull<[Shard]>),
    File { _file: CounterFile },
}

impl Drop for ShardMemory {
    fn drop(&mut self) {
        if let ShardMemory::Heap(shards) = self {
            // SAFETY: the pointer came from a box, and only this drop rebuilds it.
            drop(unsafe { Box::from_raw(shards.as_ptr()) });
        }
    }
}

// SAFETY: the shards are atomics, and live as long as the memory that is kept beside them.
unsafe impl Send for Counters {}
// SAFETY: the shards are atomics, and live as long as the memory that is kept beside them.
unsafe impl Sync for Counters {}

impl Default for Counters {
    /// Returns counters in private memory of this process.
    fn default() -> Counters {
        let shards: Box<[Shard]> = (0..SHARDS).map(|_| Shard::default()).collect();
        let shards = NonNull::from(Box::leak(shards));
        Counters {
            shards: shards.cast(),
            _memory: ShardMemory::Heap(shards),
        }
        .prepared()
    }
}

impl Counters {
    /// Returns counters in a new file of the directory that VERBENA_STATS_DIR names; in private
    /// memory if it is unset or, with a message, if the file cannot be made.
    pub fn of_process() -> Counters {
        let Some(directory) = std::env::var_os("VERBENA_STATS_DIR") else {
            return Counters::default();
        };
        match CounterFile::create(directory.as_ref()) {
            Ok(file) => Counters {
                shards: file.shards(),
                _memory: ShardMemory::File { _file: file },
            }
            .prepared(),
            Err(error) => {
                // The directory is removed when the process that reads it ends.
                if error.kind() != std::io::ErrorKind::NotFound {
                    eprintln!(
                        "verbena: cannot create a file for counters in {}: {error}; this \
                         process will be missing in the statistics",
                        std::path::Path::new(&directory).display()
                    );
                }
                Counters::default()
            }
        }
    }

    fn prepared(self) -> Counters {
        if let Some(last) = self.shards().last() {
            last.share();
        }
        self
    }

    fn shards(&self) -> &[Shard] {
        // SAFETY: so many shards exist, zero at first, as long as `_memory` lives.
        unsafe { std::slice::from_raw_parts(self.shards.as_ptr(), SHARDS as usize) }
    }

    /// Returns the calling thread's shard.
    #[inline]
    pub fn shard(&self) -> &Shard {
        let thread = thread_number::current();
        &self.shards()[thread.min(SHARDS - 1) as usize]
    }
}

impl Shard {
    /// Counts a record with so many of the user's bytes that was stored in a channel.
    #[inline]
    pub fn count_stored(&self, bytes: u64) {
        self.operation_bytes.add(bytes);
        self.ring_path_operations.add(1);
        self.ring_path_bytes.add(bytes);
    }

    /// Counts an operation done in shared pages.
    #[inline]
    pub fn count_mapped(&self, bytes: u64) {
        self.operation_bytes.add(bytes);
        self.mapped_path_operations.add(1);
        self.mapped_path_bytes.add(bytes);
    }

    /// Counts a message sent by a lane.
    #[inline]
    pub fn count_by_lane(&self, bytes: u64) {
        self.send_operations.add(1);
        self.operation_bytes.add(bytes);
        self.lane_path_operations.add(1);
        self.lane_path_bytes.add(bytes);
    }
}

/// A counter. The highest bit is set if several threads share it.
#[derive(Default)]
pub struct Counter(AtomicU64);

const SHARED: u64 = 1 << 63;

impl Counter {
    /// Adds `amount`. Only the thread of its shard may add to a counter that is not shared.
    #[inline]
    pub fn add(&self, amount: u64) {
        let before = self.0.load(Ordering::Relaxed);
        if before & SHARED == 0 {
            // A sum that reaches the bit of shared ones is only counted more slowly.
            self.0.store(before.wrapping_add(amount), Ordering::Relaxed);
        } else {
            self.add_shared(amount);
        }
    }

    #[cold]
    fn add_shared(&self, amount: u64) {
        self.0.fetch_add(amount, Ordering::Relaxed);
    }

    /// Returns the present value.
    pub fn value(&self) -> u64 {
        self.0.load(Ordering::Relaxed) & !SHARED
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn total(counters: &Counters, wanted: &str) -> u64 {
        let all = counters.all();
        let found = all.iter().find(|(name, _)| *name == wanted);
        found.map_or(0, |(_, value)| *value)
    }

    #[test]
    fn counts_of_many_threads_add_up() {
        const THREADS: u64 = 150;
        const EACH: u64 = 1000;
        let counters = Counters::default();
        std::thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    for _ in 0..EACH {
                        counters.shard().write_operations.add(1);
                        counters.shard().operation_bytes.add(8);
                    }
                });
            }
        });
        assert_eq!(total(&counters, "write_operations"), THREADS * EACH);
        assert_eq!(total(&counters, "operation_bytes"), THREADS * EACH * 8);
        assert_eq!(total(&counters, "read_operations"), 0);
    }
}
