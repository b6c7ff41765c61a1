//! The receive requests of a queue pair or shared receive queue.

use super::completion_queue_state::Queue;
use super::machine::Requests;
use crate::in_process::Segment;
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
