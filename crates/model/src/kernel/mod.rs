//! A deterministic discrete-event kernel, independent of InfiniBand.
//!
//! Virtual time is a whole number of picoseconds. Activities are futures on one thread: an activity
//! suspends by sleeping until an instant or by waiting for another activity, and all events of one
//! instant run in the order of scheduling. The same program therefore produces the same history, to
//! the picosecond. Activities of which there are many may be plain records instead, see
//! [`Machine`]. A large simulation may be divided into partitions (`place` in the code) that run in
//! turn, see `calendar`.

mod activity_pool;
mod calendar;
mod draw;
mod executor;
mod gate;
mod mailbox;
pub(crate) mod prefetch;
mod records;
mod server;
mod space;
mod sync;
mod time;
mod trace;

pub use draw::Draws;
pub(crate) use executor::add_events;
pub use executor::{AtWindowEnd, Deadlock, JoinHandle, Sim, events_of_this_thread, events_so_far};
pub use gate::Gate;
pub use mailbox::Mailbox;
pub use records::{Machine, MachineNumber, RecordId, Slab, TaskId};
pub use server::{Occupancy, Server};
pub use space::{Space, Take};
pub use sync::{Barrier, Latch, Permit, Semaphore, Watch};
pub use time::Time;
pub use trace::Span;
