//! Connections to the hub that have not yet been authenticated. They use no thread each and cannot
//! block other processes: they are read as data arrive, their number is limited, and the oldest is
//! dropped first.

use super::handshake::{Handshake, HandshakeState, Secret};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::VecDeque;
use std::net::TcpListener;
use std::time::Duration;

/// Limit of unauthenticated connections. A process sends its whole handshake at once.
const MOST_PENDING: usize = 128;
/// Connections accepted before all are read again.
const AT_ONCE: usize = MOST_PENDING / 4;
/// Time limit of a handshake.
const TIMEOUT: Duration = Duration::from_secs(5);

/// The connections, oldest first.
#[derive(Default)]
pub(super) struct PendingConnections {
    handshakes: VecDeque<Handshake>,
}

/// An authenticated process of the job.
pub(super) struct AuthenticatedProcess {
    pub(super) rank: usize,
    pub(super) handshake: Handshake,
}

impl PendingConnections {
    /// Sleeps until a connection or data arrive, at most `limit`.
    pub(super) fn wait(&self, listener: &TcpListener, limit: Duration) {
        let mut watched = vec![PollFd::new(listener, PollFlags::IN)];
        let handshakes = self.handshakes.iter();
        watched.extend(handshakes.map(|one| PollFd::new(one, PollFlags::IN)));
        let limit = Timespec {
            tv_sec: limit.as_secs() as i64,
            tv_nsec: limit.subsec_nanos().into(),
        };
        // On any return, including a signal, all connections are read.
        let _ = poll(&mut watched, Some(&limit));
    }

    /// Accepts pending connections.
    pub(super) fn admit(&mut self, listener: &TcpListener) {
        for _ in 0..AT_ONCE {
            let Ok((stream, _)) = listener.accept() else {
                return;
            };
            let Ok(handshake) = Handshake::start(stream) else {
                continue;
            };
            if self.handshakes.len() == MOST_PENDING {
                self.handshakes.pop_front();
            }
            self.handshakes.push_back(handshake);
        }
    }

    /// Reads all connections and returns the authenticated ones.
    pub(super) fn receive(&mut self, job: &str, secret: &Secret) -> Vec<AuthenticatedProcess> {
        let mut processes = Vec::new();
        for mut handshake in std::mem::take(&mut self.handshakes) {
            match handshake.receive(job, secret) {
                HandshakeState::Process { rank } => {
                    processes.push(AuthenticatedProcess { rank, handshake })
                }
                HandshakeState::NotYet if handshake.since.elapsed() < TIMEOUT => {
                    self.handshakes.push_back(handshake);
                }
                HandshakeState::NotYet | HandshakeState::Failed => {}
            }
        }
        processes
    }
}
