//! The job of a measured fabric: ranks from the launcher, nodes from the processes, an exchange
//! over TCP, and barriers and the synchronised start through a page shared by the processes of a
//! node.
//!
//! On one node the agreed instant is a reading of one clock. Several nodes have different clocks:
//! these are compared before each start ([`super::clocks`]), and each process converts the instant
//! of the first member's clock to its own. The uncertainty is reported with it.

use super::clocks::{ClockPort, ClockPortInfo};
use super::exchange::Connection;
use super::wait_limit::WaitLimit;
use crate::clock::Ticks;
use crate::error::{Error, Result};
use crate::group::Group;
use std::cell::{Cell, OnceCell, RefCell};
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use verbena_measure::clock::Clock;
use verbena_measure::clock::offset::Offset;
use verbena_measure::start::{COUNTERS, SharedPage};

/// Lead time of the agreed instant, in nanoseconds: enough for all processes to see it.
const AHEAD_NANOS: f64 = 20_000.0;
/// Lead time over several nodes, as a multiple of the duration of one exchange among all members,
/// as two more exchanges must distribute the instant.
const AHEAD_EXCHANGES: u32 = 4;
const LEAST_AHEAD: Duration = Duration::from_millis(2);
const MOST_AHEAD: Duration = Duration::from_millis(100);
/// An instant further ahead than this, in nanoseconds, is invalid.
const LATEST_NANOS: f64 = 1e9;
/// Round trips of a cache line; the first ones synchronise both members.
const LINE_WARMUP: u64 = 4;
const LINE_ROUNDS: u64 = 32;
/// Sequence numbers reserved per measurement.
const LINE_NUMBERS: u64 = 1 << 10;
/// Time limit of a barrier, so that processes that wait there for a hung one still come to the
/// exchange in time to be distinguished from it.
const BARRIER_TIMEOUT: Duration = Duration::from_secs(8);

/// Position of a process in its job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placement {
    /// Rank of this process.
    pub rank: usize,
    /// For each rank, its node.
    pub nodes: Vec<usize>,
    /// For each rank, the machine of its node, whose processors are shared by all processes there.
    pub machines: Vec<usize>,
    /// For each rank, the address of its node.
    pub addresses: Vec<Option<IpAddr>>,
}

/// The job as seen by one process.
pub struct JobGroup {
    placement: Placement,
    /// For each rank, its original rank, by which the exchange knows it.
    at_exchange: Vec<usize>,
    exchange: Option<RefCell<Connection>>,
    page: Option<SharedPage>,
    slots: RefCell<HashMap<Vec<usize>, Slot>>,
    next_slot: RefCell<usize>,
    wait_limit: WaitLimit,
    at_barriers: WaitLimit,
    clock: Clock,
    clock_port: OnceCell<ClockPort>,
    start_error: Cell<Option<f64>>,
}

#[derive(Clone, Copy)]
struct Slot {
    index: usize,
    base: u64,
    turn: u64,
}

impl JobGroup {
    /// Creates a job of one process, without an exchange.
    pub fn alone(clock: Clock, wait_limit: WaitLimit) -> JobGroup {
        JobGroup::new(
            Placement {
                rank: 0,
                nodes: vec![0],
                machines: vec![0],
                addresses: vec![None],
            },
            None,
            None,
            clock,
            wait_limit,
        )
    }

    /// Creates a job. `page` is for jobs on one node; without it barriers use the exchange.
    pub fn new(
        placement: Placement,
        exchange: Option<Connection>,
        page: Option<SharedPage>,
        clock: Clock,
        wait_limit: WaitLimit,
    ) -> JobGroup {
        let mut at_barriers = wait_limit.clone();
        at_barriers.limit = wait_limit.limit.min(BARRIER_TIMEOUT);
        JobGroup {
            at_exchange: (0..placement.nodes.len()).collect(),
            placement,
            exchange: exchange.map(RefCell::new),
            page,
            slots: RefCell::default(),
            next_slot: RefCell::new(0),
            wait_limit,
            at_barriers,
            clock,
            clock_port: OnceCell::new(),
            start_error: Cell::new(None),
        }
    }

    /// Returns the processes that come to an exchange of all; the others hang or have hung.
    ///
    /// # Errors
    ///
    /// Returns an error if the exchange fails.
    pub fn present(&self) -> Result<Vec<usize>> {
        let all_ranks: Vec<usize> = (0..self.size()).collect();
        let told = self.gather(&all_ranks, b"here")?;
        let came = all_ranks.into_iter().filter(|&rank| !told[rank].is_empty());
        Ok(came.collect())
    }

