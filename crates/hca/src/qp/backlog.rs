//! Queue of the first multicast datagrams to a process without a channel. They wait, in order,
//! while the channel is made, because posting must not wait for a peer that may be stopped.

use crate::process::channel_requests::ConnectStatus;
use crate::qp::ring_message::{Datagram, Route};
use crate::roce::adapter::QueuePair;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use verbena_hca_shm::registry::Identity;

/// Most datagrams that wait for one process; more are dropped, as by a congested fabric.
const MOST: usize = 1024;
/// How long the destruction of a queue pair waits for its datagrams to be sent.
const GRACE: Duration = Duration::from_secs(1);

/// A copy of a datagram: its queue pair's buffers may change once it is posted.
pub(crate) struct WaitingDatagram<Q> {
    pub queue_pair: Arc<Q>,
    pub datagram: Datagram,
    pub route: Route,
    pub grh: Option<[u8; 40]>,
    pub bytes: Vec<u8>,
}

type ByProcess<Q> = HashMap<Identity, VecDeque<WaitingDatagram<Q>>>;

/// Datagrams that wait for a channel, by destination process.
pub struct Backlog<Q> {
    waiting: Mutex<ByProcess<Q>>,
    sent: Condvar,
}

impl<Q> Default for Backlog<Q> {
    fn default() -> Backlog<Q> {
        Backlog {
            waiting: Mutex::default(),
            sent: Condvar::new(),
        }
    }
}

impl<Q: QueuePair> Backlog<Q> {
    fn lock(&self) -> MutexGuard<'_, ByProcess<Q>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether datagrams wait for `identity`; later ones must then wait behind them.
    pub(super) fn wait_for(&self, identity: Identity) -> bool {
        self.lock().contains_key(&identity)
    }

    /// Keeps `datagram` until there is a channel to `identity`, which `connect` requests.
    pub(super) fn push(
        &self,
        identity: Identity,
        datagram: WaitingDatagram<Q>,
        connect: impl FnOnce() -> ConnectStatus,
    ) {
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
        if connect() != ConnectStatus::UnderWay {
            self.end_wait(identity, drop);
        }
    }

    /// Passes the datagrams that wait for `identity` to `send`; without a channel, this drops them,
    /// as a fabric would.
    pub(crate) fn end_wait(&self, identity: Identity, send: impl Fn(WaitingDatagram<Q>)) {
        while let Some(datagram) = self.next(identity) {
            send(datagram);
        }
        self.sent.notify_all();
    }

    /// Takes the next datagram for `identity`. After the last one, the queue is removed.
    fn next(&self, identity: Identity) -> Option<WaitingDatagram<Q>> {
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
        let of_it = |waiting: &mut ByProcess<Q>| {
            let mut datagrams = waiting.values().flatten();
            datagrams.any(|datagram| datagram.queue_pair.number() == number)
        };
        let waiting = self.lock();
        let _ = self.sent.wait_timeout_while(waiting, GRACE, of_it);
    }
}
