//! Completion queues of modelled adapters: polling and waiting.

use super::completion_queue_state::Queue;
use super::core::Core;
use super::waits::Awaited;
use super::world::World;
use crate::completion::{Completion, CompletionQueue, Wait};
use crate::error::{Error, Result};
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;
use verbena_model::kernel::Time;

/// Time of unsuccessful polling after which a process has stalled (rule 10).
const POLL_TIMEOUT: Time = Time(100_000_000_000);

/// A completion queue.
pub struct ModelCompletions {
    pub(super) world: Rc<World>,
    pub(super) core: Core,
    pub(super) queue: Rc<Queue>,
    /// Start of the current series of empty polls.
    pub(super) fruitful: Cell<Option<Time>>,
}

impl ModelCompletions {
    async fn taken(&self, count: usize) -> usize {
        for _ in 0..count {
            self.core.process.take_completion().await;
        }
        count
    }
}

impl CompletionQueue for ModelCompletions {
    async fn poll(&self, into: &mut [Completion]) -> Result<usize> {
        let count = self.queue.take(into);
        if count > 0 {
            self.fruitful.set(None);
            return Ok(self.taken(count).await);
        }
        // An empty poll takes time, so that a loop of polls advances virtual time.
        self.core.process.take_completion().await;
        let now = self.world.now();
        let since = self.fruitful.get().unwrap_or(now);
        self.fruitful.set(Some(since));
        if now.since(since) > POLL_TIMEOUT {
            return Err(Error::stalled(
                "a completion",
                Duration::from_nanos(now.since(since).0 / 1000),
            ));
        }
        Ok(self.queue.take(into))
    }

    async fn wait(&self, into: &mut [Completion], how: Wait) -> Result<usize> {
        if how == Wait::Event {
            return Err(self.core.lacks("completion events"));
        }
        let count = self
            .world
            .waits
            .until((self.queue.rank, Awaited::Data), "a completion", || {
                Some(self.queue.take(into)).filter(|&count| count > 0)
            })
            .await?;
        Ok(self.taken(count).await)
    }
}