    /// Returns the job of the remaining processes, with new ranks in the order of the old ones.
    pub(super) fn among(mut self, left: &[usize]) -> JobGroup {
        let of_those = |all: &[usize]| left.iter().map(|&rank| all[rank]).collect();
        let Placement {
            rank,
            nodes,
            machines,
            addresses,
        } = &self.placement;
        let placement = Placement {
            rank: left.iter().filter(|left| *left < rank).count(),
            nodes: of_those(nodes),
            machines: of_those(machines),
            addresses: left.iter().map(|&rank| addresses[rank]).collect(),
        };
        self.at_exchange = of_those(&self.at_exchange);
        self.placement = placement;
        // Counters are agreed anew, beyond those at which a process may still arrive.
        self.slots.take();
        self
    }

    /// Returns the machine of a process; processes on one machine share its processors.
    pub fn machine_of(&self, rank: usize) -> usize {
        self.placement.machines.get(rank).copied().unwrap_or(0)
    }

    fn gather(&self, members: &[usize], mine: &[u8]) -> Result<Vec<Vec<u8>>> {
        match &self.exchange {
            Some(exchange) => {
                let members: Vec<usize> = members.iter().map(|&m| self.at_exchange[m]).collect();
                exchange
                    .borrow_mut()
                    .gather(&members, mine, &self.wait_limit)
            }
            None if members == [self.placement.rank] => Ok(vec![mine.to_vec()]),
            None => Err(Error::invalid(
                "Group",
                format!("no exchange to reach {members:?}"),
            )),
        }
    }

    fn clock_port(&self) -> Result<&ClockPort> {
        if let Some(port) = self.clock_port.get() {
            return Ok(port);
        }
        let address = self.address_of(self.placement.rank);
        let port = ClockPort::open(address, &self.clock)?;
        Ok(self.clock_port.get_or_init(|| port))
    }

    /// Agrees on an instant among processes of several nodes. The first member of each node
    /// compares its clock with that of the first member of all, which defines the instant; the
    /// other processes of a node share its clock.
    fn align_nodes(&self, members: &[usize]) -> Result<Ticks> {
        let port = self.clock_port()?;
        let since = Instant::now();
        let told = self.gather(members, &port.info()?.to_bytes())?;
        let exchange = since.elapsed();
        let told: Vec<Option<ClockPortInfo>> = told
            .iter()
            .map(|one| ClockPortInfo::from_bytes(one))
            .collect();
        let node = |member: usize| self.node_of(members[member]);
        let first_of = |at: usize| (0..members.len()).find(|&other| node(other) == node(at));
        let firsts: Vec<usize> = (1..members.len())
            .filter(|&at| first_of(at) == Some(at))
            .collect();
        let own = members.iter().position(|&m| m == self.placement.rank);
        let own = own.ok_or_else(|| Error::invalid("Group", "not a member".to_owned()))?;
        let mut offset = None;
        if own == 0 {
            let asker = |&at: &usize| Some((self.address_of(members[at]), told[at]?));
            let askers: Vec<_> = firsts.iter().filter_map(asker).collect();
            port.answer(&askers, &self.clock);
        } else if firsts.contains(&own)
            && let Some(other) = &told[0]
        {
            offset = port.ask(self.address_of(members[0]), other, &self.clock);
        }
        let ahead = (AHEAD_EXCHANGES * exchange).clamp(LEAST_AHEAD, MOST_AHEAD);
        let ticks = (ahead.as_nanos() as f64 / self.clock.nanos_per_tick) as u64;
        let instants = self.gather(members, &(self.clock.now() + ticks).to_le_bytes())?;
        let there = instants.first().map_or(0, |bytes| number(bytes));
        let known = |offset: &Offset| Start {
            instant: offset.here(there),
            error: offset.error(there) * self.clock.nanos_per_tick,
        };
        // If clocks could not be compared, the start is the end of the exchange, with unknown
        // error.
        let unknown = Start {
            instant: self.clock.now() + ticks,
            error: f64::INFINITY,
        };
        let mine = match (&offset, own) {
            (_, 0) => Start {
                instant: there,
                error: 0.0,
            },
            (Some(offset), _) => known(offset),
            (None, _) => unknown,
        };
        let starts = self.gather(members, &mine.to_bytes())?;
        let latest = self.clock.now() + (LATEST_NANOS / self.clock.nanos_per_tick) as u64;
        let of = |at: usize| Start::from_bytes(&starts[at]);
        // Each process states the start and its error on its own clock; the start of a node's first
        // member holds for the whole node.
        let errors = firsts.iter().map(|&at| of(at).error);
        let start = first_of(own).map_or(mine, of).instant;
        let (start, error) = match start <= latest {
            true => (start, errors.fold(0.0, f64::max)),
            false => (self.clock.now(), f64::INFINITY),
        };
        self.start_error.set(Some(error));
        self.wait_limit.until("the agreed instant", || {
            (self.clock.now() >= start).then_some(())
        })?;
        Ok(Ticks(start))
    }

