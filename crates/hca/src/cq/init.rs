//! Attributes of a completion queue: ibv_create_cq_ex(3).

use crate::event::CompletionChannel;
use std::sync::Arc;

/// Whether completions carry a timestamp.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Timestamps {
    /// No timestamps, which saves a clock read per completion.
    #[default]
    Off,
    /// Timestamps.
    On,
}

/// Which threads poll, arm and change a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Polled {
    /// Any thread.
    #[default]
    ByAny,
    /// One thread at a time, as the program promises (IBV_CREATE_CQ_ATTR_SINGLE_THREADED, or a
    /// thread domain).
    ByOne,
}

/// Treatment of a completion for which the queue has no space.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnOverrun {
    /// The queue fails (InfiniBand architecture specification 1.4, 10.2.6.3 and 11.6.3).
    #[default]
    Fail,
    /// The completion is lost, without further effect (IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN).
    Ignore,
}

/// Attributes of a completion queue.
#[derive(Clone, Default)]
pub struct CqInit {
    /// Minimum capacity, in completions.
    pub entries: u32,
    /// Channel on which completion events are raised.
    pub channel: Option<Arc<CompletionChannel>>,
    /// Whether completions carry a timestamp.
    pub timestamps: Timestamps,
    /// Which threads poll the queue.
    pub polled: Polled,
    /// Treatment of completions when the queue is full.
    pub on_overrun: OnOverrun,
}
