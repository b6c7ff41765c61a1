//! Adapters.

use super::device::Device;
use crate::kernel::Time;
use crate::profile::error::Error;
use crate::profile::quantity::{Bytes, Count, Rate};
use crate::profile::reader::{Field, Section};

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
    /// Its identity and its limits, if they are known.
    pub device: Option<Device>,
}

impl Engines {
    /// Returns the time for a work request to pass an engine.
    pub fn request(&self) -> Time {
        self.request.unwrap_or(self.packet)
    }
}

impl Adapter {
    pub(crate) fn read(root: &Section<'_>) -> Result<Adapter, Error> {
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
            device: match root.section("device")? {
                Some(device) => Some(Device::read(&device)?),
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
