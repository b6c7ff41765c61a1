//! Hosts: processors, memory, bus.

use crate::kernel::Time;
use crate::profile::error::Error;
use crate::profile::quantity::{Bytes, Count, Rate};
use crate::profile::reader::Section;
use std::sync::Arc;

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
        /// A load of a line that another core of the same last-level cache has modified; `miss` if
        /// absent.
        transfer: Option<Time>,
        /// The same for a core of another last-level cache; `transfer` if absent.
        across: Option<Time>,
        /// Lines that a core fetches at the same time: its line fill buffers; one if absent.
        fills: Option<Count>,
        /// Rate at which one core copies data that are in caches, in bytes read per second; limits
        /// nothing if absent.
        cached: Option<Rate>,
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

    /// Returns the time of a load that another core's cache serves.
    pub fn load_from(&self, cores: CorePair) -> Time {
        let within = self.transfer.unwrap_or(self.miss);
        match cores {
            CorePair::OfOneCache => within,
            CorePair::OfTwoCaches => self.across.unwrap_or(within),
        }
    }

    /// Returns the rate at which one core copies to or from another's cache: with `fills` lines
    /// under way, and no faster than it copies cached data.
    pub fn between_caches(&self, cores: CorePair) -> Rate {
        let lines = self.fills.map_or(1, |fills| fills.0);
        let rate = (lines * self.line.0) as f64 / self.load_from(cores).seconds();
        Rate(self.cached.map_or(rate, |cached| rate.min(cached.0)))
    }

    /// Returns whether two cores have the same last-level cache.
    pub fn core_pair(&self, one: usize, other: usize) -> CorePair {
        let cache = |core: usize| core as u64 / self.sharing.0.max(1);
        match cache(one) == cache(other) {
            true => CorePair::OfOneCache,
            false => CorePair::OfTwoCaches,
        }
    }
}

/// Two cores of a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CorePair {
    /// They have the same last-level cache.
    OfOneCache,
    /// They have different last-level caches.
    OfTwoCaches,
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

impl Bus {
    /// Returns the rate of payload: in each direction of PCI Express, or of PCI-X's one bus.
    pub fn payload(&self) -> Rate {
        match self {
            Bus::Pcie(bus) => {
                let payload = bus.payload.0 as f64;
                let share = payload / (payload + bus.request_overhead.0 as f64);
                Rate(bus.lane_rate.0 * bus.lanes.0 as f64 * share)
            }
            Bus::Pcix(bus) => bus.rate,
        }
    }

    /// Returns the bytes that share the rate of the payload, of those in both directions.
    pub fn together(&self, (out, back): (u64, u64)) -> u64 {
        match self {
            Bus::Pcie(_) => out.max(back),
            Bus::Pcix(_) => out + back,
        }
    }
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
    pub(crate) fn read(root: &Section<'_>) -> Result<Host, Error> {
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
