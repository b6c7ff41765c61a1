//! What each kind of profile holds. The doc of a field says what it means physically; `docs/models.md` has the equations.

use super::error::Error;
use super::quantity::{Bytes, Count, Ports, Rate, Ratio};
use super::reader::{Field, Section};
use crate::kernel::Time;
use std::sync::Arc;

/// Declares a section of a profile: a struct and how it is read, every key once.
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
        /// Cores; a process has one for itself.
        cores: Count,
        /// Building a work request, without handing it over.
        post: Time,
        /// An uncached write of eight bytes, or of a full write-combining buffer of 64: how long the core is busy with it.
        doorbell: Time,
        /// The same of each further full buffer of the same request; without it as long.
        further: Option<Time>,
        /// A load that misses the core's caches, answered by memory or by another core's cache: what it costs to see a
        /// completion or a flag that somebody else has written.
        miss: Time,
        /// What a miss brings: a cache line, or the sector of several that are fetched together.
        line: Bytes,
        /// Copying memory that is in no cache, one core: bytes read, as many written.
        copy: Rate,
        /// Last-level cache of a core or its share.
        cache: Bytes,
        /// Cores that share one.
        sharing: Count,
        /// Floating point at its peak, one core.
        peak: Rate,
    }
}

impl Cpu {
    /// When core `core` sees a flag in shared memory that has changed, after the first does: the caches take the line
    /// from each other, and the cores of a cache see it together.
    pub fn behind(&self, core: usize) -> Time {
        self.miss * (core as u64 / self.sharing.0)
    }

    /// Rate at which data pass from one core's cache to another's: a line at a time.
    pub fn between_caches(&self) -> Rate {
        Rate(self.line.0 as f64 / self.miss.seconds())
    }
}

section! {
    /// The memory that a host's processors and buses share.
    Memory {
        /// What it carries in all.
        bandwidth: Rate,
    }
}

section! {
    /// PCI Express: two directions, packets with overhead, a limited number of reads in flight at the chipset.
    Pcie {
        /// A lane after line encoding, each direction.
        lane_rate: Rate,
        /// Lanes.
        lanes: Count,
        /// Largest payload of a memory write.
        payload: Bytes,
        /// Payload of a read completion.
        completion: Bytes,
        /// Largest read request.
        read_request: Bytes,
        /// Framing, sequence, header and LCRC of a memory write or of a read request.
        request_overhead: Bytes,
        /// The same of a completion with data.
        completion_overhead: Bytes,
        /// An acknowledgement or flow-control packet of the data link layer.
        link_packet: Bytes,
        /// Transaction packets for which one acknowledgement and one flow-control update are returned.
        acknowledged: Count,
        /// One way over the link, transceivers included.
        propagation: Time,
        /// From a read request's arrival at the chipset until its data leave.
        read_latency: Time,
        /// The chipset's buffer for reads under way. It is divided into blocks of `payload` bytes; a read has one while
        /// it is executed, so the chipset executes `read_buffer / payload` reads at the same time.
        read_buffer: Bytes,
        /// The shortest time that a read keeps its block, however little is asked for; without it a block is free when
        /// its data have left.
        read_occupancy: Option<Time>,
        /// From a write's arrival at the chipset until a processor sees it.
        write_latency: Time,
        /// Bytes of a processor's writes that may be on their way to the adapter: its credits for posted writes, and
        /// what the chipset holds of them. A core that writes more waits.
        posted: Bytes,
    }
}

section! {
    /// PCI-X: one bus for both directions, split transactions.
    Pcix {
        /// Bus peak.
        rate: Rate,
        /// Data of one burst.
        burst: Bytes,
        /// Bus time around a burst: arbitration, address and attribute phase, turn-around.
        burst_overhead: Time,
        /// From the end of a read's request phase until the bridge starts to return data.
        read_latency: Time,
        /// Largest read.
        read_request: Bytes,
        /// Split reads in flight.
        read_slots: Count,
        /// Through the bridge and the chipset, either way: from the end of a write on the bus until a processor sees
        /// it, from a core's write until it is on the bus.
        bridge: Time,
    }
}

