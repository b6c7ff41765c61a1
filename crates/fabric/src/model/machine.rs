//! The machine of a modelled job: nodes with adapters, or a host whose processors are software
//! adapters.

use std::rc::Rc;
use verbena_model::adapter::{MemoryLocation, Pair, ReceiveQueue, Request, Transport};
use verbena_model::audit::Audit;
use verbena_model::cluster::{CacheState, Cluster, Process};
use verbena_model::kernel::{Sim, Time};
use verbena_model::profile::{Error as ProfileError, Library, Software, System};
use verbena_model::software::{Channel, Inbox, Receiver, SoftwareHost, SoftwareProcess};
use verbena_model::traffic::{Bottleneck, HotPort, Traffic};

/// A machine.
#[derive(Debug, Clone)]
pub enum Machine {
    /// Nodes with adapters.
    Adapters(Box<System>),
    /// The software adapter on one host.
    Software {
        /// The profile's name.
        name: String,
        /// The profile.
        profile: Software,
    },
}

impl From<&System> for Machine {
    fn from(system: &System) -> Machine {
        Machine::Adapters(Box::new(system.clone()))
    }
}

impl Machine {
    /// Returns the system, or the software adapter, named `name`.
    ///
    /// # Errors
    ///
    /// Returns an error if the library has no such system or it is inconsistent.
    pub fn of(library: &Library, name: &str) -> Result<Machine, ProfileError> {
        match library.software(name) {
            Some(profile) => Ok(Machine::Software {
                name: name.to_owned(),
                profile: profile.clone(),
            }),
            None => Ok(Machine::from(&library.system(name)?)),
        }
    }

    /// Iterates over the names of all machines in a library.
    pub fn names(library: &Library) -> impl Iterator<Item = &str> {
        library.systems().chain(library.software_names())
    }

    /// Returns the name of its profile.
    pub fn name(&self) -> &str {
        match self {
            Machine::Adapters(system) => &system.name,
            Machine::Software { name, .. } => name,
        }
    }

    /// Returns its description.
    pub fn about(&self) -> &str {
        match self {
            Machine::Adapters(system) => &system.about,
            Machine::Software { profile, .. } => &profile.about,
        }
    }

    /// Returns the number of nodes of its set-up.
    pub fn nodes(&self) -> usize {
        match self {
            Machine::Adapters(system) => system.nodes as usize,
            Machine::Software { .. } => 1,
        }
    }

    /// Returns the largest number of nodes that its network can connect.
    pub fn joins(&self) -> usize {
        match self {
            Machine::Adapters(system) => system.joins() as usize,
            Machine::Software { .. } => 1,
        }
    }

    /// Returns the number of processors per node.
    pub fn cores(&self) -> usize {
        let cores = match self {
            Machine::Adapters(system) => system.host.cpu.cores.0,
            Machine::Software { profile, .. } => profile.cores.number.0,
        };
        cores.max(1) as usize
    }

    /// Returns the system, if it has adapters.
    pub fn system(&self) -> Option<&System> {
        match self {
            Machine::Adapters(system) => Some(system),
            Machine::Software { .. } => None,
        }
    }
}

pub(super) enum Running {
    Adapters(Rc<Cluster>),
    Software(Rc<SoftwareHost>),
}

impl Running {
    pub fn sim(&self) -> &Sim {
        match self {
            Running::Adapters(cluster) => cluster.sim(),
            Running::Software(host) => host.sim(),
        }
    }

    pub fn size(&self) -> usize {
        match self {
            Running::Adapters(cluster) => cluster.size(),
            Running::Software(_) => 1,
        }
    }

    /// Returns the number of ports of each node's adapter.
    pub fn ports(&self) -> u64 {
        match self {
            Running::Adapters(cluster) => cluster.system().ports.max(1),
            Running::Software(_) => 1,
        }
    }

    pub fn process_on(&self, node: usize, core: usize) -> Processor {
        match self {
            Running::Adapters(cluster) => Processor::Adapter(cluster.process_on(node, core)),
            Running::Software(host) => Processor::Software(host.process(core)),
        }
    }

    pub fn audit(&self) -> Audit {
        match self {
            Running::Adapters(cluster) => cluster.audit(),
            Running::Software(host) => host.audit(),
        }
    }

    /// Returns the traffic of links and buses so far; `None` for the software adapter.
    pub fn traffic(&self) -> Option<Traffic> {
        match self {
            Running::Adapters(cluster) => Some(cluster.traffic()),
            Running::Software(_) => None,
        }
    }

    /// Returns the link or bus that needs most time for this traffic.
    pub fn bottleneck(&self, traffic: &Traffic) -> Option<Bottleneck> {
        match self {
            Running::Adapters(cluster) => cluster.bottleneck(traffic),
            Running::Software(_) => None,
        }
    }

    /// Returns the hottest ports of a fabric that exists; none of others.
    pub fn hot_ports(&self, traffic: &Traffic) -> Vec<HotPort> {
        match self {
            Running::Adapters(cluster) => cluster.hot_ports(traffic),
            Running::Software(_) => Vec::new(),
        }
    }

    /// Ends the simulation and drops all waiting tasks.
    pub fn finish(&self) {
        match self {
            Running::Adapters(cluster) => cluster.finish(),
            Running::Software(host) => host.sim().clear(),
        }
    }

