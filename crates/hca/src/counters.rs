//! How often the adapter did what, for `verbena run --stats` and `verbena info`.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Counters of one thread. They only grow.
        #[derive(Default)]
        #[repr(align(128))]
        pub struct Shard {
            $($(#[$doc])* pub $name: Counter,)*
        }

        impl Counters {
            /// Names and values, of all threads together.
            pub fn all(&self) -> Vec<(&'static str, u64)> {
                vec![$((
                    stringify!($name),
                    self.shards.iter().map(|shard| shard.$name.value()).sum(),
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
    /// Receiver-not-ready answers got.
    rnr_retries,
    /// Operations tried again because the peer was not there.
    lost_retries,
    /// Completions with an error.
    failed_completions,
}

/// Threads that count by themselves; later ones share one shard.
const SHARDS: usize = 64;

/// Counters of a process: a shard a thread, so that counting exactly needs no locked instruction.
pub struct Counters {
    shards: Box<[Shard]>,
}

static NEXT_THREAD: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static THREAD: usize = NEXT_THREAD.fetch_add(1, Ordering::Relaxed);
}

impl Default for Counters {
    fn default() -> Counters {
        Counters {
            shards: (0..SHARDS).map(|_| Shard::default()).collect(),
        }
    }
}

impl Counters {
    /// Where the calling thread counts.
    #[inline]
    pub fn shard(&self) -> &Shard {
        let thread = THREAD.with(|thread| *thread);
        &self.shards[thread.min(SHARDS - 1)]
    }
}

/// A counter.
#[derive(Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds `amount`, to the calling thread's own counter.
    #[inline]
    pub fn add(&self, amount: u64) {
        if THREAD.with(|thread| *thread) < SHARDS - 1 {
            self.0.store(
                self.0.load(Ordering::Relaxed).wrapping_add(amount),
                Ordering::Relaxed,
            );
        } else {
            self.0.fetch_add(amount, Ordering::Relaxed);
        }
    }

    /// The value now.
    pub fn value(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Counters {
    /// Writes them into the directory that VERBENA_STATS_DIR names, a JSON file a process. Without it does nothing; a
    /// directory that cannot be written to loses the figures and nothing else.
    pub fn write_file(&self) {
        let Some(directory) = std::env::var_os("VERBENA_STATS_DIR") else {
            return;
        };
        let pid = std::process::id();
        let command = std::fs::read_to_string("/proc/self/comm").unwrap_or_default();
        let command: String = command
            .trim()
            .chars()
            .map(|c| {
                if c == '"' || c == '\\' || c.is_control() {
                    '?'
                } else {
                    c
                }
            })
            .collect();
        let mut text = format!("{{\"pid\":{pid},\"command\":\"{command}\",\"counters\":{{");
        for (index, (name, value)) in self.all().into_iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            let _ = write!(text, "{comma}\"{name}\":{value}");
        }
        text.push_str("}}\n");
        let path = std::path::Path::new(&directory).join(format!("{pid}.json"));
        let _ = std::fs::write(path, text);
    }
}