impl Pcie {
    /// Reads that the chipset executes at the same time.
    pub fn read_slots(&self) -> u64 {
        (self.read_buffer.0 / self.payload.0).max(1)
    }
}

section! {
    /// A host with several sockets whose adapter is at another than its processes and their memory.
    Numa {
        /// From one socket to the other, one way.
        latency: Time,
        /// What goes between them, each way.
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
    /// In words.
    pub about: String,
    /// Processors.
    pub cpu: Cpu,
    /// Memory.
    pub memory: Memory,
    /// Bus.
    pub bus: Bus,
    /// What is between the bus and the processes, if they are at different sockets.
    pub numa: Option<Numa>,
}

impl Host {
    pub(super) fn read(root: &Section<'_>) -> Result<Host, Error> {
        // A profile with a bus of its own has not that of its base.
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
                let reason = "PCI-X is on no socket: the models have this of PCI Express alone";
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

/// How an adapter works through its queue pairs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheduling {
    /// One queue pair at a time: a change waits until the payload of the former's work has been read, and costs
    /// [`Engines::change`].
    Serial,
    /// Work of several queue pairs in parallel.
    Parallel,
}

section! {
    /// What processes packets: the same for both directions.
    Engines {
        /// Engines of each direction, each on one piece of work at a time; without it as many as there is work for.
        number: Option<Count>,
        /// What a work request takes to pass an engine; without it as long as a packet.
        request: Option<Time>,
        /// From one work request to the next at an engine, and of a queue pair: what they occupy, if that is more than they take to
        /// pass. Rates show it, latencies do not.
        interval: Option<Time>,
        /// Engine time of a packet, an acknowledgement included.
        packet: Time,
        /// Engine time to change the queue pair; serial scheduling only.
        change: Option<Time>,
        /// Between engine and wire, or wire and bus, not occupying anything.
        pipeline: Time,
    }
}

/// Which work requests travel inside the doorbell, if they are short enough: the driver's choice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum BlueFlame {
    /// Any.
    #[default]
    Any,
    /// Those that hold their payload.
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
        /// Largest work request that may travel inside the doorbell; without it all are fetched.
        blueflame: Option<Bytes>,
        /// Which of them do.
        blueflame_takes: Option<BlueFlame>,
        /// What is fetched before a work request's length is known; the rest is then, of one request of a queue pair at a time. Without
        /// it the doorbell tells the length.
        first_fetch: Option<Bytes>,
    }
}

section! {
    /// The receiving side of an adapter.
    Receive {
        /// Taking a receive request and reporting its completion, beyond what a write costs.
        request: Time,
        /// Receive requests that are fetched ahead; without it each is fetched when its message comes.
        fetched_ahead: Option<Count>,
        /// Turning an RDMA read request into a response; without it that costs what a work request costs.
        read_turnaround: Option<Time>,
    }
}

/// Where connection and translation entries live beyond the caches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ContextHome {
    /// Memory of the adapter itself.
    Adapter,
    /// Memory of the host, over the bus.
    Host,
}

section! {
    /// Caches of the adapter, and what they hold.
    Caches {
        /// Queue pair contexts that fit; without it all do.
        queue_pairs: Option<Count>,
        /// Translation entries that fit, each for one page; without it all do.
        translations: Option<Count>,
        /// Bytes of a queue pair's context.
        context: Bytes,
        /// Bytes of one line of translations.
        translation_line: Bytes,
        /// Translations of one line.
        translations_line: Count,
        /// Page size.
        page: Bytes,
        /// Smallest piece of host memory that the driver gives the adapter for contexts.
        chunk: Bytes,
    }
}

