//! `rfio_fsspec._native`: RFIO's client for Python.
//!
//! It uses [`verbena_rfio_client::MultiplexedConnection`]: one connection per server carries the
//! requests of all files and threads, without its own thread. `python/rfio_fsspec/_native.pyi`
//! describes the interface for type checkers.
//!
//! # Rules
//!
//! - A thread that waits for the network has released the interpreter's lock (GIL) and regularly
//!   checks for signals, so Ctrl-C ends a wait.
//! - The locks of this module are held only briefly and with the GIL held. Python forks with the
//!   GIL held, so a child finds them unlocked. The connections and files that they guard belong to
//!   the parent; the child reopens them on use.
//! - The interface is Python's stable ABI from 3.9 on: one file for all versions.

mod attributes;
mod connection;
mod connections;
mod failure;
mod file;
mod names;
mod ranges;
mod remote_path;
mod waiting;

/// The module.
#[pyo3::pymodule]
mod _native {
    #[pymodule_export]
    use super::attributes::Attributes;
    #[pymodule_export]
    use super::connection::Connection;
    #[pymodule_export]
    use super::connections::is_known;
    #[pymodule_export]
    use super::file::File;
    #[pymodule_export]
    use super::names::{
        change_mode, entries, examine, make_directory, make_link, read_link, remove_directory,
        rename, set_times, unlink,
    };
    #[pymodule_export]
    use super::ranges::Ranges;
}
