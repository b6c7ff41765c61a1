//! Simulation of one large system by several threads.
//!
//! Each thread simulates a part of the nodes, with the switches near them.
//! All parts run the same window of time, then exchange packets, returned credits and reports as
//! plain data, and agree on the next window with an event. Everything that crosses is put in the
//! order of the partitions of origin, so results are the same for any number of threads
//! (`kernel/calendar.rs`).

use crate::adapter::CrossingPacket;
use crate::component::Returned;
use crate::kernel::{Time, add_events, events_of_this_thread};
use crate::traffic::Traffic;
use std::any::Any;
use std::num::NonZero;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;

/// Least nodes of a thread: fewer have too few events in a window.
const LEAST_NODES: usize = 16;

/// Most nodes of all helpers together: some 26 KiB each, so a GiB.
const MOST_COPIES: usize = 40_000;

/// Turns of a thread that waits for others before it sleeps: some 50 us.
const SPINS: u32 = 1500;

/// Most threads of this process that simulate.
static MOST: AtomicUsize = AtomicUsize::new(1);
/// Threads that compute models now: those that are registered, and those that help one.
static BUSY: AtomicUsize = AtomicUsize::new(0);

/// Returns the number of processors that this process may use.
pub fn processors() -> usize {
    static PROCESSORS: OnceLock<usize> = OnceLock::new();
    *PROCESSORS.get_or_init(|| thread::available_parallelism().map_or(1, NonZero::get))
}

/// Limits the threads of this process that simulate at the same time, in all simulations together;
/// never more than there are processors. Without a call, each simulation has one thread.
pub fn limit_threads(most: usize) {
    MOST.store(most.clamp(1, processors()), Ordering::Relaxed);
}

/// Registers a thread that computes models, until the result is dropped: fewer others help it and
/// its like. The threads of a pool are registered before the first of them starts.
#[must_use]
pub fn register() -> Busy {
    BUSY.fetch_add(1, Ordering::Relaxed);
    Busy(1)
}

/// A part of a system's nodes: those of one of several threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OwnNodes {
    number: usize,
    of: usize,
    nodes: usize,
}

impl OwnNodes {
    /// Returns the number of the thread that has a node.
    pub fn owner(&self, node: usize) -> usize {
        node * self.of / self.nodes
    }

    /// Returns the number of the thread.
    pub(crate) fn number(&self) -> usize {
        self.number
    }

    /// Returns whether the thread has a node.
    pub fn has(&self, node: usize) -> bool {
        self.owner(node) == self.number
    }
}

/// A report of a rank to all threads, at the end of a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Report {
    /// Time of the event.
    pub at: Time,
    /// The rank.
    pub by: usize,
    /// The rank's number of the report.
    pub number: usize,
}

/// Everything that a thread passes to the others at the end of a window.
#[derive(Default)]
struct Parcel {
    next: Option<u64>,
    /// By receiving thread.
    packets: Vec<Vec<CrossingPacket>>,
    returned: Vec<Vec<Returned>>,
    reports: Vec<Report>,
}

/// Packets, credits and reports that cross between threads at the end of a window.
#[derive(Default)]
pub(crate) struct Crossing {
    /// The next window with an event, as far as the senders know.
    pub next: Option<u64>,
    pub packets: Vec<CrossingPacket>,
    pub returned: Vec<Returned>,
    pub reports: Vec<Report>,
}

/// The meeting place of the threads of a simulation.
struct Hub {
    /// Parcels of even and of odd windows, by sending thread: while those of one kind are read, the
    /// others may be written.
    parcels: [Vec<Mutex<Parcel>>; 2],
    arrived: AtomicUsize,
    meetings: AtomicUsize,
    has_failed: AtomicBool,
    /// Threads that sleep until the next meeting, and their alarm.
    sleeping: Mutex<()>,
    met: Condvar,
    sleepers: AtomicUsize,
    /// The first panic.
    failure: Mutex<Option<Box<dyn Any + Send>>>,
    traffic: Mutex<Option<Traffic>>,
}

