//! The sections of each kind of profile. A field's doc comment states its physical meaning;
//! `docs/models-parts.md` has the equations.

use super::error::Error;
use super::quantity::{Bytes, Count, Ports, Rate, Ratio};
use super::reader::{Field, Section};
use crate::kernel::Time;
use std::sync::Arc;

/// Declares a section of a profile: a struct, and a reader that takes every key exactly once.
macro_rules! section {
    ($(#[$doc:meta])* $name:ident { $($(#[$field_doc:meta])* $field:ident : $type:ty),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone)]
        pub struct $name { $($(#[$field_doc])* pub $field: $type),* }
        impl $name {
            pub(in crate::profile) fn read(section: &Section<'_>) -> Result<$name, Error> {
                let value = $name { $($field: Field::take(section, stringify!($field))?),* };
                section.finish()?;
                Ok(value)
            }
        }
    };
}

mod collectives;
mod congestion;
mod mpi;
mod software;
mod topology;

pub use collectives::{
    AllGather, AllReduce, AllToAll, Barrier, Broadcast, Choice, Choices, Collectives, Ranks,
    Reduce, ReduceScatter, Rooted, When,
};
pub use congestion::{Congestion, Marking, RateControl, Telling};
pub use mpi::{Channel, Mpi, Pipeline, Rendezvous, Unexpected};
pub use software::{Caches as HostCaches, ChannelWork, Cores, OwnWork, Software};
pub use topology::{Dragonfly, FatTree, Topology, Torus};

section! {
    /// The processors of a host.
    Cpu {
        /// Number of cores; each process has a core to itself.
        cores: Count,
        /// Time to build a work request, excluding its submission to the adapter.
        post: Time,
        /// Time a core is busy with an uncached write of 8 bytes, or of a full 64-byte
        /// write-combining buffer.
        doorbell: Time,
        /// The same for each further full buffer of one request; equal to `doorbell` if absent.
        further: Option<Time>,
        /// A load that misses the core's caches and is served by memory or by another core's cache:
        /// the cost of observing a completion or a flag written by another core or device.
        miss: Time,
        /// Bytes that a miss fetches: a cache line, or the sector of several lines that are fetched
        /// together.
        line: Bytes,
        /// Rate at which one core copies uncached memory, in bytes read per second (as many are
        /// written).
        copy: Rate,
        /// Last-level cache per core, or a core's share of it.
        cache: Bytes,
        /// Cores that share one last-level cache.
        sharing: Count,
        /// Peak floating-point rate of one core.
        peak: Rate,
    }
}

impl Cpu {
    /// Returns how much later than core 0 core `core` sees a changed flag in shared memory: the
    /// caches fetch the line from one another in turn, and the cores of one cache see it together.
    pub fn behind(&self, core: usize) -> Time {
        self.miss * (core as u64 / self.sharing.0)
    }

    /// Returns the rate of data transfer from one core's cache to another's, one line at a time.
    pub fn between_caches(&self) -> Rate {
        Rate(self.line.0 as f64 / self.miss.seconds())
    }
}

section! {
    /// The memory shared by a host's processors and buses.
    Memory {
        /// Total bandwidth.
        bandwidth: Rate,
    }
}

section! {
    /// PCI Express: two directions, packets with overhead, a limited number of reads in flight at
    /// the chipset.
    Pcie {
        /// Rate of a lane after line encoding, in each direction.
        lane_rate: Rate,
        /// Lanes.
        lanes: Count,
        /// Largest payload of a memory write.
        payload: Bytes,
        /// Payload of a read completion.
        completion: Bytes,
        /// Largest read request.
        read_request: Bytes,
        /// Framing, sequence number, header and LCRC of a memory write or of a read request.
        request_overhead: Bytes,
        /// The same for a completion with data.
        completion_overhead: Bytes,
        /// Size of a data link layer packet: an acknowledgement or a flow-control update.
        link_packet: Bytes,
        /// Number of transaction packets per returned acknowledgement and flow-control update.
        acknowledged: Count,
        /// One-way delay of the link, transceivers included.
        propagation: Time,
        /// Time from a read request's arrival at the chipset until its data leave.
        read_latency: Time,
        /// The chipset's buffer for reads in progress. It is divided into blocks of `payload`
        /// bytes; a read holds one while it is executed, so the chipset executes `read_buffer /
        /// payload` reads at the same time.
        read_buffer: Bytes,
        /// Shortest time that a read holds its block, however small the read; if absent, a block is
        /// free when its data have left.
        read_occupancy: Option<Time>,
        /// Time from a write's arrival at the chipset until a processor sees it.
        write_latency: Time,
        /// Bytes of a processor's writes that may be in flight to the adapter: its credits for
        /// posted writes plus the chipset's buffer. A core that writes more stalls.
        posted: Bytes,
    }
}

section! {
    /// PCI-X: one bus for both directions, with split transactions.
    Pcix {
        /// Peak rate of the bus.
        rate: Rate,
        /// Payload of one burst.
        burst: Bytes,
        /// Bus time added per burst: arbitration, address and attribute phase, turn-around.
        burst_overhead: Time,
        /// Time from the end of a read's request phase until the bridge starts to return data.
        read_latency: Time,
        /// Largest read.
        read_request: Bytes,
        /// Number of split reads in flight.
        read_slots: Count,
        /// Delay of the bridge and chipset in either direction: from the end of a write on the bus
        /// until a processor sees it, and from a core's write until it is on the bus.
        bridge: Time,
    }
}

impl Pcie {
    /// Returns the number of reads that the chipset executes at the same time.
    pub fn read_slots(&self) -> u64 {
        (self.read_buffer.0 / self.payload.0).max(1)
    }
}

section! {
    /// A multi-socket host whose adapter is attached to a different socket than its processes and
    /// their memory.
    Numa {
        /// One-way latency from one socket to the other.
        latency: Time,
        /// Bandwidth between the sockets, in each direction.
        rate: Rate,
    }
}

/// The bus between host and adapter.
#[derive(Debug, Clone)]
pub enum Bus {
    /// PCI Express.
    Pcie(Arc<Pcie>),
    /// PCI-X.
    Pcix(Arc<Pcix>),
}

/// A host: processors, memory, bus.
#[derive(Debug, Clone)]
pub struct Host {
    /// Description.
    pub about: String,
    /// Processors.
    pub cpu: Cpu,
    /// Memory.
    pub memory: Memory,
    /// Bus.
    pub bus: Bus,
    /// The socket interconnect between bus and processes, if they are on different sockets.
    pub numa: Option<Numa>,
}

impl Host {
    pub(super) fn read(root: &Section<'_>) -> Result<Host, Error> {
        // A profile that names its own bus does not inherit that of its base.
        let (pcie, pcix) = (root.depth("pcie"), root.depth("pcix"));
        let wanted = |own: Option<usize>, other: Option<usize>| match (own, other) {
            (Some(own), Some(other)) => own <= other,
            (own, _) => own.is_some(),
        };
        let section = |key: &str, wanted: bool| if wanted { root.section(key) } else { Ok(None) };
        let bus = match (
            section("pcie", wanted(pcie, pcix))?,
            section("pcix", wanted(pcix, pcie))?,
        ) {
            (Some(pcie), None) => Bus::Pcie(Arc::new(Pcie::read(&pcie)?)),
            (None, Some(pcix)) => Bus::Pcix(Arc::new(Pcix::read(&pcix)?)),
            _ => {
                return Err(root.fault(
                    "pcie",
                    0,
                    "expected exactly one of the sections pcie and pcix",
                ));
            }
        };
        let numa = match root.section("numa")? {
            Some(section) if matches!(bus, Bus::Pcix(_)) => {
                let reason = "PCI-X has no socket: the models support this for PCI Express only";
                return Err(section.about_itself(reason.to_owned()));
            }
            Some(section) => Some(Numa::read(&section)?),
            None => None,
        };
        Ok(Host {
            numa,
            about: root.word("about")?,
            cpu: Cpu::read(&root.expect("cpu")?)?,
            memory: Memory::read(&root.expect("memory")?)?,
            bus,
        })
    }
}

/// How an adapter schedules the work of its queue pairs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheduling {
    /// One queue pair at a time: a switch waits until the payload of the previous queue pair's work
    /// has been read, and costs [`Engines::change`].
    Serial,
    /// Work of several queue pairs in parallel.
    Parallel,
}

section! {
    /// The packet-processing engines; the same values hold for both directions.
    Engines {
        /// Engines in each direction, each processing one item at a time; unlimited if absent.
        number: Option<Count>,
        /// Time for a work request to pass an engine; equal to `packet` if absent.
        request: Option<Time>,
        /// Time between consecutive work requests of an engine, or of a queue pair, if longer than
        /// the time they take to pass. It limits the rate and adds nothing to the latency.
        interval: Option<Time>,
        /// Engine time per packet, its acknowledgement included.
        packet: Time,
        /// Engine time to switch the queue pair; serial scheduling only.
        change: Option<Time>,
        /// Pipeline delay between engine and wire, or wire and bus; it occupies no resource.
        pipeline: Time,
    }
}

/// Which sufficiently short work requests the driver sends inside the doorbell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum BlueFlame {
    /// Any request.
    #[default]
    Any,
    /// Requests with inline payload only.
    Inline,
}

impl Field for Option<BlueFlame> {
    fn take(section: &Section<'_>, key: &str) -> Result<Option<BlueFlame>, Error> {
        section.choice_if_there(
            key,
            &[("any", BlueFlame::Any), ("inline", BlueFlame::Inline)],
        )
    }
}

section! {
    /// The sending side of an adapter.
    Send {
        /// DMA reads in flight.
        reads: Count,
        /// Largest work request that may travel inside the doorbell; if absent, the adapter fetches
        /// all of them.
        blueflame: Option<Bytes>,
        /// Which requests travel inside the doorbell.
        blueflame_takes: Option<BlueFlame>,
        /// Bytes fetched before a work request's length is known; the rest is fetched afterwards,
        /// for one request of a queue pair at a time. If absent, the doorbell states the length.
        first_fetch: Option<Bytes>,
    }
}

section! {
    /// The receiving side of an adapter.
    Receive {
        /// Time to take a receive request and report its completion, in addition to the cost of a
        /// write.
        request: Time,
        /// Receive requests that are prefetched; if absent, each is fetched when its message
        /// arrives.
        fetched_ahead: Option<Count>,
        /// Time to turn an RDMA read request into a response; if absent, the cost of a work
        /// request.
        read_turnaround: Option<Time>,
    }
}

/// Where connection and translation entries reside that are not cached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ContextHome {
    /// Memory of the adapter itself.
    Adapter,
    /// Memory of the host, over the bus.
    Host,
}

section! {
    /// Caches of the adapter, and the sizes of their entries.
    Caches {
        /// Queue pair contexts that fit; unlimited if absent.
        queue_pairs: Option<Count>,
        /// Translation entries (one page each) that fit; unlimited if absent.
        translations: Option<Count>,
        /// Bytes of a queue pair context.
        context: Bytes,
        /// Bytes of a line of translations.
        translation_line: Bytes,
        /// Translations per line.
        translations_line: Count,
        /// Page size.
        page: Bytes,
        /// Smallest unit of host memory that the driver gives the adapter for contexts, in bytes.
        chunk: Bytes,
    }
}

impl Caches {
    /// Returns the number of translation lines that fit, or `None` if all do.
    pub fn lines(&self) -> Option<u64> {
        let entries = self.translations?;
        Some((entries.0 / self.translations_line.0).max(1))
    }
}

section! {
    /// Memory on the adapter.
    OwnMemory {
        /// Latency of a read by the adapter.
        latency: Time,
        /// Bandwidth.
        bandwidth: Rate,
    }
}

/// An adapter.
#[derive(Debug, Clone)]
pub struct Adapter {
    /// Description.
    pub about: String,
    /// Scheduling of queue pairs.
    pub scheduling: Scheduling,
    /// Packet engines.
    pub engines: Engines,
    /// Sending side.
    pub send: Send,
    /// Receiving side.
    pub receive: Receive,
    /// Caches.
    pub caches: Caches,
    /// Where entries reside that are not cached.
    pub home: ContextHome,
    /// Memory on the adapter, if it has any.
    pub memory: Option<OwnMemory>,
}

impl Engines {
    /// Returns the time for a work request to pass an engine.
    pub fn request(&self) -> Time {
        self.request.unwrap_or(self.packet)
    }
}

impl Adapter {
    pub(super) fn read(root: &Section<'_>) -> Result<Adapter, Error> {
        let adapter = Adapter {
            about: root.word("about")?,
            scheduling: root.choice(
                "scheduling",
                &[
                    ("serial", Scheduling::Serial),
                    ("parallel", Scheduling::Parallel),
                ],
            )?,
            engines: Engines::read(&root.expect("engines")?)?,
            send: Send::read(&root.expect("send")?)?,
            receive: Receive::read(&root.expect("receive")?)?,
            caches: Caches::read(&root.expect("caches")?)?,
            home: root.choice(
                "contexts",
                &[
                    ("adapter", ContextHome::Adapter),
                    ("host", ContextHome::Host),
                ],
            )?,
            memory: match root.section("memory")? {
                Some(memory) => Some(OwnMemory::read(&memory)?),
                None => None,
            },
        };
        let changes = adapter.engines.change.is_some();
        if changes != (adapter.scheduling == Scheduling::Serial) {
            return Err(root.fault(
                "engines.change",
                0,
                "belongs to \"serial\" scheduling, not to \"parallel\"",
            ));
        }
        if adapter.home == ContextHome::Adapter && adapter.memory.is_none() {
            return Err(root.fault("contexts", 0, "\"adapter\" needs a section memory"));
        }
        Ok(adapter)
    }
}

section! {
    /// A link, at its rate after line encoding, with the headers around a packet's payload.
    Link {
        /// Description.
        about: String,
        /// Data rate of the whole link.
        rate: Rate,
        /// Payload of a full packet.
        mtu: Bytes,
        /// Headers and checks of any packet, and the gap between two packets. InfiniBand: LRH, BTH,
        /// ICRC, VCRC; Ethernet: preamble and gap, Ethernet header and check, IP, UDP, BTH, ICRC.
        packet_overhead: Bytes,
        /// Extended header of the first packet of a write, or of a read request.
        rdma_header: Bytes,
        /// Extended header of an acknowledgement or a read response.
        acknowledgement_header: Bytes,
        /// Extended header of a datagram.
        datagram_header: Bytes,
        /// Bytes before a datagram's data in the receive buffer.
        global_header: Bytes,
        /// Share of the link's rate used by link-level control packets.
        control: Ratio,
        /// Virtual lanes for data, each with its own buffers.
        lanes: Count,
        /// Buffer at one end of a link, per virtual lane. Inbound, it is the number of credits that
        /// the peer has; a packet leaves an adapter's buffer when the bus has taken its data, and a
        /// switch's when it has left for the next link. Outbound at an adapter, it bounds the
        /// payload requested from memory that has not yet left; a read beyond it waits.
        buffer: Bytes,
    }
}

section! {
    /// A cable.
    Cable {
        /// Description.
        about: String,
        /// Length in metres.
        length: Count,
        /// Delay per metre.
        per_metre: Time,
        /// Delay of the transceiver at each end.
        transceiver: Time,
    }
}

section! {
    /// A switch; several of them form a fat tree.
    Switch {
        /// Description.
        about: String,
        /// Number of ports.
        ports: Ports,
        /// Time from a packet's first byte in to its first byte out.
        latency: Time,
        /// Buffer for packets from one link on one lane; if absent, the size of an adapter's
        /// buffer.
        buffer: Option<Bytes>,
    }
}

impl Switch {
    /// Returns the number of nodes in a three-level fat tree of such switches, the largest
    /// supported.
    pub fn joins(&self) -> u64 {
        let half = self.ports.0 / 2;
        2 * half * half * half
    }
}

section! {
    /// The kernel's TCP/IP stack over InfiniBand.
    Stack {
        /// Description.
        about: String,
        /// Payload of one packet of the stack.
        mtu: Bytes,
        /// Time for system call, TCP, IP and driver per packet, in either direction.
        packet: Time,
        /// Time from the adapter's event until the interrupt handler runs, moderation included.
        interrupt: Time,
    }
}

section! {
    /// Gigabit Ethernet, for comparison.
    Ethernet {
        /// Description.
        about: String,
        /// Line rate.
        rate: Rate,
        /// Shortest frame.
        frame: Bytes,
        /// Preamble and gap around a frame.
        gap: Bytes,
    }
}

section! {
    /// The remote file service.
    FileService {
        /// Description.
        about: String,
        /// Bytes transferred at a time for one reader.
        block: Bytes,
        /// Time per block on either side: system call, page look-up, bookkeeping.
        block_time: Time,
        /// Blocks in flight per reader.
        blocks: Count,
    }
}

section! {
    /// Computation of applications between messages.
    Applications {
        /// Description.
        about: String,
        /// LAMMPS' rhodopsin benchmark: time of one step of its 32,000 atoms on one core. Recorded
        /// computation times are scaled by it.
        rhodopsin_step: Time,
        /// Share of the peak rate that matrix multiplication reaches on one core.
        gemm: Ratio,
        /// Floating-point operations per lattice QCD site update.
        qcd_flops: Count,
        /// Bytes to and from memory per lattice QCD site update.
        qcd_bytes: Bytes,
        /// Share of the peak rate that the update reaches when memory is no bottleneck.
        qcd_share: Ratio,
        /// Share of the peak rate that NAS kernels reach.
        nas_share: Ratio,
    }
}

/// A system: the names of the profiles that make it up.
#[derive(Debug, Clone)]
pub struct SystemNames {
    /// Description.
    pub about: String,
    /// Host profile.
    pub host: String,
    /// Adapter profile.
    pub adapter: String,
    /// Link profile.
    pub link: String,
    /// Cable profile.
    pub cable: String,
    /// Switch profile; if absent, the nodes are connected back to back.
    pub switch: Option<String>,
    /// Topology of several switches; if absent, a fat tree of as many as needed.
    pub topology: Option<String>,
    /// Congestion control profile.
    pub congestion: Option<String>,
    /// Message-passing profile.
    pub mpi: Option<String>,
    /// Ports used by each adapter.
    pub ports: Count,
    /// Nodes.
    pub nodes: Count,
}

impl SystemNames {
    pub(super) fn read(root: &Section<'_>) -> Result<SystemNames, Error> {
        Ok(SystemNames {
            about: root.word("about")?,
            host: root.word("host")?,
            adapter: root.word("adapter")?,
            link: root.word("link")?,
            cable: root.word("cable")?,
            switch: Field::take(root, "switch")?,
            topology: Field::take(root, "topology")?,
            congestion: Field::take(root, "congestion")?,
            mpi: Field::take(root, "mpi")?,
            ports: Field::take(root, "ports")?,
            nodes: Field::take(root, "nodes")?,
        })
    }
}

/// Declares the kinds of profiles: each kind's word in a file, and its content type.
macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident($type:ty) = $word:literal),* $(,)?) => {
        /// The kind of a profile.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum ProfileKind { $($(#[$doc])* $kind),* }

        impl ProfileKind {
            const WORDS: &[(&str, ProfileKind)] = &[$(($word, ProfileKind::$kind)),*];
        }

        /// One profile of any kind.
        #[derive(Debug, Clone)]
        pub enum Profile { $($(#[$doc])* $kind($type)),* }

        impl Profile {
            /// Reads the profile of kind `kind` whose root section is `root`.
            pub(super) fn read(kind: ProfileKind, root: &Section<'_>) -> Result<Profile, Error> {
                let profile = match kind {
                    $(ProfileKind::$kind => Profile::$kind(<$type>::read(root)?)),*
                };
                root.finish()?;
                if let Profile::Mpi(mpi) = &profile {
                    mpi.check(root)?;
                }
                Ok(profile)
            }
        }
    };
}

kinds! {
    /// A host.
    Host(Host) = "host",
    /// An adapter.
    Adapter(Adapter) = "adapter",
    /// A link.
    Link(Link) = "link",
    /// A cable.
    Cable(Cable) = "cable",
    /// A switch.
    Switch(Switch) = "switch",
    /// A topology of switches.
    Topology(Topology) = "topology",
    /// Congestion control.
    Congestion(Congestion) = "congestion",
    /// A message-passing library.
    Mpi(Mpi) = "mpi",
    /// A network stack.
    Stack(Stack) = "stack",
    /// Ethernet.
    Ethernet(Ethernet) = "ethernet",
    /// A file service.
    FileService(FileService) = "file-service",
    /// Applications.
    Applications(Applications) = "applications",
    /// The software adapter.
    Software(Software) = "software",
    /// A system.
    System(SystemNames) = "system",
}

impl ProfileKind {
    /// Returns the word for this kind in profiles.
    pub fn word(self) -> &'static str {
        let found = ProfileKind::WORDS.iter().find(|(_, kind)| *kind == self);
        found.map_or("", |(word, _)| word)
    }

    pub(super) fn from_word(word: &str) -> Option<ProfileKind> {
        let found = ProfileKind::WORDS.iter().find(|(known, _)| *known == word);
        found.map(|(_, kind)| *kind)
    }

    /// Returns the message `wrong`, followed by the list of valid kinds.
    pub(super) fn expected(wrong: &str) -> String {
        let words: Vec<_> = ProfileKind::WORDS.iter().map(|(word, _)| *word).collect();
        format!("{wrong}; expected one of {}", words.join(", "))
    }
}

/// A system with its parts.
#[derive(Debug, Clone)]
pub struct System {
    /// Name of its profile.
    pub name: String,
    /// Description.
    pub about: String,
    /// Host.
    pub host: Host,
    /// Adapter.
    pub adapter: Adapter,
    /// Link.
    pub link: Link,
    /// Cable.
    pub cable: Cable,
    /// Switch; if absent, the nodes are connected back to back.
    pub switch: Option<Switch>,
    /// Topology of several switches; if absent, a fat tree of as many as needed.
    pub topology: Option<Topology>,
    /// Congestion control; if absent, buffer credits alone limit senders.
    pub congestion: Option<Congestion>,
    /// Message passing.
    pub mpi: Option<Mpi>,
    /// Ports used by each adapter.
    pub ports: u64,
    /// Nodes.
    pub nodes: u64,
}

impl System {
    /// Returns the largest number of nodes that it can connect.
    pub fn joins(&self) -> u64 {
        match (&self.topology, &self.switch) {
            (Some(topology), _) => topology.wiring.nodes() as u64,
            (None, Some(switch)) => switch.joins(),
            (None, None) => 2,
        }
    }
}
