//! The capabilities of a fabric as data: workloads check them before posting, and results record
//! them.

use crate::rails::Rails;
use verbena_measure::bound::Bound;
use verbena_measure::bus::Bus;

/// The kind of a fabric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FabricKind {
    /// The system's libibverbs with a real adapter.
    Hardware,
    /// Verbena's software adapter behind the same C ABI.
    Software,
    /// A timing model in virtual time.
    Model,
    /// An in-process fabric for tests; its figures have no other meaning.
    Test,
}

impl FabricKind {
    /// Returns the word used in files.
    pub fn word(self) -> &'static str {
        match self {
            FabricKind::Hardware => "hardware",
            FabricKind::Software => "software",
            FabricKind::Model => "model",
            FabricKind::Test => "test",
        }
    }
}

/// Supported transports.
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

/// The link of a fabric, for computing upper bounds (measurement rule 17).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Link {
    /// Data rate after line encoding, in bits per second.
    pub data_bits_per_second: f64,
    /// Bytes of payload in a full packet.
    pub mtu: u32,
    /// Bytes of headers and checks around each packet's payload, for RC.
    pub packet_overhead: u32,
    /// The bus between host memory and link, if known.
    pub bus: Option<HostBus>,
}

/// The bus of a host.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum HostBus {
    /// That of an adapter.
    Measured(Bus),
    /// That of a profile.
    Modelled {
        /// Its kind.
        name: &'static str,
        /// Payload in bytes per second, in one direction.
        payload: f64,
        /// Whether both directions share it.
        is_shared: bool,
    },
}

impl HostBus {
    /// Returns the bound of payload in so many directions together.
    pub fn bound(self, directions: f64) -> Bound {
        let (bound, directions) = match self {
            HostBus::Measured(bus) => (bus.bound(), directions),
            HostBus::Modelled {
                name,
                payload,
                is_shared,
            } => {
                let bound = Bound {
                    value: payload,
                    reason: format!("{name} of the host, {:.1} GB/s of payload", payload / 1e9),
                };
                (bound, if is_shared { 1.0 } else { directions })
            }
        };
        Bound {
            value: bound.value * directions,
            ..bound
        }
    }
}

/// Kind and capabilities of a fabric.
#[derive(Debug, Clone, PartialEq)]
pub struct Capabilities {
    /// Kind.
    pub kind: FabricKind,
    /// Device or profile name, e.g. `verbena0`, `mlx5_0`, `connectx-ddr`.
    pub device: String,
    /// Firmware or version, if known.
    pub version: String,
    /// Supported transports.
    pub transports: Transports,
    /// Supported operations.
    pub operations: Operations,
    /// Largest inline payload in bytes that a queue pair may request.
    pub max_inline: u32,
    /// Most scatter/gather elements per request.
    pub max_segments: u32,
    /// Deepest send or receive queue.
    pub max_depth: u32,
    /// Deepest completion queue.
    pub max_completions: u32,
    /// Most queue pairs a process may create.
    pub max_pairs: u32,
    /// Reads and atomics in flight per queue pair.
    pub max_reads: u32,
    /// Largest message in bytes; for datagrams see [`Link::mtu`].
    pub max_message: u64,
    /// The link between the processes; `None` for a path through memory.
    pub link: Option<Link>,
    /// Ports that queue pairs use in turn.
    pub rails: Rails,
}
