//! A process of an in-process job, and its view of the job.

use super::memory::{InstantBuffer, InstantRegion};
use super::queues::{InstantAddress, InstantCompletions, InstantPair, InstantSharedReceive};
use super::world::{PairState, SharedState, World};
use crate::capability::{Capabilities, FabricKind, Operations, Transports};
use crate::clock::{ClockSource, Ticks};
use crate::error::{Error, Result};
use crate::executor::until;
use crate::group::Group;
use crate::in_process::Bytes;
use crate::interface::{Fabric, Pinning, QueueRequest};
use crate::pair::{Endpoint, PairRequest, SharedReceiveRequest, Transport};
use crate::rails::Rails;
use crate::region::{Access, BufferRequest};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::time::Duration;

/// Lead time of the agreed instant after the barrier, in nanoseconds.
const ALIGN_AHEAD: u64 = 1000;

/// A process of an in-process job.
pub struct InstantProcess {
    world: Rc<RefCell<World>>,
    capabilities: Capabilities,
    clock: ClockSource,
    group: InstantGroup,
}

impl InstantProcess {
    pub(super) fn new(world: Rc<RefCell<World>>, rank: usize) -> Self {
        let size = world.borrow().size;
        let overhead_nanos = world.borrow().timing.clock_cost(rank);
        InstantProcess {
            group: InstantGroup {
                world: Rc::clone(&world),
                rank,
                size,
                gathers: Cell::new(0),
                barriers: RefCell::new(HashMap::new()),
            },
            world,
            capabilities: Capabilities {
                kind: FabricKind::Test,
                device: "instant".to_owned(),
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
                    events: true,
                    device_memory: true,
                },
                max_inline: 256,
                max_segments: 16,
                max_depth: 16384,
                max_completions: 1 << 20,
                max_pairs: 1 << 20,
                max_reads: 16,
                max_message: 1 << 30,
                link: None,
                rails: Rails::single(),
            },
            clock: ClockSource {
                name: "virtual",
                nanos_per_tick: 1.0,
                overhead_nanos,
            },
        }
    }
}

impl Fabric for InstantProcess {
    type Buffer = InstantBuffer;
    type Region = InstantRegion;
    type Completions = InstantCompletions;
    type SharedReceive = InstantSharedReceive;
    type Pair = InstantPair;
    type Address = InstantAddress;
    type Group = InstantGroup;

    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn group(&self) -> &InstantGroup {
        &self.group
    }

    fn now(&self) -> Ticks {
        Ticks(self.world.borrow().now)
    }

    fn clock(&self) -> &ClockSource {
        &self.clock
    }

    async fn allocate(&self, request: BufferRequest) -> Result<InstantBuffer> {
        Ok(InstantBuffer {
            bytes: Bytes::new(request.length),
            location: request.location,
        })
    }

    async fn register(&self, buffer: InstantBuffer, access: Access) -> Result<InstantRegion> {
        let InstantBuffer { bytes, location } = buffer;
        let mut world = self.world.borrow_mut();
        let (key, address) =
            world
                .registered
                .insert(bytes.clone(), access, location, self.group.rank);
        Ok(InstantRegion {
            world: Rc::clone(&self.world),
            bytes,
            location,
            key,
            address,
        })
    }

    async fn deregister(&self, region: InstantRegion) -> Result<InstantBuffer> {
        Ok(InstantBuffer {
            bytes: region.bytes.clone(),
            location: region.location,
        })
    }

    async fn completions(&self, request: QueueRequest) -> Result<InstantCompletions> {
        let mut world = self.world.borrow_mut();
        world.queues.push(std::collections::VecDeque::new());
        let index = world.queues.len() - 1;
        Ok(InstantCompletions {
            world: Rc::clone(&self.world),
            index,
            wait: request.wait,
        })
    }

    async fn shared_receive(
        &self,
        request: SharedReceiveRequest<'_, Self>,
    ) -> Result<InstantSharedReceive> {
        let mut world = self.world.borrow_mut();
        let number = world.fresh();
        let completions = request.xrc_completions.map(|queue| queue.index);
        world.shared.insert(
            number,
            SharedState {
                completions,
                ..SharedState::default()
            },
        );
        Ok(InstantSharedReceive {
            world: Rc::clone(&self.world),
            number,
        })
    }

