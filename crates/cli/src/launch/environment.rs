//! The environment variables that put a program on the software adapter. This module starts no
//! process.

use std::collections::BTreeMap;
use std::env;
use std::ffi::{OsStr, OsString};
use std::fmt;

use super::libraries::Libraries;

/// A way for data to reach a peer on the same host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Path {
    /// Registered pages live in shared memory: an operation is a memory copy
    Mapped,
    /// The kernel copies between the two processes
    Cma,
    /// Copies go through shared memory, served by a thread of the target
    Ring,
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Path::Mapped => "mapped",
            Path::Cma => "cma",
            Path::Ring => "ring",
        })
    }
}

/// Whether the pages of registered memory move into shared memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Pages {
    /// Move unless the kernel or a device may hold them (io_uring, O_DIRECT, GPU, vfio)
    Auto,
    /// Never move; peers reach them by `cma` or `ring`
    InPlace,
    /// Always move; only if nothing else holds registered memory
    Shared,
}

impl fmt::Display for Pages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Pages::Auto => "auto",
            Pages::InPlace => "in-place",
            Pages::Shared => "shared",
        })
    }
}

/// The link of the adapter's ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Link {
    /// A subnet of this host alone, in shared memory
    Infiniband,
    /// Ethernet interfaces, one per port, reaching other hosts by RoCEv2
    Roce,
}

impl fmt::Display for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Link::Infiniband => "infiniband",
            Link::Roce => "roce",
        })
    }
}

/// Whether packets go over TCP where UDP fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Tunnels {
    /// Where UDP packets do not arrive intact
    On,
    /// Never; peers that start it are refused
    Off,
}

impl fmt::Display for Tunnels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Tunnels::On => "on",
            Tunnels::Off => "off",
        })
    }
}

/// Variables to set in the environment of a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Environment(BTreeMap<&'static str, OsString>);

impl Environment {
    /// Returns the variables with which a program finds `libraries`, prepended to inherited values.
    pub fn new(libraries: &Libraries, path: Option<Path>) -> Self {
        let inherited = |name| env::var_os(name).unwrap_or_default();
        let mut variables = BTreeMap::from([
            (
                "LD_LIBRARY_PATH",
                in_front(
                    libraries.directory().as_os_str(),
                    &inherited("LD_LIBRARY_PATH"),
                    b":;",
                ),
            ),
            (
                "LD_PRELOAD",
                in_front(
                    libraries.shim().as_os_str(),
                    &inherited("LD_PRELOAD"),
                    b": \t\n",
                ),
            ),
            // AddressSanitizer refuses to start a program with another preloaded object unless this
            // option allows it. The user's options come later and take precedence.
            ("ASAN_OPTIONS", asan_options(&inherited("ASAN_OPTIONS"))),
        ]);
        if let Some(path) = path {
            variables.insert("VERBENA_PATH", path.to_string().into());
        }
        Self(variables)
    }

    /// Returns no variables: the program keeps the system's libraries.
    pub fn of_the_system() -> Self {
        Self(BTreeMap::new())
    }

    /// Sends the verbs calls of every process to the listener at `socket`.
    pub fn with_tracer(mut self, tracer: &std::path::Path, socket: &std::path::Path) -> Self {
        let inherited = env::var_os("LD_PRELOAD").unwrap_or_default();
        let others = self.0.get("LD_PRELOAD").unwrap_or(&inherited);
        let all = in_front(tracer.as_os_str(), others, b": \t\n");
        self.0.insert("LD_PRELOAD", all);
        self.0.insert("VERBENA_TRACE", socket.into());
        self
    }

    /// Sets the handling of registered pages, if given.
    pub fn with_pages(mut self, pages: Option<Pages>) -> Self {
        if let Some(pages) = pages {
            self.0.insert("VERBENA_PAGES", pages.to_string().into());
        }
        self
    }

    /// Attaches the adapter's ports to a link and to interfaces, if given.
    pub fn with_link(mut self, link: Option<Link>, interfaces: &[OsString]) -> Self {
        if let Some(link) = link {
            self.0.insert("VERBENA_LINK", link.to_string().into());
        }
        if !interfaces.is_empty() {
            let all = interfaces.join(OsStr::new(","));
            self.0.insert("VERBENA_INTERFACE", all);
        }
        self
    }

