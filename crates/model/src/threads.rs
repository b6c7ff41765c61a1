//! Simulation of one large system by several threads.
//!
//! Each thread has a part of the nodes, with the switches near them, in a simulation of its own.
//! All parts run the same window of time, then exchange packets, returned credits and reports as
//! plain data, and agree on the next window in which something happens. What crosses is put in the
//! order of the partitions that it comes from, so results are the same for any number of threads
//! (`kernel/calendar.rs`).

use crate::adapter::CrossingPacket;
use crate::component::Returned;
use crate::kernel::{Time, add_events, events_of_this_thread};
use crate::traffic::Traffic;
use std::num::NonZero;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

/// Least nodes of a thread: fewer have too few events in a window.
const LEAST_NODES: usize = 16;

/// Turns of a thread that waits for others before it yields its processor.
const SPINS: u32 = 20_000;

/// Most threads of this process that simulate; 0 for one per processor.
static MOST: AtomicUsize = AtomicUsize::new(0);
/// Threads that compute models now: those that are registered, and those that help one.
static BUSY: AtomicUsize = AtomicUsize::new(0);

/// Limits the threads of this process that simulate at the same time, in all simulations together;
/// never more than there are processors.
pub fn limit_threads(most: usize) {
    MOST.store(most, Ordering::Relaxed);
}

/// Registers this thread as one that computes models, until the result is dropped: fewer others
/// help it and its like.
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

    /// Returns whether a node is in this share.
    pub fn has(&self, node: usize) -> bool {
        self.owner(node) == self.number
    }
}

/// What a rank reports to all threads at the end of a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Report {
    /// When it happened.
    pub at: Time,
    /// The rank.
    pub by: usize,
    /// Its own number of the report.
    pub number: usize,
}

/// What a thread passes to the others at the end of a window.
#[derive(Default)]
struct Parcel {
    /// The next window in which something happens, as far as the thread knows.
    next: Option<u64>,
    /// By receiving thread.
    packets: Vec<Vec<CrossingPacket>>,
    returned: Vec<Vec<Returned>>,
    reports: Vec<Report>,
}

/// What a thread gets from the others.
#[derive(Default)]
pub(crate) struct Received {
    pub next: Option<u64>,
    pub packets: Vec<CrossingPacket>,
    pub returned: Vec<Returned>,
    pub reports: Vec<Report>,
}

/// What a thread sends to the others.
pub(crate) struct Sent {
    /// The next window in which something happens, as far as the thread knows.
    pub next: Option<u64>,
    /// Packets and credits for partitions of other threads.
    pub packets: Vec<CrossingPacket>,
    pub returned: Vec<Returned>,
    pub reports: Vec<Report>,
}

/// The meeting place of the threads of a simulation.
struct Exchange {
    /// Parcels of even and of odd windows, by sending thread: while the one are read, the others
    /// may be written.
    parcels: [Vec<Mutex<Parcel>>; 2],
    arrived: AtomicUsize,
    meetings: AtomicUsize,
    has_failed: AtomicBool,
    traffic: Mutex<Option<Traffic>>,
}

/// One of the threads that simulate a system together.
#[derive(Clone)]
pub struct Thread {
    nodes: OwnNodes,
    exchange: Arc<Exchange>,
}

/// Marks the simulation as failed if its thread panics, so that the others do not wait.
struct Alarm<'a>(&'a Exchange);

impl Drop for Alarm<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.has_failed.store(true, Ordering::Release);
        }
    }
}

/// Threads that count as busy until it is dropped.
#[derive(Debug)]
pub struct Busy(usize);

impl Drop for Busy {
    fn drop(&mut self) {
        BUSY.fetch_sub(self.0, Ordering::Relaxed);
    }
}

