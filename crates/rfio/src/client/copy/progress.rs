//! How far a copy is.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::client::session::Session;

/// Counts while a copy runs; another thread may look.
#[derive(Debug, Default)]
pub struct Progress {
    expected: AtomicU64,
    moved: AtomicU64,
    kept: AtomicU64,
    files: AtomicU64,
    left: AtomicU64,
    left_out: AtomicU64,
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
    pub fn of(session: &Session) -> Self {
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
    /// Ways that data travelled, in the order of [`Route`].
    pub routes: [bool; 2],
}

impl Progress {
    /// More bytes are to be there.
    pub fn expect(&self, bytes: u64) {
        self.expected.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Bytes travelled.
    pub fn moved(&self, bytes: u64) {
        self.moved.fetch_add(bytes, Ordering::Relaxed);
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
            routes: [
                self.streamed.load(Ordering::Relaxed),
                self.by_rdma.load(Ordering::Relaxed),
            ],
        }
    }
}