/// One of the threads that simulate a system together.
#[derive(Clone)]
pub struct Thread {
    nodes: OwnNodes,
    hub: Arc<Hub>,
}

/// Threads that count as busy until it is dropped.
#[derive(Debug)]
pub struct Busy(usize);

impl Drop for Busy {
    fn drop(&mut self) {
        BUSY.fetch_sub(self.0, Ordering::Relaxed);
    }
}

/// Returns how many threads may help this one simulate a system of so many nodes, and counts them
/// as busy.
fn helpers(nodes: usize) -> Busy {
    // A helper may have a copy of every node that its own exchange messages with.
    let copies = MOST_COPIES / nodes.max(1);
    let wanted = (nodes / LEAST_NODES).saturating_sub(1).min(copies);
    let most = MOST.load(Ordering::Relaxed);
    let mut busy = BUSY.load(Ordering::Relaxed);
    loop {
        // This thread is busy, registered or not.
        let helpers = most.saturating_sub(busy.max(1)).min(wanted);
        let claimed = busy + helpers;
        match BUSY.compare_exchange_weak(busy, claimed, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => return Busy(helpers),
            Err(now) => busy = now,
        }
    }
}

/// Runs a part of a simulation on each of as many threads as a system of `nodes` nodes can use and
/// this process may. Returns the results in the order of the parts.
///
/// # Panics
///
/// If a part panics.
pub fn on_free_threads<T: Send>(nodes: usize, part: impl Fn(&Thread) -> T + Sync) -> Vec<T> {
    let helpers = helpers(nodes);
    on_threads(1 + helpers.0, nodes, part)
}

/// Runs a part of a simulation of `nodes` nodes on each of `threads` threads, or on as many as the
/// operating system permits.
///
/// # Panics
///
/// If a part panics.
pub fn on_threads<T: Send>(
    threads: usize,
    nodes: usize,
    part: impl Fn(&Thread) -> T + Sync,
) -> Vec<T> {
    let threads = threads.clamp(1, nodes.max(1));
    let part = &part;
    let (results, hub) = thread::scope(|scope| {
        // The number of parts is known only when all threads have started: each waits for its own.
        let mut started = Vec::new();
        for _ in 1..threads {
            let (sender, receiver) = channel::<Thread>();
            let run = move || {
                let thread = receiver.recv().ok()?;
                let result = thread.run(part)?;
                Some((result, events_of_this_thread()))
            };
            match thread::Builder::new().spawn_scoped(scope, run) {
                Ok(handle) => started.push((sender, handle)),
                Err(_) => break,
            }
        }
        let of = 1 + started.len();
        let hub = Arc::new(Hub::new(of));
        let thread = |number| Thread {
            nodes: OwnNodes { number, of, nodes },
            hub: hub.clone(),
        };
        for (number, (sender, _)) in started.iter().enumerate() {
            let _ = sender.send(thread(number + 1));
        }
        let mut results = vec![thread(0).run(part)];
        for (_, handle) in started {
            let result = handle.join().ok().flatten();
            results.push(result.map(|(result, events)| {
                add_events(events);
                result
            }));
        }
        (results, hub)
    });
    if let Some(panic) = locked(&hub.failure).take() {
        resume_unwind(panic);
    }
    let results = results.into_iter();
    results
        .map(|result| result.expect("no part has panicked"))
        .collect()
}

impl Thread {
    /// Returns its part of the nodes.
    pub fn nodes(&self) -> OwnNodes {
        self.nodes
    }

    /// Returns whether it simulates all nodes.
    pub(crate) fn is_alone(&self) -> bool {
        self.nodes.of == 1
    }

    /// Runs its part; `None` if that panics.
    fn run<T>(&self, part: &(impl Fn(&Thread) -> T + Sync)) -> Option<T> {
        match catch_unwind(AssertUnwindSafe(|| part(self))) {
            Ok(result) => Some(result),
            Err(panic) => {
                locked(&self.hub.failure).get_or_insert(panic);
                self.hub.has_failed.store(true, Ordering::SeqCst);
                self.hub.wake();
                None
            }
        }
    }

