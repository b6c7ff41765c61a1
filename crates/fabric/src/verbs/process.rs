//! A process with an adapter accessed through verbs.

use super::job::JobGroup;
use super::memory::{Registered, VerbsBuffer, VerbsRegion};
use super::packet_marks::Marks;
use super::pinning::CpuPinning;
use super::queues::{VerbsAddress, VerbsCompletions, VerbsPair, VerbsSharedReceive, pair_type};
use super::wait_limit::WaitLimit;
use super::write_ordering::WriteOrdering;
use crate::capability::{Capabilities, FabricKind, HostBus, Link, Operations, Transports};
use crate::clock::{ClockSource, Ticks};
use crate::completion::Wait;
use crate::error::{Error, Result};
use crate::executor;
use crate::group::Group;
use crate::interface::{Fabric, Pinning, QueueRequest};
use crate::pair::{Endpoint, PairRequest, SharedReceive, SharedReceiveRequest, Transport};
use crate::rails::Rails;
use crate::region::{Access, BufferRequest, Location};
use std::cell::{Cell, OnceCell, RefCell};
use std::sync::Arc;
use std::time::{Duration, Instant};
use verbena_measure::bus::{self, Bus};
use verbena_measure::clock::Clock;
use verbena_verbs as v;
use verbena_verbs::qp::PairType;
use verbena_verbs::qp::attributes::Change;
use verbena_verbs::qp::builder::PairOptions;

/// Inline sizes to try, largest first, as verbs do not report a device's limit.
const INLINE_TRIED: [u32; 7] = [1024, 512, 256, 220, 128, 64, 32];
/// Bytes around the payload of an InfiniBand packet: LRH 8, BTH 12, ICRC 4, VCRC 2.
const INFINIBAND_OVERHEAD: u32 = 26;
/// The same for a RoCEv2 packet over IPv4: preamble and gap 20, Ethernet 18, IP 20, UDP 8, BTH 12,
/// ICRC 4.
const ROCE_OVERHEAD: u32 = 82;
/// Queue key of all datagram pairs of the suite.
const QUEUE_KEY: u32 = 0x1111_1111;

/// Parameters of [`VerbsProcess::open`].
#[derive(Debug, Clone)]
pub struct OpenRequest {
    /// Kind recorded in results.
    pub kind: FabricKind,
    /// The ports, which pairs use in turn.
    pub rails: Vec<Rail>,
    /// Index of the port's GID for global routes; if absent, one that other hosts can reach.
    pub gid_index: Option<u8>,
    /// Packet marking.
    pub marks: Marks,
    /// Ordering of remote writes.
    pub ordering: WriteOrdering,
}

/// A port of a device.
#[derive(Debug, Clone, Default)]
pub struct Rail {
    /// Device name; the first device if absent.
    pub device: Option<String>,
    /// Port number.
    pub port: u8,
}

impl Rail {
    /// Returns the NUMA node of the device, if it has one.
    fn near(&self) -> Option<u32> {
        bus::numa_node(&bus::directory_of(self.device.as_deref()?))
    }
}

impl OpenRequest {
    /// Returns the port of this process: that of its pair. Processes without a pair use the ports
    /// after those.
    fn rail(&self, group: &JobGroup) -> Result<&Rail> {
        let (rank, pairs) = (group.rank(), group.pairing());
        let own = pairs.iter().position(|pair| pair.contains(&rank));
        let turn = own.unwrap_or(pairs.len() + rank);
        let count = self.rails.len().max(1);
        let none = || Error::invalid("VerbsProcess::open", "no port to open");
        self.rails.get(turn % count).ok_or_else(none)
    }

