//! The tracer: records the verbs calls of a program, with their arguments, results and times.
//!
//! It is preloaded (`verbena trace`) and interposes on the `libibverbs.so.1` that the program uses,
//! Verbena's or the system's. So it works on hardware too, as long as the program calls the
//! library: direct accesses to an adapter's registers (UCX' `rc_mlx5`) are not visible.
//!
//! **Mechanism.** The exported functions have the library's names (`objects`, `memory`,
//! `queues`, `events`): each calls the real one and sends a record (`call`). Functions that
//! programs reach through tables of function pointers are replaced when the object is created
//! (`replaced`): the slots of an open device (`slots`), the building of work requests
//! (`building`), and the reading of completions (`reading`).
//!
//! **Contract.** A call returns the real one's result, with its `errno`. Nothing is changed or
//! lost; the only delay is the time for sending the record. Without a listener (`listener`)
//! nothing is recorded. `record` has the format.

mod building;
mod call;
mod events;
mod listener;
mod lock;
mod memory;
mod names;
mod objects;
mod queues;
mod reading;
mod real;
mod record;
mod replaced;
mod slots;
mod state;
mod text;
mod words;
