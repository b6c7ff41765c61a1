//! TCP fallback: carries packets between Verbena adapters where UDP does not pass or a NAT rewrites
//! addresses.
//!
//! Invariant: a packet received over TCP is byte for byte the packet that would have arrived by
//! UDP, between the addresses that the two ends declared in their handshake. Its ICRC is computed
//! and checked over these addresses, it is served as a UDP packet would be, and it may be lost like
//! one. Other traffic is unaffected: other adapters see only an attempt to connect to TCP port
//! 4791.
//!
//! - [`frame`]: the frame format.
//! - [`connection`]: an open connection.
//! - [`udp_probe`]: probes whether UDP passes.
//! - [`reachability`]: reachability of a remote address.
//! - [`thread`]: the thread that connects, accepts and receives.
//!
//! A connection links two processes. All processes of a user listen at the TCP port with the number
//! of their UDP port, as they do at the UDP port itself; a process that accepts a connection for
//! another slot passes it to the process with that slot, through an abstract socket in the network
//! namespace.
//!
//! Connecting starts when the first requests of a reliable connection or management messages are
//! not answered at all, and before the first datagram or unreliable connection to an address. Each
//! end then probes whether UDP passes in its own direction. It sends over TCP if UDP does not pass,
//! probes again at intervals, and the connection closes when UDP passes both ways.
//!
//! Trust: a connection made to an address is taken to reach its owner, as far as the network can be
//! trusted. A peer that connects from an address other than the one it declares is behind a NAT. It
//! is accepted if UDP is not known to reach the declared address and no other peer holds a
//! connection for it from elsewhere. Packets to it go over TCP without a probe.

pub mod connection;
pub mod frame;
pub mod reachability;
pub mod thread;
pub mod udp_probe;

use self::connection::Connection;
use self::frame::{Frame, Token};
use self::reachability::{Reachability, SlotAddress};
use super::sender::Sender;
use super::steering::SLOTS;
use super::udp_port::UdpPort;
use std::collections::HashMap;
use std::net::Ipv6Addr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use verbena_hca_os::doorbell::Doorbell;
use verbena_hca_os::errno::{Errno, Result};
use verbena_hca_os::socket::Socket;
use verbena_hca_os::tcp::Tcp;

/// Environment variable that disables the TCP fallback: `off`; `on` or unset enables it.
pub const VARIABLE: &str = "VERBENA_TUNNELS";
/// Remote addresses without a connection that are remembered.
const MOST_DESTINATIONS: usize = 4096;

/// Returns whether the environment allows the TCP fallback; read once.
///
/// # Errors
/// EINVAL for a value other than `on` and `off`; a line on standard error reports it.
#[inline]
pub fn chosen() -> Result<bool> {
    static CHOSEN: OnceLock<Result<bool>> = OnceLock::new();
    *CHOSEN.get_or_init(|| match std::env::var(VARIABLE).as_deref() {
        Err(_) | Ok("" | "on") => Ok(true),
        Ok("off") => Ok(false),
        Ok(other) => {
            eprintln!("verbena: {VARIABLE} is {other:?}; use on or off");
            Err(Errno::EINVAL)
        }
    })
}

/// A request for a fallback connection.
pub(super) struct ConnectRequest {
    reachability: Arc<Reachability>,
    slot_address: SlotAddress,
    sender: Arc<Sender>,
}

/// Connection requests, and the known paths and connections.
#[derive(Debug)]
pub(super) struct FallbackState {
    doorbell: Arc<Doorbell>,
    wanted: Mutex<Vec<ConnectRequest>>,
    reachabilities: Mutex<HashMap<(Ipv6Addr, Ipv6Addr), Arc<Reachability>>>,
    /// All connections, for answering UDP probes and for closing them after fork.
    connections: Mutex<Vec<Arc<Connection>>>,
}

impl std::fmt::Debug for ConnectRequest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {:?}", self.reachability.remote, self.slot_address)
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl FallbackState {
    fn reachability_of(
        self: &Arc<FallbackState>,
        local: Ipv6Addr,
        remote: Ipv6Addr,
    ) -> Arc<Reachability> {
        let mut reachabilities = locked(&self.reachabilities);
        if let Some(reachability) = reachabilities.get(&(local, remote)) {
            return reachability.clone();
        }
        if reachabilities.len() >= MOST_DESTINATIONS {
            reachabilities.retain(|_, reachability| {
                Arc::strong_count(reachability) > 1 || !reachability.has_no_connection()
            });
        }
        let reachability = Arc::new(Reachability::new(local, remote, self.clone()));
        reachabilities.insert((local, remote), reachability.clone());
        reachability
    }

    fn give(&self, request: ConnectRequest) {
        locked(&self.wanted).push(request);
        self.doorbell.ring();
    }
}

