//! A process's state on the software adapter: keys, queue pairs, channels to peers, and the
//! progress of work.
//!
//! Any thread makes progress. A thread that posts executes as much as it can at once; a thread that
//! polls serves incoming requests and completes outgoing ones ([`progress`]); and the progress
//! thread ([`thread`]), asleep unless work arrives while no thread polls, does the same.
//!
//! Lock order, outermost first: an [`channel_ends::Inbound`]'s `serving` or an
//! [`channel_ends::Outbound`]'s `completing`; a queue pair's attributes, its send queue, its
//! receive queue; an outbound's `sending`; a completion queue; an event queue; the channel requests
//! ([`channel_requests`]). No thread waits for a peer while it holds any of them; on a fabric, it
//! may wait for the answer to a question for a path.

pub(crate) mod activity;
mod caller;
pub mod channel_ends;
pub mod channel_requests;
mod channel_waiters;
pub mod channels;
mod emulated;
pub mod fence;
mod handshake_descriptors;
mod idle_policy;
mod join;
pub(crate) mod lane_ends;
mod lanes;
pub(crate) mod membership;
pub(crate) mod moderated;
mod next_record;
pub mod numbers;
pub(crate) mod outbound_lane;
mod outgoing_handshake;
mod packets;
pub(crate) mod poller;
mod polling;
mod port_events;
pub(crate) mod ports;
pub mod progress;
pub(crate) mod qp_cache;
mod queues;
mod seen_channels;
pub mod thread;
pub mod timers;
pub mod watch;

use crate::capture;
use crate::counters::Counters;
use crate::emulation::{self, nodes::Nodes, thread::Follower};
use crate::lanes::Mode;
use crate::qp::Qp;
use crate::qp::backlog::Backlog;
use crate::qp::multicast_groups::Groups;
use crate::qp::responder::message_state::XrcMessageStates;
use crate::roce::port::Port;
use crate::srq::Srq;
use activity::Activity;
use channels::ChannelSet;
pub use membership::Member;
use membership::Membership;
use moderated::ModeratedQueues;
use ports::Ports;
use std::os::fd::{AsFd, AsRawFd};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock, Weak};
use timers::Timers;
use verbena_hca_memory::fork;
use verbena_hca_memory::peer::Forced;
use verbena_hca_memory::process_memory::ProcessMemory;
use verbena_hca_memory::tables::{NumberTable, WeakTable};
use verbena_hca_os::barrier;
use verbena_hca_os::errno::Result;
use verbena_hca_os::singleton::Singleton;

/// The requester's end of a channel.
pub type Outbound = channel_ends::Outbound<Qp>;
/// The responder's end of a channel.
pub type Inbound = channel_ends::Inbound<Qp>;
/// State for serving a channel.
pub type Serving = channel_ends::Serving<Qp>;
/// State for completing acknowledged requests of a channel.
pub(crate) type Completing = channel_ends::Completing<Qp>;
/// The queue pair that was looked up last.
pub(crate) type QpCache = qp_cache::QpCache<Qp>;
/// A snapshot of the channels.
pub type Channels = channels::Channels<Qp>;
/// A cached view of the channels.
pub type SeenChannels = seen_channels::SeenChannels<Qp>;
/// A completion queue.
pub type Cq = crate::cq::Cq<Process>;

/// The adapter of this process, made when the device is first opened.
pub static CURRENT: Singleton<Process> = Singleton::none();

/// The adapter's state in this process.
pub struct Process {
    /// Keys, windows and registered pages.
    pub memory: Arc<ProcessMemory>,
    /// The path that the environment forces.
    pub forced: Option<Forced>,
    /// When short messages go by lanes.
    pub(crate) lanes: Mode,
    /// Queue pairs by number.
    pub queue_pairs: NumberTable<Qp>,
    /// XRC shared receive queues by number.
    pub srqs: WeakTable<Srq>,
    /// Multicast groups that local queue pairs are attached to.
    pub groups: Groups<Qp>,
    /// Multicast datagrams that wait for a channel.
    pub backlog: Backlog<Qp>,
    /// Progress of messages to XRC shared receive queues, by the sending queue pair.
    pub(crate) xrc_message_states: Mutex<XrcMessageStates>,
    pub(crate) moderated: ModeratedQueues<Cq>,
    /// Deadlines.
    pub timers: Timers,
    /// Counters, for `verbena run --stats`.
    pub counters: Counters,
    pub(crate) activity: Activity,
    pub(crate) membership: Membership,
    pub(crate) channels: ChannelSet<Qp>,
    pub(crate) ports: Ports,
    /// The nodes of an emulation, once the process has joined the registry.
    pub(crate) nodes: OnceLock<Nodes>,
    /// The thread of an emulation.
    pub(crate) follower: Follower,
}

