//! Who has connected to the hub and not yet proved to be a process of its job. Strangers cost no thread and keep nobody out:
//! they are heard as they speak, few at a time, and the longest there leaves first.

use super::greeting::{Known, Secret, Visitor};
use std::collections::VecDeque;
use std::net::{TcpListener, TcpStream};
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

/// A process of the job, to be welcomed.
pub(super) struct Arrival {
    pub(super) rank: usize,
    proof: Vec<u8>,
    visitor: Visitor,
}

impl Arrival {
    /// The connection, from which the process may go on.
    pub(super) fn welcome(self) -> std::io::Result<TcpStream> {
        self.visitor.welcome(&self.proof)
    }
}

impl Doorway {
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
                Known::Process { rank, proof } => arrivals.push(Arrival {
                    rank,
                    proof,
                    visitor,
                }),
                Known::NotYet if visitor.since.elapsed() < PATIENCE => {
                    self.visitors.push_back(visitor);
                }
                Known::NotYet | Known::Stranger => {}
            }
        }
        arrivals
    }
}
