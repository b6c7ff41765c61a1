//! The channel adapter: doorbells, work request fetch, scheduling, engines, caches, DMA,
//! acknowledgements.
//!
//! A queue pair ([`Pair`]) takes requests in order. `docs/models-parts.md` describes the stages of
//! each; `send` is the requester's outbound path, `receive` the inbound path on both sides. Work
//! beyond the adapter's capacity queues up, as on hardware. The model contains no published
//! performance figures.

pub(crate) mod cache;
mod congestion;
mod corrections;
mod crossing;
mod engine;
mod flight;
mod flights;
pub mod footprint;
mod load;
mod model;
mod operation;
mod pace;
mod pair;
mod receive;
mod request;
mod send;

pub use corrections::{Plan, Plans};
pub use crossing::CrossingPacket;
pub use flights::Flights;
pub use model::{AdapterModel, Counters, Fidelity};
pub use operation::{Kind, MemoryHome, MemoryLocation, Placement, Transport};
pub use pair::{Carried, Notified, Pair, ReceiveQueue};
pub use request::{Action, Request};
