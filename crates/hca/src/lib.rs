//! The software channel adapter: queues, queue pairs, paths to peers, events.
//!
//! A process that opens the device becomes part of the host's adapter ([`process`]). Its registered
//! pages lie in an arena of shared memory ([`verbena_hca_memory`]), so peers read, write and update
//! them themselves ([`verbena_hca_memory::peer`]); messages, and all operations for which that is
//! not possible, go through a channel between the two processes ([`verbena_hca_shm`]), or as
//! packets to another host ([`verbena_hca_net`]). Queue pairs ([`qp`]) turn work requests into
//! these.
//!
//! States, opcodes, statuses and attribute structures are those of the C interface, from
//! `verbena_abi`.

pub mod ah;
mod causes;
pub mod context;
pub mod cq;
pub mod describe;
pub mod emulation;
pub mod event;
mod lanes;
pub mod moderation;
pub mod process;
pub mod qp;
pub mod receive;
pub mod srq;
pub mod xrcd;

use verbena_hca_net::{capture, counters, device, fabric, link, observed, port_switch, roce};
