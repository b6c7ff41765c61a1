//! How often the adapter did what, for `verbena run --stats` and `verbena info`.

use crate::thread_number;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Write as _};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Counters of one thread. They only grow.
        #[derive(Default)]
        #[repr(align(128))]
        pub struct Shard {
            $($(#[$doc])* pub $name: Counter,)*
        }

        impl Shard {
            fn share(&self) {
                $(self.$name.0.fetch_or(SHARED, Ordering::Relaxed);)*
            }
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
    /// Operations handed to a queue pair of another host, by packets.
    udp_path_operations,
    /// Bytes of them.
    udp_path_bytes,
    /// Packets sent, again those that were lost.
    packets_sent,
    /// Packets received that were whole and for a queue pair of ours.
    packets_received,
    /// Packets received whole at a private port, which stands in for 4791 where somebody else has that.
    private_port_packets,
    /// Packets received through a tunnel, over TCP, where UDP does not pass.
    tunnel_packets_received,
    /// Packets received from hosts that are not allowed to send any.
    foreign_packets,
    /// Packets received whose ICRC was wrong.
    damaged_packets,
    /// Packets received that a congested switch had marked.
    marked_packets,
    /// Notifications of congestion (CNP) sent.
    congestion_notifications_sent,
    /// Notifications of congestion (CNP) received.
    congestion_notifications_received,
    /// Receiver-not-ready answers got.
    rnr_retries,
    /// Operations tried again because the peer was not there.
    lost_retries,
    /// Completions with an error.
    failed_completions,
}

/// Threads that count by themselves; later ones share one shard.
const SHARDS: u32 = 64;

/// Counters of a process: a shard a thread, so that counting exactly needs no locked instruction.
pub struct Counters {
    shards: Box<[Shard]>,
}

impl Default for Counters {
    fn default() -> Counters {
        let shards: Box<[Shard]> = (0..SHARDS).map(|_| Shard::default()).collect();
        if let Some(last) = shards.last() {
            last.share();
        }
        Counters { shards }
    }
}

impl Counters {
    /// Where the calling thread counts.
    #[inline]
    pub fn shard(&self) -> &Shard {
        let thread = thread_number::current();
        &self.shards[thread.min(SHARDS - 1) as usize]
    }
}

impl Shard {
    /// A record with so many of the user's bytes is in a channel.
    #[inline]
    pub fn count_stored(&self, bytes: u64) {
        self.operation_bytes.add(bytes);
        self.ring_path_operations.add(1);
        self.ring_path_bytes.add(bytes);
    }
}

/// A counter. The highest bit says that threads share it.
#[derive(Default)]
pub struct Counter(AtomicU64);

const SHARED: u64 = 1 << 63;

impl Counter {
    /// Adds `amount`. Only one thread may add to a counter that is not shared: that of its shard.
    #[inline]
    pub fn add(&self, amount: u64) {
        let before = self.0.load(Ordering::Relaxed);
        if before & SHARED == 0 {
            self.0
                .store(before.wrapping_add(amount) & !SHARED, Ordering::Relaxed);
        } else {
            self.add_shared(amount);
        }
    }

    #[cold]
    fn add_shared(&self, amount: u64) {
        self.0.fetch_add(amount, Ordering::Relaxed);
    }

    /// The value now.
    pub fn value(&self) -> u64 {
        self.0.load(Ordering::Relaxed) & !SHARED
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
        let _ = new_file(Path::new(&directory), pid)
            .and_then(|mut file| file.write_all(text.as_bytes()));
    }
}

/// A file of its own for a process. Another of the same number may have left one: a process of another PID namespace, or
/// this one before it became another program (execve(2)).
fn new_file(directory: &Path, pid: u32) -> io::Result<File> {
    let first = std::iter::once(format!("{pid}.json"));
    let names = first.chain((1u32..).map(|further| format!("{pid}-{further}.json")));
    for name in names {
        match File::create_new(directory.join(name)) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => (),
            made => return made,
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
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
    fn processes_of_one_number_leave_a_file_each() {
        let directory =
            std::env::temp_dir().join(format!("verbena-counters-{}", std::process::id()));
        std::fs::create_dir(&directory).unwrap();
        const PROCESSES: usize = 40;
        std::thread::scope(|scope| {
            for _ in 0..PROCESSES {
                scope.spawn(|| new_file(&directory, 7).unwrap().write_all(b"{}").unwrap());
            }
        });
        assert_eq!(std::fs::read_dir(&directory).unwrap().count(), PROCESSES);
        std::fs::remove_dir_all(&directory).unwrap();
        assert!(new_file(&directory, 7).is_err());
    }

    #[test]
    fn whatever_many_threads_count_is_there() {
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
