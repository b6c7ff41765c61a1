//! The captured side of packet capture: how a capture begins and ends, and how packets are
//! reported.

use super::Seen;
use super::ring::{self, Ring};
use crate::observed::{self, CAPTURED};
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicI32, Ordering};
use verbena_hca_memory::socket_message;
use verbena_hca_os::errno::{Errno, Result};
use verbena_hca_os::socket::{Rings, Socket};
use verbena_hca_shm::registry::{Identity, Registry};
use verbena_hca_shm::ring::Producer;
use verbena_wire::roce::Route;

/// Names the socket of a capturer of a program and its children.
const VARIABLE: &str = "VERBENA_CAPTURE";

/// Bytes of an IPv6 and a UDP header.
const MOST_HEADERS: usize = 48;
const NONE: RawFd = -1;

/// The capture of this process: by one capturer at a time, the first that asks.
#[derive(Debug)]
pub struct Capture {
    session: Mutex<Option<Session>>,
    /// The session's socket, for callers that must not wait for a lock.
    descriptor: AtomicI32,
}

#[derive(Debug)]
struct Session {
    socket: Socket,
    ring: Ring,
    producer: Producer,
}

impl Default for Capture {
    fn default() -> Capture {
        Capture {
            session: Mutex::default(),
            descriptor: AtomicI32::new(NONE),
        }
    }
}

impl Capture {
    /// Connects to a capturer: the one that this process's environment names, or else the one of
    /// the runtime directory. Normally there is none; this never blocks.
    pub fn call(&self, registry: &Registry, identity: Identity) {
        let socket = match std::env::var_os(VARIABLE) {
            Some(path) => Socket::connect(Path::new(&path)),
            None => Socket::connect(&registry.capture_socket()),
        };
        if let Ok(socket) = socket {
            let _ = self.begin(socket, identity);
        }
    }

    /// Begins a capture by the peer of `socket`.
    ///
    /// # Errors
    /// EBUSY when another capturer is attached; EPERM when the peer belongs to another user; the
    /// system's.
    pub fn begin(&self, socket: Socket, identity: Identity) -> Result<()> {
        socket.check_user()?;
        let mut session = self.session.lock().unwrap_or_else(|e| e.into_inner());
        if session.is_some() {
            return Err(Errno::EBUSY);
        }
        let (ring, file) = Ring::create()?;
        socket_message::hand_ring(&socket, identity, file.as_fd())?;
        self.descriptor
            .store(socket.as_fd().as_raw_fd(), Ordering::Release);
        *session = Some(Session {
            socket,
            ring,
            producer: Producer::default(),
        });
        observed::set(CAPTURED, true);
        Ok(())
    }

    /// Handles an event of the capturer's socket: it sends nothing, so only its end matters.
    pub fn receive(&self) {
        let mut session = self.session.lock().unwrap_or_else(|e| e.into_inner());
        let has_gone = |session: &mut Session| session.socket.take_rings() == Rings::Ended;
        if session.take_if(has_gone).is_some() {
            observed::set(CAPTURED, false);
            self.descriptor.store(NONE, Ordering::Release);
        }
    }

    /// Returns the descriptor of the socket to a capturer, if there is one. Takes no lock.
    pub fn descriptor(&self) -> Option<RawFd> {
        Some(self.descriptor.load(Ordering::Acquire)).filter(|fd| *fd != NONE)
    }

    pub(super) fn record_packet(&self, seen: Seen, time: u64, route: &Route, data: &[u8]) {
        let mut session = self.session.lock().unwrap_or_else(|e| e.into_inner());
        if let Some(Session { ring, producer, .. }) = &mut *session {
            let mut headers = [0; MOST_HEADERS];
            let pushed = route.emit(data.len(), &mut headers).is_ok_and(|length| {
                let headers = &headers[..length];
                let frame = headers.len() + data.len();
                let pushed = producer.push(ring, ring::emit(seen, time), frame, |to| {
                    // SAFETY: the ring gave space for headers and data.
                    unsafe {
                        to.copy_from_nonoverlapping(headers.as_ptr(), headers.len());
                        to.add(headers.len())
                            .copy_from_nonoverlapping(data.as_ptr(), data.len());
                    }
                });
                pushed.is_some()
            });
            if !pushed {
                ring.lost().fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}
