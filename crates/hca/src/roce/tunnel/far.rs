//! Reachability of a remote address from a local one: whether UDP passes, and the open fallback
//! connections.

use super::line::Line;
use super::trial::Verdict;
use super::{Order, Orders};
use crate::errno::{Errno, Result};
use crate::roce::path::Sender;
use crate::roce::steering::slot_of;
use crate::roce::tunnel::frame::Envelope;
use crate::roce::udp_port::UdpPort;
use crate::sys::clock;
use std::collections::BTreeMap;
use std::net::Ipv6Addr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use verbena_wire::Qpn;

/// Nanoseconds before UDP is probed again, where it passes or where no fallback connection was
/// possible.
const BELIEVED: u64 = 60_000_000_000;
/// The same, where a connection in use was lost and could not be reopened.
const DOUBTED: u64 = 1_000_000_000;
/// Nanoseconds before a failed connection is tried again.
const RESPITE: u64 = 500_000_000;
/// Nanoseconds after which a search counts as abandoned.
const SEARCH: u64 = 3_000_000_000;
/// Longest wait of a caller for a connection to the peer...
const UNTIL_FOUND: Duration = Duration::from_millis(50);
/// ...and then for the result of the UDP probe.
const UNTIL_TRIED: Duration = Duration::from_millis(400);

/// A process of a host as packets address it: UDP port and slot; slot 0 stands for any process.
pub type Berth = (UdpPort, u32);

/// How packets reach the remote address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    /// By UDP; never examined.
    Unknown,
    /// Being examined: a connection is being made, or is open (`found`). Packets go by UDP until it
    /// is open, or if a UDP answer was received; otherwise over TCP, because datagrams sent by UDP
    /// in the meantime would be lost for good.
    Sought { found: bool, until: u64 },
    /// By UDP, until the next examination at `until`.
    Direct { until: u64 },
    /// Over TCP.
    Tunnelled,
}

#[derive(Debug)]
struct State {
    standing: Standing,
    /// Whether an answer came by UDP, or a probe passed and none has failed since.
    is_heard: bool,
    lines: BTreeMap<Berth, Arc<Line>>,
    /// Connections requested, and when each may be requested again.
    sought: BTreeMap<Berth, u64>,
}

/// The path from a local address to a remote one.
#[derive(Debug)]
pub struct Far {
    /// Local address.
    pub local: Ipv6Addr,
    /// Remote address.
    pub remote: Ipv6Addr,
    is_tunnelled: AtomicBool,
    state: Mutex<State>,
    known: Condvar,
    orders: Arc<Orders>,
}

