//! A process of a modelled job.

use super::completion_queue::ModelCompletions;
use super::completion_queue_state::Queue;
use super::core::Core;
use super::group::ModelGroup;
use super::machine::Machine;
use super::memory::{ModelBuffer, ModelRegion};
use super::pair::{ModelAddress, ModelPair};
use super::pair_state::{PairState, Parts};
use super::receive_posting::ModelSharedReceive;
use super::receive_queue::Receives;
use super::world::World;
use crate::capability::{Capabilities, FabricKind, HostBus, Link, Operations, Transports};
use crate::clock::{ClockSource, Ticks};
use crate::completion::Wait;
use crate::error::Result;
use crate::group::Group;
use crate::in_process::Bytes;
use crate::interface::{Fabric, QueueRequest};
use crate::pair::{Endpoint, PairRequest, SharedReceiveRequest, Transport};
use crate::rails::Rails;
use crate::region::{Access, BufferRequest, Location};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use verbena_model::adapter as model;
use verbena_model::adapter::footprint::{completion_queue, context_memory, work_queue};
use verbena_model::kernel::{Span, Time};
use verbena_model::profile::{Bus, System};
use verbena_model::traffic::{Bottleneck, HotPort, Traffic};

/// Inline payload that fits into the largest work queue entry: 1,008 bytes (`max_desc_sz` of
/// mthca's and mlx4's firmware) minus control segment 16, datagram address 48 and inline header 4.
const MAX_INLINE: u32 = 1008 - 16 - 48 - 4;
/// Default limits of the driver (mthca) on queue pairs and queue entries.
const MAX_PAIRS: u32 = 1 << 16;
const MAX_DEPTH: u32 = 16384;
const MAX_COMPLETIONS: u32 = 1 << 22;
/// Largest InfiniBand message.
const MAX_MESSAGE: u64 = 1 << 31;

/// Limit of the software adapter, as in its library.
const SOFTWARE_READS: u32 = 128;
/// Memory of any process, in bytes; the same for all, so that only differences and slopes are
/// meaningful.
const PROCESS: u64 = 4 << 20;

/// A process of a modelled job.
pub struct ModelProcess {
    world: Rc<World>,
    core: Core,
    capabilities: Capabilities,
    clock: ClockSource,
    group: ModelGroup,
}

impl ModelProcess {
    pub(super) fn new(world: &Rc<World>, machine: &Rc<Machine>, rank: usize) -> ModelProcess {
        let core = Core {
            process: world.processor(rank),
            rank,
            machine: machine.clone(),
        };
        ModelProcess {
            capabilities: capabilities(machine),
            clock: ClockSource {
                name: "virtual",
                nanos_per_tick: 1e-3,
                overhead_nanos: 0.0,
            },
            group: ModelGroup::new(world.clone(), core.clone()),
            world: world.clone(),
            core,
        }
    }
}

/// Trace of an operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Traced {
    /// Start.
    pub start: Time,
    /// End.
    pub end: Time,
    /// The recorded spans, in the order of their starts.
    pub spans: Vec<Span>,
}

impl ModelProcess {
    /// Starts recording spans in the model.
    pub fn record(&self) {
        self.world.running.sim().record_spans();
    }

    /// Returns the traffic of links and buses so far; `None` for the software adapter.
    pub fn traffic(&self) -> Option<Traffic> {
        self.world.running.traffic()
    }

    /// Returns the link or bus that needs most time for this traffic; `None` if none was needed.
    pub fn bottleneck(&self, traffic: &Traffic) -> Option<Bottleneck> {
        self.world.running.bottleneck(traffic)
    }

    /// Returns the hottest ports of a fabric that exists; none of others.
    pub fn hot_ports(&self, traffic: &Traffic) -> Vec<HotPort> {
        self.world.running.hot_ports(traffic)
    }

