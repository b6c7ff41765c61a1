//! What a process is on the software adapter: its keys and queue pairs, its channels to peers, and who moves things on.
//!
//! Work is done by whoever is there. A thread that posts executes what it can at once; a thread that polls serves
//! incoming requests and completes outgoing ones ([`progress`]); and one thread of the adapter's own, asleep unless
//! something comes while nobody polls, does the same ([`thread`]).
//!
//! Lock order, outermost first: an [`link::Inbound`]'s `serving` or an [`link::Outbound`]'s `completing`; a queue pair's
//! attributes, its send queue, its receive queue; an outbound's `sending`; a completion queue; an event queue; who is
//! sought ([`seek`]). No thread waits for a peer while it holds any.

mod attempt;
mod caller;
pub mod fence;
pub mod flight;
mod handshakes;
pub mod link;
mod lurk;
pub(crate) mod message;
mod next_record;
pub mod numbers;
pub(crate) mod poller;
pub mod progress;
pub mod seek;
pub mod tables;
pub mod thread;
pub mod timers;
pub mod watch;

use crate::capture::Capture;
use crate::counters::Counters;
use crate::errno::{Errno, Result};
use crate::memory::arena::Arena;
use crate::memory::fork::{self, ForkMutex};
use crate::memory::key::Keys;
use crate::memory::pages::Pages;
use crate::memory::window::Window;
use crate::path::{Forced, Peer};
use crate::qp::Qp;
use crate::qp::backlog::Backlog;
use crate::qp::multicast::Groups;
use crate::qp::responder::XrcArrivals;
use crate::receive::Srq;
use crate::roce::port::Port;
use crate::shm::context_table::ContextTable;
use crate::shm::registry::{self, BLOCK, Identity, Registry};
use crate::shm::section::OwnMarks;
use crate::shm::sleep;
use crate::sys::apart::Apart;
use crate::sys::doorbell::Doorbell;
use crate::sys::memfd::Memfd;
use crate::sys::{barrier, clock};
use handshakes::Handshakes;
use link::{Inbound, Outbound};
use numbers::Numbers;
use poller::Poller;
use progress::Dead;
use seek::Seekers;
use std::collections::HashMap;
use std::os::fd::{AsFd, AsRawFd};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, RwLock};
use tables::{Directory, ModeratedQueues, NumberTable};
use timers::Timers;
use watch::Watch;

/// The adapter of this process, made when the device is opened first.
pub static CURRENT: Current = Current {
    process: AtomicPtr::new(std::ptr::null_mut()),
};

/// Holds the process's adapter, and can lose it without a lock in a forked child.
pub struct Current {
    process: AtomicPtr<Process>,
}

impl Current {
    /// The adapter, if the device was opened.
    pub fn get(&self) -> Option<Arc<Process>> {
        let process = self.process.load(Ordering::Acquire);
        if process.is_null() {
            return None;
        }
        // SAFETY: a pointer stored here comes from Arc::into_raw and is never given back, so the count is positive.
        unsafe {
            Arc::increment_strong_count(process);
            Some(Arc::from_raw(process))
        }
    }

    fn set(&self, process: Arc<Process>) {
        self.process
            .store(Arc::into_raw(process).cast_mut(), Ordering::Release);
    }

    /// Forgets the adapter without freeing it.
    pub fn abandon(&self) {
        self.process.store(std::ptr::null_mut(), Ordering::Release);
    }
}

