//! The atomics that the shared-memory algorithms are written with. `hca-loom` compiles the same algorithms with its own
//! module of this name, so that the model checker sees every access.

pub use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Nothing here. The model checker takes SeqCst operations for AcqRel; there this is the fence that they imply.
#[inline(always)]
pub fn model_fence() {}
