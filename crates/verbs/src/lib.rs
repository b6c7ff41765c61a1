//! A safe Rust client of libibverbs, loaded at run time: the system's for hardware adapters,
//! Verbena's for the software adapter, or any other library with the same ABI.
//!
//! [`Library::open`] loads it; objects follow the verbs: [`Device`] → [`Context`] →
//! [`ProtectionDomain`], [`CompletionQueue`], [`QueuePair`] and so on. Every object keeps its
//! parents alive and is destroyed on drop, so handles may be dropped in any order.
//!
//! Three examples, in `crates/verbs/examples`: `devices` lists devices and ports; `ping_pong` sends
//! messages between two queue pairs of one process; `write_read` writes and reads registered memory
//! by RDMA.
//!
//! **Contract.**
//! - A [`Region`] owns its buffer. Its memory is accessed by copies and single loads and stores,
//!   never by reference, because the adapter and peers may change it at any time. Dropping it ends
//!   the adapter's access before the memory is freed.
//! - A [`Segment`] borrows its region while a request is posted, so that inline data is read from
//!   live memory. Dropping a region while requests are in flight makes them fail, as the verbs
//!   define.
//! - A failed call reports its name, its object and the operating system's reason ([`Error`]).
//! - Statuses and opcodes are newtypes that preserve unknown values.
//!
//! **Source.** The manual pages `ibv_*(3)`; layouts from `verbena-abi`. `unsafe` is confined to
//! [`library`] (loading, the function table) and `object` (a safe type for each C object); all
//! other modules forbid it.
#![deny(unsafe_code)]

mod error;
#[allow(unsafe_code, reason = "the function table of the C library")]
pub mod library;
#[allow(unsafe_code, reason = "each file wraps one C object in a safe type")]
mod object;
pub mod qp;
mod status;

pub use error::{Error, Result};
pub use library::Library;
pub use object::address_handle::AddressHandle;
pub use object::buffer::Buffer;
pub use object::channel::Channel;
pub use object::completion_queue::{CompletionQueue, Entry, WorkCompletion};
pub use object::context::{Context, Device, DeviceAttributes, PortAttributes};
pub use object::device_memory::{DeviceMemory, DeviceRegion};
pub use object::domain::{ProtectionDomain, XrcDomain};
pub use object::events::Event;
pub use object::gid::{Gid, GidEntry, GidKind, routed};
pub use object::post::{Opcode, PostError, ReceiveWork, Scratch, SendFlags, SendTarget, SendWork};
pub use object::queue_pair::QueuePair;
pub use object::region::{AccessFlags, Region, Segment};
pub use object::shared_receive::SharedReceiveQueue;
pub use object::window::Window;
pub use status::{CompletionOpcode, WorkStatus};
