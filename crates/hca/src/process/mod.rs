//! A process's state on the software adapter: keys, queue pairs, channels to peers, and the
//! progress of work.
//!
//! Any thread makes progress. A thread that posts executes as much as it can at once; a thread that
//! polls serves incoming requests and completes outgoing ones ([`progress`]); and the progress
//! thread ([`thread`]), asleep unless work arrives while no thread polls, does the same.
//!
//! Lock order, outermost first: an [`link::Inbound`]'s `serving` or an [`link::Outbound`]'s
//! `completing`; a queue pair's attributes, its send queue, its receive queue; an outbound's
//! `sending`; a completion queue; an event queue; the channel requests ([`connect`]). No thread
//! waits for a peer while it holds any of them.

mod attempt;
mod caller;
pub mod connect;
mod connecting;
pub mod fence;
mod handshakes;
mod idle_policy;
pub mod link;
pub mod member;
pub(crate) mod moderated;
mod next_record;
pub mod numbers;
mod packets;
pub(crate) mod poller;
pub mod progress;
pub(crate) mod qp_cache;
mod queues;
pub(crate) mod socket_message;
pub mod thread;
pub mod timers;
pub mod watch;

use crate::capture::{self, Capture};
use crate::counters::Counters;
use crate::current::Current;
use crate::memory::fork;
use crate::memory::process_memory::ProcessMemory;
use crate::peer::{Forced, Peer};
use crate::qp::Qp;
use crate::qp::backlog::Backlog;
use crate::qp::multicast::Groups;
use crate::qp::responder::XrcMessageStates;
use crate::roce::port::Port;
use crate::roce::receive::Packets;
use crate::srq::Srq;
use crate::tables::{NumberTable, WeakTable};
use connect::ConnectRequests;
use handshakes::Handshakes;
pub use member::Member;
use moderated::ModeratedQueues;
use numbers::Numbers;
use poller::Poller;
use progress::Dead;
use std::collections::HashMap;
use std::os::fd::{AsFd, AsRawFd};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, RwLock, Weak};
use timers::Timers;
use verbena_hca_os::doorbell::Doorbell;
use verbena_hca_os::errno::{Errno, Result};
use verbena_hca_os::{barrier, clock};
use verbena_hca_shm::registry::{self, BLOCK, Identity, Registry};
use watch::Watch;

/// The requester's end of a channel.
pub type Outbound = link::Outbound<Qp>;
/// The responder's end of a channel.
pub type Inbound = link::Inbound<Qp>;
/// State for serving a channel.
pub type Serving = link::Serving<Qp>;
/// State for completing acknowledged requests of a channel.
pub(crate) type Completing = link::Completing<Qp>;
/// The queue pair that was looked up last.
pub(crate) type QpCache = qp_cache::QpCache<Qp>;
/// A completion queue.
pub type Cq = crate::cq::Cq<Process>;

/// The adapter of this process, made when the device is first opened.
pub static CURRENT: Current<Process> = Current::none();

/// The adapter's state in this process.
pub struct Process {
    /// Keys, windows and registered pages.
    pub memory: Arc<ProcessMemory>,
    next_incarnation: AtomicU32,
    /// The path that the environment forces.
    pub forced: Option<Forced>,
    /// Queue pairs by number.
    pub queue_pairs: NumberTable<Qp>,
    /// XRC shared receive queues by number.
    pub srqs: WeakTable<Srq>,
    /// Multicast groups that local queue pairs are attached to.
    pub groups: Groups<Qp>,
    /// Multicast datagrams that wait for a channel.
    pub backlog: Backlog,
    /// Progress of messages to XRC shared receive queues, by the sending queue pair.
    pub(crate) xrc_message_states: Mutex<XrcMessageStates>,
    pub(crate) moderated: ModeratedQueues,
    /// Deadlines.
    pub timers: Timers,
    /// Counters, for `verbena run --stats`.
    pub counters: Counters,
    /// The descriptor that the progress thread sleeps on.
    pub(crate) doorbell: Doorbell,
    pub(crate) member: OnceLock<Member>,
    joining: Mutex<()>,
    numbers: Mutex<Numbers>,
    pub(crate) channels: RwLock<Arc<Channels>>,
    /// Changes with `channels`.
    channels_version: AtomicU64,
    outbound: RwLock<HashMap<Identity, Arc<Outbound>>>,
    pub(crate) connect_requests: ConnectRequests<Qp>,
    pub(crate) handshakes: Handshakes,
    /// Number of completion queues armed for an event. While it is not 0 the progress thread must
    /// not stay away, unless the program goes on polling.
    pub(crate) armed_queues: AtomicUsize,
    /// Number of armings of completion queues so far.
    pub(crate) armings: AtomicUsize,
    /// Set by polling threads and cleared by the progress thread's looks; the thread stays away
    /// while it is set again each time.
    pub(crate) is_polled: AtomicBool,
    /// Set while the progress thread makes progress: polling threads yield to it now and then.
    pub(crate) thread_works: AtomicBool,
    /// Notifies the application of changes to the port.
    pub(crate) watch: Watch,
    /// The RoCE port (UDP port 4791).
    pub(crate) roce: OnceLock<Port>,
    /// Copies this process's packets to a capturer.
    pub(crate) capture: Arc<Capture>,
    pub(crate) stopping: AtomicBool,
}

