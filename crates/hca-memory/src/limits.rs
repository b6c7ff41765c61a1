//! Limits that the device advertises and other files check (ibv_query_device(3)). A rule may lower
//! them (`verbena run --fault 'adapter: max_qp 16'`).

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use verbena_hca_shm::context_table::KEYS;

/// A limit, with the name of its device attribute.
#[derive(Debug)]
pub struct Limit {
    /// The name.
    pub name: &'static str,
    now: AtomicU64,
}

impl Limit {
    /// Returns a limit.
    pub const fn new(name: &'static str, most: u64) -> Limit {
        Limit {
            name,
            now: AtomicU64::new(most),
        }
    }

    /// Returns its value.
    #[inline]
    pub fn get(&self) -> u64 {
        self.now.load(Ordering::Relaxed)
    }

    /// Returns its value, or the largest that fits.
    #[inline]
    pub fn as_u32(&self) -> u32 {
        u32::try_from(self.get()).unwrap_or(u32::MAX)
    }

    /// Returns its value as an attribute has it, or the largest that fits.
    pub fn as_attribute(&self) -> i32 {
        i32::try_from(self.get()).unwrap_or(i32::MAX)
    }

    /// Lowers it. Returns whether the value is at most the former one.
    pub fn lower(&self, to: u64) -> bool {
        self.now.fetch_min(to, Ordering::Relaxed) >= to
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "{}", self.get())
    }
}

macro_rules! limits {
    ($($(#[$doc:meta])* $constant:ident $name:literal $most:expr;)*) => {
        $($(#[$doc])* pub static $constant: Limit = Limit::new($name, $most as u64);)*

        /// Returns the limit with this name.
        pub fn named(name: &str) -> Option<&'static Limit> {
            [$(&$constant),*].into_iter().find(|limit| limit.name == name)
        }
    };
}

limits! {
    /// Queue pairs, as on current adapters. See [`crate::quota`] for the limits shared by
    /// processes.
    MAX_QP "max_qp" 1 << 17;
    /// Completion queues.
    MAX_CQ "max_cq" 1 << 17;
    /// Shared receive queues.
    MAX_SRQ "max_srq" 1 << 16;
    /// Protection domains.
    MAX_PD "max_pd" 1 << 16;
    /// Address handles.
    MAX_AH "max_ah" 1 << 20;
    /// Memory regions.
    MAX_MR "max_mr" KEYS / 2;
    /// Memory windows.
    MAX_MW "max_mw" KEYS / 2 - 1;
    /// Bytes of a memory region.
    MAX_MR_SIZE "max_mr_size" u64::MAX;
    /// Completions in a completion queue.
    MAX_CQE "max_cqe" 1 << 22;
    /// Requests in a shared receive queue.
    MAX_SRQ_WR "max_srq_wr" 1 << 16;
    /// Work requests in a send or receive queue.
    MAX_QP_WR "max_qp_wr" 1 << 15;
    /// Buffers of a request.
    MAX_SGE "max_sge" 32;
    /// Bytes of inline data.
    MAX_INLINE "max_inline_data" 1024;
    /// Reads and atomics in flight for a queue pair.
    MAX_RD_ATOMIC "max_qp_rd_atom" 128;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_only_lowered() {
        let limit = Limit::new("max", 8);
        assert!(!limit.lower(9));
        assert_eq!(limit.get(), 8);
        assert!(limit.lower(3) && limit.lower(3));
        assert!(!limit.lower(4));
        assert_eq!((limit.as_u32(), limit.as_attribute()), (3, 3));
        assert_eq!(MAX_MR_SIZE.as_attribute(), i32::MAX);
        assert_eq!(named("max_qp").map(Limit::get), Some(1 << 17));
        assert!(named("max").is_none());
    }
}
