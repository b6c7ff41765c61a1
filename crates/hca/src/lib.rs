//! The software channel adapter: memory, queues, queue pairs, transports, paths to peers, events.
//!
//! A process that opens the device becomes part of the host's adapter ([`process`]). Its registered
//! pages lie in an arena of shared memory ([`memory`]), so peers read, write and update them
//! themselves ([`peer`]); messages, and all operations for which that is not possible, go through a
//! channel between the two processes ([`verbena_hca_shm`]). Queue pairs ([`qp`]) turn work requests
//! into these.
//!
//! States, opcodes, statuses and attribute structures are those of the C interface, from
//! `verbena_abi`.

pub mod ah;
pub mod capture;
pub mod context;
pub mod counters;
pub mod cq;
mod current;
pub mod describe;
pub mod device;
pub mod event;
mod fault_injection;
pub mod limits;
pub mod link;
pub mod memory;
pub mod moderation;
pub mod peer;
pub mod port_switch;
pub mod process;
pub mod qp;
pub mod quota;
pub mod receive;
pub mod roce;
pub mod srq;
mod tables;
pub mod xrcd;
