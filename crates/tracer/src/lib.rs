//! The tracer: records the verbs calls of a program with their arguments, results and times
//! (`verbena trace`), counts their outcomes (`verbena coverage`), and refuses some (`verbena run
//! --fault`).
//!
//! It is preloaded and interposes on the `libibverbs.so.1` that the program uses,
//! Verbena's or the system's. So it works on hardware too, as long as the program calls the
//! library: direct accesses to an adapter's registers (UCX' `rc_mlx5`) are not visible.
//!
//! **Mechanism.** The exported functions have the library's names (`objects`, `memory`,
//! `queues`, `events`, `cm`): each calls the real one and sends a record (`call`). Functions that
//! programs reach through tables of function pointers are replaced when the object is created
//! (`replaced`): the context_ops of an open device (`context_ops`), the building of work requests
//! (`building`), and the reading of completions (`reading`).
//!
//! **Contract.** A call returns the real one's result, with its `errno`, unless a rule refuses it
//! (`refusals`). Nothing is changed or lost; the only delay is the time for sending the record and
//! counting. Without a listener
//! (`listener`) nothing is recorded; `record` has the format. Without a data file (`counters`)
//! nothing is counted, and no text is made if nothing is recorded.

mod alive;
mod building;
mod call;
mod cm;
mod context_ops;
mod counters;
mod events;
mod lock;
mod memory;
mod names;
mod objects;
mod queues;
mod rare_context_ops;
mod reading;
mod real;
mod record;
mod refusals;
mod replaced;
mod sender;
mod state;
mod text;
mod words;
