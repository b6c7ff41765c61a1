//! The RDMA adapter of the file service: one open device, and reliable connections set up over a
//! session.
//!
//! All calls go through the C ABI loaded at run time, so hardware and software adapters are
//! interchangeable.

mod adapter;
mod pair;

pub use adapter::Adapter;
pub use pair::{Pair, PairCompletion, Purpose};

/// Why the fabric cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum FabricError {
    /// A verbs call failed.
    #[error("{0}")]
    Verbs(#[from] verbena_verbs::Error),
    /// A request could not be posted.
    #[error("{0}")]
    Post(#[from] verbena_verbs::PostError),
    /// A request failed.
    #[error("work request {id} ended with {status}")]
    Completion {
        /// The request.
        id: u64,
        /// Its completion status.
        status: verbena_verbs::WorkStatus,
    },
    /// No port is active.
    #[error("device {0} has no active port")]
    NoPort(String),
    /// The peer's endpoint is invalid.
    #[error("the peer's endpoint is invalid: {0}")]
    BadEndpoint(String),
    /// The data exceed the available space.
    #[error("{length} bytes for a slot of {room}")]
    TooLong {
        /// Length in bytes.
        length: usize,
        /// Space in bytes.
        room: usize,
    },
    /// Data that must be in registered memory are not.
    #[error("data outside registered memory")]
    Unregistered,
    /// The peer did not act in time.
    #[error("timed out waiting for {0}")]
    Late(&'static str),
}

impl FabricError {
    /// Returns why [`Adapter::open`] found no device, for users. A machine without RDMA devices
    /// need not have a verbs library that works.
    pub fn as_missing_device(&self) -> String {
        use verbena_verbs::Error::{NoDevice, Unsupported};
        let is_named = std::env::var_os("RFIO_DEVICE").is_some();
        match self {
            Self::Verbs(Unsupported { .. } | NoDevice { .. }) if !is_named => {
                "no RDMA device".into()
            }
            other => format!("no usable RDMA device: {other}"),
        }
    }
}