    /// Creates a queue pair on a port of a node.
    pub fn wire(&self, (node, port): (usize, usize), transport: Transport, own: &Requests) -> Wire {
        match (self, own) {
            (Running::Adapters(cluster), Requests::Adapter(queue)) => {
                Wire::Adapter(cluster.pair(node, port, transport, Some(queue.clone())))
            }
            (Running::Software(host), _) => Wire::Software(host.channel(), transport),
            (Running::Adapters(cluster), _) => {
                Wire::Adapter(cluster.pair(node, port, transport, None))
            }
        }
    }
}

/// The model of a queue pair's transport.
pub(super) enum Wire {
    Adapter(Rc<Pair>),
    Software(Channel, Transport),
}

impl Wire {
    /// Connects it to `there`.
    pub fn connect_to(&self, there: &Wire) {
        if let (Wire::Adapter(here), Wire::Adapter(there)) = (self, there) {
            here.connect_to(there);
        }
    }

    /// Returns the modelled queue pair, to be the receiver of a datagram.
    pub fn pair(&self) -> Option<&Rc<Pair>> {
        match self {
            Wire::Adapter(pair) => Some(pair),
            Wire::Software(..) => None,
        }
    }
}

/// The machine's count of receive requests.
#[derive(Clone)]
pub(super) enum Requests {
    Adapter(Rc<ReceiveQueue>),
    Software(Rc<Inbox>),
}

impl Requests {
    pub fn post(&self, count: u64) {
        match self {
            Requests::Adapter(queue) => queue.post(count),
            Requests::Software(inbox) => inbox.post(count),
        }
    }
}

/// The core of a process.
#[derive(Clone)]
pub(super) enum Processor {
    Adapter(Process),
    Software(SoftwareProcess),
}

impl Processor {
    pub fn sim(&self) -> &Sim {
        match self {
            Processor::Adapter(process) => process.sim(),
            Processor::Software(process) => process.sim(),
        }
    }

    /// Creates an empty receive queue of its adapter.
    pub fn requests(&self, running: &Running) -> Requests {
        match (self, running) {
            (Processor::Adapter(process), _) => {
                Requests::Adapter(ReceiveQueue::new(process.node().adapter()))
            }
            (Processor::Software(_), Running::Software(host)) => Requests::Software(host.inbox()),
            (Processor::Software(_), Running::Adapters(_)) => {
                unreachable!("a process is of the machine that made it")
            }
        }
    }

    pub async fn compute(&self, span: Time) {
        match self {
            Processor::Adapter(process) => process.compute(span).await,
            Processor::Software(process) => process.compute(span).await,
        }
    }

    /// Takes a completion, or polls without success.
    pub async fn take_completion(&self) {
        match self {
            Processor::Adapter(process) => process.take_completion().await,
            Processor::Software(process) => process.take_completion().await,
        }
    }

    /// Detects a changed byte. On the software adapter the cache line transfer is part of its
    /// arrival.
    pub async fn notice(&self) {
        match self {
            Processor::Adapter(process) => process.notice().await,
            Processor::Software(_) => {}
        }
    }

    /// Spends the processor time of posting receive requests.
    pub async fn prepare_receives(&self, count: u64) {
        let each = match self {
            Processor::Adapter(process) => process.node().cpu().post,
            Processor::Software(process) => process.profile().message.receive,
        };
        self.compute(each * count).await;
    }

    /// Returns the delay until it sees a flag that `before` other processes of its node see first.
    pub fn behind(&self, before: usize) -> Time {
        match self {
            Processor::Adapter(process) => process.node().cpu().behind(before),
            Processor::Software(process) => process.profile().cores.line * before as u64,
        }
    }

    /// Copies uncached memory, or on the software adapter memory at any location.
    pub async fn copy(&self, from: MemoryLocation, to: MemoryLocation, bytes: u64) {
        match self {
            Processor::Adapter(process) => process.copy(bytes, CacheState::Cold).await,
            Processor::Software(process) => process.copy(from, to, bytes).await,
        }
    }

    pub async fn read(&self, place: MemoryLocation, bytes: u64) {
        match self {
            Processor::Adapter(process) => process.read(bytes).await,
            Processor::Software(process) => process.read(place, bytes).await,
        }
    }

    /// Posts requests, on the software adapter each with the receiver that serves it.
    pub async fn post(&self, wire: &Wire, requests: Vec<(Request, Option<Receiver>)>) {
        match (self, wire) {
            (Processor::Adapter(process), Wire::Adapter(pair)) => {
                let requests = requests.into_iter().map(|(request, _)| request);
                process.post(pair, requests.collect::<Vec<_>>()).await;
            }
            (Processor::Software(process), Wire::Software(channel, transport)) => {
                process.post(channel, *transport, requests).await;
            }
            _ => unreachable!("a queue pair is of the machine that made it"),
        }
    }

    /// Returns the receiver that serves messages for these receive requests.
    pub fn receiver(&self, requests: &Requests) -> Option<Receiver> {
        match (self, requests) {
            (Processor::Software(process), Requests::Software(inbox)) => Some(Receiver {
                process: process.clone(),
                inbox: inbox.clone(),
            }),
            _ => None,
        }
    }
}