impl Caches {
    /// Lines of translations that fit, if not all do.
    pub fn lines(&self) -> Option<u64> {
        let entries = self.translations?;
        Some((entries.0 / self.translations_line.0).max(1))
    }
}

section! {
    /// Memory on the adapter.
    OwnMemory {
        /// A read of it by the adapter.
        latency: Time,
        /// What it carries.
        bandwidth: Rate,
    }
}

/// An adapter.
#[derive(Debug, Clone)]
pub struct Adapter {
    /// In words.
    pub about: String,
    /// How work is scheduled.
    pub scheduling: Scheduling,
    /// Processing.
    pub engines: Engines,
    /// Sending side.
    pub send: Send,
    /// Receiving side.
    pub receive: Receive,
    /// Caches.
    pub caches: Caches,
    /// Home of what is not cached.
    pub home: ContextHome,
    /// Its own memory, if it has any.
    pub memory: Option<OwnMemory>,
}

impl Engines {
    /// What a work request takes to pass an engine.
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
                "is what \"serial\" scheduling needs, and \"parallel\" has not",
            ));
        }
        if adapter.home == ContextHome::Adapter && adapter.memory.is_none() {
            return Err(root.fault("contexts", 0, "\"adapter\" needs a section memory"));
        }
        Ok(adapter)
    }
}

section! {
    /// A link after line encoding, with the headers around a packet's payload.
    Link {
        /// In words.
        about: String,
        /// Data rate of the whole link.
        rate: Rate,
        /// Payload of a full packet.
        mtu: Bytes,
        /// Headers and checks of any packet, and what is between two of them: LRH, BTH, ICRC, VCRC; on Ethernet preamble and gap, its
        /// header and check, IP, UDP, BTH, ICRC.
        packet_overhead: Bytes,
        /// The extended header of a write's first packet or a read's request.
        rdma_header: Bytes,
        /// The extended header of an acknowledgement or a read's response.
        acknowledgement_header: Bytes,
        /// The extended header of a datagram.
        datagram_header: Bytes,
        /// Bytes that a datagram's receiver finds before its data.
        global_header: Bytes,
        /// Share of the link that link-level control packets take.
        control: Ratio,
        /// Virtual lanes for data, each with buffers of its own.
        lanes: Count,
        /// A buffer at an end of a link, of each virtual lane. For what comes in: the credits that the other end has; a packet leaves
        /// an adapter's when the bus has taken its data, a switch's when it has left for the next link. For what goes out of an
        /// adapter: payload that has been asked for from memory and has not left; what would need more is not read.
        buffer: Bytes,
    }
}

section! {
    /// A cable.
    Cable {
        /// In words.
        about: String,
        /// Metres.
        length: Count,
        /// Delay of a metre.
        per_metre: Time,
        /// Delay of the transceiver at each end.
        transceiver: Time,
    }
}

section! {
    /// A switch, and with several of them the fat tree that they form.
    Switch {
        /// In words.
        about: String,
        /// Ports.
        ports: Ports,
        /// From a packet's first byte in to its first byte out.
        latency: Time,
        /// What it can hold of what comes over one link on one lane; without it as much as an adapter's end of the link can.
        buffer: Option<Bytes>,
    }
}

impl Switch {
    /// Nodes that switches of this kind join in a fat tree of three levels, the largest that there is.
    pub fn joins(&self) -> u64 {
        let half = self.ports.0 / 2;
        2 * half * half * half
    }
}

section! {
    /// The kernel's TCP/IP stack over InfiniBand.
    Stack {
        /// In words.
        about: String,
        /// Payload of one packet of the stack.
        mtu: Bytes,
        /// System call, TCP, IP and driver for a packet, on the way out or in.
        packet: Time,
        /// From the adapter's event to the running interrupt handler, moderation included.
        interrupt: Time,
    }
}

