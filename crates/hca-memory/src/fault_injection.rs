//! Fault injection, with the feature `planted` only: that the executable specification finds these
//! faults shows that it is effective (`tests/oracle/planted`). VERBENA_PLANTED names the fault to
//! turn on.

/// A fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
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
}

/// Returns whether this fault is turned on: without the feature never, at compile time.
#[cfg(not(feature = "planted"))]
#[inline(always)]
pub const fn is(_fault: Fault) -> bool {
    false
}

/// Returns whether this fault is turned on.
#[cfg(feature = "planted")]
pub fn is(fault: Fault) -> bool {
    static INJECTED: std::sync::OnceLock<Option<Fault>> = std::sync::OnceLock::new();
    *INJECTED.get_or_init(|| named(&std::env::var("VERBENA_PLANTED").unwrap_or_default()))
        == Some(fault)
}

#[cfg(feature = "planted")]
fn named(name: &str) -> Option<Fault> {
    Some(match name {
        "" => return None,
        "modify_fence" => Fault::ModifyFence,
        "dereg_fence" => Fault::DeregFence,
        "incarnation" => Fault::Incarnation,
        "early_stamp" => Fault::EarlyStamp,
        "bounds" => Fault::Bounds,
        "pd" => Fault::Pd,
        "access" => Fault::Access,
        "flush_order" => Fault::FlushOrder,
        "rnr_count" => Fault::RnrCount,
        "srq_limit" => Fault::SrqLimit,
        "lane_gate" => Fault::LaneGate,
        "lane_order" => Fault::LaneOrder,
        "lane_head" => Fault::LaneHead,
        "lane_answer" => Fault::LaneAnswer,
        "lane_wake" => Fault::LaneWake,
        _ => panic!("VERBENA_PLANTED: no fault {name:?}"),
    })
}