    /// Distributes the ports over this many devices, if given.
    pub fn with_devices(mut self, devices: Option<u8>) -> Self {
        if let Some(devices) = devices {
            self.0.insert("VERBENA_DEVICES", devices.to_string().into());
        }
        self
    }

    /// Accepts packets only from these networks, if any are given.
    pub fn with_allowed(mut self, networks: &[String]) -> Self {
        if !networks.is_empty() {
            self.0.insert("VERBENA_ALLOW", networks.join(",").into());
        }
        self
    }

    /// Allows or forbids the TCP fallback for hosts that UDP does not reach, if given.
    pub fn with_tunnels(mut self, tunnels: Option<Tunnels>) -> Self {
        if let Some(tunnels) = tunnels {
            self.0.insert("VERBENA_TUNNELS", tunnels.to_string().into());
        }
        self
    }

    /// Lets every process of the program write its counters to `directory`.
    pub fn with_stats(mut self, directory: &std::path::Path) -> Self {
        self.0.insert("VERBENA_STATS_DIR", directory.into());
        self
    }

    /// Sends the packets of every process of the program to the listener at `socket`.
    pub fn with_capture(mut self, socket: &std::path::Path) -> Self {
        self.0.insert("VERBENA_CAPTURE", socket.into());
        self
    }

    pub fn variables(&self) -> impl Iterator<Item = (&'static str, &OsStr)> {
        self.0
            .iter()
            .map(|(name, value)| (*name, value.as_os_str()))
    }
}

/// Appends the user's AddressSanitizer options to Verbena's: of contradicting options the later one
/// counts.
fn asan_options(of_the_user: &OsStr) -> OsString {
    const ANY_ORDER: &str = "verify_asan_link_order=0";
    let is_there = of_the_user
        .as_encoded_bytes()
        .starts_with(ANY_ORDER.as_bytes());
    let mut all = OsString::from(if is_there { "" } else { ANY_ORDER });
    if !is_there && !of_the_user.is_empty() {
        all.push(":");
    }
    all.push(of_the_user);
    all
}

/// Moves `first` to the front of `list`, so that nested `verbena run` commands do not lengthen the
/// list. Empty entries are dropped, because in LD_LIBRARY_PATH they mean the current directory.
fn in_front(first: &OsStr, list: &OsStr, separators: &[u8]) -> OsString {
    use std::os::unix::ffi::OsStrExt;
    let rest = list
        .as_bytes()
        .split(|byte| separators.contains(byte))
        .filter(|entry| !entry.is_empty() && *entry != first.as_bytes());
    let mut all = first.to_os_string();
    for entry in rest {
        all.push(":");
        all.push(OsStr::from_bytes(entry));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(first: &str, list: &str, separators: &[u8]) -> String {
        in_front(first.as_ref(), list.as_ref(), separators)
            .into_string()
            .unwrap()
    }

    #[test]
    fn the_library_is_put_first_and_only_once() {
        assert_eq!(put("/v", "", b":"), "/v");
        assert_eq!(put("/v", "/a:/b", b":"), "/v:/a:/b");
        assert_eq!(put("/v", "/a:/v:/b", b":"), "/v:/a:/b");
        assert_eq!(put("/v", "/a /b:/c", b": "), "/v:/a:/b:/c");
    }

    #[test]
    fn sanitizer_options_of_the_user_are_kept() {
        let options = |user: &str| asan_options(user.as_ref()).into_string().unwrap();
        let ours = "verify_asan_link_order=0";
        assert_eq!(options(""), ours);
        assert_eq!(
            options("log_path='/a:b'"),
            format!("{ours}:log_path='/a:b'")
        );
        assert_eq!(
            options(&options("verbosity=1")),
            format!("{ours}:verbosity=1")
        );
    }

    #[test]
    fn empty_entries_do_not_add_the_current_directory() {
        assert_eq!(put("/v", ":/a::", b":"), "/v:/a");
    }

    #[test]
    fn path_and_page_names_equal_the_argument_values() {
        use clap::ValueEnum;
        for path in Path::value_variants() {
            assert_eq!(
                path.to_possible_value().unwrap().get_name(),
                path.to_string()
            );
        }
        for pages in Pages::value_variants() {
            assert_eq!(
                pages.to_possible_value().unwrap().get_name(),
                pages.to_string()
            );
        }
    }
}
