//! Counters by user, for a bounded number of users: labels with unbounded values make a Prometheus
//! server run out of memory.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use super::exposition::page::{MetricType, Page};
use super::metrics::{ByteCounters, Carrier, Flow};

/// User name of anonymous sessions.
pub const ANONYMOUS: &str = "anonymous";

/// The label of users without their own counters.
const OTHER: &str = "other";

/// Counters of one user since the start of the service.
#[derive(Debug, Default)]
pub struct UserCounters {
    /// Accepted sessions.
    pub sessions: AtomicU64,
    /// Of those, the established ones.
    pub open_sessions: AtomicU64,
    /// Files that were closed, or transferred whole.
    pub files: AtomicU64,
    /// Requests that were carried out or refused.
    pub requests: AtomicU64,
    /// Requests that were refused.
    pub refusals: AtomicU64,
    /// File data.
    pub moved: ByteCounters,
}

/// The first users that connected, and all others together.
#[derive(Debug)]
pub struct UserTable {
    most: usize,
    known: Mutex<HashMap<String, Arc<UserCounters>>>,
    other: Arc<UserCounters>,
}

impl Default for UserTable {
    fn default() -> Self {
        Self::at_most(100)
    }
}

impl UserTable {
    /// Creates separate counters for at most `most` users.
    pub fn at_most(most: usize) -> Self {
        Self {
            most,
            known: Mutex::default(),
            other: Arc::default(),
        }
    }

    /// Returns a user's counters. Anonymous clients count as one user, regardless of their
    /// addresses.
    pub fn of(&self, user: &str) -> Arc<UserCounters> {
        let label = match user.split_once('@') {
            Some((ANONYMOUS, _)) => ANONYMOUS,
            _ => user,
        };
        let mut known = self.known();
        if let Some(user) = known.get(label) {
            return Arc::clone(user);
        }
        if known.len() >= self.most || label == OTHER {
            return Arc::clone(&self.other);
        }
        let user = Arc::<UserCounters>::default();
        known.insert(label.to_owned(), Arc::clone(&user));
        user
    }

    fn known(&self) -> std::sync::MutexGuard<'_, HashMap<String, Arc<UserCounters>>> {
        self.known
            .lock()
            .unwrap_or_else(|poison| poison.into_inner())
    }

    /// Adds the counters to a page of metrics.
    pub fn render(&self, page: &mut Page) {
        let mut users: Vec<(String, Arc<UserCounters>)> = self
            .known()
            .iter()
            .map(|(name, user)| (name.clone(), Arc::clone(user)))
            .collect();
        users.sort_by(|one, other| one.0.cmp(&other.0));
        users.push((OTHER.to_owned(), Arc::clone(&self.other)));
        type Counter = fn(&UserCounters) -> &AtomicU64;
        let families: [(&str, MetricType, &str, Counter); 5] = [
            (
                "rfio_user_sessions_total",
                MetricType::Counter,
                "Sessions authenticated, by user.",
                |user| &user.sessions,
            ),
            (
                "rfio_user_sessions_standing",
                MetricType::Gauge,
                "Open sessions, by user.",
                |user| &user.open_sessions,
            ),
            (
                "rfio_user_files_total",
                MetricType::Counter,
                "Files closed or transferred whole, by user.",
                |user| &user.files,
            ),
            (
                "rfio_user_requests_total",
                MetricType::Counter,
                "Requests, by user.",
                |user| &user.requests,
            ),
            (
                "rfio_user_refusals_total",
                MetricType::Counter,
                "Refused requests, by user.",
                |user| &user.refusals,
            ),
        ];
        for (name, kind, help, counter) in families {
            page.family(name, kind, help);
            for (label, user) in &users {
                let value = counter(user).load(Ordering::Relaxed);
                page.sample(name, &[("user", label.as_str())], value);
            }
        }
        for (name, flow, help) in [
            (
                "rfio_user_sent_bytes_total",
                Flow::Sent,
                "File data sent, by user and transport.",
            ),
            (
                "rfio_user_received_bytes_total",
                Flow::Received,
                "File data received, by user and transport.",
            ),
        ] {
            page.family(name, MetricType::Counter, help);
            for (label, user) in &users {
                for (carrier, by) in [(Carrier::Stream, "tcp"), (Carrier::Fabric, "verbs")] {
                    let labels = [("user", label.as_str()), ("by", by)];
                    page.sample(name, &labels, user.moved.get(flow, carrier));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exposition::page::Format;

    #[test]
    fn users_beyond_the_bound_share_one_series() {
        let users = UserTable::at_most(2);
        for name in ["ann", "bob", "cy", "dan", "ann", OTHER] {
            users.of(name).requests.fetch_add(1, Ordering::Relaxed);
        }
        for address in 0..1000 {
            users.of(&format!("{ANONYMOUS}@10.0.0.{address}"));
        }
        let mut page = Page::new(Format::Prometheus);
        users.render(&mut page);
        let text = page.finish();
        for (label, value) in [("ann", 2), ("bob", 1), (OTHER, 3)] {
            let line = format!("rfio_user_requests_total{{user=\"{label}\"}} {value}\n");
            assert!(text.contains(&line), "{text}");
        }
        assert_eq!(text.matches("rfio_user_requests_total{").count(), 3);
    }

    #[test]
    fn anonymous_users_share_one_series() {
        let users = UserTable::at_most(2);
        for address in 0..1000 {
            let stranger = users.of(&format!("{ANONYMOUS}@10.0.0.{address}"));
            stranger.requests.fetch_add(1, Ordering::Relaxed);
        }
        users.of("ann").requests.fetch_add(1, Ordering::Relaxed);
        assert_eq!(users.of(ANONYMOUS).requests.load(Ordering::Relaxed), 1000);
        assert_eq!(users.of("ann").requests.load(Ordering::Relaxed), 1);
    }
}