/// All that the adapter keeps for this process.
pub struct Process {
    /// Our public records.
    pub contexts: Arc<ContextTable>,
    contexts_file: Memfd,
    /// Where registered pages live; None where the system refuses so much address space.
    pub arena: Option<Apart<Arena>>,
    /// Memory keys.
    pub keys: Keys,
    /// Memory windows by key.
    pub windows: Directory<Window>,
    /// Where our threads mark what they touch of our own memory, other than on the way through a channel.
    pub own_marks: OwnMarks,
    next_incarnation: AtomicU32,
    /// Held while pages change their home.
    pub registration: ForkMutex,
    /// The path that the environment forces.
    pub forced: Option<Forced>,
    /// Queue pairs by number.
    pub queue_pairs: NumberTable<Qp>,
    /// XRC shared receive queues by number.
    pub srqs: Directory<Srq>,
    /// Multicast groups that our queue pairs are attached to.
    pub groups: Groups,
    /// Multicast datagrams that wait for a channel.
    pub backlog: Backlog,
    /// Where messages for XRC shared receive queues stand, by the sending queue pair.
    pub(crate) xrc_arrivals: Mutex<XrcArrivals>,
    /// Completion queues that moderate their events.
    pub(crate) moderated: ModeratedQueues,
    /// Deadlines.
    pub timers: Timers,
    /// What was done, for `verbena run --stats`.
    pub counters: Counters,
    /// What our progress thread sleeps on.
    pub(crate) doorbell: Doorbell,
    pub(crate) member: OnceLock<Member>,
    joining: Mutex<()>,
    numbers: Mutex<Numbers>,
    pub(crate) channels: RwLock<Arc<Channels>>,
    /// Changes with `channels`.
    channels_version: AtomicU64,
    outbound: RwLock<HashMap<Identity, Arc<Outbound>>>,
    pub(crate) seekers: Seekers,
    pub(crate) handshakes: Handshakes,
    /// Completion queues armed for an event: then the progress thread must not stay away, unless the program polls on.
    pub(crate) armed_queues: AtomicUsize,
    /// How often one has been armed.
    pub(crate) armings: AtomicUsize,
    /// Somebody has polled since the progress thread looked; it stays away while that happens.
    pub(crate) is_polled: AtomicBool,
    /// The progress thread makes progress: those who poll give way to it now and then.
    pub(crate) thread_works: AtomicBool,
    pub(crate) probe: Box<AtomicU64>,
    /// Who is told of changes to the port.
    pub(crate) watch: Watch,
    /// Port 4791, over RoCE.
    pub(crate) roce: OnceLock<Port>,
    /// Who is told of our packets.
    pub(crate) capture: Capture,
    fork_generation: u64,
    pub(crate) stopping: AtomicBool,
}

/// Our membership in the host's registry.
pub struct Member {
    /// The registry.
    pub registry: Registry,
    /// Which process we are.
    pub identity: Identity,
    /// Where peers connect.
    pub listener: crate::sys::socket::Socket,
}

/// The channels as somebody saw them who looks often, and need not count a reference each time.
#[derive(Default)]
pub(crate) struct SeenChannels {
    version: u64,
    pub channels: Arc<Channels>,
    /// Where the next look begins, if one does not look at all of them.
    pub(crate) turn: usize,
    /// How often queues had been armed at the last look at all of them.
    pub(crate) armings: usize,
    /// Looks in a row during which the progress thread was at work.
    pub(crate) looks: u32,
}

/// The channels of the moment.
#[derive(Default, Clone)]
pub struct Channels {
    /// To those we request from.
    pub outbound: Vec<Arc<Outbound>>,
    /// From those who request from us.
    pub inbound: Vec<Arc<Inbound>>,
}