/// A cached view of the channels for frequent looks, which saves counting a reference each time.
#[derive(Default)]
pub struct SeenChannels {
    version: u64,
    pub(crate) channels: Arc<Channels>,
    /// Index at which the next partial look begins.
    pub(crate) turn: usize,
    /// Number of queue armings at the last look at all channels.
    pub(crate) armings: usize,
    /// Looks in a row during which the progress thread was working.
    pub(crate) looks: u32,
}

/// A snapshot of the channels.
#[derive(Default, Clone)]
pub struct Channels {
    /// To processes that this one sends requests to.
    pub outbound: Vec<Arc<Outbound>>,
    /// From processes that send requests to this one.
    pub inbound: Vec<Arc<Inbound>>,
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
        capture::set(process.capture.clone());
        CURRENT.set(process.clone());
        Ok(process)
    }

    fn create() -> Result<Process> {
        let forced = Forced::from_environment()?;
        let memory = Arc::new(ProcessMemory::create()?);
        crate::link::chosen()?;
        crate::roce::allow::chosen()?;
        crate::roce::fallback::chosen()?;
        let doorbell = Doorbell::new()?;
        memory.is_harmless(doorbell.as_fd());
        Ok(Process {
            memory,
            next_incarnation: AtomicU32::new(
                std::process::id().rotate_left(16) ^ clock::now() as u32,
            ),
            forced,
            queue_pairs: NumberTable::default(),
            srqs: WeakTable::default(),
            groups: Groups::default(),
            backlog: Backlog::default(),
            xrc_message_states: Mutex::default(),
            moderated: ModeratedQueues::default(),
            timers: Timers::default(),
            counters: Counters::of_process(),
            doorbell,
            member: OnceLock::new(),
            joining: Mutex::default(),
            numbers: Mutex::default(),
            channels: RwLock::default(),
            channels_version: AtomicU64::new(1),
            outbound: RwLock::default(),
            connect_requests: ConnectRequests::default(),
            handshakes: Handshakes::default(),
            armed_queues: AtomicUsize::new(0),
            armings: AtomicUsize::new(0),
            is_polled: AtomicBool::new(false),
            thread_works: AtomicBool::new(false),
            watch: Watch::default(),
            roce: OnceLock::new(),
            capture: Arc::default(),
            stopping: AtomicBool::new(false),
        })
    }

    /// Joins the host's registry and starts the progress thread, if that is not done yet.
    ///
    /// # Errors
    /// As [`Registry::enter`]; the system's.
    pub fn join(self: &Arc<Process>) -> Result<&Member> {
        if let Some(member) = self.member.get() {
            return Ok(member);
        }
        let _joining = self.joining.lock().unwrap_or_else(|e| e.into_inner());
        if let Some(member) = self.member.get() {
            return Ok(member);
        }
        let (registry, identity, listener) =
            Registry::enter(&registry::directory()).inspect_err(|error| {
                eprintln!(
                    "verbena: cannot use the registry {}: {}; set VERBENA_RUNTIME_DIR to a directory \
                     of your own",
                    registry::directory().display(),
                    registry::obstacle(*error)
                );
            })?;
        self.open_port();
        self.capture.call(&registry, identity);
        // Everything that can fail comes before this process becomes a visible member, so that the
        // next call starts from nothing.
        let started = Poller::new(&self.doorbell, &listener)
            .and_then(|poller| thread::start(self, poller))
            .and_then(|begin| self.connect_to_self(identity).map(|()| begin));
        let begin = started.inspect_err(|_| registry.leave(identity))?;
        let member = self.member.get_or_init(|| Member {
            registry,
            identity,
            listener,
        });
        self.memory.is_harmless(member.registry.as_fd());
        self.memory.is_harmless(member.listener.as_fd());
        let _ = begin.send(());
        self.look_at_ports();
        self.follow_link();
        // SAFETY: the handler is a function of this library, which stays loaded.
        unsafe { libc::atexit(leave_at_exit) };
        Ok(member)
    }

    /// Returns the registry's directory; joins the registry first.
    ///
    /// # Errors
    /// As [`Process::join`].
    pub fn directory(self: &Arc<Process>) -> Result<PathBuf> {
        Ok(self.join()?.registry.path().to_owned())
    }

    /// With RoCE, opens the port through which other hosts are reached. Without it, peers on this
    /// host can still be reached.
    fn open_port(&self) {
        if crate::link::is_ethernet()
            && self.roce.get().is_none()
            && let Ok(port) = Port::open()
        {
            let _ = self.roce.set(port);
        }
    }

    /// Makes the channel to this process itself, which needs no handshake.
    fn connect_to_self(&self, identity: Identity) -> Result<()> {
        let doorbell = self.doorbell.share()?;
        let peer = Arc::new(Peer::own(
            identity,
            self.memory.contexts().clone(),
            self.memory.arena(),
            doorbell,
            self.forced,
        ));
        let (channel, file) = verbena_hca_shm::channel::Channel::create()?;
        let other_end =
            verbena_hca_shm::channel::Channel::of_peer(file.as_fd().try_clone_to_owned()?)?;
        let can_pull = peer.pull_ability();
        self.add_inbound(Arc::new(Inbound::new(peer.clone(), other_end)));
        self.add_outbound(identity, Arc::new(Outbound::new(peer, channel, can_pull)));
        Ok(())
    }

    /// Allocates a queue pair or XRC SRQ number, unique on the host.
    ///
    /// # Errors
    /// ENOMEM when all numbers are in use; as [`Process::join`].
    pub fn allocate_number(self: &Arc<Process>) -> Result<u32> {
        let member = self.join()?;
        let mut numbers = self.numbers.lock().unwrap_or_else(|e| e.into_inner());
        if let Some(number) = numbers.take(clock::now()) {
            return Ok(number);
        }
        let block = match self.roce.get() {
            Some(port) => port.allocate_block(&member.registry, member.identity),
            None => member.registry.allocate_block(member.identity),
        };
        match block {
            Ok(first) => {
                numbers.add(first..first + BLOCK);
                // There may now be a socket to wait on.
                self.doorbell.ring();
            }
            Err(error) => return numbers.take_early().ok_or(error),
        }
        numbers.take(clock::now()).ok_or(Errno::ENOMEM)
    }

    /// Releases a number. It is not used again for a time, so that late messages to it are dropped.
    pub fn release_number(&self, number: u32) {
        self.numbers
            .lock()
            .unwrap_or_else(|e| e.into_inner())
            .give_back(number, clock::now());
    }

    /// Returns a snapshot of the channels.
    #[inline]
    pub fn channels(&self) -> Arc<Channels> {
        self.channels
            .read()
            .unwrap_or_else(|e| e.into_inner())
            .clone()
    }

    /// Brings a cached view of the channels up to date; normally one look finds nothing new.
    #[inline]
    pub(crate) fn look_at_channels(&self, seen: &mut SeenChannels) {
        if seen.version != self.channels_version.load(Ordering::Acquire) {
            self.look_again(seen);
        }
    }

    #[cold]
    fn look_again(&self, seen: &mut SeenChannels) {
        let channels = self.channels.read().unwrap_or_else(|e| e.into_inner());
        seen.version = self.channels_version.load(Ordering::Acquire);
        seen.channels = channels.clone();
    }

    fn change_channels(&self, change: impl FnOnce(&mut Channels)) {
        let mut channels = self.channels.write().unwrap_or_else(|e| e.into_inner());
        let mut next = Channels::clone(&channels);
        change(&mut next);
        *channels = Arc::new(next);
        self.channels_version.fetch_add(1, Ordering::AcqRel);
    }

    pub(crate) fn add_inbound(&self, inbound: Arc<Inbound>) {
        self.change_channels(|channels| channels.inbound.push(inbound));
    }

    pub(crate) fn add_outbound(&self, identity: Identity, outbound: Arc<Outbound>) {
        self.outbound
            .write()
            .unwrap_or_else(|e| e.into_inner())
            .insert(identity, outbound.clone());
        self.change_channels(|channels| channels.outbound.push(outbound));
    }

    /// Drops the channels to and from dead peers, on which nothing is in flight any more.
    fn forget(&self, dead: &Dead) {
        let is_dead = |outbound: &Arc<Outbound>| {
            dead.outbound
                .iter()
                .any(|buried| Arc::ptr_eq(buried, outbound))
        };
        self.outbound
            .write()
            .unwrap_or_else(|e| e.into_inner())
            .retain(|_, outbound| !is_dead(outbound));
        self.change_channels(|channels| {
            channels.inbound.retain(|inbound| {
                !dead
                    .inbound
                    .iter()
                    .any(|buried| Arc::ptr_eq(buried, inbound))
            });
            channels.outbound.retain(|outbound| !is_dead(outbound));
        });
        self.moderated.for_each(|queue| queue.forget_channels());
    }

    pub(crate) fn outbound_to(&self, identity: Identity) -> Option<Arc<Outbound>> {
        self.outbound
            .read()
            .unwrap_or_else(|e| e.into_inner())
            .get(&identity)
            .cloned()
    }

    /// Returns the channel to the owner of a queue pair number, if there is one.
    pub(crate) fn outbound_to_number(&self, number: u32) -> Option<Arc<Outbound>> {
        self.outbound_to(self.member.get()?.registry.owner(number)?)
    }

    /// Returns whether a registered process owns this queue pair number.
    pub(crate) fn is_owned(&self, number: u32) -> bool {
        let owner = |member: &Member| member.registry.owner(number);
        self.member.get().and_then(owner).is_some()
    }

    /// Returns the incarnation of a new queue pair, different from all earlier ones of this
    /// process.
    pub(crate) fn next_incarnation(&self) -> u32 {
        self.next_incarnation.fetch_add(1, Ordering::Relaxed)
    }

    /// Returns the ranges that a forked child must not touch.
    pub(crate) fn shared_mappings(&self) -> Vec<(usize, usize)> {
        let mut ranges = self.memory.shared_mappings();
        let channels = self.channels();
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
        ranges.sort_unstable();
        ranges.dedup();
        ranges
    }

    /// Returns the descriptors by whose closing peers notice this process's death.
    pub(crate) fn sockets(&self) -> Vec<i32> {
        let channels = self.channels();
        let peers = channels.outbound.iter().map(|outbound| &outbound.peer);
        peers
            .chain(channels.inbound.iter().map(|inbound| &inbound.peer))
            .filter_map(|peer| peer.socket())
            .map(|socket| socket.as_fd().as_raw_fd())
            .chain(self.member.get().into_iter().flat_map(|member| {
                [
                    member.listener.as_fd().as_raw_fd(),
                    member.registry.as_fd().as_raw_fd(),
                ]
            }))
            .chain(self.roce.get().into_iter().flat_map(Port::descriptors))
            .chain(self.handshakes.all())
            .chain(self.capture.descriptor())
            .collect()
    }

    /// Leaves the host: releases the registry slot.
    pub fn leave(&self) {
        if self.memory.is_inherited() || self.stopping.swap(true, Ordering::SeqCst) {
            return;
        }
        Packets::of(self).answer_last();
        if let Some(member) = self.member.get() {
            member.registry.leave(member.identity);
        }
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

extern "C" fn leave_at_exit() {
    if let Some(process) = CURRENT.get() {
        process.leave();
    }
}
