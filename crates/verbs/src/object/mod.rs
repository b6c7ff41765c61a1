//! One file per C object: a safe type that owns it and keeps its parents alive.

pub mod address_handle;
mod bare;
pub mod buffer;
pub mod channel;
pub mod completion_queue;
pub mod context;
pub mod device_memory;
pub mod domain;
pub mod events;
pub mod gid;
mod locked;
mod multicast;
pub mod partition;
pub mod post;
pub mod queue_pair;
pub mod region;
pub mod shared_receive;
pub mod window;

/// Implements `Send` and `Sync` for an owner of a C object.
macro_rules! thread_safe {
    ($($type:ty),*) => {$(
        // SAFETY: libibverbs' functions may be called from any thread, also on the same object
        // (`ibv_*(3)`, rdma-core's thread-safety rule); the pointer is only used through them.
        unsafe impl Send for $type {}
        // SAFETY: libibverbs' functions may be called from several threads on the same object; the
        // pointer is only used through them.
        unsafe impl Sync for $type {}
    )*};
}
pub(crate) use thread_safe;
