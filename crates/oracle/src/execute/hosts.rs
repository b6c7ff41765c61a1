//! Multiple hosts: a process of a program may run in a network namespace, behind an interface
//! there, and then reaches processes of other hosts by packets.

use std::ffi::OsStr;
use std::fs::{DirBuilder, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// A host: `INTERFACE`, or `INTERFACE@NAMESPACE` with a namespace's file, such as /proc/PID/ns/net.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    interface: String,
    namespace: Option<PathBuf>,
}

impl FromStr for Host {
    type Err = String;

    fn from_str(text: &str) -> Result<Host, String> {
        let (interface, namespace) = match text.split_once('@') {
            Some((interface, namespace)) => (interface, Some(namespace.into())),
            None => (text, None),
        };
        if interface.is_empty() || namespace == Some(PathBuf::new()) {
            return Err("expected INTERFACE or INTERFACE@NAMESPACE".to_owned());
        }
        Ok(Host {
            interface: interface.to_owned(),
            namespace,
        })
    }
}

impl Host {
    /// Moves the calling process to the host, before it loads the library; `runtime` is the host's
    /// directory.
    ///
    /// # Errors
    ///
    /// The namespace cannot be entered, or the directory cannot be created.
    pub fn enter(&self, runtime: &Path) -> io::Result<()> {
        if let Some(namespace) = &self.namespace {
            let file = File::open(namespace)?;
            // SAFETY: the descriptor is open; the call only changes the namespace of this thread's
            // new sockets.
            if unsafe { libc::setns(file.as_raw_fd(), libc::CLONE_NEWNET) } != 0 {
                return Err(io::Error::last_os_error());
            }
        }
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(runtime)?;
        let settings: [(&str, &OsStr); 3] = [
            ("VERBENA_LINK", OsStr::new("roce")),
            ("VERBENA_INTERFACE", self.interface.as_ref()),
            ("VERBENA_RUNTIME_DIR", runtime.as_ref()),
        ];
        for (name, value) in settings {
            // SAFETY: a worker has one thread before it starts.
            unsafe { std::env::set_var(name, value) };
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_parsed_with_an_optional_namespace() {
        let host: Host = "veth1@/proc/7/ns/net".parse().unwrap();
        assert_eq!(host.interface, "veth1");
        assert_eq!(host.namespace, Some("/proc/7/ns/net".into()));
        let host: Host = "10.9.0.1".parse().unwrap();
        assert_eq!(host.namespace, None);
        assert!("@/proc/7/ns/net".parse::<Host>().is_err());
        assert!("veth1@".parse::<Host>().is_err());
    }
}
