//! Divides the process's file descriptors among the daemon and its clients.
//!
//! # Invariant
//! The descriptors of all clients and of the daemon itself never exceed the process's limit. One
//! user gets at most half of each share, so that one user cannot lock out the others.

use std::io;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use verbena_rfio_server::caps::Caps;

/// Minimum of descriptors for clients; with fewer the service is of no use.
const LEAST: usize = 32;

/// Descriptors of the daemon itself: standard streams, listeners, logs, the adapter, user database
/// lookups.
const OWN: usize = 32;
/// Per event loop: its poll descriptor and its wake-up descriptor.
const LOOP: usize = 2;
/// Per worker, besides the file that it opens: its io_uring, and directories on the path.
const WORKER: usize = 5;
/// For metrics: the listener and its scrapers.
const METRICS: usize = 65;
/// Per data queue pair: its completion channel, and the socket of a connection that is not yet
/// authenticated.
const QUEUE_PAIR: usize = 2;

/// The daemon's configuration, as far as it needs descriptors.
#[derive(Debug, Clone, Copy)]
pub struct Needs {
    /// Event loops.
    pub loops: usize,
    /// Workers.
    pub workers: usize,
    /// Exported directories.
    pub exports: usize,
    /// Whether metrics are served.
    pub metrics: bool,
    /// Whether RDMA is enabled.
    pub fabric: bool,
}

/// Limits on the descriptors of clients.
#[derive(Debug, Clone, Copy)]
pub struct Clients {
    /// Connections that are not yet authenticated.
    pub strangers: usize,
    /// All other limits.
    pub caps: Caps,
}

impl Needs {
    fn reserve(&self) -> usize {
        let metrics = if self.metrics { METRICS } else { 0 };
        OWN + LOOP * self.loops + WORKER * self.workers + self.exports + metrics
    }

    /// Divides `files` descriptors among clients, at most as many as requested. Returns a warning
    /// if a limit is lower than requested.
    ///
    /// # Errors
    /// There are too few descriptors to serve a client.
    pub fn share_out(
        &self,
        files: usize,
        asked: Clients,
    ) -> Result<(Clients, Option<String>), String> {
        let reserve = self.reserve();
        let left = files.saturating_sub(reserve);
        if left < LEAST {
            let least = reserve + LEAST;
            return Err(format!(
                "the limit of open files is {files}, but rfiod needs {least} with these options; \
                 {RAISE}"
            ));
        }
        let eighth = left / 8;
        let (pairs, open_files) = match self.fabric {
            true => (eighth / QUEUE_PAIR, eighth * 3),
            false => (usize::MAX, eighth * 4),
        };
        let wanted = asked.caps;
        let sessions = eighth * 3;
        let clients = Clients {
            strangers: asked.strangers.min(eighth),
            caps: Caps {
                sessions_per_user: wanted.sessions_per_user.min(sessions / 2),
                sessions: wanted.sessions.min(sessions),
                queue_pairs_per_user: wanted.queue_pairs_per_user.min((pairs / 2).max(1)),
                queue_pairs: wanted.queue_pairs.min(pairs.max(1)),
                open_files_per_user: wanted.open_files_per_user.min(open_files / 2),
                open_files: wanted.open_files.min(open_files),
            },
        };
        let caps = clients.caps;
        let cut: Vec<String> = [
            ("--sessions", wanted.sessions, caps.sessions),
            (
                "--sessions-per-user",
                wanted.sessions_per_user,
                caps.sessions_per_user,
            ),
            ("--open-files", wanted.open_files, caps.open_files),
            (
                "--open-files-per-user",
                wanted.open_files_per_user,
                caps.open_files_per_user,
            ),
            ("--queue-pairs", wanted.queue_pairs, caps.queue_pairs),
            (
                "--queue-pairs-per-user",
                wanted.queue_pairs_per_user,
                caps.queue_pairs_per_user,
            ),
            ("--strangers", asked.strangers, clients.strangers),
        ]
        .into_iter()
        .filter(|(_, asked, given)| given < asked)
        .map(|(name, asked, given)| format!("{name} is {given} instead of {asked}"))
        .collect();
        let warning = (!cut.is_empty()).then(|| {
            format!(
                "the limit of open files is {files}, so {}; {RAISE}",
                cut.join(", ")
            )
        });
        Ok((clients, warning))
    }
}

const RAISE: &str = "raise it with LimitNOFILE= in the service's unit, or 'ulimit -Hn' before the \
                     start";

/// Raises the limit of open files to the hard limit and returns it.
///
/// # Errors
/// setrlimit(2) fails.
pub fn raise_limit() -> io::Result<usize> {
    let most = getrlimit(Resource::Nofile).maximum;
    let raised = Rlimit {
        current: most,
        maximum: most,
    };
    setrlimit(Resource::Nofile, raised)?;
    Ok(files(most))
}

/// Returns the current limit of open files.
pub fn limit() -> usize {
    files(getrlimit(Resource::Nofile).current)
}

fn files(limit: Option<u64>) -> usize {
    limit
        .and_then(|limit| usize::try_from(limit).ok())
        .unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use verbena_rfio_server::service::Limits;

    const NEEDS: Needs = Needs {
        loops: 2,
        workers: 3,
        exports: 1,
        metrics: true,
        fabric: true,
    };

    fn asked() -> Clients {
        let limits = Limits::default();
        Clients {
            strangers: limits.strangers,
            caps: limits.caps,
        }
    }

    #[test]
    fn descriptor_caps_fit_the_limit_and_one_user_gets_half() {
        for files in [160, 256, 1024, 4096, 65_536, 1 << 20, usize::MAX] {
            for fabric in [true, false] {
                let needs = Needs { fabric, ..NEEDS };
                let (given, warning) = needs.share_out(files, asked()).unwrap();
                let caps = given.caps;
                let pairs = if fabric { caps.queue_pairs } else { 0 };
                let most = needs.reserve()
                    + given.strangers
                    + caps.sessions
                    + caps.open_files
                    + QUEUE_PAIR * pairs;
                assert!(most <= files, "{files}: {given:?}");
                for (own, all) in [
                    (caps.sessions_per_user, caps.sessions),
                    (caps.open_files_per_user, caps.open_files),
                ] {
                    assert!(0 < own && own <= all.div_ceil(2), "{files}: {given:?}");
                }
                assert_eq!(warning.is_some(), files < 65_536, "{files}: {warning:?}");
            }
        }
    }

    #[test]
    fn too_low_a_descriptor_limit_names_the_required_one() {
        let error = NEEDS.share_out(100, asked()).unwrap_err();
        let needed = (NEEDS.reserve() + LEAST).to_string();
        assert!(error.contains("100") && error.contains(&needed), "{error}");
    }
}