    /// Passes everything that has crossed in a window, its `window`-th, to the other threads, and
    /// returns everything that crosses to this one. `owner` returns the thread of a partition.
    pub(crate) fn exchange(
        &self,
        window: usize,
        sent: Crossing,
        owner: impl Fn(u32) -> usize,
    ) -> Crossing {
        let OwnNodes { number, of, .. } = self.nodes;
        let parcels = &self.hub.parcels[window % 2];
        {
            let mut parcel = locked(&parcels[number]);
            parcel.packets.resize_with(of, Vec::new);
            parcel.returned.resize_with(of, Vec::new);
            for packet in sent.packets {
                parcel.packets[owner(packet.place)].push(packet);
            }
            for one in sent.returned {
                parcel.returned[owner(one.place())].push(one);
            }
            (parcel.next, parcel.reports) = (sent.next, sent.reports);
        }
        self.hub.meet(of);
        let mut received = Crossing::default();
        // Each begins with its own, so that they do not all wait for the first.
        for sender in (0..of).map(|distance| (number + distance) % of) {
            let mut parcel = locked(&parcels[sender]);
            received.next = received.next.into_iter().chain(parcel.next).min();
            received.packets.append(&mut parcel.packets[number]);
            received.returned.append(&mut parcel.returned[number]);
            received.reports.extend_from_slice(&parcel.reports);
        }
        received
    }

    /// Returns the sum of the traffic of all threads, each of which calls this once.
    pub(crate) fn sum(&self, own: Traffic) -> Traffic {
        {
            let mut sum = locked(&self.hub.traffic);
            *sum = Some(match sum.take() {
                Some(others) => others.and(&own),
                None => own,
            });
        }
        self.hub.meet(self.nodes.of);
        let sum = locked(&self.hub.traffic);
        sum.clone().expect("all threads have added theirs")
    }
}

impl Hub {
    fn new(of: usize) -> Hub {
        let parcels = || (0..of).map(|_| Mutex::default()).collect();
        Hub {
            parcels: [parcels(), parcels()],
            arrived: AtomicUsize::new(0),
            meetings: AtomicUsize::new(0),
            has_failed: AtomicBool::new(false),
            sleeping: Mutex::default(),
            met: Condvar::new(),
            sleepers: AtomicUsize::new(0),
            failure: Mutex::default(),
            traffic: Mutex::default(),
        }
    }

    /// Waits for all threads.
    ///
    /// # Panics
    ///
    /// If another thread has panicked.
    fn meet(&self, of: usize) {
        let meeting = self.meetings.load(Ordering::SeqCst);
        if self.arrived.fetch_add(1, Ordering::SeqCst) + 1 == of {
            self.arrived.store(0, Ordering::SeqCst);
            self.meetings.store(meeting + 1, Ordering::SeqCst);
            if self.sleepers.load(Ordering::SeqCst) > 0 {
                self.wake();
            }
            return;
        }
        for _ in 0..SPINS {
            if self.is_over(meeting) {
                return;
            }
            std::hint::spin_loop();
        }
        // A thread that counts as a sleeper looks again before it sleeps, so the last to arrive
        // either ends the meeting before that or sees the sleeper.
        let mut sleeping = locked(&self.sleeping);
        self.sleepers.fetch_add(1, Ordering::SeqCst);
        while !self.is_over(meeting) {
            sleeping = self
                .met
                .wait(sleeping)
                .unwrap_or_else(PoisonError::into_inner);
        }
        self.sleepers.fetch_sub(1, Ordering::SeqCst);
        drop(sleeping);
    }

    fn is_over(&self, meeting: usize) -> bool {
        if self.has_failed.load(Ordering::SeqCst) {
            // Without a message: the panic of the other thread has one.
            resume_unwind(Box::new("another thread of the simulation has failed"));
        }
        self.meetings.load(Ordering::SeqCst) != meeting
    }

    /// Wakes the threads that sleep.
    fn wake(&self) {
        let _sleeping = locked(&self.sleeping);
        self.met.notify_all();
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