    /// Takes the spans recorded since the last call, and returns those of the last operation timed
    /// by process 0.
    pub fn traced(&self) -> Traced {
        let (start, end) = self.world.last_operation();
        let mut spans = self.world.running.sim().take_spans();
        spans.retain(|span| span.end > start && span.start < end);
        spans.sort();
        Traced { start, end, spans }
    }
}

fn capabilities(machine: &Machine) -> Capabilities {
    let system = machine.system();
    Capabilities {
        kind: FabricKind::Model,
        device: machine.name().to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        transports: Transports {
            rc: true,
            uc: true,
            ud: true,
            xrc: true,
        },
        operations: Operations {
            atomics: true,
            shared_receive: true,
            events: false,
            device_memory: system.is_some_and(|system| system.adapter.memory.is_some()),
        },
        max_inline: MAX_INLINE,
        max_segments: 1,
        max_depth: MAX_DEPTH,
        max_completions: MAX_COMPLETIONS,
        max_pairs: MAX_PAIRS,
        max_reads: system.map_or(SOFTWARE_READS, reads),
        max_message: MAX_MESSAGE,
        link: system.map(link),
        rails: Rails::single(),
    }
}

fn reads(system: &System) -> u32 {
    u32::try_from(system.adapter.send.reads.0).unwrap_or(u32::MAX)
}

fn link(system: &System) -> Link {
    let (link, bus) = (&system.link, &system.host.bus);
    let (name, is_shared) = match bus {
        Bus::Pcie(_) => ("PCI Express", false),
        Bus::Pcix(_) => ("PCI-X", true),
    };
    Link {
        data_bits_per_second: link.rate.0 * 8.0,
        mtu: link.mtu.0 as u32,
        packet_overhead: link.packet_overhead.0 as u32,
        bus: Some(HostBus::Modelled {
            name,
            payload: bus.payload().0,
            is_shared,
        }),
    }
}

impl Fabric for ModelProcess {
    type Buffer = ModelBuffer;
    type Region = ModelRegion;
    type Completions = ModelCompletions;
    type SharedReceive = ModelSharedReceive;
    type Pair = ModelPair;
    type Address = ModelAddress;
    type Group = ModelGroup;

    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn group(&self) -> &ModelGroup {
        &self.group
    }

    fn now(&self) -> Ticks {
        if self.core.rank == 0 {
            self.world.look();
        }
        Ticks(self.world.now().0)
    }

    fn clock(&self) -> &ClockSource {
        &self.clock
    }

    async fn allocate(&self, request: BufferRequest) -> Result<ModelBuffer> {
        if request.location == Location::Device && !self.capabilities.operations.device_memory {
            return Err(self.core.lacks("memory on the adapter"));
        }
        Ok(ModelBuffer {
            bytes: Bytes::new(request.length),
            location: request.location,
        })
    }

    async fn register(&self, buffer: ModelBuffer, access: Access) -> Result<ModelRegion> {
        let ModelBuffer { bytes, location } = buffer;
        let mut registered = self.world.registered.borrow_mut();
        let (key, address) = registered.insert(bytes.clone(), access, location, self.core.rank);
        Ok(ModelRegion {
            world: self.world.clone(),
            core: self.core.clone(),
            bytes,
            location,
            key,
            address,
        })
    }

    async fn deregister(&self, region: ModelRegion) -> Result<ModelBuffer> {
        Ok(ModelBuffer {
            bytes: region.bytes.clone(),
            location: region.location,
        })
    }

    async fn completions(&self, request: QueueRequest) -> Result<ModelCompletions> {
        if request.wait == Wait::Event {
            return Err(self.core.lacks("completion events"));
        }
        let queue = Queue::new(self.core.rank, request.depth);
        let mut queues = self.world.queues.borrow_mut();
        queues.retain(|(_, queue)| queue.strong_count() > 0);
        queues.push((self.core.rank, Rc::downgrade(&queue)));
        Ok(ModelCompletions {
            world: self.world.clone(),
            core: self.core.clone(),
            queue,
            fruitful: Cell::new(None),
        })
    }

