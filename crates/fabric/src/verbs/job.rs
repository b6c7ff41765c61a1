//! The job of a measured fabric: ranks from the launcher, nodes from the processes themselves, the exchange over TCP, barriers and the synchronised
//! start through a page that the processes of a node share.
//!
//! On one node the agreed instant is one clock's. Over several nodes there is no common clock here: the start is the end
//! of a barrier over the exchange, and the skew that a result reports is what that leaves.

use super::exchange::Connection;
use super::patience::Patience;
use crate::clock::Ticks;
use crate::error::{Error, Result};
use crate::group::Group;
use std::cell::RefCell;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::Ordering;
use std::time::Duration;
use verbena_measure::clock::Clock;
use verbena_measure::start::{COUNTERS, SharedPage};

/// How far ahead the agreed instant lies, in nanoseconds: enough for everybody to see it.
const AHEAD_NANOS: f64 = 20_000.0;
/// A barrier waits no longer, so that those who wait there for a hung process still come to the exchange in time to be
/// told apart from it.
const BARRIER_PATIENCE: Duration = Duration::from_secs(8);

/// Where a process stands in its job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placement {
    /// This process.
    pub rank: usize,
    /// For each rank, its node.
    pub nodes: Vec<usize>,
    /// For each rank, the machine that its node is on, whose processors it shares with others there.
    pub machines: Vec<usize>,
    /// For each rank, the address of its node.
    pub addresses: Vec<Option<IpAddr>>,
}

/// The job as one process sees it.
pub struct JobGroup {
    placement: Placement,
    exchange: Option<RefCell<Connection>>,
    page: Option<SharedPage>,
    slots: RefCell<HashMap<Vec<usize>, Slot>>,
    next_slot: RefCell<usize>,
    patience: Patience,
    at_barriers: Patience,
    clock: Clock,
}

#[derive(Clone, Copy)]
struct Slot {
    index: usize,
    base: u64,
    turn: u64,
}

impl JobGroup {
    /// A job of one process, without an exchange.
    pub fn alone(clock: Clock, patience: Patience) -> JobGroup {
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
            patience,
        )
    }

    /// A job. `page` is for jobs on one node; without it barriers go over the exchange.
    pub fn new(
        placement: Placement,
        exchange: Option<Connection>,
        page: Option<SharedPage>,
        clock: Clock,
        patience: Patience,
    ) -> JobGroup {
        let mut at_barriers = patience.clone();
        at_barriers.limit = patience.limit.min(BARRIER_PATIENCE);
        JobGroup {
            placement,
            exchange: exchange.map(RefCell::new),
            page,
            slots: RefCell::default(),
            next_slot: RefCell::new(0),
            patience,
            at_barriers,
            clock,
        }
    }

    /// The machine of a process: those on one machine share its processors.
    pub fn machine_of(&self, rank: usize) -> usize {
        self.placement.machines.get(rank).copied().unwrap_or(0)
    }

    fn gather(&self, members: &[usize], mine: &[u8]) -> Result<Vec<Vec<u8>>> {
        match &self.exchange {
            Some(exchange) => exchange.borrow_mut().gather(members, mine, &self.patience),
            None if members == [self.placement.rank] => Ok(vec![mine.to_vec()]),
            None => Err(Error::invalid(
                "Group",
                format!("no exchange to reach {members:?}"),
            )),
        }
    }

    /// The page's counter for a set of members, agreed once over the exchange: the largest index that any of them has
    /// free, and what the counter stands at.
    fn slot(&self, page: &SharedPage, members: &[usize]) -> Result<Slot> {
        if let Some(slot) = self.slots.borrow_mut().get_mut(members) {
            slot.turn += 1;
            return Ok(*slot);
        }
        let number =
            |bytes: &Vec<u8>| -> u64 { bytes.as_slice().try_into().map_or(0, u64::from_le_bytes) };
        let free = *self.next_slot.borrow() as u64;
        let all = self.gather(members, &free.to_le_bytes())?;
        let index = all.iter().map(number).max().unwrap_or(0) as usize;
        *self.next_slot.borrow_mut() = index + 1;
        let standing = page.counter(counter_of(index)).load(Ordering::Acquire);
        let all = self.gather(members, &standing.to_le_bytes())?;
        let slot = Slot {
            index,
            base: all.first().map_or(0, number),
            turn: 1,
        };
        self.slots.borrow_mut().insert(members.to_vec(), slot);
        Ok(slot)
    }
}

/// Even counters are barriers, the odd one after each holds its agreed instant.
fn counter_of(index: usize) -> usize {
    2 * (index % (COUNTERS / 2))
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
        let everybody: Vec<usize> = (0..self.size()).collect();
        self.gather(&everybody, mine)
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

    async fn align(&self, members: &[usize]) -> Result<Ticks> {
        self.barrier(members).await?;
        let Some(page) = self.page.as_ref().filter(|_| members.len() > 1) else {
            return Ok(Ticks(self.clock.now()));
        };
        let slot = self.slots.borrow()[members];
        let instant = page.counter(counter_of(slot.index) + 1);
        if members[0] == self.placement.rank {
            let ahead = (AHEAD_NANOS / self.clock.nanos_per_tick) as u64;
            instant.store(self.clock.now() + ahead, Ordering::Release);
        }
        self.barrier(members).await?;
        let start = instant.load(Ordering::Acquire);
        self.patience.until("the agreed instant", || {
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

    #[test]
    fn processes_of_a_node_agree_on_an_instant() {
        let size = 3;
        let secret = Secret::random();
        let hub = Hub::listen("127.0.0.1:0", "job", &secret, size).unwrap();
        let path = std::env::temp_dir().join(format!("verbena-job-test-{}", std::process::id()));
        let clock = Clock::system();
        std::thread::scope(|scope| {
            let agreed: Vec<_> = (0..size)
                .map(|rank| {
                    let (path, clock) = (&path, clock.clone());
                    let rendezvous = Rendezvous {
                        places: vec![hub.address().to_string()],
                        secret: secret.clone(),
                    };
                    scope.spawn(move || {
                        let mut patience = Patience::new(Duration::from_secs(20));
                        patience.yielding = true;
                        let meet = || Ok(rendezvous.clone());
                        let mut exchange = connect_to_hub(meet, "job", rank, &patience).unwrap();
                        let hosts = Hosts::ask(&mut exchange, rank, size, &patience).unwrap();
                        assert_eq!(hosts.placement().machines, vec![0; size]);
                        let page = hosts.page(&mut exchange, path, &patience).unwrap();
                        assert!(page.is_some());
                        let group =
                            JobGroup::new(hosts.placement(), Some(exchange), page, clock, patience);
                        block_on(async {
                            let mut instants = Vec::new();
                            for _ in 0..5 {
                                instants.push(group.align(&[0, 1, 2]).await.unwrap());
                                if rank != 1 {
                                    group.barrier(&[0, 2]).await.unwrap();
                                }
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
}
