//! This host and its software adapter, apart from the verbs. The program implements it; no data of
//! a benchmark passes through it.

use crate::Failure;
use std::ffi::OsString;
use std::io;
use std::net::IpAddr;
use std::path::PathBuf;

/// Facts of this host and actions on its software adapter that the C ABI does not offer.
pub trait Host: Sync {
    /// Returns the runtime directory, which need not exist.
    fn runtime_directory(&self) -> PathBuf;

    /// Returns the libibverbs of the software adapter.
    ///
    /// # Errors
    ///
    /// Fails if it is not found, or processes cannot join the adapter.
    fn software_library(&self) -> Result<PathBuf, Failure>;

    /// Returns the environment variables that put a program on the software adapter.
    ///
    /// # Errors
    ///
    /// Fails if the adapter's libraries are not found.
    fn software_variables(&self) -> Result<Vec<(&'static str, OsString)>, Failure>;

    /// Returns whether the ports of the software adapter are Ethernet interfaces.
    fn is_ethernet(&self) -> bool;

    /// Returns the name of the Ethernet interface of a port, counted from 1; `None` for a port that
    /// does not exist, and for InfiniBand.
    fn interface(&self, port: u8) -> Option<String>;

    /// Returns the addresses of this host's interfaces that are up, without loopback.
    ///
    /// # Errors
    ///
    /// Fails if the system call does.
    fn addresses(&self) -> io::Result<Vec<IpAddr>>;

    /// Returns the addresses of one of this host's interfaces; none if there is no such interface.
    ///
    /// # Errors
    ///
    /// Fails if the system call does.
    fn interface_addresses(&self, name: &str) -> io::Result<Vec<IpAddr>>;

    /// Removes files in the runtime directory that killed processes have left.
    fn clean_up(&self);
}

/// A host without software adapter.
#[cfg(test)]
pub(crate) struct NoAdapter;

#[cfg(test)]
impl Host for NoAdapter {
    fn runtime_directory(&self) -> PathBuf {
        std::env::temp_dir().join("verbena-bench-tests")
    }

    fn software_library(&self) -> Result<PathBuf, Failure> {
        Err(Failure::Adapter("no adapter".to_owned()))
    }

    fn software_variables(&self) -> Result<Vec<(&'static str, OsString)>, Failure> {
        Err(Failure::Adapter("no adapter".to_owned()))
    }

    fn is_ethernet(&self) -> bool {
        false
    }

    fn interface(&self, _: u8) -> Option<String> {
        None
    }

    fn addresses(&self) -> io::Result<Vec<IpAddr>> {
        Ok(Vec::new())
    }

    fn interface_addresses(&self, _: &str) -> io::Result<Vec<IpAddr>> {
        Ok(Vec::new())
    }

    fn clean_up(&self) {}
}
