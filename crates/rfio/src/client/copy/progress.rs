//! How far a copy is.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};

use crate::client::address::Address;
use crate::client::exchange::Exchange;

/// Counts while a copy runs; another thread may look.
#[derive(Debug, Default)]
pub struct Progress {
    expected: AtomicU64,
    moved: AtomicU64,
    /// Those of the bytes that travelled which are taken to have arrived.
    arrived: AtomicU64,
    kept: AtomicU64,
    files: AtomicU64,
    left: AtomicU64,
    left_out: AtomicU64,
    tried_again: AtomicU64,
    /// Servers that there was a session with.
    reached: Mutex<HashSet<Address>>,
    streamed: AtomicBool,
    by_rdma: AtomicBool,
}

/// How data travelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Route {
    /// With requests and replies, over TCP or a Unix socket.
    Stream,
    /// By RDMA, through the verbs.
    Verbs,
}

impl Route {
    /// How the data of a session travel.
    pub fn of(session: &Exchange) -> Self {
        match session.uses_fabric() {
            true => Self::Verbs,
            false => Self::Stream,
        }
    }
}

/// The counts at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Report {
    /// Bytes that are to be there in the end, as far as it is known.
    pub expected: u64,
    /// Bytes that travelled.
    pub moved: u64,
    /// Bytes that were right already.
    pub kept: u64,
    /// Files that are complete.
    pub files: u64,
    /// Files that were there and stay as they are.
    pub left: u64,
    /// FIFOs, sockets and devices, which are not copied.
    pub left_out: u64,
    /// Times that something was tried again after a lost connection.
    pub tried_again: u64,
    /// Ways that data travelled, in the order of [`Route`].
    pub routes: [bool; 2],
}

impl Progress {
    /// More bytes are to be there.
    pub fn expect(&self, bytes: u64) {
        self.expected.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Bytes travelled, and arrived as far as anybody cares.
    pub fn moved(&self, bytes: u64) {
        self.sent(bytes);
        self.arrived(bytes);
    }

    /// Bytes travelled; whether they arrive is another question.
    pub(super) fn sent(&self, bytes: u64) {
        self.moved.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Bytes that were counted as sent have arrived.
    pub(super) fn arrived(&self, bytes: u64) {
        self.arrived.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Bytes were right already.
    pub fn kept(&self, bytes: u64) {
        self.kept.fetch_add(bytes, Ordering::Relaxed);
    }

    /// A file is complete.
    pub fn file(&self) {
        self.files.fetch_add(1, Ordering::Relaxed);
    }

    /// A file was there and stays as it is.
    pub fn left(&self) {
        self.left.fetch_add(1, Ordering::Relaxed);
    }

    /// A FIFO, socket or device is not copied.
    pub fn left_out(&self) {
        self.left_out.fetch_add(1, Ordering::Relaxed);
    }

    /// So many bytes that were counted as expected, and as right already, are counted again by
    /// another attempt.
    pub(super) fn take_back(&self, expected: u64, kept: u64) {
        self.expected.fetch_sub(expected, Ordering::Relaxed);
        self.kept.fetch_sub(kept, Ordering::Relaxed);
    }

    /// A number that grows with everything that is done.
    pub(super) fn done(&self) -> u64 {
        let counts = [&self.arrived, &self.files];
        counts
            .map(|count| count.load(Ordering::Relaxed))
            .iter()
            .sum()
    }

    /// Something is tried again after a lost connection.
    pub(super) fn tried_again(&self) {
        self.tried_again.fetch_add(1, Ordering::Relaxed);
    }

    /// There is a session with a server.
    pub(super) fn reached(&self, address: &Address) {
        let mut reached = self.servers();
        if !reached.contains(address) {
            reached.insert(address.clone());
        }
    }

    /// Whether there was a session with a server, or with any.
    pub(super) fn has_reached(&self, address: Option<&Address>) -> bool {
        let reached = self.servers();
        address.map_or(!reached.is_empty(), |address| reached.contains(address))
    }

    fn servers(&self) -> MutexGuard<'_, HashSet<Address>> {
        self.reached
            .lock()
            .unwrap_or_else(|poison| poison.into_inner())
    }

    /// Whether data have travelled by RDMA.
    pub(super) fn has_gone_by_rdma(&self) -> bool {
        self.by_rdma.load(Ordering::Relaxed)
    }

    /// Data travelled this way.
    pub fn went(&self, route: Route) {
        match route {
            Route::Stream => &self.streamed,
            Route::Verbs => &self.by_rdma,
        }
        .store(true, Ordering::Relaxed);
    }

    /// The counts now.
    pub fn report(&self) -> Report {
        Report {
            expected: self.expected.load(Ordering::Relaxed),
            moved: self.moved.load(Ordering::Relaxed),
            kept: self.kept.load(Ordering::Relaxed),
            files: self.files.load(Ordering::Relaxed),
            left: self.left.load(Ordering::Relaxed),
            left_out: self.left_out.load(Ordering::Relaxed),
            tried_again: self.tried_again.load(Ordering::Relaxed),
            routes: [
                self.streamed.load(Ordering::Relaxed),
                self.by_rdma.load(Ordering::Relaxed),
            ],
        }
    }
}
