//! Receive queues of one queue pair or shared.

use super::completions::Queue;
use super::machine::Requests;
use super::memory::{ModelRegion, held};
use super::process::Core;
use super::world::World;
use crate::error::Result;
use crate::in_process::{Segment, segments};
use crate::operation::ReceiveRequest;
use crate::pair::SharedReceive;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

/// Receive requests: the model counts them, this holds their contents.
pub(super) struct Receives {
    pub model: Requests,
    pub list: RefCell<VecDeque<(u64, Vec<Segment>)>>,
    /// For XRC, the completion queue of its receives.
    pub completions: Option<Rc<Queue>>,
    /// Depth and rank of its process, to compute its memory use.
    pub depth: u32,
    pub rank: usize,
}

impl Receives {
    /// Posts a list: checks all of it, spends the processor time, then makes it known to the
    /// adapter.
    pub async fn post(
        &self,
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
        self.list.borrow_mut().extend(checked);
        self.model.post(count);
        Ok(())
    }
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
        self.receives.post(CALL, &self.core, list).await
    }
}
