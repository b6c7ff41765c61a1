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
//! - [`line`]: an open connection.
//! - [`trial`]: probes whether UDP passes.
//! - [`far`]: reachability of a remote address.
//! - `thread`: the thread that connects, accepts and receives.
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

pub mod far;
pub mod frame;
pub mod line;
mod thread;
pub mod trial;

use self::far::{Berth, Far};
use self::frame::{Frame, Token};
use self::line::Line;
use super::path::{Path, Sender};
use super::pool::{SLOTS, user};
use super::residence::Residence;
use crate::errno::{Errno, Result};
use crate::process::Process;
use crate::sys::doorbell::Doorbell;
use crate::sys::socket::Socket;
use crate::sys::tcp::Tcp;
use std::collections::HashMap;
use std::net::Ipv6Addr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use verbena_wire::Qpn;

/// Environment variable that disables the TCP fallback: `off`; `on` or unset enables it.
pub const VARIABLE: &str = "VERBENA_TUNNELS";
/// Remote addresses without a connection that are remembered.
const MOST_WAYS: usize = 4096;

/// Returns whether the environment allows the TCP fallback; read once.
///
/// # Errors
/// EINVAL for a value other than `on` and `off`; a line on standard error reports it.
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
pub(super) struct Order {
    far: Arc<Far>,
    berth: Berth,
    sender: Arc<Sender>,
}

/// Connection requests, and the known paths and connections.
#[derive(Debug)]
pub(super) struct Orders {
    doorbell: Arc<Doorbell>,
    wanted: Mutex<Vec<Order>>,
    fars: Mutex<HashMap<(Ipv6Addr, Ipv6Addr), Arc<Far>>>,
    /// All connections, for answering UDP probes and for closing them after fork.
    lines: Mutex<Vec<Arc<Line>>>,
}

impl std::fmt::Debug for Order {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {:?}", self.far.remote, self.berth)
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Orders {
    fn far_of(self: &Arc<Orders>, local: Ipv6Addr, remote: Ipv6Addr) -> Arc<Far> {
        let mut fars = locked(&self.fars);
        if let Some(far) = fars.get(&(local, remote)) {
            return far.clone();
        }
        if fars.len() >= MOST_WAYS {
            fars.retain(|_, far| Arc::strong_count(far) > 1 || !far.is_nothing());
        }
        let far = Arc::new(Far::new(local, remote, self.clone()));
        fars.insert((local, remote), far.clone());
        far
    }

    fn give(&self, order: Order) {
        locked(&self.wanted).push(order);
        self.doorbell.ring();
    }
}

/// The TCP fallback of a process.
#[derive(Debug)]
pub struct Tunnels {
    orders: Arc<Orders>,
    has_thread: AtomicBool,
    /// Socket on which other processes pass us connections for our slot, once we have one.
    handed: OnceLock<Socket>,
}

impl Tunnels {
    /// Creates the state, without connections.
    ///
    /// # Errors
    /// The system's error when no descriptors are left.
    pub fn new() -> Result<Tunnels> {
        Ok(Tunnels {
            orders: Arc::new(Orders {
                doorbell: Arc::new(Doorbell::new()?),
                wanted: Mutex::default(),
                fars: Mutex::default(),
                lines: Mutex::default(),
            }),
            has_thread: AtomicBool::new(false),
            handed: OnceLock::new(),
        })
    }

    /// Returns the path from a local to a remote address.
    pub fn far(&self, local: Ipv6Addr, remote: Ipv6Addr) -> Arc<Far> {
        self.orders.far_of(local, remote)
    }

    /// Starts accepting connections that other processes pass us for a slot.
    pub(super) fn take_slot(&self, residence: Residence, slot: u32) {
        if chosen() == Ok(true)
            && let Ok(socket) = Socket::listen_abstract(&name(residence, slot))
        {
            let _ = self.handed.set(socket);
            // The thread may be waiting already, on descriptors that do not include this one.
            self.orders.doorbell.ring();
        }
    }

    /// Returns the socket on which connections for our slot are passed to us.
    pub fn handed(&self) -> Option<&Socket> {
        self.handed.get()
    }

    /// Returns whether the fallback thread runs and watches the descriptors.
    pub fn has_thread(&self) -> bool {
        self.has_thread.load(Ordering::Acquire)
    }

    /// Reports a peer's UDP probe over the connection that its token names.
    pub(super) fn asked(&self, token: Token) {
        let lines = locked(&self.orders.lines);
        if let Some(line) = lines.iter().find(|line| line.own_token == token) {
            // A report that finds no room is lost; the peer probes again.
            let _ = line.send(&Frame::Seen);
        }
    }

    /// Returns the hosts that are reached over TCP.
    pub fn hosts(&self) -> Vec<Ipv6Addr> {
        let fars = locked(&self.orders.fars);
        let tunnelled = fars.values().filter(|far| far.is_tunnelled());
        tunnelled.map(|far| far.remote).collect()
    }

    /// Returns all descriptors that a forked child must close.
    pub(super) fn descriptors(&self) -> Vec<RawFd> {
        let lines = locked(&self.orders.lines);
        let lines = lines.iter().map(|line| line.as_fd());
        let own = [self.orders.doorbell.as_fd()];
        let handed = self.handed().map(Socket::as_fd);
        let all = own.into_iter().chain(handed).chain(lines);
        all.map(|fd: BorrowedFd<'_>| fd.as_raw_fd()).collect()
    }
}

impl Process {
    /// Finds out how packets get from a path's local address to a queue pair's host, if that is not
    /// known. Waits, but not for long ([`Far::wait_until_known`]).
    pub(crate) fn acquaint(self: &Arc<Process>, path: &Path, number: Qpn) {
        self.look_for_tunnel(path, far::berth_of_queue_pair(number));
        if let Some(far) = path.far() {
            far.wait_until_known();
        }
    }

    /// Starts finding out whether UDP passes on a path, because requests are not answered. Does not
    /// wait.
    pub(crate) fn look_for_tunnel(self: &Arc<Process>, path: &Path, berth: Berth) {
        if let (Some(far), Some(port)) = (path.far(), self.roce.get())
            && far.inquire(berth, path.sender())
        {
            thread::begin(self, &port.tunnels);
        }
    }

    /// Serves incoming fallback connections.
    pub(crate) fn take_tunnel_callers(self: &Arc<Process>) {
        if let Some(port) = self.roce.get() {
            thread::begin(self, &port.tunnels);
        }
    }
}

/// Returns the abstract socket name at which the process with a slot is passed connections.
fn name(residence: Residence, slot: u32) -> Vec<u8> {
    format!("verbena-roce-{}-{}-tunnel-{slot}", user(), residence.port()).into_bytes()
}

/// Listens for fallback connections at a port. Returns `None` if the fallback is disabled or the
/// port is taken.
pub(super) fn listen(residence: Residence) -> Option<Tcp> {
    match chosen() {
        Ok(true) => Tcp::listen(residence.port()).ok(),
        _ => None,
    }
}

const _: () = assert!(SLOTS <= 256, "a greeting has a byte for a slot");
