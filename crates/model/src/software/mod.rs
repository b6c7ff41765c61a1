//! The software adapter in virtual time: the processors of one host do all of the work.
//!
//! A write, read or atomic is executed by the requester's processor when it is posted: its `post`
//! and the copy of its bytes. A message is put into a channel (`send`) and served by the receiver's
//! processor (`serve`, and the copy); anything but a short send costs both sides `longer`. Another
//! core sees a store after `line`. The copy rate depends on the location of the bytes: a core's own
//! cache, the shared cache, or memory, which is one server for all. There is no link, bus or
//! engine.
//!
//! Not modelled: processes that share a core, sleeping, targets without a thread to serve requests,
//! registration.

mod caches;

use crate::adapter::{Kind, MemoryLocation, Placement, Request, Transport};
use crate::audit::{Audit, Usage};
use crate::kernel::{Semaphore, Server, Sim, Time, Watch};
use crate::profile::{ChannelWork, Software};
use crate::stage;
use caches::{Found, Level, look_up};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// Bytes copied before another core gets access to memory.
const STRETCH: u64 = 16 << 10;

/// A processor with its own cache.
struct Core {
    time: Server,
    near: RefCell<Level>,
}

/// A host whose processes are software adapters.
pub struct SoftwareHost {
    sim: Sim,
    profile: Rc<Software>,
    cores: Vec<Rc<Core>>,
    far: RefCell<Level>,
    memory: Server,
    sent: Cell<u64>,
    placed: Cell<u64>,
}

impl SoftwareHost {
    /// Creates a host at rest.
    pub fn new(profile: &Software) -> Rc<SoftwareHost> {
        let core = |_| {
            Rc::new(Core {
                time: Server::new(),
                near: RefCell::new(Level::new(profile.cache.near.0)),
            })
        };
        Rc::new(SoftwareHost {
            sim: Sim::new(),
            cores: (0..profile.cores.number.0).map(core).collect(),
            far: RefCell::new(Level::new(profile.cache.far.0)),
            memory: Server::new(),
            profile: Rc::new(profile.clone()),
            sent: Cell::new(0),
            placed: Cell::new(0),
        })
    }

    /// Returns its simulation.
    pub fn sim(&self) -> &Sim {
        &self.sim
    }

    /// Creates a process on core `core`, modulo the number of cores.
    pub fn process(self: &Rc<SoftwareHost>, core: usize) -> SoftwareProcess {
        SoftwareProcess {
            host: self.clone(),
            core: self.cores[core % self.cores.len()].clone(),
        }
    }

    /// Creates a queue pair's channel to its peer.
    pub fn channel(&self) -> Channel {
        Channel {
            turn: Semaphore::new(&self.sim, 1),
            under_way: Rc::default(),
        }
    }

    /// Creates an empty receive queue.
    pub fn inbox(&self) -> Rc<Inbox> {
        Rc::new(Inbox {
            posted: Cell::new(0),
            watch: Watch::new(&self.sim),
        })
    }

    /// Returns the audit so far. All operations should have ended.
    pub fn audit(&self) -> Audit {
        // A processor's work queues in the channels, whose capacity is not modelled.
        let usage = |what: String, server| Usage::of(what, server, Time(u64::MAX));
        let cores = self.cores.iter().enumerate();
        let mut all: Vec<Usage> = cores
            .map(|(number, core)| usage(format!("core {number}"), &core.time))
            .collect();
        all.push(usage("memory".to_owned(), &self.memory));
        Audit {
            now: self.sim.now(),
            bytes_sent: self.sent.get(),
            bytes_placed: self.placed.get(),
            usage: all,
            ..Audit::default()
        }
    }
}

/// Receive requests of one queue pair or shared by several.
pub struct Inbox {
    posted: Cell<u64>,
    watch: Watch,
}

impl Inbox {
    /// Adds requests.
    pub fn post(&self, requests: u64) {
        self.posted.set(self.posted.get() + requests);
        self.watch.changed();
    }

    fn take_if_there(&self) -> bool {
        let posted = self.posted.get();
        self.posted.set(posted.saturating_sub(1));
        posted > 0
    }
}

/// The requests of a queue pair that its peer has yet to serve.
#[derive(Clone)]
pub struct Channel {
    turn: Semaphore,
    under_way: Rc<Cell<u64>>,
}

/// The serving side of a channel.
#[derive(Clone)]
pub struct Receiver {
    /// Its process.
    pub process: SoftwareProcess,
    /// Its receive requests.
    pub inbox: Rc<Inbox>,
}

/// A process: a core that does one thing at a time.
#[derive(Clone)]
pub struct SoftwareProcess {
    host: Rc<SoftwareHost>,
    core: Rc<Core>,
}

impl SoftwareProcess {
    /// Returns the simulation.
    pub fn sim(&self) -> &Sim {
        &self.host.sim
    }

    /// Returns the profile.
    pub fn profile(&self) -> &Software {
        &self.host.profile
    }

    /// Occupies the core for `span`.
    pub async fn compute(&self, span: Time) {
        let turn = self.core.time.reserve(self.host.sim.now(), span);
        self.host.sim.sleep_until(turn.end).await;
    }

    /// Executes requests, or passes them to their receivers.
    pub async fn post(
        &self,
        channel: &Channel,
        transport: Transport,
        requests: Vec<(Request, Option<Receiver>)>,
    ) {
        for (request, receiver) in requests {
            self.host.sent.set(self.host.sent.get() + request.bytes);
            // A request must not overtake earlier ones that wait for the peer.
            let waits = request.kind.is_received() || channel.under_way.get() > 0;
            match receiver.filter(|_| waits) {
                Some(receiver) => {
                    self.hand_over(channel, receiver, request, transport).await;
                }
                None => self.execute(request).await,
            }
        }
    }