    fn adapters(&self) -> Rails {
        let names = self
            .rails
            .iter()
            .map(|rail| rail.device.as_deref().unwrap_or(""));
        Rails::of(&names.collect::<Vec<_>>())
    }
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Port {
    pub number: u8,
    pub lid: u16,
    pub gid: v::Gid,
    pub gid_index: u8,
    pub global: bool,
    pub traffic_class: u8,
    pub service_level: u8,
    pub partition: u16,
    pub mtu_code: u32,
    pub reads: u8,
}

/// A process with an adapter.
pub struct VerbsProcess {
    context: Arc<v::Context>,
    domain: Arc<v::ProtectionDomain>,
    xrc: OnceCell<Arc<v::XrcDomain>>,
    port: Port,
    capabilities: Capabilities,
    clock: Clock,
    source: ClockSource,
    group: JobGroup,
    pinning: CpuPinning,
    wait_limit: WaitLimit,
    psn: Cell<u32>,
    ordering: WriteOrdering,
}

impl VerbsProcess {
    /// Opens a device of `library`.
    ///
    /// # Errors
    ///
    /// Returns an error if the port does not exist or is not active, or a call fails.
    pub fn open(
        library: &Arc<v::Library>,
        request: &OpenRequest,
        group: JobGroup,
        clock: Clock,
        wait_limit: WaitLimit,
    ) -> Result<VerbsProcess> {
        let rail = request.rail(&group)?;
        // First, so that the library's threads inherit the processor binding.
        let pinning = executor::block_on(CpuPinning::agree(&group, rail.near()))?;
        let all_ranks: Vec<usize> = (0..group.size()).collect();
        wait_limit.set_yielding(pinning.pin(&all_ranks));
        let context = library.device(rail.device.as_deref())?.open()?;
        let attributes = context.attributes()?;
        let port = context.port(rail.port)?;
        if !port.active {
            let reason = format!("port {} is not active", rail.port);
            return Err(Error::adapter(
                format!("opening {}", context.name()),
                reason,
            ));
        }
        let domain = context.protection_domain()?;
        let probe = Probe {
            context: &context,
            domain: &domain,
        };
        let max_inline = probe.inline()?;
        let link = (request.kind == FabricKind::Hardware).then(|| Link {
            data_bits_per_second: f64::from(port.lanes) * f64::from(port.lane_megabits) * 1e6,
            mtu: port.mtu,
            packet_overhead: if port.ethernet {
                ROCE_OVERHEAD
            } else {
                INFINIBAND_OVERHEAD
            },
            bus: Bus::of(&bus::directory_of(context.name())).map(HostBus::Measured),
        });
        let capabilities = Capabilities {
            kind: request.kind,
            device: context.name().to_owned(),
            version: attributes.firmware.clone(),
            transports: Transports {
                rc: true,
                uc: probe.offers(PairType::Uc),
                ud: probe.offers(PairType::Ud),
                xrc: attributes.has_xrc(),
            },
            operations: Operations {
                atomics: attributes.has_atomics(),
                shared_receive: attributes.max_shared_receives > 0,
                events: context.channel().is_ok(),
                // Detected by a minimal allocation.
                device_memory: context.device_memory(64).is_ok(),
            },
            max_inline,
            max_segments: attributes.max_segments,
            max_depth: attributes.max_depth,
            max_completions: attributes.max_completions,
            max_pairs: attributes.max_pairs,
            max_reads: attributes.max_reads_initiated.min(attributes.max_reads),
            max_message: u64::from(port.max_message),
            link,
            rails: request.adapters(),
        };
        let gid_index = match request.gid_index {
            Some(index) => index,
            None => context.routed_gid_index(rail.port)?,
        };
        let marks = request.marks;
        let port = Port {
            number: rail.port,
            lid: port.lid,
            gid: context.gid(rail.port, gid_index)?,
            gid_index,
            global: port.ethernet || port.lid == 0 || marks.traffic_class.is_some(),
            traffic_class: marks.traffic_class.unwrap_or(0),
            service_level: marks.service_level,
            partition: match marks.partition {
                Some(key) => context.partition(rail.port, key)?,
                None => 0,
            },
            mtu_code: port.mtu_code,
            reads: u8::try_from(capabilities.max_reads).unwrap_or(u8::MAX),
        };
        let source = ClockSource {
            name: clock.name(),
            nanos_per_tick: clock.nanos_per_tick,
            overhead_nanos: clock.overhead_nanos,
        };
        let psn = Cell::new(group.rank() as u32 * 0x1_0001 + 1);
        Ok(VerbsProcess {
            context,
            domain,
            xrc: OnceCell::new(),
            port,
            capabilities,
            clock,
            source,
            group,
            pinning,
            wait_limit,
            psn,
            ordering: request.ordering,
        })
    }