    /// Returns the page's counter for a set of members, agreed once over the exchange: the largest
    /// index that any of them has free, and the counter's current value.
    fn slot(&self, page: &SharedPage, members: &[usize]) -> Result<Slot> {
        if let Some(slot) = self.slots.borrow_mut().get_mut(members) {
            slot.turn += 1;
            return Ok(*slot);
        }
        let free = *self.next_slot.borrow() as u64;
        let all = self.gather(members, &free.to_le_bytes())?;
        let index = all.iter().map(|one| number(one)).max().unwrap_or(0) as usize;
        *self.next_slot.borrow_mut() = index + 1;
        let standing = page.counter(counter_of(index)).load(Ordering::Acquire);
        let all = self.gather(members, &standing.to_le_bytes())?;
        let slot = Slot {
            index,
            base: all.first().map_or(0, |one| number(one)),
            turn: 1,
        };
        self.slots.borrow_mut().insert(members.to_vec(), slot);
        Ok(slot)
    }
}

/// Decodes a number; the empty data of an absent process are 0.
fn number(bytes: &[u8]) -> u64 {
    bytes.try_into().map_or(0, u64::from_le_bytes)
}

/// An agreed instant on one process's clock.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Start {
    instant: u64,
    /// Error bound in nanoseconds.
    error: f64,
}

impl Start {
    fn to_bytes(self) -> Vec<u8> {
        [self.instant.to_le_bytes(), self.error.to_le_bytes()].concat()
    }

    /// Decodes; invalid data give an instant with unknown error.
    fn from_bytes(bytes: &[u8]) -> Start {
        let (instant, error) = bytes.split_at_checked(8).unwrap_or_default();
        let is_told = bytes.len() == 16;
        let error = Some(f64::from_bits(number(error))).filter(|error| is_told && *error >= 0.0);
        Start {
            instant: number(instant),
            error: error.unwrap_or(f64::INFINITY),
        }
    }
}

/// Returns the first of three counters: a barrier, which is followed by its agreed instant and by
/// the reply line of cache line measurements.
fn counter_of(index: usize) -> usize {
    3 * (index % (COUNTERS / 3))
}

impl Group for JobGroup {
    fn rank(&self) -> usize {
        self.placement.rank
    }

    fn size(&self) -> usize {
        self.placement.nodes.len()
    }

    fn node_of(&self, rank: usize) -> usize {
        self.placement.nodes.get(rank).copied().unwrap_or(0)
    }

    fn address_of(&self, rank: usize) -> Option<IpAddr> {
        self.placement.addresses.get(rank).copied().flatten()
    }

    async fn all_gather(&self, mine: &[u8]) -> Result<Vec<Vec<u8>>> {
        let all_ranks: Vec<usize> = (0..self.size()).collect();
        self.gather(&all_ranks, mine)
    }

    async fn barrier(&self, members: &[usize]) -> Result<()> {
        if members.len() < 2 {
            return Ok(());
        }
        let Some(page) = &self.page else {
            return self.gather(members, &[]).map(drop);
        };
        let slot = self.slot(page, members)?;
        let counter = counter_of(slot.index);
        let count = slot.base + page.arrive(counter, slot.turn, members.len());
        self.at_barriers
            .until("a barrier", || page.complete(counter, count).then_some(()))
    }

    fn start_error(&self) -> Option<f64> {
        self.start_error.get()
    }

