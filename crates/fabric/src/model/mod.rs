//! The fabric interface over a timing model: every process of a job is an activity in virtual time,
//! and its calls take the time given by the model.
//!
//! Adapter, bus, memory, links and switches are those of [`verbena_model`], at packet or message
//! fidelity. A process has a core of its node; posting, doorbells, polling, memory polling and
//! copying keep it busy. Bytes are really transferred, at the times given by the model, so that
//! benchmarks verify their data as on hardware.
//!
//! - **Order.** Requests of a reliable queue pair take effect in the order of posting: when the
//!   model reports the placement of one, those before it have taken effect too. A write has
//!   transferred its bytes at the latest when it completes (rule 2).
//! - **Ports.** The queue pairs of a node use its adapter's ports in turn.
//! - **Silent requests** write no completion entry. A later completion shows that they are done.
//! - **The software adapter** is modelled as well: a processor executes its own requests, and
//!   serves the messages that it receives ([`verbena_model::software`]).
//! - **Waiting** takes no processor time except for detecting the awaited event. When no event is
//!   left, waits end with [`Error::Stalled`](crate::Error::Stalled), first those for data, then
//!   those in the exchange.
//! - **Set-up** (allocation, registration, creation) takes no virtual time: the models have no
//!   driver.
//! - **Not modelled**, and rejected by name: completion events, gather lists, 2 MiB pages, an XRC
//!   target with several shared receive queues; device memory on adapters without.
//!
//! Sources: `docs/models-profiles.md`.

mod completion_queue;
mod completion_queue_state;
mod core;
mod effect;
mod group;
mod job;
mod machine;
mod memory;
mod pair;
mod pair_state;
mod posted;
mod process;
mod receive_posting;
mod receive_queue;
mod waits;
mod world;

pub use completion_queue::ModelCompletions;
pub use group::ModelGroup;
pub use job::{Fidelity, Job, run_audited, run_job};
pub use machine::Machine;
pub use memory::{ModelBuffer, ModelRegion};
pub use pair::{ModelAddress, ModelPair};
pub use process::{ModelProcess, Traced};
pub use receive_posting::ModelSharedReceive;
