//! The settings of a copy.

use std::sync::Arc;
use std::time::Duration;

use super::failure::CopyError;
use super::filter::{ExistingFiles, Filter};
use super::rate_limit::RateLimit;
use super::sessions::SessionCount;
use crate::options::Options;
use crate::session_pool::SessionPool;

/// How to treat a partial file of an earlier attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EarlierAttempt {
    /// Start over.
    Discard,
    /// Keep its correct blocks.
    Continue,
}

/// How to verify a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verification {
    /// Verify each block as it arrives.
    Blocks,
    /// Read the written data back and compare it with the source, block by block.
    Written,
}

/// Attributes to copy in addition to data, permission bits and times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExtraAttributes {
    /// Nothing.
    None,
    /// Extended attributes of the `user` name space.
    Extended,
}

/// Settings of a copy.
#[derive(Debug, Clone)]
pub struct CopySettings {
    /// Connection options.
    pub options: Options,
    /// Sessions that one part of a copy leaves to the next.
    pub sessions: Arc<SessionPool>,
    /// How to treat an earlier attempt.
    pub earlier: EarlierAttempt,
    /// How to verify.
    pub verification: Verification,
    /// Number of sessions that share the work.
    pub session_count: SessionCount,
    /// Limit on the bytes to copy, from the beginning.
    pub most: Option<u64>,
    /// Whether data and names must be on stable storage.
    pub stable: Durability,
    /// Additional attributes to copy.
    pub extras: ExtraAttributes,
    /// How to treat existing files.
    pub existing: ExistingFiles,
    /// The part of a tree to copy.
    pub filter: Filter,
    /// Rate limit shared by all copies, if there is one.
    pub rate_limit: Option<Arc<RateLimit>>,
    /// How long to retry after a lost connection.
    pub retry: Retry,
    /// How much data is sent before its arrival is confirmed.
    pub start: ConnectionStart,
}

impl CopySettings {
    /// Settings for tests: defaults, with so many sessions and retries for so long.
    #[cfg(test)]
    pub(super) fn of_tests(session_count: usize, timeout: Duration) -> Self {
        Self {
            options: Options::plain("tester"),
            sessions: Arc::default(),
            earlier: EarlierAttempt::Discard,
            verification: Verification::Blocks,
            session_count: SessionCount::Exactly(session_count),
            most: None,
            stable: Durability::Later,
            extras: ExtraAttributes::None,
            existing: ExistingFiles::Replace,
            filter: Filter::of(Vec::new()),
            rate_limit: None,
            retry: Retry {
                timeout,
                tell: |_| {},
            },
            start: ConnectionStart::Full,
        }
    }

    /// Waits as the rate limit requires after moving `bytes`.
    pub(super) fn limit_rate(&self, bytes: u64) {
        if let Some(rate_limit) = &self.rate_limit {
            rate_limit.wait(bytes);
        }
    }
}

/// How a connection begins to move data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConnectionStart {
    /// With as much in flight as allowed.
    Full,
    /// Block by block at first, because a connection was lost before: the next one may not last
    /// long either, and data in flight at its end is lost.
    Slow,
}

/// When data is forced to stable storage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// When the system writes it.
    Later,
    /// Data before the rename, and the name before the copy ends.
    First,
}

/// Whether and for how long a copy retries.
#[derive(Debug, Clone, Copy)]
pub struct Retry {
    /// Time limit without progress; zero disables retries.
    pub timeout: Duration,
    /// Called with each loss that is retried.
    pub tell: fn(&CopyError),
}
