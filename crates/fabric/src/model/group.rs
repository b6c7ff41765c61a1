//! The job as seen by one of its processes. An exchange takes as long as one over Ethernet; a
//! barrier costs the processes of a node the transfer of a cache line from core to core, as in an
//! implementation over shared memory (connectx_multicore, section 3.1).

use super::core::Core;
use super::waits::Awaited;
use super::world::World;
use crate::clock::Ticks;
use crate::error::Result;
use crate::group::Group;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use verbena_model::kernel::Time;

/// Lead time of the agreed instant after the barrier.
const AHEAD: Time = Time(1_000_000);

/// Duration of an exchange over Ethernet and TCP: long enough for unacknowledged messages to
/// arrive.
const EXCHANGE: Time = Time(100_000_000);

/// The job.
pub struct ModelGroup {
    world: Rc<World>,
    core: Core,
    gathers: Cell<u64>,
    barriers: RefCell<HashMap<Vec<usize>, u64>>,
}

impl ModelGroup {
    pub(super) fn new(world: Rc<World>, core: Core) -> ModelGroup {
        ModelGroup {
            world,
            core,
            gathers: Cell::new(0),
            barriers: RefCell::default(),
        }
    }

    /// Waits until all `members` have arrived; all leave at the same instant.
    async fn meet(&self, members: &[usize]) -> Result<()> {
        let turn = {
            let mut turns = self.barriers.borrow_mut();
            let turn = turns.entry(members.to_vec()).or_insert(0);
            *turn += 1;
            *turn
        };
        let complete = turn * members.len() as u64;
        let count = {
            let mut barriers = self.world.barriers.borrow_mut();
            let count = barriers.entry(members.to_vec()).or_insert(0);
            *count += 1;
            *count
        };
        if count == complete {
            self.world.waits.exchanged();
        }
        let who = (self.core.rank, Awaited::Exchange);
        self.world
            .waits
            .until(who, "a barrier", || {
                (self.world.barriers.borrow()[members] >= complete).then_some(())
            })
            .await
    }
}

impl Group for ModelGroup {
    fn rank(&self) -> usize {
        self.core.rank
    }

    fn size(&self) -> usize {
        self.world.nodes.len()
    }

    fn node_of(&self, rank: usize) -> usize {
        self.world.nodes[rank]
    }

    async fn all_gather(&self, mine: &[u8]) -> Result<Vec<Vec<u8>>> {
        let turn = self.gathers.get();
        self.gathers.set(turn + 1);
        {
            let mut gathers = self.world.gathers.borrow_mut();
            // All processes have read the data of two turns ago, as they have come to the last
            // turn.
            if let Some(old) = turn.checked_sub(2) {
                gathers.remove(&old);
            }
            let slots = gathers
                .entry(turn)
                .or_insert_with(|| vec![None; self.size()]);
            slots[self.core.rank] = Some(mine.to_vec());
            if slots.iter().all(Option::is_some) {
                self.world.waits.exchanged();
            }
        }
        let who = (self.core.rank, Awaited::Exchange);
        let all = self
            .world
            .waits
            .until(who, "the exchange", || {
                self.world.gathers.borrow()[&turn].iter().cloned().collect()
            })
            .await?;
        self.core.process.sim().sleep(EXCHANGE).await;
        Ok(all)
    }

    async fn barrier(&self, members: &[usize]) -> Result<()> {
        self.meet(members).await?;
        let here = self.node_of(self.core.rank);
        let before = members
            .iter()
            .filter(|&&rank| rank < self.core.rank && self.node_of(rank) == here)
            .count();
        let behind = self.core.process.behind(before);
        self.core.process.compute(behind).await;
        Ok(())
    }

    async fn align(&self, members: &[usize]) -> Result<Ticks> {
        self.meet(members).await?;
        let start = self.world.now() + AHEAD;
        self.core.process.sim().sleep_until(start).await;
        Ok(Ticks(start.0))
    }
}