    async fn line_time(&self, members: &[usize]) -> Result<Option<f64>> {
        let (Some(page), [first, _]) = (&self.page, members) else {
            return Ok(None);
        };
        self.barrier(members).await?;
        let slot = self.slots.borrow()[members];
        let lines = [1, 2].map(|at| page.counter(counter_of(slot.index) + at));
        let serves = *first == self.placement.rank;
        let (mine, theirs) = match serves {
            true => (lines[0], lines[1]),
            false => (lines[1], lines[0]),
        };
        // Sequence numbers of this turn only; they cannot equal an agreed instant, which is far
        // larger.
        let base = slot.turn * LINE_NUMBERS;
        let mut start = 0;
        for round in 0..LINE_WARMUP + LINE_ROUNDS {
            if round == LINE_WARMUP {
                start = self.clock.now();
            }
            let number = base + round;
            let heard = || (theirs.load(Ordering::Acquire) == number).then_some(());
            if serves {
                mine.store(number, Ordering::Release);
                self.at_barriers.until("a cache line", heard)?;
            } else {
                self.at_barriers.until("a cache line", heard)?;
                mine.store(number, Ordering::Release);
            }
        }
        let ticks = self.clock.now().saturating_sub(start) as f64;
        let trips = 2 * LINE_ROUNDS;
        Ok(Some(ticks * self.clock.nanos_per_tick / trips as f64))
    }

    async fn align(&self, members: &[usize]) -> Result<Ticks> {
        if members.len() < 2 {
            return Ok(Ticks(self.clock.now()));
        }
        let Some(page) = &self.page else {
            return self.align_nodes(members);
        };
        self.barrier(members).await?;
        let slot = self.slots.borrow()[members];
        let instant = page.counter(counter_of(slot.index) + 1);
        if members[0] == self.placement.rank {
            let ahead = (AHEAD_NANOS / self.clock.nanos_per_tick) as u64;
            instant.store(self.clock.now() + ahead, Ordering::Release);
        }
        self.barrier(members).await?;
        let start = instant.load(Ordering::Acquire);
        self.wait_limit.until("the agreed instant", || {
            (self.clock.now() >= start).then_some(())
        })?;
        Ok(Ticks(start))
    }
}

#[cfg(test)]
mod tests {
    use super::super::exchange::{Hub, Rendezvous, Secret, connect_to_hub};
    use super::super::hosts::Hosts;
    use super::*;
    use crate::executor::block_on;
    use std::sync::Barrier;

    #[test]
    fn an_invalid_start_message_has_an_infinite_error() {
        let start = Start {
            instant: 7,
            error: 3.5,
        };
        assert_eq!(Start::from_bytes(&start.to_bytes()), start);
        for error in [f64::NAN, -1.0, f64::NEG_INFINITY] {
            let told = Start { error, ..start }.to_bytes();
            assert_eq!(Start::from_bytes(&told).error, f64::INFINITY, "{error}");
        }
        for bytes in [&b""[..], &[0; 8], &[0; 15], &[0; 17]] {
            assert_eq!(Start::from_bytes(bytes).error, f64::INFINITY, "{bytes:?}");
        }
    }