impl Far {
    /// Creates a path of unknown reachability.
    pub(super) fn new(local: Ipv6Addr, remote: Ipv6Addr, orders: Arc<Orders>) -> Far {
        Far {
            local,
            remote,
            is_tunnelled: AtomicBool::new(false),
            state: Mutex::new(State {
                standing: Standing::Unknown,
                is_heard: false,
                lines: BTreeMap::new(),
                sought: BTreeMap::new(),
            }),
            known: Condvar::new(),
            orders,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that a queue pair was answered by UDP. Its packets then stay on UDP, so that they are
    /// not reordered. Ignored while a connection is open.
    pub fn heard(&self) {
        let mut state = self.lock();
        state.is_heard |= state.lines.is_empty();
    }

    /// Returns whether packets go over TCP.
    #[inline]
    pub fn is_tunnelled(&self) -> bool {
        self.is_tunnelled.load(Ordering::Relaxed)
    }

    /// Sends packets for one receiver over TCP. If there is no connection to it, requests one;
    /// these packets are lost.
    ///
    /// # Errors
    /// As [`Line::send_packets`]; EAGAIN if there is no connection.
    pub fn send(&self, sender: &Arc<Sender>, envelope: Envelope, bytes: &[u8]) -> Result<()> {
        let berth = berth_of(bytes, envelope.destination_port);
        let line = self.lock().line(berth);
        match line {
            Some(line) => line.send_packets(envelope, bytes),
            None => {
                self.seek(berth, sender);
                Err(Errno::EAGAIN)
            }
        }
    }

    /// Requests a connection, unless one was requested recently.
    fn seek(&self, berth: Berth, sender: &Arc<Sender>) {
        let now = clock::now();
        let is_new = {
            let mut state = self.lock();
            state.sought.retain(|_, until| now < *until);
            state.sought.insert(berth, now + RESPITE).is_none()
        };
        if is_new {
            self.orders.give(Order {
                far: self.orders.far_of(self.local, self.remote),
                berth,
                sender: sender.clone(),
            });
        }
    }

    /// Starts finding out whether UDP passes, unless that is known or under way. Returns whether
    /// the caller must start the fallback thread.
    pub fn inquire(&self, berth: Berth, sender: &Arc<Sender>) -> bool {
        {
            let mut state = self.lock();
            let now = clock::now();
            match state.standing {
                Standing::Unknown => (),
                Standing::Direct { until } | Standing::Sought { until, .. } if until <= now => (),
                _ => return false,
            }
            let found = !state.lines.is_empty();
            let until = now + SEARCH;
            self.stands(&mut state, Standing::Sought { found, until });
            state.sought.remove(&berth);
        }
        self.seek(berth, sender);
        true
    }

    /// Waits until it is known how packets get there, at most `UNTIL_TRIED`.
    pub fn wait_until_known(&self) {
        let began = Instant::now();
        let mut state = self.lock();
        while let Standing::Sought { found, .. } = state.standing {
            let patience = match found {
                false => UNTIL_FOUND,
                true => UNTIL_TRIED,
            };
            let Some(rest) = patience.checked_sub(began.elapsed()) else {
                return;
            };
            let waited = self.known.wait_timeout(state, rest);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn stands(&self, state: &mut State, standing: Standing) {
        state.standing = standing;
        let is_tunnelled = match standing {
            Standing::Tunnelled => true,
            Standing::Sought { found, .. } => found && !state.is_heard,
            Standing::Unknown | Standing::Direct { .. } => false,
        };
        self.is_tunnelled.store(is_tunnelled, Ordering::Relaxed);
        self.known.notify_all();
    }

    /// Records an open connection. Returns whether UDP must be probed.
    pub(super) fn found(&self, berth: Berth, line: &Arc<Line>) -> bool {
        let mut state = self.lock();
        state.lines.insert(berth, line.clone());
        state.sought.remove(&berth);
        match state.standing {
            Standing::Tunnelled => false,
            _ => {
                let until = clock::now() + SEARCH;
                self.stands(&mut state, Standing::Sought { found: true, until });
                true
            }
        }
    }

    /// Returns whether a peer that connects from another address may speak for this one: not if UDP
    /// is known to reach it, nor in place of a live connection from elsewhere.
    pub(super) fn may_be_translated(&self, berth: Berth, caller: Ipv6Addr) -> bool {
        let state = self.lock();
        let is_same = |line: &Arc<Line>| line.peer().is_ok_and(|peer| peer.ip == caller);
        !state.is_heard
            && state
                .lines
                .get(&berth)
                .is_none_or(|line| line.is_broken() || is_same(line))
    }

    /// Returns whether a connection to a process at this UDP port is open.
    pub fn has_line(&self, udp_port: UdpPort) -> bool {
        self.lock().line((udp_port, 0)).is_some()
    }

    /// Returns whether packets go by UDP, and are known to pass.
    pub(super) fn is_direct(&self) -> bool {
        let state = self.lock();
        state.is_heard && matches!(state.standing, Standing::Direct { .. })
    }

    /// Records that no peer accepted the connection.
    pub(super) fn not_found(&self) {
        let mut state = self.lock();
        let believed = match state.standing {
            Standing::Sought { found: false, .. } => BELIEVED,
            Standing::Tunnelled if state.lines.is_empty() => DOUBTED,
            _ => return,
        };
        let until = clock::now() + believed;
        self.stands(&mut state, Standing::Direct { until });
    }

    /// Records the result of a probe. Returns whether it changes anything.
    pub(super) fn tried(&self, verdict: Verdict) -> bool {
        let mut state = self.lock();
        let standing = match verdict {
            Verdict::Passes => Standing::Direct {
                until: clock::now() + BELIEVED,
            },
            Verdict::Fails => Standing::Tunnelled,
        };
        let is_new = state.standing != standing;
        state.is_heard = verdict == Verdict::Passes;
        self.stands(&mut state, standing);
        is_new
    }

    /// Records that a connection has closed.
    pub(super) fn lost(&self, line: &Arc<Line>) {
        let mut state = self.lock();
        state.lines.retain(|_, one| !Arc::ptr_eq(one, line));
        if let Standing::Sought { .. } = state.standing
            && state.lines.is_empty()
        {
            self.stands(&mut state, Standing::Unknown);
        }
    }

    /// Returns whether no connection is open.
    pub(super) fn is_nothing(&self) -> bool {
        self.lock().lines.is_empty()
    }
}

impl State {
    fn line(&self, (udp_port, slot): Berth) -> Option<Arc<Line>> {
        let found = match slot {
            // Any process.
            0 => {
                let at_udp_port = (udp_port, 0)..=(udp_port, u32::MAX);
                self.lines.range(at_udp_port).next().map(|(_, line)| line)
            }
            _ => self.lines.get(&(udp_port, slot)),
        };
        found.cloned()
    }
}

/// Returns the process that packets are for. Queue pair 1 belongs to the host, so the UDP port says
/// where it is reached; for others the queue pair number does.
fn berth_of(packets: &[u8], port: u16) -> Berth {
    let number = packets
        .get(5..8)
        .map_or(0, |b| u32::from_be_bytes([0, b[0], b[1], b[2]]));
    let number = Qpn::new(number);
    let udp_port = match number {
        Qpn::GSI => UdpPort::of_port(port).unwrap_or(UdpPort::PUBLIC),
        number => UdpPort::of_number(number),
    };
    (udp_port, slot_of(packets))
}

/// Returns the process that has a queue pair.
pub fn berth_of_queue_pair(number: Qpn) -> Berth {
    let udp_port = UdpPort::of_number(number);
    (
        udp_port,
        (number.value() >> 8) & crate::roce::steering::SLOT_BITS,
    )
}
