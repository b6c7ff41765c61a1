//! Limits that the device advertises and other files check (ibv_query_device(3)).

/// Limit on queue pairs, as on current adapters. See [`crate::quota`] for the limits shared by
/// processes.
pub const MAX_QP: u32 = 1 << 17;
/// Limit on completion queues.
pub const MAX_CQ: u32 = 1 << 17;
/// Limit on shared receive queues.
pub const MAX_SRQ: u32 = 1 << 16;
/// Limit on protection domains.
pub const MAX_PD: u32 = 1 << 16;
/// Limit on address handles.
pub const MAX_AH: u32 = 1 << 20;
/// Largest completion queue, in completions.
pub const MAX_CQE: u32 = 1 << 22;
/// Largest number of requests of a shared receive queue.
pub const MAX_SRQ_WR: u32 = 1 << 16;
/// Largest number of buffers of a request.
pub const MAX_SGE: u32 = 32;