    /// Reopens the device among the remaining processes of the job, with new ranks in the order of
    /// the old ones. All objects of this process on the adapter are lost.
    ///
    /// # Errors
    ///
    /// As [`VerbsProcess::open`].
    pub fn among(
        self,
        left: &[usize],
        library: &Arc<v::Library>,
        request: &OpenRequest,
    ) -> Result<VerbsProcess> {
        let (group, clock, wait_limit) = self.close();
        VerbsProcess::open(library, request, group.among(left), clock, wait_limit)
    }

    fn close(self) -> (JobGroup, Clock, WaitLimit) {
        (self.group, self.clock, self.wait_limit)
    }

    /// Returns the number of processors available to the processes of this machine together.
    pub fn processors(&self) -> usize {
        self.pinning.processors()
    }

    fn xrc_domain(&self) -> Result<&Arc<v::XrcDomain>> {
        if let Some(domain) = self.xrc.get() {
            return Ok(domain);
        }
        let domain = self.context.xrc_domain(None)?;
        Ok(self.xrc.get_or_init(|| domain))
    }

    fn unsupported(&self, what: &str) -> Error {
        Error::unsupported(what, self.capabilities.device.clone())
    }
}

/// Detection of capabilities that verbs do not report.
struct Probe<'a> {
    context: &'a Arc<v::Context>,
    domain: &'a Arc<v::ProtectionDomain>,
}

impl Probe<'_> {
    fn inline(&self) -> Result<u32> {
        let queue = self.context.completion_queue(4, None)?;
        let try_one = |inline: u32| {
            let small = PairOptions::new(self.domain, PairType::Rc, &queue);
            PairOptions {
                send_depth: 4,
                receive_depth: 4,
                inline,
                ..small
            }
            .create()
            .is_ok()
        };
        Ok(INLINE_TRIED
            .into_iter()
            .find(|&inline| try_one(inline))
            .unwrap_or(0))
    }

    fn offers(&self, pair: PairType) -> bool {
        let Ok(queue) = self.context.completion_queue(4, None) else {
            return false;
        };
        let small = PairOptions::new(self.domain, pair, &queue);
        PairOptions {
            send_depth: 4,
            receive_depth: 4,
            ..small
        }
        .create()
        .is_ok()
    }
}

impl Fabric for VerbsProcess {
    type Buffer = VerbsBuffer;
    type Region = VerbsRegion;
    type Completions = VerbsCompletions;
    type SharedReceive = VerbsSharedReceive;
    type Pair = VerbsPair;
    type Address = VerbsAddress;
    type Group = JobGroup;

    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn group(&self) -> &JobGroup {
        &self.group
    }

    #[inline]
    fn now(&self) -> Ticks {
        Ticks(self.clock.now())
    }

    fn clock(&self) -> &ClockSource {
        &self.source
    }

    async fn allocate(&self, request: BufferRequest) -> Result<VerbsBuffer> {
        if request.location == Location::Device {
            if !self.capabilities.operations.device_memory {
                return Err(self.unsupported("memory on the adapter"));
            }
            let memory = self.context.device_memory(request.length)?;
            return Ok(VerbsBuffer::Device(memory));
        }
        Ok(VerbsBuffer::Host(v::Buffer::allocate(request.length)?))
    }

    async fn register(&self, buffer: VerbsBuffer, access: Access) -> Result<VerbsRegion> {
        let mut flags = match self.ordering {
            WriteOrdering::Strict => v::AccessFlags::LOCAL,
            WriteOrdering::Relaxed => v::AccessFlags::LOCAL.relaxed_ordering(),
        };
        if access.remote_write {
            flags = flags.remote_write();
        }
        if access.remote_read {
            flags = flags.remote_read();
        }
        if access.remote_atomic && self.capabilities.operations.atomics {
            flags = flags.remote_atomic();
        }
        let memory = match buffer {
            VerbsBuffer::Host(buffer) => Registered::Host(self.domain.register(buffer, flags)?),
            VerbsBuffer::Device(memory) => {
                Registered::Device(self.domain.register_device(memory, flags)?)
            }
        };
        Ok(VerbsRegion {
            memory,
            wait_limit: self.wait_limit.clone(),
        })
    }

