//! Posting of receive requests; shared receive queues.

use super::core::Core;
use super::memory::{ModelRegion, held};
use super::receive_queue::Receives;
use super::world::World;
use crate::error::Result;
use crate::in_process::segments;
use crate::operation::ReceiveRequest;
use crate::pair::SharedReceive;
use std::rc::Rc;

/// Posts a list: checks all of it, spends the processor time, then makes it known to the
/// adapter.
pub(super) async fn post(
    receives: &Receives,
    call: &'static str,
    core: &Core,
    list: &[ReceiveRequest<'_, ModelRegion>],
) -> Result<()> {
    let mut checked = Vec::with_capacity(list.len());
    for request in list {
        if request.local.len() > 1 {
            return Err(core.lacks("scatter lists"));
        }
        checked.push((request.id, segments(call, request.local, held)?));
    }
    let count = checked.len() as u64;
    core.process.prepare_receives(count).await;
    receives.list.borrow_mut().extend(checked);
    receives.model.post(count);
    Ok(())
}

/// A shared receive queue.
pub struct ModelSharedReceive {
    pub(super) world: Rc<World>,
    pub(super) core: Core,
    pub(super) number: u32,
    pub(super) receives: Rc<Receives>,
}

impl Drop for ModelSharedReceive {
    fn drop(&mut self) {
        self.world.shared.borrow_mut().remove(&self.number);
    }
}

impl SharedReceive<ModelRegion> for ModelSharedReceive {
    fn number(&self) -> u32 {
        self.number
    }

    async fn post_receive(&self, list: &[ReceiveRequest<'_, ModelRegion>]) -> Result<()> {
        const CALL: &str = "SharedReceive::post_receive";
        post(&self.receives, CALL, &self.core, list).await
    }
}
