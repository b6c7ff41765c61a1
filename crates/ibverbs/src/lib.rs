//! libibverbs.so.1: the C ABI over the software channel adapter.
//!
//! Each exported function and each slot converts its pointers to references or EINVAL
//! ([`arguments`], [`handle`]), calls the adapter (`verbena_hca`), and converts its `Result` to C's
//! conventions ([`outcome`]). The semantics are in the adapter, the layouts in `verbena_abi`.
//!
//! **Contract.** Names and version nodes are those of `libibverbs.map`; behaviour is that of the
//! man pages of libibverbs 44. Features that the adapter lacks return EOPNOTSUPP ([`unsupported`],
//! `unsupported_newer`). The real providers of hardware can be loaded beside this library
//! ([`private`]).
//!
//! **Build.** `cargo build` makes a static library; `link.sh` links it with the version script.
//!
//! One object per file: [`device`], [`context`] with [`open`], [`query`], [`pd`], [`mr`],
//! [`buf`], [`mw`] with [`bind`], [`dm`], [`channel`], [`cq`] with [`cq_create`], [`cq_event`] and
//! [`cq_ex`], [`srq`], [`qp`] with [`qp_create`], [`post`], [`qp_ex`] and its [`batch`], [`ah`],
//! [`xrcd`], [`event`]. Creation is apart from the objects, as it fills in tables of functions that
//! use all of them.

pub mod acknowledge;
pub mod ah;
pub mod arguments;
pub mod attributes;
pub mod batch;
pub mod bind;
pub mod buf;
pub mod channel;
pub mod cm;
mod command;
pub mod context;
pub mod cq;
pub mod cq_create;
pub mod cq_event;
pub mod cq_ex;
pub mod current_completion;
pub mod device;
pub mod dm;
pub mod event;
pub mod exports;
pub mod fork;
pub mod handle;
pub mod marshal;
pub mod mr;
pub mod mw;
pub mod open;
pub mod outcome;
pub mod pd;
pub mod post;
pub mod private;
pub mod qp;
pub mod qp_create;
pub mod qp_ex;
pub mod query;
pub mod rate;
mod rules;
pub mod srq;
pub mod strings;
pub mod sysfs;
mod table;
pub mod unsupported;
pub mod unsupported_newer;
pub mod xrcd;
