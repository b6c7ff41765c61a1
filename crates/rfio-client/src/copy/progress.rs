//! Counters for the progress of a copy.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};

use crate::address::Address;
use crate::connection::MultiplexedConnection;

/// Counters of a running copy, which other threads may read.
#[derive(Debug, Default)]
pub struct Progress {
    expected: AtomicU64,
    moved: AtomicU64,
    /// Bytes transferred that count as arrived.
    arrived: AtomicU64,
    kept: AtomicU64,
    files: AtomicU64,
    left: AtomicU64,
    left_out: AtomicU64,
    retries: AtomicU64,
    /// Servers with which there was a session.
    reached: Mutex<HashSet<Address>>,
    streamed: AtomicBool,
    by_rdma: AtomicBool,
}

/// The route that data took.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// In requests and replies, over TCP or a Unix socket.
    Stream,
    /// By RDMA, through verbs.
    Verbs,
}

impl Transport {
    /// Returns the route of a session's data.
    pub fn of(session: &MultiplexedConnection) -> Self {
        match session.uses_fabric() {
            true => Self::Verbs,
            false => Self::Stream,
        }
    }
}

/// The counters at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Report {
    /// Bytes that the copy will have at the end, as far as known.
    pub expected: u64,
    /// Bytes transferred.
    pub moved: u64,
    /// Bytes that were correct already.
    pub kept: u64,
    /// Complete files.
    pub files: u64,
    /// Existing files that were left as they are.
    pub left: u64,
    /// FIFOs, sockets and devices, which are not copied.
    pub left_out: u64,
    /// Retries after lost connections.
    pub retries: u64,
    /// Routes that data took, in the order of [`Transport`].
    pub routes: [bool; 2],
}

impl Progress {
    /// Adds expected bytes.
    pub fn expect(&self, bytes: u64) {
        self.expected.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Adds bytes that were transferred and count as arrived.
    pub fn moved(&self, bytes: u64) {
        self.sent(bytes);
        self.arrived(bytes);
    }

    /// Adds bytes that were transferred; whether they arrive is not known yet.
    pub(super) fn sent(&self, bytes: u64) {
        self.moved.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Marks bytes counted by [`Progress::sent`] as arrived.
    pub(super) fn arrived(&self, bytes: u64) {
        self.arrived.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Adds bytes that were correct already.
    pub fn kept(&self, bytes: u64) {
        self.kept.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Counts a complete file.
    pub fn file(&self) {
        self.files.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts an existing file that is left as it is.
    pub fn left(&self) {
        self.left.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a FIFO, socket or device that is not copied.
    pub fn left_out(&self) {
        self.left_out.fetch_add(1, Ordering::Relaxed);
    }

    /// Subtracts expected and correct bytes that another attempt will count again.
    pub(super) fn subtract(&self, expected: u64, kept: u64) {
        self.expected.fetch_sub(expected, Ordering::Relaxed);
        self.kept.fetch_sub(kept, Ordering::Relaxed);
    }

    /// Returns a number that grows with all progress.
    pub(super) fn done(&self) -> u64 {
        let counts = [&self.arrived, &self.files];
        counts
            .map(|count| count.load(Ordering::Relaxed))
            .iter()
            .sum()
    }

    /// Counts a retry after a lost connection.
    pub(super) fn count_retry(&self) {
        self.retries.fetch_add(1, Ordering::Relaxed);
    }

    /// Records a session with a server.
    pub(super) fn reached(&self, address: &Address) {
        let mut reached = self.servers();
        if !reached.contains(address) {
            reached.insert(address.clone());
        }
    }

    /// Returns whether there was a session with this server, or with any server.
    pub(super) fn has_reached(&self, address: Option<&Address>) -> bool {
        let reached = self.servers();
        address.map_or(!reached.is_empty(), |address| reached.contains(address))
    }

    fn servers(&self) -> MutexGuard<'_, HashSet<Address>> {
        self.reached
            .lock()
            .unwrap_or_else(|poison| poison.into_inner())
    }

    /// Returns whether data was transferred by RDMA.
    pub(super) fn has_gone_by_rdma(&self) -> bool {
        self.by_rdma.load(Ordering::Relaxed)
    }

    /// Records the route of data.
    pub fn record_transport(&self, route: Transport) {
        match route {
            Transport::Stream => &self.streamed,
            Transport::Verbs => &self.by_rdma,
        }
        .store(true, Ordering::Relaxed);
    }

    /// Returns the current counters.
    pub fn report(&self) -> Report {
        Report {
            expected: self.expected.load(Ordering::Relaxed),
            moved: self.moved.load(Ordering::Relaxed),
            kept: self.kept.load(Ordering::Relaxed),
            files: self.files.load(Ordering::Relaxed),
            left: self.left.load(Ordering::Relaxed),
            left_out: self.left_out.load(Ordering::Relaxed),
            retries: self.retries.load(Ordering::Relaxed),
            routes: [
                self.streamed.load(Ordering::Relaxed),
                self.by_rdma.load(Ordering::Relaxed),
            ],
        }
    }
}
