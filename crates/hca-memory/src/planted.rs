//! Bugs planted on purpose, with the feature `planted` only: the executable specification must find
//! them (`tests/oracle/planted`). VERBENA_PLANTED names the one to turn on. Rules for failures,
//! which users write, are in the crate `faults`.

/// A planted bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// ibv_modify_qp returns while a peer is still writing.
    ModifyFence,
    /// ibv_dereg_mr returns while a peer is still writing.
    DeregFence,
    /// Messages of an old connection are served by the new one.
    Incarnation,
    /// A message is published before its payload is written.
    EarlyStamp,
    /// A key covers one byte too many.
    Bounds,
    /// A key is accepted in any protection domain.
    Pd,
    /// A key grants every right.
    Access,
    /// Requests are flushed in another order.
    FlushOrder,
    /// A requester retries for ever.
    RnrCount,
    /// The limit event of a shared receive queue is raised twice.
    SrqLimit,
    /// Messages go by a lane, and are served from it, regardless of the queue pairs' states.
    LaneGate,
    /// A record is served before older messages in the queue pair's lane.
    LaneOrder,
    /// A message in a lane is acknowledged before its bytes are in place.
    LaneHead,
    /// Messages in a lane count as acknowledged before answers are taken.
    LaneAnswer,
    /// A peer that may sleep is not woken for a message in a lane.
    LaneWake,
    /// A message in a lane acknowledges more than was received.
    LaneEcho,
    /// Writes go to known memory regardless of the responder's state.
    KnownGate,
    /// A range of memory stays known after its key has changed.
    KnownRange,
}

/// Returns whether this bug is turned on: without the feature never, at compile time.
#[cfg(not(feature = "planted"))]
#[inline(always)]
pub const fn is(_bug: Bug) -> bool {
    false
}

/// Returns whether this bug is turned on.
#[cfg(feature = "planted")]
pub fn is(bug: Bug) -> bool {
    static PLANTED: std::sync::OnceLock<Option<Bug>> = std::sync::OnceLock::new();
    *PLANTED.get_or_init(|| named(&std::env::var("VERBENA_PLANTED").unwrap_or_default()))
        == Some(bug)
}

#[cfg(feature = "planted")]
fn named(name: &str) -> Option<Bug> {
    Some(match name {
        "" => return None,
        "modify_fence" => Bug::ModifyFence,
        "dereg_fence" => Bug::DeregFence,
        "incarnation" => Bug::Incarnation,
        "early_stamp" => Bug::EarlyStamp,
        "bounds" => Bug::Bounds,
        "pd" => Bug::Pd,
        "access" => Bug::Access,
        "flush_order" => Bug::FlushOrder,
        "rnr_count" => Bug::RnrCount,
        "srq_limit" => Bug::SrqLimit,
        "lane_gate" => Bug::LaneGate,
        "lane_order" => Bug::LaneOrder,
        "lane_head" => Bug::LaneHead,
        "lane_answer" => Bug::LaneAnswer,
        "lane_wake" => Bug::LaneWake,
        "lane_echo" => Bug::LaneEcho,
        "known_gate" => Bug::KnownGate,
        "known_range" => Bug::KnownRange,
        _ => panic!("VERBENA_PLANTED: no planted bug {name:?}"),
    })
}
