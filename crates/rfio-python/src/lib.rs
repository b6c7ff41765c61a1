//! `rfio_fsspec._native`: RFIO's client as Python calls it.
//!
//! It stands on [`verbena_rfio::client::Exchange`]: a connection for each server, with the requests of all files and threads on
//! it, and no thread of its own. What Python sees is described for type checkers in `python/rfio_fsspec/_native.pyi`.
//!
//! # The law
//!
//! - Whoever waits for the network has let go of the interpreter's lock, and looks for signals now and then: Ctrl-C ends a wait.
//! - The locks of this module are taken only while the interpreter's lock is held, and for a look. Python forks under that lock,
//!   so a child finds them unlocked. What they guard is then the parent's, and opened anew when it is used.
//! - The interface is Python's stable one, from 3.9 on: one file for all versions.

mod attributes;
mod connection;
mod connections;
mod failure;
mod file;
mod names;
mod place;
mod ranges;
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
