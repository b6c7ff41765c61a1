//! Reachability of a remote address from a local one: whether UDP passes, and the open fallback
//! connections.

use super::connection::Connection;
use super::udp_probe::UdpVerdict;
use super::{ConnectRequest, FallbackState};
use crate::roce::fallback::frame::Envelope;
use crate::roce::sender::Sender;
use crate::roce::steering::slot_of;
use crate::roce::udp_port::UdpPort;
use std::collections::BTreeMap;
use std::net::Ipv6Addr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use verbena_hca_os::clock;
use verbena_hca_os::errno::{Errno, Result};
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
pub type SlotAddress = (UdpPort, u32);

/// How packets reach the remote address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    /// By UDP; never examined.
    Unknown,
    /// Being examined: a connection is being made, or is open (`is_connected`). Packets go by UDP
    /// until it is open, or if a UDP answer was received; otherwise over TCP, because datagrams
    /// sent by UDP in the meantime would be lost for good.
    Examined { is_connected: bool, until: u64 },
    /// By UDP, until the next examination at `until`.
    Direct { until: u64 },
    /// Over TCP.
    OverTcp,
}

#[derive(Debug)]
struct State {
    standing: Standing,
    /// Whether an answer came by UDP, or a probe passed and none has failed since.
    udp_answered: bool,
    connections: BTreeMap<SlotAddress, Arc<Connection>>,
    /// Connections requested, and when each may be requested again.
    requested: BTreeMap<SlotAddress, u64>,
}

/// The path from a local address to a remote one.
#[derive(Debug)]
pub struct Reachability {
    /// Local address.
    pub local: Ipv6Addr,
    /// Remote address.
    pub remote: Ipv6Addr,
    is_over_tcp: AtomicBool,
    state: Mutex<State>,
    known: Condvar,
    shared: Arc<FallbackState>,
}

