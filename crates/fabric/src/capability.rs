//! What a fabric can do, as data: a workload asks before it posts, and a result records it.

use crate::rails::Rails;
use verbena_measure::bus::Bus;

/// Which of the three kinds of fabric this is, or a fabric for tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FabricKind {
    /// The system's libibverbs with a real adapter.
    Hardware,
    /// Verbena's own adapter behind the same C ABI.
    Software,
    /// A timing model in virtual time.
    Model,
    /// An in-process fabric for tests; its figures mean nothing beyond them.
    Test,
}

impl FabricKind {
    /// The word used in files.
    pub fn word(self) -> &'static str {
        match self {
            FabricKind::Hardware => "hardware",
            FabricKind::Software => "software",
            FabricKind::Model => "model",
            FabricKind::Test => "test",
        }
    }
}

/// The transports that a fabric offers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Transports {
    /// Reliable connection.
    pub rc: bool,
    /// Unreliable connection.
    pub uc: bool,
    /// Unreliable datagram.
    pub ud: bool,
    /// Extended reliable connection (the papers' "SRC").
    pub xrc: bool,
}

/// Optional operations and objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Operations {
    /// Eight-byte compare-and-swap and fetch-and-add.
    pub atomics: bool,
    /// Shared receive queues.
    pub shared_receive: bool,
    /// Completion events.
    pub events: bool,
    /// Memory on the adapter.
    pub device_memory: bool,
}

/// The link under a fabric, from which upper bounds are computed (measurement rule 17).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Link {
    /// Data rate after line encoding, in bits a second.
    pub data_bits_per_second: f64,
    /// Bytes of payload in a full packet.
    pub mtu: u32,
    /// Bytes of headers and checks around each packet's payload, for RC.
    pub packet_overhead: u32,
    /// The bus between the host's memory and the link, where it is known.
    pub bus: Option<Bus>,
}

/// What a fabric is and can do.
#[derive(Debug, Clone, PartialEq)]
pub struct Capabilities {
    /// Which kind it is.
    pub kind: FabricKind,
    /// Device or profile name, e.g. `verbena0`, `mlx5_0`, `connectx-ddr`.
    pub device: String,
    /// Firmware or version, where known.
    pub version: String,
    /// Transports offered.
    pub transports: Transports,
    /// Operations offered.
    pub operations: Operations,
    /// Largest inline payload in bytes that a queue pair may ask for.
    pub max_inline: u32,
    /// Most scatter/gather elements of a request.
    pub max_segments: u32,
    /// Deepest send or receive queue.
    pub max_depth: u32,
    /// Deepest completion queue.
    pub max_completions: u32,
    /// Most queue pairs a process may create.
    pub max_pairs: u32,
    /// Reads and atomics in flight on a queue pair.
    pub max_reads: u32,
    /// The largest message in bytes; of a datagram, [`Link::mtu`].
    pub max_message: u64,
    /// The link, where there is one between the processes. `None` for a path through memory.
    pub link: Option<Link>,
    /// Ports like this one that pairs take in turn.
    pub rails: Rails,
}
