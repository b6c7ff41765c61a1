//! Who has connected to the hub and not yet proved to be a process of its job. Strangers cost no thread and keep nobody out:
//! they are heard as they speak, few at a time, and the longest there leaves first.

use super::greeting::{Known, Secret, Visitor};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::VecDeque;
use std::net::TcpListener;
use std::time::Duration;

/// Visitors at a time. A process says all that it has to say at once.
const ROOM: usize = 128;
/// Those let in before all are heard again.
const AT_ONCE: usize = ROOM / 4;
/// How long a visitor may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// Visitors, the longest there first.
#[derive(Default)]
pub(super) struct Doorway {
    visitors: VecDeque<Visitor>,
}

/// A process of the job.
pub(super) struct Arrival {
    pub(super) rank: usize,
    pub(super) visitor: Visitor,
}

impl Doorway {
    /// Sleeps until somebody connects or speaks, and no longer than `limit`.
    pub(super) fn wait(&self, listener: &TcpListener, limit: Duration) {
        let mut watched = vec![PollFd::new(listener, PollFlags::IN)];
        let visitors = self.visitors.iter();
        watched.extend(visitors.map(|one| PollFd::new(one, PollFlags::IN)));
        let limit = Timespec {
            tv_sec: limit.as_secs() as i64,
            tv_nsec: limit.subsec_nanos().into(),
        };
        // Whatever ends it, a signal too, all are heard.
        let _ = poll(&mut watched, Some(&limit));
    }

    /// Takes those that have connected.
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

    /// Hears all of them, and gives those that are processes of the job.
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