    async fn pair(&self, request: PairRequest<'_, Self>) -> Result<InstantPair> {
        if request.inline > self.capabilities.max_inline {
            let reason = format!(
                "{} bytes inline, at most {} are possible",
                request.inline, self.capabilities.max_inline
            );
            return Err(Error::invalid("Fabric::pair", reason));
        }
        let mut world = self.world.borrow_mut();
        let number = world.fresh();
        let shared_receive = request.shared_receive.map(|shared| shared.number);
        let state = PairState {
            rank: self.group.rank,
            datagram: request.transport == Transport::Ud,
            target_half: request.transport == Transport::XrcTarget,
            send_queue: request.send_completions.index,
            receive_queue: request.receive_completions.index,
            shared_receive,
            depth: request.send_depth as usize,
            ..PairState::default()
        };
        world.pairs.insert(number, state);
        Ok(InstantPair {
            world: Rc::clone(&self.world),
            number,
            transport: request.transport,
            inline: request.inline,
            shared_receive: shared_receive.unwrap_or(0),
        })
    }

    async fn address(&self, _remote: &Endpoint) -> Result<InstantAddress> {
        Ok(InstantAddress)
    }

    async fn compute(&self, time: Duration) {
        let wake = self.world.borrow().now + time.as_nanos() as u64;
        self.world.borrow_mut().wake_at(wake);
        until(|| (self.world.borrow().now >= wake).then_some(())).await;
    }

    fn pin_cpu(&self, _members: &[usize]) -> Pinning {
        match self.world.borrow().timing.refuses_processors() {
            true => Pinning::Unbound,
            false => Pinning::Own,
        }
    }

    fn host_memory(&self) -> Option<u64> {
        let world = self.world.borrow();
        let mine = world
            .pairs
            .values()
            .filter(|pair| pair.rank == self.group.rank)
            .count();
        world.timing.host_memory(mine)
    }
}

/// The job of an in-process fabric; all processes are on one node.
pub struct InstantGroup {
    world: Rc<RefCell<World>>,
    rank: usize,
    size: usize,
    gathers: Cell<u64>,
    barriers: RefCell<HashMap<Vec<usize>, u64>>,
}

impl InstantGroup {
    async fn until<T>(&self, what: &'static str, ready: impl Fn(&World) -> Option<T>) -> Result<T> {
        until(|| {
            let world = self.world.borrow();
            let waited = Duration::from_nanos(world.now);
            match ready(&world) {
                Some(value) => Some(Ok(value)),
                None => world.stuck.then_some(Err(Error::stalled(what, waited))),
            }
        })
        .await
    }
}

impl Group for InstantGroup {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.size
    }

    fn node_of(&self, _rank: usize) -> usize {
        0
    }

    async fn all_gather(&self, mine: &[u8]) -> Result<Vec<Vec<u8>>> {
        let turn = self.gathers.get();
        self.gathers.set(turn + 1);
        {
            let mut world = self.world.borrow_mut();
            world.timing.exchange();
            // All processes have read the data of two turns ago, as they have come to the last
            // turn.
            if let Some(old) = turn.checked_sub(2) {
                world.gathers.remove(&old);
            }
            let slots = world
                .gathers
                .entry(turn)
                .or_insert_with(|| vec![None; self.size]);
            slots[self.rank] = Some(mine.to_vec());
            world.changed();
        }
        self.until("the exchange", |world| {
            world.gathers[&turn].iter().cloned().collect()
        })
        .await
    }

    async fn barrier(&self, members: &[usize]) -> Result<()> {
        let turn = {
            let mut turns = self.barriers.borrow_mut();
            let turn = turns.entry(members.to_vec()).or_insert(0);
            *turn += 1;
            *turn
        };
        {
            let mut world = self.world.borrow_mut();
            *world.barriers.entry(members.to_vec()).or_insert(0) += 1;
            world.changed();
        }
        let complete = turn * members.len() as u64;
        self.until("a barrier", |world| {
            (world.barriers[members] >= complete).then_some(())
        })
        .await
    }

    async fn align(&self, members: &[usize]) -> Result<Ticks> {
        self.barrier(members).await?;
        let start = self.world.borrow().now + ALIGN_AHEAD;
        self.world.borrow_mut().wake_at(start);
        self.until("the agreed instant", |world| {
            (world.now >= start).then_some(())
        })
        .await?;
        Ok(Ticks(start))
    }
}