/// Returns how many threads may help this one simulate a system of so many nodes, and counts them as
/// busy.
fn helpers(nodes: usize) -> Busy {
    let processors = || thread::available_parallelism().map_or(1, NonZero::get);
    let most = match MOST.load(Ordering::Relaxed) {
        0 => processors(),
        most => most.min(processors()),
    };
    let wanted = (nodes / LEAST_NODES).saturating_sub(1);
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
pub fn on_free_threads<T: Send>(nodes: usize, part: impl Fn(&Thread) -> T + Sync) -> Vec<T> {
    let helpers = helpers(nodes);
    on_threads(1 + helpers.0, nodes, part)
}

/// Runs a part of a simulation of `nodes` nodes on each of `threads` threads.
///
/// # Panics
///
/// If a part panics.
pub fn on_threads<T: Send>(
    threads: usize,
    nodes: usize,
    part: impl Fn(&Thread) -> T + Sync,
) -> Vec<T> {
    let of = threads.clamp(1, nodes.max(1));
    let exchange = Arc::new(Exchange::new(of));
    let run = |number| {
        let _alarm = Alarm(&exchange);
        part(&Thread {
            nodes: OwnNodes { number, of, nodes },
            exchange: exchange.clone(),
        })
    };
    thread::scope(|scope| {
        let run = &run;
        let others: Vec<_> = (1..of)
            .map(|number| scope.spawn(move || (run(number), events_of_this_thread())))
            .collect();
        let mut results = vec![run(0)];
        for other in others {
            match other.join() {
                Ok((result, events)) => {
                    add_events(events);
                    results.push(result);
                }
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        results
    })
}

impl Thread {
    /// Returns the only thread of a simulation of `nodes` nodes.
    pub fn alone(nodes: usize) -> Thread {
        Thread {
            nodes: OwnNodes {
                number: 0,
                of: 1,
                nodes,
            },
            exchange: Arc::new(Exchange::new(1)),
        }
    }

    /// Returns its part of the nodes.
    pub fn nodes(&self) -> OwnNodes {
        self.nodes
    }

    /// Returns whether it simulates all nodes.
    pub(crate) fn is_alone(&self) -> bool {
        self.nodes.of == 1
    }

    /// Passes what has crossed in the window of number `window` of this thread's count to the other
    /// threads, and returns what they pass. `owner` returns the thread that has a partition.
    pub(crate) fn exchange(
        &self,
        window: usize,
        sent: Sent,
        owner: impl Fn(u32) -> usize,
    ) -> Received {
        let OwnNodes { number, of, .. } = self.nodes;
        let parcels = &self.exchange.parcels[window % 2];
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
        self.exchange.meet(of);
        let mut received = Received::default();
        for parcel in parcels {
            let mut parcel = locked(parcel);
            received.next = received.next.into_iter().chain(parcel.next).min();
            received.packets.append(&mut parcel.packets[number]);
            received.returned.append(&mut parcel.returned[number]);
            received.reports.extend_from_slice(&parcel.reports);
        }
        received
    }

    /// Returns the sum of the traffic of all threads, each of which calls this once.
    pub(crate) fn sum(&self, own: Traffic) -> Traffic {
        let exchange = &self.exchange;
        {
            let mut sum = locked(&exchange.traffic);
            *sum = Some(match sum.take() {
                Some(others) => others.and(&own),
                None => own,
            });
        }
        exchange.meet(self.nodes.of);
        let sum = locked(&exchange.traffic);
        sum.clone().expect("all threads have added theirs")
    }
}

impl Exchange {
    fn new(of: usize) -> Exchange {
        let parcels = || (0..of).map(|_| Mutex::default()).collect();
        Exchange {
            parcels: [parcels(), parcels()],
            arrived: AtomicUsize::new(0),
            meetings: AtomicUsize::new(0),
            has_failed: AtomicBool::new(false),
            traffic: Mutex::default(),
        }
    }

    /// Waits for all threads.
    ///
    /// # Panics
    ///
    /// If another thread has panicked.
    fn meet(&self, of: usize) {
        let meeting = self.meetings.load(Ordering::Acquire);
        if self.arrived.fetch_add(1, Ordering::AcqRel) + 1 == of {
            self.arrived.store(0, Ordering::Relaxed);
            self.meetings.store(meeting + 1, Ordering::Release);
            return;
        }
        let mut spins = 0;
        while self.meetings.load(Ordering::Acquire) == meeting {
            assert!(
                !self.has_failed.load(Ordering::Acquire),
                "another thread of the simulation has failed"
            );
            spins += 1;
            match spins < SPINS {
                true => std::hint::spin_loop(),
                false => thread::yield_now(),
            }
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
