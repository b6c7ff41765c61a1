//! The seam over a timing model: every process of a job is an activity in virtual time, and what it does at the seam
//! costs what the model says.
//!
//! The adapter, the bus, memory, links and switches are those of [`verbena_model`], at packet or message fidelity. A
//! process has a core of its node; posting, ringing, polling, looking at memory and copying keep it busy. Bytes really
//! move, when the model says that they do, so that benchmarks check their data as on hardware.
//!
//! - **Order.** Effects of a reliable queue pair take place in the order of posting: when the model says that one has
//!   been placed, those before it have been too. A write has moved its bytes at the latest when it completes (rule 2).
//! - **Ports.** The queue pairs of a node are dealt out over its adapter's ports in turn.
//! - **Silent requests** write no completion entry. They are known to be done when a later one completes.
//! - **The software adapter** is modelled as well: there a processor executes what it posts, and serves the messages that come to
//!   it ([`verbena_model::software`]).
//! - **Waiting** costs nothing but what is charged for seeing what was awaited. A job in which nothing can happen any
//!   more tells those that wait ([`Error::Stalled`](crate::Error::Stalled)), first for data, then in the exchange.
//! - **Set-up** (allocation, registration, creation) takes no virtual time: the models have no driver.
//! - **What the models do not have** is refused by name: completion events, gather lists, 2 MiB pages, an XRC target with
//!   several shared receive queues; memory on adapters without.
//!
//! Sources: `docs/models.md`.

mod completions;
mod effect;
mod group;
mod job;
mod machine;
mod memory;
mod pair;
mod process;
mod receive;
mod world;

pub use completions::ModelCompletions;
pub use group::ModelGroup;
pub use job::{Fidelity, Job, run_audited, run_job};
pub use machine::Machine;
pub use memory::{ModelBuffer, ModelRegion};
pub use pair::{ModelAddress, ModelPair};
pub use process::{ModelProcess, Traced};
pub use receive::ModelSharedReceive;