/// The TCP fallback of a process.
#[derive(Debug)]
pub struct Fallback {
    shared: Arc<FallbackState>,
    has_thread: AtomicBool,
    /// Socket on which other processes pass us connections for our slot, once we have one.
    passed: OnceLock<Socket>,
}

impl Fallback {
    /// Creates the state, without connections.
    ///
    /// # Errors
    /// The system's error when no descriptors are left.
    pub fn new() -> Result<Fallback> {
        Ok(Fallback {
            shared: Arc::new(FallbackState {
                doorbell: Arc::new(Doorbell::new()?),
                wanted: Mutex::default(),
                reachabilities: Mutex::default(),
                connections: Mutex::default(),
            }),
            has_thread: AtomicBool::new(false),
            passed: OnceLock::new(),
        })
    }

    /// Returns the path from a local to a remote address.
    pub fn reachability(&self, local: Ipv6Addr, remote: Ipv6Addr) -> Arc<Reachability> {
        self.shared.reachability_of(local, remote)
    }

    /// Starts accepting connections that other processes pass us for a slot.
    pub(super) fn take_slot(&self, udp_port: UdpPort, slot: u32) {
        if chosen() == Ok(true)
            && let Ok(socket) = Socket::listen_abstract(&name(udp_port, slot))
        {
            let _ = self.passed.set(socket);
            // The thread may be waiting already, on descriptors that do not include this one.
            self.shared.doorbell.ring();
        }
    }

    /// Returns the socket on which connections for our slot are passed to us.
    pub fn passed(&self) -> Option<&Socket> {
        self.passed.get()
    }

    /// Returns whether the fallback thread runs and watches the descriptors.
    #[inline]
    pub fn has_thread(&self) -> bool {
        self.has_thread.load(Ordering::Acquire)
    }

    /// Reports a peer's UDP probe over the connection that its token names.
    pub(super) fn note_probe(&self, token: Token) {
        let connections = locked(&self.shared.connections);
        if let Some(connection) = connections
            .iter()
            .find(|connection| connection.own_token == token)
        {
            // A report that does not fit is lost; the peer probes again.
            let _ = connection.send(&Frame::Seen);
        }
    }

    /// Returns the hosts that are reached over TCP.
    pub fn hosts(&self) -> Vec<Ipv6Addr> {
        let reachabilities = locked(&self.shared.reachabilities);
        let over_tcp = reachabilities
            .values()
            .filter(|reachability| reachability.is_over_tcp());
        over_tcp.map(|reachability| reachability.remote).collect()
    }

    /// Returns all descriptors that a forked child must close.
    pub(super) fn descriptors(&self) -> Vec<RawFd> {
        let connections = locked(&self.shared.connections);
        let connections = connections.iter().map(|connection| connection.as_fd());
        let own = [self.shared.doorbell.as_fd()];
        let passed = self.passed().map(Socket::as_fd);
        let all = own.into_iter().chain(passed).chain(connections);
        all.map(|fd: BorrowedFd<'_>| fd.as_raw_fd()).collect()
    }
}

/// Returns the abstract socket name at which the process with a slot is passed connections.
fn name(udp_port: UdpPort, slot: u32) -> Vec<u8> {
    format!("verbena-roce-{}-{}-tunnel-{slot}", user(), udp_port.port()).into_bytes()
}

pub(super) fn user() -> u32 {
    // SAFETY: geteuid cannot fail and accesses no memory.
    unsafe { libc::geteuid() }
}

/// Listens for fallback connections at a port. Returns `None` if the fallback is disabled or the
/// port is taken.
pub(super) fn listen(udp_port: UdpPort) -> Option<Tcp> {
    match chosen() {
        Ok(true) => Tcp::listen(udp_port.port()).ok(),
        _ => None,
    }
}

const _: () = assert!(SLOTS <= 256, "a greeting has a byte for a slot");