impl Process {
    /// Returns the adapter of this process; creates it if there is none yet.
    ///
    /// # Errors
    /// EINVAL or ENODEV for invalid environment variables; the system's.
    pub fn current() -> Result<Arc<Process>> {
        static MAKING: Mutex<()> = Mutex::new(());
        if let Some(process) = CURRENT.get() {
            return Ok(process);
        }
        let _making = MAKING.lock().unwrap_or_else(|e| e.into_inner());
        if let Some(process) = CURRENT.get() {
            return Ok(process);
        }
        let process = Arc::new(Process::create()?);
        let peers: Weak<Process> = Arc::downgrade(&process);
        process.memory.set_peers(peers);
        barrier::prepare();
        fork::watch(FORKING);
        capture::set(process.ports.capture().clone());
        CURRENT.set(process.clone());
        Ok(process)
    }

    fn create() -> Result<Process> {
        emulation::begin()?;
        if let Some(emulation) = emulation::own() {
            emulation.prepare();
        }
        let forced = Forced::from_environment()?;
        let lanes = Mode::from_environment()?;
        let memory = Arc::new(ProcessMemory::create()?);
        crate::link::chosen()?;
        crate::roce::allow::chosen()?;
        crate::roce::fallback::chosen()?;
        let activity = Activity::new()?;
        memory.is_harmless(activity.doorbell().as_fd());
        Ok(Process {
            memory,
            forced,
            lanes,
            queue_pairs: NumberTable::default(),
            srqs: WeakTable::default(),
            groups: Groups::default(),
            backlog: Backlog::default(),
            xrc_message_states: Mutex::default(),
            moderated: ModeratedQueues::default(),
            timers: Timers::default(),
            counters: Counters::of_process(),
            activity,
            membership: Membership::default(),
            channels: ChannelSet::default(),
            ports: Ports::default(),
            nodes: OnceLock::new(),
            follower: Follower::default(),
        })
    }

    /// Returns the registry's directory; joins the registry first.
    ///
    /// # Errors
    /// As [`Process::join`].
    pub fn directory(self: &Arc<Process>) -> Result<PathBuf> {
        Ok(self.join()?.registry.path().to_owned())
    }

    /// Allocates a queue pair or XRC SRQ number, unique on the host.
    ///
    /// # Errors
    /// ENOMEM when all numbers are in use; as [`Process::join`].
    pub fn allocate_number(self: &Arc<Process>) -> Result<u32> {
        let member = self.join()?;
        self.membership.allocate_number(|| {
            let first = match self.ports.roce() {
                Some(port) => port.allocate_block(&member.registry, member.identity),
                None => member.registry.allocate_block(member.identity),
            }?;
            // There may now be a socket to wait on.
            self.activity.ring();
            Ok(first)
        })
    }

    /// Returns the channel to the owner of a queue pair number, if there is one.
    pub(crate) fn outbound_to_number(&self, number: u32) -> Option<Arc<Outbound>> {
        self.channels.outbound_to(self.membership.owner(number)?)
    }

    /// Returns the ranges that a forked child must not touch.
    pub(crate) fn shared_mappings(&self) -> Vec<(usize, usize)> {
        let mut ranges = self.memory.shared_mappings();
        let channels = self.channels.snapshot();
        ranges.extend(
            channels
                .outbound
                .iter()
                .map(|outbound| outbound.channel.range()),
        );
        ranges.extend(
            channels
                .inbound
                .iter()
                .map(|inbound| inbound.channel.range()),
        );
        let peers = channels.outbound.iter().map(|outbound| &outbound.peer);
        for peer in peers.chain(channels.inbound.iter().map(|inbound| &inbound.peer)) {
            ranges.extend(peer.shared_mappings());
        }
        ranges.extend(crate::link::fabric().and_then(|fabric| fabric.traffic_range()));
        ranges.sort_unstable();
        ranges.dedup();
        ranges
    }

    /// Returns the descriptors by whose closing peers notice this process's death.
    pub(crate) fn sockets(&self) -> Vec<i32> {
        let channels = self.channels.snapshot();
        let peers = channels.outbound.iter().map(|outbound| &outbound.peer);
        peers
            .chain(channels.inbound.iter().map(|inbound| &inbound.peer))
            .filter_map(|peer| peer.socket())
            .map(|socket| socket.as_fd().as_raw_fd())
            .chain(self.membership.get().into_iter().flat_map(|member| {
                [
                    member.listener.as_fd().as_raw_fd(),
                    member.registry.as_fd().as_raw_fd(),
                ]
            }))
            .chain(self.ports.roce().into_iter().flat_map(Port::descriptors))
            .chain(self.channels.handshakes().all())
            .chain(self.ports.capture().descriptor())
            .chain(crate::link::fabric().and_then(crate::fabric::Fabric::descriptor))
            .collect()
    }
}

/// The adapter for the handlers of fork(2).
const FORKING: fork::Adapter = fork::Adapter {
    memory: || CURRENT.get().map(|process| process.memory.clone()),
    mappings: || {
        CURRENT
            .get()
            .map_or_else(Vec::new, |process| process.shared_mappings())
    },
    descriptors: || {
        CURRENT
            .get()
            .map_or_else(Vec::new, |process| process.sockets())
    },
    abandon: || {
        CURRENT.abandon();
        capture::forget();
    },
};
