//! Queue of the first multicast datagrams to a process without a channel. They wait, in order,
//! while the channel is made, because posting must not wait for a peer that may be stopped.

use crate::process::Outbound;
use crate::process::Process;
use crate::process::connect::ConnectStatus;
use crate::qp::Qp;
use crate::qp::ring_message::{Datagram, Route};
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use verbena_hca_shm::registry::Identity;

/// Most datagrams that wait for one process; more are dropped, as by a congested fabric.
const MOST: usize = 1024;
/// How long the destruction of a queue pair waits for its datagrams to be sent.
const GRACE: Duration = Duration::from_secs(1);

/// A copy of a datagram: its queue pair's buffers may change once it is posted.
pub(super) struct WaitingDatagram {
    pub queue_pair: Arc<Qp>,
    pub datagram: Datagram,
    pub route: Route,
    pub grh: Option<[u8; 40]>,
    pub bytes: Vec<u8>,
}

type ByProcess = HashMap<Identity, VecDeque<WaitingDatagram>>;

/// Datagrams that wait for a channel, by destination process.
#[derive(Default)]
pub struct Backlog {
    waiting: Mutex<ByProcess>,
    sent: Condvar,
}

impl Backlog {
    fn lock(&self) -> MutexGuard<'_, ByProcess> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether datagrams wait for `identity`; later ones must then wait behind them.
    pub(super) fn wait_for(&self, identity: Identity) -> bool {
        self.lock().contains_key(&identity)
    }

    /// Sends `datagram` to `identity` once there is a channel.
    pub(super) fn push(&self, process: &Process, identity: Identity, datagram: WaitingDatagram) {
        {
            let mut waiting = self.lock();
            if let Some(queue) = waiting.get_mut(&identity) {
                if queue.len() < MOST {
                    queue.push_back(datagram);
                }
                return;
            }
            waiting.insert(identity, VecDeque::from([datagram]));
        }
        if process.connect(identity, None) != ConnectStatus::UnderWay {
            self.end_wait(identity, None);
        }
    }

    /// Sends the datagrams that wait for `identity` through `channel`; without a channel, drops
    /// them, as a fabric would.
    pub(crate) fn end_wait(&self, identity: Identity, channel: Option<&Arc<Outbound>>) {
        while let Some(datagram) = self.next(identity) {
            let Some(channel) = channel else { continue };
            datagram.queue_pair.send_waiting(channel, &datagram);
        }
        self.sent.notify_all();
    }

    /// Takes the next datagram for `identity`. After the last one, the queue is removed.
    fn next(&self, identity: Identity) -> Option<WaitingDatagram> {
        let mut waiting = self.lock();
        let next = waiting.get_mut(&identity)?.pop_front();
        if next.is_none() {
            waiting.remove(&identity);
        }
        next
    }

    /// Waits, at most `GRACE`, until a queue pair's datagrams are sent: a program may post, see the
    /// completion and exit at once.
    pub(super) fn wait_until_sent(&self, number: u32) {
        let of_it = |waiting: &mut ByProcess| {
            let mut datagrams = waiting.values().flatten();
            datagrams.any(|datagram| datagram.queue_pair.number() == number)
        };
        let waiting = self.lock();
        let _ = self.sent.wait_timeout_while(waiting, GRACE, of_it);
    }
}
