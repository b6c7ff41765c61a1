//! How the descriptors that the process may have open are shared out.
//!
//! # Invariant
//! All that clients can have open at once, with what the daemon itself needs, is no more than the
//! process may have open; and one user gets no more than half of what there is for users, so that
//! nobody is kept out by another one.

use std::io;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use verbena_rfio::server::quota::Caps;

/// The fewest descriptors for clients with which a service is of use.
const LEAST: usize = 32;

/// What the daemon has open whatever it does: standard streams, listeners, logs, the adapter, user
/// databases that are asked.
const OWN: usize = 32;
/// Of an event loop: what it waits with, and what wakes it.
const LOOP: usize = 2;
/// Of a worker, besides the file that it opens: its ring, and what it looks at on the way.
const WORKER: usize = 5;
/// Of the page of metrics: its listener, and scrapers.
const METRICS: usize = 65;
/// Of a data queue pair: its completion channel, and a socket that was a stranger's.
const QUEUE_PAIR: usize = 2;

/// What the daemon is started with.
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
    /// Whether data may travel by RDMA.
    pub fabric: bool,
}

/// Caps on what clients have open.
#[derive(Debug, Clone, Copy)]
pub struct Clients {
    /// Connections that have not proved who they are.
    pub strangers: usize,
    /// The rest.
    pub caps: Caps,
}

impl Needs {
    fn reserve(&self) -> usize {
        let metrics = if self.metrics { METRICS } else { 0 };
        OWN + LOOP * self.loops + WORKER * self.workers + self.exports + metrics
    }

    /// Shares `files` descriptors out to clients, at most as many as the options ask for. Returns a
    /// warning if a share is smaller than that.
    ///
    /// # Errors
    /// There are too few to serve a client.
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

/// Lets the process have as many files open as the system allows it; how many that is.
pub fn raise_limit() -> io::Result<usize> {
    let most = getrlimit(Resource::Nofile).maximum;
    let raised = Rlimit {
        current: most,
        maximum: most,
    };
    setrlimit(Resource::Nofile, raised)?;
    Ok(files(most))
}

/// Files that the process may have open as it is.
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
    use verbena_rfio::server::service::Limits;

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