section! {
    /// Gigabit Ethernet, for comparison.
    Ethernet {
        /// In words.
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
        /// In words.
        about: String,
        /// Bytes moved at a time for one reader.
        block: Bytes,
        /// Time for one block at either end: system call, page look-up, bookkeeping.
        block_time: Time,
        /// Blocks in flight for one reader.
        blocks: Count,
    }
}

section! {
    /// What applications do between messages.
    Applications {
        /// In words.
        about: String,
        /// LAMMPS' rhodopsin benchmark: one step of its 32,000 atoms on one core. What computing takes that was recorded goes by it.
        rhodopsin_step: Time,
        /// Share of the peak that matrix multiplication reaches on one core.
        gemm: Ratio,
        /// A lattice QCD site's update: floating-point operations.
        qcd_flops: Count,
        /// A lattice QCD site's update: bytes to and from memory.
        qcd_bytes: Bytes,
        /// Share of the peak that the update reaches when memory keeps up.
        qcd_share: Ratio,
        /// Share of the peak that NAS kernels reach.
        nas_share: Ratio,
    }
}

/// A system: which of the other profiles make it up.
#[derive(Debug, Clone)]
pub struct SystemNames {
    /// In words.
    pub about: String,
    /// Host profile.
    pub host: String,
    /// Adapter profile.
    pub adapter: String,
    /// Link profile.
    pub link: String,
    /// Cable profile.
    pub cable: String,
    /// Switch profile; back to back without.
    pub switch: Option<String>,
    /// How several switches are joined; without it in a fat tree of as many as it takes.
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

/// Declares the kinds of profiles: the word in a file, and what it holds.
macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident($type:ty) = $word:literal),* $(,)?) => {
        /// What a profile describes.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum ProfileKind { $($(#[$doc])* $kind),* }

        impl ProfileKind {
            const WORDS: &[(&str, ProfileKind)] = &[$(($word, ProfileKind::$kind)),*];
        }

        /// One profile of any kind.
        #[derive(Debug, Clone)]
        pub enum Profile { $($(#[$doc])* $kind($type)),* }

        impl Profile {
            /// Reads the profile of that kind whose root is `root`.
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
    /// How switches are joined.
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
    /// The word used in profiles.
    pub fn word(self) -> &'static str {
        let found = ProfileKind::WORDS.iter().find(|(_, kind)| *kind == self);
        found.map_or("", |(word, _)| word)
    }

    pub(super) fn from_word(word: &str) -> Option<ProfileKind> {
        let found = ProfileKind::WORDS.iter().find(|(known, _)| *known == word);
        found.map(|(_, kind)| *kind)
    }

    /// What is wrong with a kind, and which there are.
    pub(super) fn expected(wrong: &str) -> String {
        let words: Vec<_> = ProfileKind::WORDS.iter().map(|(word, _)| *word).collect();
        format!("{wrong}; expected one of {}", words.join(", "))
    }
}

/// A system with its parts.
#[derive(Debug, Clone)]
pub struct System {
    /// Its profile's name.
    pub name: String,
    /// In words.
    pub about: String,
    /// Host.
    pub host: Host,
    /// Adapter.
    pub adapter: Adapter,
    /// Link.
    pub link: Link,
    /// Cable.
    pub cable: Cable,
    /// Switch; back to back without.
    pub switch: Option<Switch>,
    /// How several are joined; without it in a fat tree of as many as it takes.
    pub topology: Option<Topology>,
    /// Congestion control; without it nothing but the buffers' credits.
    pub congestion: Option<Congestion>,
    /// Message passing.
    pub mpi: Option<Mpi>,
    /// Ports used by each adapter.
    pub ports: u64,
    /// Nodes.
    pub nodes: u64,
}

impl System {
    /// Nodes that it joins at most.
    pub fn joins(&self) -> u64 {
        match (&self.topology, &self.switch) {
            (Some(topology), _) => topology.wiring.nodes() as u64,
            (None, Some(switch)) => switch.joins(),
            (None, None) => 2,
        }
    }
}
