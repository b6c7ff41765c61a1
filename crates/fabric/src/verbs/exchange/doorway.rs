//! Connections to the hub that have not yet been authenticated. They use no thread each and cannot
//! block other processes: they are read as data arrive, their number is limited, and the oldest is
//! dropped first.

use super::greeting::{Known, Secret, Visitor};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::VecDeque;
use std::net::TcpListener;
use std::time::Duration;

/// Limit of unauthenticated connections. A process sends its whole handshake at once.
const ROOM: usize = 128;
/// Connections accepted before all are read again.
const AT_ONCE: usize = ROOM / 4;
/// Time limit of a handshake.
const PATIENCE: Duration = Duration::from_secs(5);

/// The connections, oldest first.
#[derive(Default)]
pub(super) struct Doorway {
    visitors: VecDeque<Visitor>,
}

/// An authenticated process of the job.
pub(super) struct Arrival {
    pub(super) rank: usize,
    pub(super) visitor: Visitor,
}

impl Doorway {
    /// Sleeps until a connection or data arrive, at most `limit`.
    pub(super) fn wait(&self, listener: &TcpListener, limit: Duration) {
        let mut watched = vec![PollFd::new(listener, PollFlags::IN)];
        let visitors = self.visitors.iter();
        watched.extend(visitors.map(|one| PollFd::new(one, PollFlags::IN)));
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
            let Ok(visitor) = Visitor::greet(stream) else {
                continue;
            };
            if self.visitors.len() == ROOM {
                self.visitors.pop_front();
            }
            self.visitors.push_back(visitor);
        }
    }

    /// Reads all connections and returns the authenticated ones.
    pub(super) fn hear(&mut self, job: &str, secret: &Secret) -> Vec<Arrival> {
        let mut arrivals = Vec::new();
        for mut visitor in std::mem::take(&mut self.visitors) {
            match visitor.hear(job, secret) {
                Known::Process { rank } => arrivals.push(Arrival { rank, visitor }),
                Known::NotYet if visitor.since.elapsed() < PATIENCE => {
                    self.visitors.push_back(visitor);
                }
                Known::NotYet | Known::Stranger => {}
            }
        }
        arrivals
    }
}
