//! The environment variables that put a program on the software adapter. This module starts no
//! process.

use std::collections::BTreeMap;
use std::env;
use std::ffi::{OsStr, OsString};
use std::path::Path;

use crate::libraries::Libraries;

/// Bytes from which UCX, and so Open MPI and MPICH, lets the receiver read a message. UCX's own
/// choice for blocking sends is 256 KiB, below which a message is copied twice in pieces of 8 KiB.
const RENDEZVOUS: (&str, &str) = ("UCX_RNDV_THRESH", "16384");

/// Variables to set in the environment of a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Environment(BTreeMap<&'static str, OsString>);

impl Environment {
    /// Returns the variables with which a program finds `libraries`, prepended to inherited values.
    pub fn new(libraries: &Libraries) -> Self {
        let inherited = |name| env::var_os(name).unwrap_or_default();
        Self(BTreeMap::from([
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
            (
                RENDEZVOUS.0,
                rendezvous_threshold(env::var_os(RENDEZVOUS.0)),
            ),
        ]))
    }

    /// Returns no variables: the program keeps the system's libraries.
    pub fn of_the_system() -> Self {
        Self(BTreeMap::new())
    }

    /// Preloads the tracer of verbs calls.
    pub fn with_tracer(self, tracer: &Path) -> Self {
        let inherited = env::var_os("LD_PRELOAD").unwrap_or_default();
        let others = self.0.get("LD_PRELOAD").unwrap_or(&inherited);
        let all = in_front(tracer.as_os_str(), others, b": \t\n");
        self.with("LD_PRELOAD", all)
    }

    /// Sets a variable that the adapter reads (`verbena help environment`).
    pub fn with(mut self, name: &'static str, value: impl Into<OsString>) -> Self {
        self.0.insert(name, value.into());
        self
    }

    /// Returns the names and values.
    pub fn variables(&self) -> impl Iterator<Item = (&'static str, &OsStr)> {
        self.0
            .iter()
            .map(|(name, value)| (*name, value.as_os_str()))
    }
}

/// Returns the user's threshold if it is set.
fn rendezvous_threshold(of_the_user: Option<OsString>) -> OsString {
    of_the_user.unwrap_or_else(|| RENDEZVOUS.1.into())
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
    fn rendezvous_threshold_of_the_user_is_kept() {
        assert_eq!(rendezvous_threshold(None), "16384");
        assert_eq!(rendezvous_threshold(Some("inf".into())), "inf");
    }

    #[test]
    fn empty_entries_do_not_add_the_current_directory() {
        assert_eq!(put("/v", ":/a::", b":"), "/v:/a");
    }
}