    async fn execute(&self, request: Request) {
        let work = &self.host.profile.request;
        let start = self.sim().now();
        let more = match request.kind {
            Kind::Atomic => work.atomic,
            _ => Time::ZERO,
        };
        self.compute(work.post + more).await;
        self.span(stage::POST, start);
        self.copy(request.local, request.remote, request.bytes)
            .await;
        self.host.placed(request.bytes);
        if let Some(completed) = request.completed {
            completed();
        }
        let line = self.host.profile.cores.line;
        let (sim, answered) = (self.sim().clone(), request.kind.is_answered());
        if let Some(placed) = request.placed {
            match answered {
                true => placed(),
                false => self.sim().start(async move {
                    sim.sleep(line).await;
                    placed();
                }),
            }
        }
    }

    async fn hand_over(
        &self,
        channel: &Channel,
        receiver: Receiver,
        request: Request,
        transport: Transport,
    ) {
        let start = self.sim().now();
        let work = &self.host.profile.message;
        self.compute(work.send + work.more_for(&request)).await;
        self.span(stage::POST, start);
        let channel = channel.clone();
        channel.under_way.set(channel.under_way.get() + 1);
        self.sim().start(async move {
            receiver.serve(&channel, request, transport).await;
        });
    }

    /// Takes an available completion.
    pub async fn take_completion(&self) {
        let start = self.sim().now();
        self.compute(self.host.profile.request.poll).await;
        self.span(stage::POLL, start);
    }

    /// Copies memory.
    pub async fn copy(&self, one: MemoryLocation, other: MemoryLocation, bytes: u64) {
        let start = self.sim().now();
        let mut left = bytes;
        while left > 0 {
            let part = left.min(STRETCH);
            let at = bytes - left;
            let mut found = self.found(behind(one, at), part);
            found += self.found(behind(other, at), part);
            self.pass(found, 2).await;
            left -= part;
        }
        self.span(stage::PLACEMENT, start);
    }

    /// Reads memory at the core's copy rate; the profile does not state that reading is faster.
    pub async fn read(&self, place: MemoryLocation, bytes: u64) {
        let mut left = bytes;
        while left > 0 {
            let part = left.min(STRETCH);
            let found = self.found(behind(place, bytes - left), part);
            self.pass(found, 1).await;
            left -= part;
        }
    }

    fn found(&self, place: MemoryLocation, bytes: u64) -> Found {
        let (mut near, mut far) = (self.core.near.borrow_mut(), self.host.far.borrow_mut());
        look_up(&mut near, &mut far, place, bytes)
    }

    /// Moves bytes through the core. Rates count copied bytes, so each byte is found `sides` times.
    async fn pass(&self, found: Found, sides: u64) {
        let (host, cache) = (&self.host, &self.host.profile.cache);
        let cached = cache.near_rate.time(found.near) + cache.far_rate.time(found.far);
        self.compute(Time(cached.0 / sides)).await;
        if found.memory == 0 {
            return;
        }
        if found.unforeseen {
            self.compute(cache.memory_latency).await;
        }
        let now = host.sim.now();
        let carried = cache.memory_rate.time(found.memory);
        let turn = host.memory.reserve(now, Time(carried.0 / sides));
        self.compute(turn.end - now).await;
    }

    fn span(&self, stage: &'static str, start: Time) {
        let now = self.sim().now();
        self.sim().span(stage, 0, start, now);
    }
}

impl SoftwareHost {
    fn placed(&self, bytes: u64) {
        self.placed.set(self.placed.get() + bytes);
    }
}

impl Receiver {
    /// Serves a request in its turn.
    async fn serve(&self, channel: &Channel, request: Request, transport: Transport) {
        let process = &self.process;
        let (sim, line) = (process.sim(), process.profile().cores.line);
        let arrival = sim.now() + line;
        let turn = channel.turn.acquire().await;
        sim.sleep_until(arrival.max(sim.now())).await;
        let wanted = !request.kind.is_received() || self.received(transport).await;
        if wanted {
            let start = sim.now();
            let work = &process.profile().message;
            process.compute(work.serve + work.more_for(&request)).await;
            process.span(stage::REQUEST, start);
            process
                .copy(request.local, request.remote, request.bytes)
                .await;
        }
        process.host.placed(request.bytes);
        if let (Some(placed), true) = (request.placed, wanted) {
            placed();
        }
        drop(turn);
        channel.under_way.set(channel.under_way.get() - 1);
        if let Some(completed) = request.completed {
            sim.sleep(line).await;
            completed();
        }
    }

    /// Takes a receive request; a datagram that finds none is lost.
    async fn received(&self, transport: Transport) -> bool {
        if transport == Transport::Datagram {
            return self.inbox.take_if_there();
        }
        self.inbox.watch.until(|| self.inbox.posted.get() > 0).await;
        self.inbox.take_if_there()
    }
}

impl ChannelWork {
    /// Returns the additional time on either side, compared with a short message.
    fn more_for(&self, request: &Request) -> Time {
        let inline = request.placement == Placement::Inline;
        match request.kind == Kind::Send && (inline || request.bytes <= self.short.0) {
            true => Time::ZERO,
            false => self.longer,
        }
    }
}

fn behind(place: MemoryLocation, bytes: u64) -> MemoryLocation {
    MemoryLocation {
        address: place.address + bytes,
        ..place
    }
}

#[cfg(test)]
mod tests;
