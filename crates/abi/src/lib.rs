//! The verbs C ABI as data: structures, constants and enumerations of libibverbs, and their
//! [`names`]. No other code.
//!
//! **Contract.** Every type has the size and field offsets, and every constant the value, of
//! rdma-core v44's `infiniband/verbs.h` on this machine; `layout_test` and `constants_test` compile
//! a C program against the official headers and compare. Names are those of C, as in man pages and
//! headers. A C enumeration is a type alias of a plain integer, never a Rust `enum`, because a
//! program may pass any value.
//!
//! Some constants and one slot (`ibv_qp_ex::wr_flush`) are newer than v44. They only extend v44 and
//! are marked.
//!
//! **Byte order.** As in C: a field of header type `__be16`, `__be32` or `__be64` holds network
//! byte order in a plain integer. Each structure's documentation names those fields.
//!
//! **Source.** `infiniband/verbs.h`, `verbs_api.h`, `sa.h`, `tm_types.h` and
//! `rdma/ib_user_ioctl_verbs.h` (package `libibverbs-dev`), and the man pages `ibv_*(3)`. Other
//! crates implement the behaviour.

#![no_std]
#![allow(non_camel_case_types, non_snake_case)]
// Names are those of C, documented in the man pages.
#![allow(missing_docs)]

#[cfg(test)]
extern crate std;

#[macro_use]
mod define;

mod address;
mod completion;
mod context;
mod counters;
mod cq;
mod device;
mod device_attr;
mod event;
mod flow;
mod flow_action;
mod memory;
pub mod names;
mod pd;
mod port;
mod pthread;
mod qp;
mod qp_attr;
mod qp_ex;
mod rate;
mod sa;
mod srq;
mod tag_matching;
mod wq;
mod wr;

pub use address::*;
pub use completion::*;
pub use context::*;
pub use counters::*;
pub use cq::*;
pub use device::*;
pub use device_attr::*;
pub use event::*;
pub use flow::*;
pub use flow_action::*;
pub use memory::*;
pub use pd::*;
pub use port::*;
pub use pthread::*;
pub use qp::*;
pub use qp_attr::*;
pub use qp_ex::*;
pub use rate::*;
pub use sa::*;
pub use srq::*;
pub use tag_matching::*;
pub use wq::*;
pub use wr::*;

#[cfg(test)]
mod constants_test;
#[cfg(test)]
mod layout_test;
#[cfg(test)]
mod official_headers;
