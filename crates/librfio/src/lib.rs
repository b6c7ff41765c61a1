//! `librfio.so` and `libshift.so`: RFIO's C interface, `rfio_api.h`.
//!
//! Three layers: `core` is what the functions mean, in safe Rust; the modules named after their subject hold the C
//! functions, each a door (pointers become values), one call into the core, and the return
//! convention; `variadic.c` defines those that are variadic; the shared library is linked by
//! `link.sh` with its version script. The symbols are those of `reference` interface lists of RFIO
//! that ROOT's TRFIOFile and the CMS adaptor link. `rfio_popen`, which ran a shell command on the
//! server, does not exist.
//!
//! # Safety
//!
//! Every C function here trusts its caller as its counterpart in C's library does: pointers are null or valid, strings
//! end with a NUL, buffers are as long as their size says, `FILE` and `DIR` came from here and were not closed.

#![allow(
    non_snake_case,
    non_camel_case_types,
    reason = "the names are those of C programs"
)]

mod attributes;
mod core;
mod descriptor;
mod directory;
mod door;
mod errors;
mod named;
mod positioned;
mod requests;
mod stream;
mod tickets;
