//! What a completion queue is made of: ibv_create_cq_ex(3).

use crate::event::CompletionChannel;
use std::sync::Arc;

/// Whether completions carry the time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Timestamps {
    /// They do not, which saves a clock read each.
    #[default]
    Off,
    /// They do.
    On,
}

/// Who polls a queue, arms it and changes it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Polled {
    /// Any thread.
    #[default]
    ByAny,
    /// One thread at a time, as the program promises (IBV_CREATE_CQ_ATTR_SINGLE_THREADED, or a thread domain).
    ByOne,
}

/// What a completion does that finds no room.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnOverrun {
    /// It ends the queue's life (InfiniBand architecture specification 1.4, 10.2.6.3 and 11.6.3).
    #[default]
    Fail,
    /// It is lost, and nothing else (IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN).
    Ignore,
}

/// What a completion queue is made of.
#[derive(Clone, Default)]
pub struct CqInit {
    /// Completions that fit at least.
    pub entries: u32,
    /// Where events are raised.
    pub channel: Option<Arc<CompletionChannel>>,
    /// Whether completions carry the time.
    pub timestamps: Timestamps,
    /// Who polls it.
    pub polled: Polled,
    /// What happens when it is full.
    pub on_overrun: OnOverrun,
}