    async fn deregister(&self, region: VerbsRegion) -> Result<VerbsBuffer> {
        Ok(match region.memory {
            Registered::Host(region) => VerbsBuffer::Host(region.deregister()?),
            Registered::Device(region) => VerbsBuffer::Device(region.deregister()?),
        })
    }

    async fn completions(&self, request: QueueRequest) -> Result<VerbsCompletions> {
        let channel = match request.wait {
            Wait::Poll => None,
            Wait::Event => Some(self.context.channel()?),
        };
        let inner = self
            .context
            .completion_queue(request.depth, channel.as_ref())?;
        Ok(VerbsCompletions {
            inner,
            wait_limit: self.wait_limit.clone(),
        })
    }

    async fn shared_receive(
        &self,
        request: SharedReceiveRequest<'_, Self>,
    ) -> Result<VerbsSharedReceive> {
        let (depth, segments) = (request.depth, request.segments);
        let inner = match request.xrc_completions {
            None => self.domain.shared_receive_queue(depth, segments)?,
            Some(queue) => {
                let domain = self.xrc_domain()?;
                self.domain
                    .xrc_shared_receive_queue(depth, segments, domain, &queue.inner)?
            }
        };
        Ok(VerbsSharedReceive {
            inner,
            scratch: RefCell::default(),
        })
    }

    async fn pair(&self, request: PairRequest<'_, Self>) -> Result<VerbsPair> {
        let kind = pair_type(request.transport);
        let xrc = match request.transport {
            Transport::XrcTarget => Some(self.xrc_domain()?),
            _ => None,
        };
        let shared = match request.transport {
            // Neither half of XRC has a receive queue; senders name a shared one by number.
            Transport::XrcInitiator | Transport::XrcTarget => None,
            _ => request.shared_receive.map(|shared| &shared.inner),
        };
        let unused =
            request.shared_receive.is_some() || request.transport == Transport::XrcInitiator;
        let options = PairOptions {
            domain: &self.domain,
            pair_type: kind,
            send_completions: &request.send_completions.inner,
            receive_completions: &request.receive_completions.inner,
            send_depth: request.send_depth,
            receive_depth: if unused { 0 } else { request.receive_depth },
            segments: request.segments,
            inline: request.inline,
            shared,
            xrc,
        };
        let inner = options.create()?;
        if inner.max_inline() < request.inline && request.transport != Transport::XrcTarget {
            return Err(self.unsupported(&format!("{} bytes inline", request.inline)));
        }
        let mut access = v::AccessFlags::LOCAL.remote_write();
        if matches!(request.transport, Transport::Rc | Transport::XrcTarget) {
            access = access.remote_read();
            if self.capabilities.operations.atomics {
                access = access.remote_atomic();
            }
        }
        let init = Change::to_init(kind, self.port.number, access, QUEUE_KEY);
        inner.modify(&init.in_partition(self.port.partition))?;
        let psn = self.psn.get() & 0xFF_FFFF;
        self.psn.set(psn.wrapping_add(0x101));
        let endpoint = Endpoint {
            pair: inner.number(),
            psn,
            queue_key: QUEUE_KEY,
            shared_receive: request.shared_receive.map_or(0, |shared| shared.number()),
            lid: self.port.lid,
            gid: self.port.gid.0,
            mtu_code: u8::try_from(self.port.mtu_code).unwrap_or(0),
        };
        Ok(VerbsPair {
            inner,
            transport: request.transport,
            endpoint,
            port: self.port,
            scratch: RefCell::default(),
        })
    }

    async fn address(&self, remote: &Endpoint) -> Result<VerbsAddress> {
        Ok(VerbsAddress(
            self.domain.address_handle(&self.port.path_to(remote))?,
        ))
    }

    fn pin_cpu(&self, members: &[usize]) -> Pinning {
        let pinning = self.pinning.pin(members);
        self.wait_limit.set_yielding(pinning);
        pinning
    }

    async fn compute(&self, time: Duration) {
        let start = Instant::now();
        while start.elapsed() < time {
            std::hint::spin_loop();
        }
    }

    fn host_memory(&self) -> Option<u64> {
        verbena_measure::memory::resident()
    }

    fn stopping(&self) -> bool {
        self.wait_limit
            .stop
            .load(std::sync::atomic::Ordering::Relaxed)
    }
}
