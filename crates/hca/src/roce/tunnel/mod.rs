//! Tunnels: what goes to adapters like this one where UDP does not pass, or where addresses are translated on the way.
//!
//! The contract: a packet that comes through a tunnel is the packet that would have come by UDP, byte for byte, from and to the
//! addresses that the tunnel's ends have told each other, its ICRC computed and checked over these; and it is served alike. It
//! may be lost like one. Nobody else's packets are affected: strangers are sent nothing but an attempt to connect to TCP port 4791.
//!
//! - [`frame`]: what is said through a tunnel.
//! - [`line`]: one that is open.
//! - [`trial`]: whether packets pass by UDP.
//! - [`far`]: what is known of the way to an address.
//! - `thread`: makes tunnels, and takes what comes through them.
//!
//! A tunnel leads from a process to a process. Who listens at the TCP port of the same number as the UDP port is, as there, all
//! processes of the user; whoever takes a connection that is for another slot hands it to the process that has that slot, under an
//! abstract name in the network namespace.
//!
//! When: a tunnel is sought when a reliable connection's first requests are not answered at all, when messages of
//! management are not, and before the first datagram or unreliable connection to an address. Who finds one of us there tries
//! whether UDP passes in its own direction; so does the other end in its. Each sends through the tunnel what does not, tries
//! again now and then, and when both are content with UDP the tunnel ends.
//!
//! Who is believed: a connection made to an address is to who has it, as far as the network is to be believed. Who connects from
//! another address than he says he has is behind a translator, and is believed where UDP is not known to reach that address, and
//! nobody else speaks for it from elsewhere. What is sent to him goes through the tunnel without a trial.

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

/// Names whether there are tunnels at all: `off` for no.
pub const VARIABLE: &str = "VERBENA_TUNNELS";
/// Ways that are remembered, if there are no tunnels on them.
const MOST_WAYS: usize = 4096;

/// Whether there are tunnels, as the environment says; read once.
///
/// # Errors
/// EINVAL for another word than `on` and `off`; a line on standard error says so.
pub fn chosen() -> Result<bool> {
    static CHOSEN: OnceLock<Result<bool>> = OnceLock::new();
    *CHOSEN.get_or_init(|| match std::env::var(VARIABLE).as_deref() {
        Err(_) | Ok("" | "on") => Ok(true),
        Ok("off") => Ok(false),
        Ok(other) => {
            eprintln!("verbena: {VARIABLE} is {other:?}; say on or off");
            Err(Errno::EINVAL)
        }
    })
}

/// A tunnel that somebody wants.
pub(super) struct Order {
    far: Arc<Far>,
    berth: Berth,
    sender: Arc<Sender>,
}

/// Tunnels that are wanted, and the ways that there are.
#[derive(Debug)]
pub(super) struct Orders {
    doorbell: Arc<Doorbell>,
    wanted: Mutex<Vec<Order>>,
    fars: Mutex<HashMap<(Ipv6Addr, Ipv6Addr), Arc<Far>>>,
    /// All connections, for who asks by UDP, and for who forks.
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

/// The tunnels of a process.
#[derive(Debug)]
pub struct Tunnels {
    orders: Arc<Orders>,
    has_thread: AtomicBool,
    /// Where connections for our slot are handed to us, once we have one.
    handed: OnceLock<Socket>,
}

impl Tunnels {
    /// None yet.
    ///
    /// # Errors
    /// The system's, when it has no descriptors left.
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

    /// The way from an address of ours to one of another host.
    pub fn far(&self, local: Ipv6Addr, remote: Ipv6Addr) -> Arc<Far> {
        self.orders.far_of(local, remote)
    }

    /// Is handed connections for a slot from now on.
    pub(super) fn take_slot(&self, residence: Residence, slot: u32) {
        if chosen() == Ok(true)
            && let Ok(socket) = Socket::listen_abstract(&name(residence, slot))
        {
            let _ = self.handed.set(socket);
            // The thread may be there already, and wait for what it knew.
            self.orders.doorbell.ring();
        }
    }

    /// Where connections for our slot are handed to us.
    pub fn handed(&self) -> Option<&Socket> {
        self.handed.get()
    }

    /// Whether the thread that sees to tunnels runs, and watches their descriptors.
    pub fn has_thread(&self) -> bool {
        self.has_thread.load(Ordering::Acquire)
    }

    /// Another host has asked by UDP. It is told so, through the tunnel that it names.
    pub(super) fn asked(&self, token: Token) {
        let lines = locked(&self.orders.lines);
        if let Some(line) = lines.iter().find(|line| line.own_token == token) {
            // Lost if there is no room: who asks will ask again.
            let _ = line.send(&Frame::Seen);
        }
    }

    /// How many hosts are reached through tunnels.
    pub fn hosts(&self) -> Vec<Ipv6Addr> {
        let fars = locked(&self.orders.fars);
        let tunnelled = fars.values().filter(|far| far.is_tunnelled());
        tunnelled.map(|far| far.remote).collect()
    }

    /// All descriptors that a forked child must not keep.
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
    /// Finds out how packets get from a path's address to a queue pair's host, if that is not known; waits for it, but not
    /// for long.
    pub(crate) fn acquaint(self: &Arc<Process>, path: &Path, number: Qpn) {
        self.look_for_tunnel(path, far::berth_of_queue_pair(number));
        if let Some(far) = path.far() {
            far.wait_until_known();
        }
    }

    /// Nobody answers on a path: has it found out whether UDP passes. Waits for nothing.
    pub(crate) fn look_for_tunnel(self: &Arc<Process>, path: &Path, berth: Berth) {
        if let (Some(far), Some(port)) = (path.far(), self.roce.get())
            && far.inquire(berth, path.sender())
        {
            thread::begin(self, &port.tunnels);
        }
    }

    /// Somebody calls, who wants a tunnel.
    pub(crate) fn take_tunnel_callers(self: &Arc<Process>) {
        if let Some(port) = self.roce.get() {
            thread::begin(self, &port.tunnels);
        }
    }
}

/// The name in the network namespace under which the process that has a slot is handed connections.
fn name(residence: Residence, slot: u32) -> Vec<u8> {
    format!("verbena-roce-{}-{}-tunnel-{slot}", user(), residence.port()).into_bytes()
}

/// What listens for tunnels at the port of a residence, if anything can.
pub(super) fn listen(residence: Residence) -> Option<Tcp> {
    match chosen() {
        Ok(true) => Tcp::listen(residence.port()).ok(),
        _ => None,
    }
}

const _: () = assert!(SLOTS <= 256, "a greeting has a byte for a slot");
