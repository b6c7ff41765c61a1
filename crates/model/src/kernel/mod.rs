//! A deterministic discrete-event kernel. It knows no InfiniBand.
//!
//! Virtual time is a whole number of picoseconds. Activities are futures on one thread: an activity suspends by
//! sleeping until an instant or by waiting for another one, and everything that happens at one instant happens in the
//! order in which it was scheduled. The same program therefore gives the same history, to the picosecond. A large simulation
//! may be divided into places that run by turns (`calendar`).

mod calendar;
mod draw;
mod executor;
mod pool;
mod prefetch;
mod server;
mod space;
mod sync;
mod time;
mod trace;

pub use draw::Draws;
pub use executor::{Deadlock, JoinHandle, Sim, events_of_this_thread};
pub use server::{Occupancy, Server};
pub use space::{Space, Take};
pub use sync::{Barrier, Gate, Latch, Mailbox, Permit, Semaphore, Watch};
pub use time::Time;
pub use trace::Span;