    #[test]
    fn processes_of_a_node_agree_on_a_start_time() {
        let size = 3;
        let secret = Secret::random();
        let hub = Hub::listen("127.0.0.1:0", "job", &secret, size).unwrap();
        let path = std::env::temp_dir().join(format!("verbena-job-test-{}", std::process::id()));
        let clock = Clock::system();
        std::thread::scope(|scope| {
            let agreed: Vec<_> = (0..size)
                .map(|rank| {
                    let (path, clock) = (&path, clock.clone());
                    let rendezvous = Rendezvous::at(hub.address(), &secret);
                    scope.spawn(move || {
                        let mut wait_limit = WaitLimit::new(Duration::from_secs(20));
                        wait_limit.yielding = true;
                        let meet = || Ok(rendezvous.clone());
                        let mut exchange = connect_to_hub(meet, "job", rank, &wait_limit).unwrap();
                        let hosts = Hosts::ask(&mut exchange, rank, size, &wait_limit).unwrap();
                        assert_eq!(hosts.placement().machines, vec![0; size]);
                        let page = hosts.page(&mut exchange, path, &wait_limit).unwrap();
                        assert!(page.is_some());
                        let group = JobGroup::new(
                            hosts.placement(),
                            Some(exchange),
                            page,
                            clock,
                            wait_limit,
                        );
                        block_on(async {
                            let mut instants = Vec::new();
                            for _ in 0..5 {
                                instants.push(group.align(&[0, 1, 2]).await.unwrap());
                                if rank != 1 {
                                    group.barrier(&[0, 2]).await.unwrap();
                                    let line = group.line_time(&[0, 2]).await.unwrap();
                                    assert!(line.is_some_and(|nanos| nanos > 0.0), "{line:?}");
                                }
                                assert_eq!(group.line_time(&[0, 1, 2]).await, Ok(None));
                            }
                            instants
                        })
                    })
                })
                .collect();
            let agreed: Vec<_> = agreed.into_iter().map(|t| t.join().unwrap()).collect();
            assert_eq!(agreed[0], agreed[1]);
            assert_eq!(agreed[0], agreed[2]);
        });
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn remaining_processes_get_new_ranks() {
        let secret = Secret::random();
        // Longer than a busy machine takes from the first to the last arrival of the three, which
        // are all connected before.
        let absence = Duration::from_secs(2);
        let hub = Hub::listen_with_timeout("127.0.0.1:0", "left", &secret, 4, absence).unwrap();
        let connected = Barrier::new(3);
        let group = |rank: usize| {
            let wait_limit = WaitLimit::new(Duration::from_secs(20));
            let meet = || Ok(Rendezvous::at(hub.address(), &secret));
            let exchange = connect_to_hub(meet, "left", rank, &wait_limit).unwrap();
            let placement = Placement {
                rank,
                nodes: vec![0, 0, 1, 1],
                machines: vec![0; 4],
                addresses: vec![None; 4],
            };
            JobGroup::new(placement, Some(exchange), None, Clock::system(), wait_limit)
        };
        let hung = group(1);
        let (group, connected) = (&group, &connected);
        std::thread::scope(|scope| {
            for (rank, number) in [(0, 0), (2, 1), (3, 2)] {
                scope.spawn(move || {
                    let whole = group(rank);
                    connected.wait();
                    let left = whole.present().unwrap();
                    assert_eq!(left, [0, 2, 3]);
                    let group = whole.among(&left);
                    assert_eq!((group.rank(), group.size()), (number, 3));
                    assert_eq!(group.placement.nodes, [0, 1, 1]);
                    let all = block_on(group.all_gather(&[rank as u8])).unwrap();
                    assert_eq!(all, [[0], [2], [3]]);
                    if number != 1 {
                        block_on(group.barrier(&[0, 2])).unwrap();
                    }
                });
            }
        });
        assert_eq!(hung.present(), Err(Error::LeftBehind));
    }

    /// Two hosts as two threads: one clock is 3 ms ahead and 20 ppm faster. The difference of their
    /// starts by their own clocks must equal that by a common clock.
    #[test]
    fn start_skew_between_different_clocks_is_measured() {
        let secret = Secret::random();
        let hub = Hub::listen("127.0.0.1:0", "apart", &secret, 2).unwrap();
        let starts = |rank: usize, clock: Clock| {
            let wait_limit = WaitLimit::new(Duration::from_secs(20));
            let meet = || Ok(Rendezvous::at(hub.address(), &secret));
            let exchange = connect_to_hub(meet, "apart", rank, &wait_limit).unwrap();
            let placement = Placement {
                rank,
                nodes: vec![0, 1],
                machines: vec![0, 0],
                addresses: vec![None; 2],
            };
            let group = JobGroup::new(placement, Some(exchange), None, clock.clone(), wait_limit);
            let real = Clock::system();
            let start = || {
                let agreed = block_on(group.align(&[0, 1])).unwrap();
                let error = group.start_error().expect("two clocks");
                // Both clocks at the same moment: retried until the readings of the reference clock
                // before and after are close.
                loop {
                    let (before, own, after) = (real.now(), clock.now(), real.now());
                    if after - before < 500 {
                        let by_own = own as i64 - agreed.0 as i64;
                        return (before as i64, by_own, error);
                    }
                }
            };
            (0..20).map(|_| start()).collect::<Vec<_>>()
        };
        let starts = &starts;
        let [here, there] = std::thread::scope(|scope| {
            let here = scope.spawn(|| starts(0, Clock::system()));
            let there = scope.spawn(|| starts(1, Clock::apart(3_000_000, 20.0)));
            [here, there].map(|one| one.join().unwrap())
        });
        let mut known = 0;
        let mut missed = Vec::new();
        for (a, b) in here.iter().zip(&there) {
            let (real, told) = (a.0 - b.0, a.1 - b.1);
            assert_eq!(a.2, b.2);
            if a.2.is_finite() {
                known += 1;
                missed.push((real - told).abs());
                assert!(
                    (real - told).abs() as f64 <= a.2 + 1000.0,
                    "{real} ns, {told} ns told, {} ns said",
                    a.2
                );
            }
        }
        missed.sort_unstable();
        println!(
            "missed by {missed:?} ns, said {:?}",
            here.iter().map(|a| a.2.round()).collect::<Vec<_>>()
        );
        assert!(known > 0, "clocks could never be compared");
    }
}