impl Process {
    /// The adapter of this process; makes it if there is none yet.
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
        barrier::prepare();
        fork::watch();
        CURRENT.set(process.clone());
        Ok(process)
    }

    fn create() -> Result<Process> {
        let forced = Forced::from_environment()?;
        let pages = Pages::from_environment()?;
        crate::link::chosen()?;
        crate::roce::allow::chosen()?;
        crate::roce::tunnel::chosen()?;
        let (contexts, contexts_file) = ContextTable::create()?;
        let contexts = Arc::new(contexts);
        let doorbell = Doorbell::new()?;
        let arena = Arena::create(pages).ok();
        if let Some(arena) = &arena {
            arena.is_harmless(contexts_file.as_fd());
            arena.is_harmless(doorbell.as_fd());
        }
        Ok(Process {
            contexts_file,
            arena,
            keys: Keys::new(contexts.clone()),
            windows: Directory::default(),
            own_marks: OwnMarks::default(),
            next_incarnation: AtomicU32::new(
                std::process::id().rotate_left(16) ^ clock::now() as u32,
            ),
            registration: ForkMutex::new(),
            forced,
            queue_pairs: NumberTable::default(),
            srqs: Directory::default(),
            groups: Groups::default(),
            backlog: Backlog::default(),
            xrc_arrivals: Mutex::default(),
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
            seekers: Seekers::default(),
            handshakes: Handshakes::default(),
            armed_queues: AtomicUsize::new(0),
            armings: AtomicUsize::new(0),
            is_polled: AtomicBool::new(false),
            thread_works: AtomicBool::new(false),
            probe: Box::new(AtomicU64::new(u64::from(std::process::id()) << 32 | 0x5eed)),
            watch: Watch::default(),
            roce: OnceLock::new(),
            capture: Capture::default(),
            fork_generation: fork::GENERATION.load(Ordering::SeqCst),
            stopping: AtomicBool::new(false),
            contexts,
        })
    }

    /// Whether this adapter belongs to an ancestor of the calling process.
    pub fn is_inherited(&self) -> bool {
        self.fork_generation != fork::GENERATION.load(Ordering::Relaxed)
    }

    /// Joins the host's registry and starts the progress thread, if that is not done yet.
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
                    "verbena: the registry {} cannot be used: {}; set VERBENA_RUNTIME_DIR to a directory of your own",
                    registry::directory().display(),
                    registry::obstacle(*error)
                );
            })?;
        self.open_port();
        self.capture.call(&registry, identity);
        // All that can fail comes before we are seen to be a member, so that the next call starts from nothing.
        let started = Poller::new(&self.doorbell, &listener)
            .and_then(|poller| thread::start(self, poller))
            .and_then(|begin| self.meet_self(identity).map(|()| begin));
        let begin = started.inspect_err(|_| registry.leave(identity))?;
        let member = self.member.get_or_init(|| Member {
            registry,
            identity,
            listener,
        });
        if let Some(arena) = &self.arena {
            arena.is_harmless(member.registry.as_fd());
            arena.is_harmless(member.listener.as_fd());
        }
        let _ = begin.send(());
        self.look_at_ports();
        self.follow_link();
        // SAFETY: the handler is a function of this library, which stays loaded.
        unsafe { libc::atexit(leave_at_exit) };
        Ok(member)
    }

    /// Where the registry lies, joined or not.
    pub fn directory(self: &Arc<Process>) -> Result<PathBuf> {
        Ok(self.join()?.registry.path().to_owned())
    }

    /// Over RoCE, opens the port through which other hosts are reached. Without it this host still is.
    fn open_port(&self) {
        if crate::link::is_ethernet()
            && self.roce.get().is_none()
            && let Ok(port) = Port::open()
        {
            let _ = self.roce.set(port);
        }
    }

    /// The channel to ourselves needs no handshake.
    fn meet_self(&self, identity: Identity) -> Result<()> {
        let doorbell = self.doorbell.share()?;
        let peer = Arc::new(Peer::own(
            identity,
            self.contexts.clone(),
            self.arena.as_deref(),
            doorbell,
            self.forced,
        ));
        let (channel, file) = crate::shm::channel::Channel::create()?;
        let other_end = crate::shm::channel::Channel::of_peer(file.as_fd().try_clone_to_owned()?)?;
        let can_pull = peer.pull_ability();
        self.add_inbound(Arc::new(Inbound::new(peer.clone(), other_end)));
        self.add_outbound(identity, Arc::new(Outbound::new(peer, channel, can_pull)));
        Ok(())
    }

    /// A new queue pair or XRC SRQ number, unique on the host.
    pub fn allocate_number(self: &Arc<Process>) -> Result<u32> {
        let member = self.join()?;
        let mut numbers = self.numbers.lock().unwrap_or_else(|e| e.into_inner());
        if let Some(number) = numbers.take(clock::now()) {
            return Ok(number);
        }
        let block = match self.roce.get() {
            Some(port) => port.allocate_block(member),
            None => member.registry.allocate_block(member.identity),
        };
        match block {
            Ok(first) => {
                numbers.add(first..first + BLOCK);
                // There may be a socket now to wait on.
                self.doorbell.ring();
            }
            Err(error) => return numbers.take_unrested().ok_or(error),
        }
        numbers.take(clock::now()).ok_or(Errno::ENOMEM)
    }

    /// Gives a number back. It rests before it is used again, so that late messages to it find nobody.
    pub fn release_number(&self, number: u32) {
        self.numbers
            .lock()
            .unwrap_or_else(|e| e.into_inner())
            .give_back(number, clock::now());
    }

    /// A completion queue wants an event: peers ring from now on.
    pub(crate) fn queue_armed(&self) {
        self.armed_queues.fetch_add(1, Ordering::SeqCst);
        sleep::want_rings(self.contexts.armed(), &self.armings);
    }

    /// One that wanted an event already is armed once more: who arms may be about to sleep.
    pub(crate) fn queue_armed_again(&self) {
        sleep::want_rings_still(self.contexts.armed(), &self.armings);
    }

    /// It has had it, or is gone.
    pub(crate) fn queue_disarmed(&self) {
        self.armed_queues.fetch_sub(1, Ordering::SeqCst);
    }

    /// The channels of the moment.
    #[inline]
    pub fn channels(&self) -> Arc<Channels> {
        self.channels
            .read()
            .unwrap_or_else(|e| e.into_inner())
            .clone()
    }

    /// Brings what was seen of the channels up to date: as a rule by one look that finds nothing new.
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

    /// Drops the channels to and from dead peers, on which nothing is under way any more.
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

    /// The channel to a process, if there is one.
    pub(crate) fn outbound_to(&self, identity: Identity) -> Option<Arc<Outbound>> {
        self.outbound
            .read()
            .unwrap_or_else(|e| e.into_inner())
            .get(&identity)
            .cloned()
    }

    /// The channel to the owner of a queue pair number, if there is one.
    pub(crate) fn outbound_to_number(&self, number: u32) -> Option<Arc<Outbound>> {
        self.outbound_to(self.member.get()?.registry.owner(number)?)
    }

    /// Whether a process that lives has this number to give to its queue pairs.
    pub(crate) fn is_owned(&self, number: u32) -> bool {
        let owner = |member: &Member| member.registry.owner(number);
        self.member.get().and_then(owner).is_some()
    }

    /// Which life a queue pair begins: another than any before, of any queue pair of this process.
    pub(crate) fn next_incarnation(&self) -> u32 {
        self.next_incarnation.fetch_add(1, Ordering::Relaxed)
    }

    /// Ranges that a forked child must not touch.
    pub(crate) fn shared_mappings(&self) -> Vec<(usize, usize)> {
        let mut ranges = vec![self.contexts.range()];
        ranges.extend(
            self.arena
                .as_ref()
                .map(|arena| (arena.base() as usize, arena.length())),
        );
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

    /// Descriptors whose other end tells of our death.
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

    pub(crate) fn contexts_file(&self) -> &Memfd {
        &self.contexts_file
    }

    /// Leaves the host: gives the slot back.
    pub fn leave(&self) {
        if self.is_inherited() || self.stopping.swap(true, Ordering::SeqCst) {
            return;
        }
        self.answer_last_packets();
        if let Some(member) = self.member.get() {
            member.registry.leave(member.identity);
        }
    }
}

extern "C" fn leave_at_exit() {
    if let Some(process) = CURRENT.get() {
        process.leave();
    }
}
