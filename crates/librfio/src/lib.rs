//! `librfio.so` and `libshift.so`: RFIO's C interface, `rfio_api.h`.
//!
//! Three layers: `core` implements the semantics in safe Rust; the modules named after their
//! subject have the C functions, each of which converts pointers to values, calls the core once,
//! and converts the result to C's conventions; `variadic.c` defines the variadic ones. `link.sh`
//! links the shared library with its version script. The symbols are those of the `reference`
//! interface lists of RFIO that ROOT's TRFIOFile and the CMS adaptor link. `rfio_popen`, which ran
//! a shell command on the server, does not exist.
//!
//! # Safety
//!
//! Every C function here trusts its caller like its counterpart in the C library: pointers are null
//! or valid, strings end with a NUL, buffers have the given size, `FILE` and `DIR` come from this
//! library and are not closed.

#![allow(
    non_snake_case,
    non_camel_case_types,
    reason = "the names are those of C programs"
)]

mod attributes;
mod core;
mod descriptor;
mod directory;
mod errors;
mod ffi;
mod path_calls;
mod positioned;
mod requests;
mod stream;
mod tickets;