    async fn shared_receive(
        &self,
        request: SharedReceiveRequest<'_, Self>,
    ) -> Result<ModelSharedReceive> {
        let receives = Rc::new(Receives {
            model: self.core.process.requests(&self.world.running),
            list: RefCell::default(),
            completions: request.xrc_completions.map(|queue| queue.queue.clone()),
            depth: request.depth,
            rank: self.core.rank,
        });
        let number = self.world.fresh();
        let mut shared = self.world.shared.borrow_mut();
        shared.insert(number, receives.clone());
        Ok(ModelSharedReceive {
            world: self.world.clone(),
            core: self.core.clone(),
            number,
            receives,
        })
    }

    async fn pair(&self, request: PairRequest<'_, Self>) -> Result<ModelPair> {
        if request.inline > MAX_INLINE {
            let inline = request.inline;
            return Err(self.core.lacks(&format!("{inline} bytes inline")));
        }
        let receives = match request.shared_receive {
            Some(shared) => shared.receives.clone(),
            None => Rc::new(Receives {
                model: self.core.process.requests(&self.world.running),
                list: RefCell::default(),
                completions: None,
                depth: request.receive_depth,
                rank: self.core.rank,
            }),
        };
        let service = match request.transport {
            Transport::Rc | Transport::XrcInitiator | Transport::XrcTarget => {
                model::Transport::Reliable
            }
            Transport::Uc => model::Transport::Unreliable,
            Transport::Ud => model::Transport::Datagram,
        };
        let node = self.world.nodes[self.core.rank];
        let port = (node, self.world.port(node));
        let wire = self.world.running.wire(port, service, &receives.model);
        let state = PairState::new(Parts {
            number: match wire.pair() {
                Some(pair) => pair.id() as u32,
                None => self.world.fresh(),
            },
            wire,
            transport: request.transport,
            rank: self.core.rank,
            depth: request.send_depth,
            inline: request.inline,
            send_queue: request.send_completions.queue.clone(),
            receive_queue: request.receive_completions.queue.clone(),
            receives,
        });
        let mut pairs = self.world.pairs.borrow_mut();
        pairs.insert(state.number(), state.clone());
        Ok(ModelPair {
            world: self.world.clone(),
            core: self.core.clone(),
            state,
            shared_receive: request.shared_receive.map_or(0, |shared| shared.number),
        })
    }

    async fn address(&self, _remote: &Endpoint) -> Result<ModelAddress> {
        Ok(ModelAddress)
    }

    async fn compute(&self, time: Duration) {
        let span = Time(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX / 1000) * 1000);
        self.core.process.compute(span).await;
    }

    fn stopping(&self) -> bool {
        self.world.stop.load(Ordering::Relaxed)
    }

    fn host_memory(&self) -> Option<u64> {
        // The software adapter's profile does not include the memory of its queues.
        let system = self.core.machine.system()?;
        let rank = self.group.rank();
        let pairs = self.world.pairs.borrow();
        let mine = pairs.values().filter(|pair| pair.rank == rank);
        let (mut connections, mut queues) = (0, 0);
        for pair in mine {
            connections += 1;
            // An XRC target has no queues; a shared queue is counted once, below.
            if pair.transport != Transport::XrcTarget {
                queues += work_queue(u64::from(pair.depth));
            }
            let own = Rc::strong_count(&pair.receives) == 1;
            if own && pair.transport != Transport::XrcInitiator {
                queues += work_queue(u64::from(pair.receives.depth));
            }
        }
        let shared = self.world.shared.borrow();
        let shared = shared.values().filter(|shared| shared.rank == rank);
        queues += shared.map(|s| work_queue(u64::from(s.depth))).sum::<u64>();
        let completions = self.world.queues.borrow();
        let completions = completions.iter().filter(|(owner, _)| *owner == rank);
        let alive = completions.filter_map(|(_, queue)| queue.upgrade());
        queues += alive
            .map(|queue| completion_queue(u64::from(queue.depth)))
            .sum::<u64>();
        Some(PROCESS + context_memory(&system.adapter, connections) + queues)
    }
}