impl Reachability {
    /// Creates a path of unknown reachability.
    pub(super) fn new(
        local: Ipv6Addr,
        remote: Ipv6Addr,
        shared: Arc<FallbackState>,
    ) -> Reachability {
        Reachability {
            local,
            remote,
            is_over_tcp: AtomicBool::new(false),
            state: Mutex::new(State {
                standing: Standing::Unknown,
                udp_answered: false,
                connections: BTreeMap::new(),
                requested: BTreeMap::new(),
            }),
            known: Condvar::new(),
            shared,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that a queue pair was answered by UDP. Its packets then stay on UDP, so that they are
    /// not reordered. Ignored while a connection is open.
    #[inline]
    pub fn note_udp_answer(&self) {
        let mut state = self.lock();
        state.udp_answered |= state.connections.is_empty();
    }

    /// Returns whether packets go over TCP.
    #[inline]
    pub fn is_over_tcp(&self) -> bool {
        self.is_over_tcp.load(Ordering::Relaxed)
    }

    /// Sends packets for one receiver over TCP. If there is no connection to it, requests one;
    /// these packets are lost.
    ///
    /// # Errors
    /// As [`Connection::send_packets`]; EAGAIN if there is no connection.
    pub fn send(&self, sender: &Arc<Sender>, envelope: Envelope, bytes: &[u8]) -> Result<()> {
        let slot_address = slot_address_of(bytes, envelope.destination_port);
        let connection = self.lock().connection(slot_address);
        match connection {
            Some(connection) => connection.send_packets(envelope, bytes),
            None => {
                self.connect(slot_address, sender);
                Err(Errno::EAGAIN)
            }
        }
    }

    /// Requests a connection, unless one was requested recently.
    fn connect(&self, slot_address: SlotAddress, sender: &Arc<Sender>) {
        let now = clock::now();
        let is_new = {
            let mut state = self.lock();
            state.requested.retain(|_, until| now < *until);
            state
                .requested
                .insert(slot_address, now + RESPITE)
                .is_none()
        };
        if is_new {
            self.shared.give(ConnectRequest {
                reachability: self.shared.reachability_of(self.local, self.remote),
                slot_address,
                sender: sender.clone(),
            });
        }
    }

    /// Starts finding out whether UDP passes, unless that is known or under way. Returns whether
    /// the caller must start the fallback thread.
    pub fn examine(&self, slot_address: SlotAddress, sender: &Arc<Sender>) -> bool {
        {
            let mut state = self.lock();
            let now = clock::now();
            match state.standing {
                Standing::Unknown => (),
                Standing::Direct { until } | Standing::Examined { until, .. } if until <= now => (),
                _ => return false,
            }
            let is_connected = !state.connections.is_empty();
            let until = now + SEARCH;
            self.set_standing(
                &mut state,
                Standing::Examined {
                    is_connected,
                    until,
                },
            );
            state.requested.remove(&slot_address);
        }
        self.connect(slot_address, sender);
        true
    }

    /// Waits until it is known how packets get there, at most `UNTIL_TRIED`.
    pub fn wait_until_known(&self) {
        let began = Instant::now();
        let mut state = self.lock();
        while let Standing::Examined { is_connected, .. } = state.standing {
            let timeout = match is_connected {
                false => UNTIL_FOUND,
                true => UNTIL_TRIED,
            };
            let Some(rest) = timeout.checked_sub(began.elapsed()) else {
                return;
            };
            let waited = self.known.wait_timeout(state, rest);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn set_standing(&self, state: &mut State, standing: Standing) {
        state.standing = standing;
        let is_over_tcp = match standing {
            Standing::OverTcp => true,
            Standing::Examined { is_connected, .. } => is_connected && !state.udp_answered,
            Standing::Unknown | Standing::Direct { .. } => false,
        };
        self.is_over_tcp.store(is_over_tcp, Ordering::Relaxed);
        self.known.notify_all();
    }

    /// Records an open connection. Returns whether UDP must be probed.
    pub(super) fn connection_opened(
        &self,
        slot_address: SlotAddress,
        connection: &Arc<Connection>,
    ) -> bool {
        let mut state = self.lock();
        state.connections.insert(slot_address, connection.clone());
        state.requested.remove(&slot_address);
        match state.standing {
            Standing::OverTcp => false,
            _ => {
                let until = clock::now() + SEARCH;
                self.set_standing(
                    &mut state,
                    Standing::Examined {
                        is_connected: true,
                        until,
                    },
                );
                true
            }
        }
    }

    /// Returns whether a peer that connects from another address may speak for this one: not if UDP
    /// is known to reach it, nor in place of a live connection from elsewhere.
    pub(super) fn may_be_translated(&self, slot_address: SlotAddress, caller: Ipv6Addr) -> bool {
        let state = self.lock();
        let is_same =
            |connection: &Arc<Connection>| connection.peer().is_ok_and(|peer| peer.ip == caller);
        !state.udp_answered
            && state
                .connections
                .get(&slot_address)
                .is_none_or(|connection| connection.is_broken() || is_same(connection))
    }

    /// Returns whether a connection to a process at this UDP port is open.
    pub fn has_connection(&self, udp_port: UdpPort) -> bool {
        self.lock().connection((udp_port, 0)).is_some()
    }

    /// Returns whether packets go by UDP, and are known to pass.
    pub(super) fn is_direct(&self) -> bool {
        let state = self.lock();
        state.udp_answered && matches!(state.standing, Standing::Direct { .. })
    }

    /// Records that no peer accepted the connection.
    pub(super) fn connection_failed(&self) {
        let mut state = self.lock();
        let believed = match state.standing {
            Standing::Examined {
                is_connected: false,
                ..
            } => BELIEVED,
            Standing::OverTcp if state.connections.is_empty() => DOUBTED,
            _ => return,
        };
        let until = clock::now() + believed;
        self.set_standing(&mut state, Standing::Direct { until });
    }

    /// Records the result of a probe. Returns whether it changes anything.
    pub(super) fn note_verdict(&self, verdict: UdpVerdict) -> bool {
        let mut state = self.lock();
        let standing = match verdict {
            UdpVerdict::Passes => Standing::Direct {
                until: clock::now() + BELIEVED,
            },
            UdpVerdict::Fails => Standing::OverTcp,
        };
        let is_new = state.standing != standing;
        state.udp_answered = verdict == UdpVerdict::Passes;
        self.set_standing(&mut state, standing);
        is_new
    }

    /// Records that a connection has closed.
    pub(super) fn connection_closed(&self, connection: &Arc<Connection>) {
        let mut state = self.lock();
        state
            .connections
            .retain(|_, one| !Arc::ptr_eq(one, connection));
        if let Standing::Examined { .. } = state.standing
            && state.connections.is_empty()
        {
            self.set_standing(&mut state, Standing::Unknown);
        }
    }

    /// Returns whether no connection is open.
    pub(super) fn has_no_connection(&self) -> bool {
        self.lock().connections.is_empty()
    }
}

impl State {
    fn connection(&self, (udp_port, slot): SlotAddress) -> Option<Arc<Connection>> {
        let connection = match slot {
            // Any process.
            0 => {
                let at_udp_port = (udp_port, 0)..=(udp_port, u32::MAX);
                self.connections
                    .range(at_udp_port)
                    .next()
                    .map(|(_, connection)| connection)
            }
            _ => self.connections.get(&(udp_port, slot)),
        };
        connection.cloned()
    }
}

/// Returns the process that packets are for. Queue pair 1 belongs to the host, so the UDP port says
/// where it is reached; for others the queue pair number does.
fn slot_address_of(packets: &[u8], port: u16) -> SlotAddress {
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
#[inline]
pub fn slot_address_of_queue_pair(number: Qpn) -> SlotAddress {
    let udp_port = UdpPort::of_number(number);
    (
        udp_port,
        (number.value() >> 8) & crate::roce::steering::SLOT_BITS,
    )
}
