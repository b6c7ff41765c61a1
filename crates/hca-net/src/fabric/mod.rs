//! The fabric that the program is on (`verbena fabric`): the state of the node's ports, the ports
//! that packets reach, and the counts of its traffic.
//!
//! VERBENA_FABRIC names the directory of the node. The process that keeps the fabric decides about
//! all of it ([`verbena_fabric_protocol`]); each process of the node has its own connection to it.
//! If that process ends, the ports are down for good.

mod connection;
mod traffic;

pub use traffic::{Counted, TrafficTable};

use crate::link::{FIRST_PORT, PortChange};
use connection::Connection;
use std::collections::HashMap;
use std::os::fd::RawFd;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;
use verbena_abi::ibv_ah_attr;
use verbena_fabric_protocol::{Datagram, Destination, NodeState, PortState};
use verbena_hca_os::errno::{Errno, Result};

/// Number of a network that no packet reaches.
pub const NOWHERE: u32 = u32::MAX;
/// PortInfo's code of the active state.
const ACTIVE: u8 = 4;
const DOWN: u8 = 1;
const POLLING: u8 = 2;
/// Pause after an error that is none of the fabric.
const PAUSE: Duration = Duration::from_millis(10);

/// The fabric, as the adapter of this process sees it.
#[derive(Debug)]
pub struct Fabric {
    /// The socket of the fabric's process.
    socket: PathBuf,
    node: u32,
    now: AtomicPtr<NodeState>,
    /// All states so far, each once: callers may keep a reference to any of them.
    seen: Mutex<Vec<&'static NodeState>>,
    version: AtomicU64,
    connection: Mutex<Option<Arc<Connection>>>,
    has_ended: AtomicBool,
    /// Networks by destination, with the version of the fabric.
    networks: Mutex<HashMap<Destination, (u64, u32)>>,
}

/// Changes since the last look.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// Changes of ports.
    pub ports: Vec<(u8, PortChange)>,
    /// Whether paths or partition keys may have changed.
    pub any: bool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Fabric {
    /// Returns the fabric that the environment names; `None` if it names none.
    ///
    /// # Errors
    /// ENODEV, after a line on standard error, if the fabric has ended or the node has no adapter.
    pub fn of_environment() -> Result<Option<Fabric>> {
        let Some(place) = std::env::var_os("VERBENA_FABRIC").filter(|place| !place.is_empty())
        else {
            return Ok(None);
        };
        let place = PathBuf::from(place);
        let node = place
            .file_name()
            .and_then(|name| name.to_str()?.parse().ok());
        let (Some(node), Some(directory)) = (node, place.parent()) else {
            eprintln!(
                "verbena: VERBENA_FABRIC is `{}`; `verbena fabric up` sets it to a directory",
                place.display()
            );
            return Err(Errno(libc::ENODEV));
        };
        let socket = directory.join(verbena_fabric_protocol::SOCKET);
        let connected = Connection::open(&socket, node);
        let (connection, first) = connected.inspect_err(|error| match error {
            Errno(libc::ENODEV) => eprintln!(
                "verbena: this node of the fabric is a switch or a router, which has no adapter \
                 for programs; choose a host with `verbena fabric exec --node NAME`"
            ),
            _ => eprintln!(
                "verbena: cannot reach the fabric at {}: {error}; has it ended?",
                directory.display()
            ),
        })?;
        let version = AtomicU64::new(first.version);
        let first: &'static NodeState = Box::leak(Box::new(content(first)));
        Ok(Some(Fabric {
            socket,
            node,
            now: AtomicPtr::new(ptr::from_ref(first).cast_mut()),
            seen: Mutex::new(vec![first]),
            version,
            connection: Mutex::new(Some(Arc::new(connection))),
            has_ended: AtomicBool::new(false),
            networks: Mutex::default(),
        }))
    }

    /// Returns the present state of the node.
    #[inline]
    pub fn state(&self) -> &'static NodeState {
        // SAFETY: only references to leaked, immutable states are stored there.
        unsafe { &*self.now.load(Ordering::Acquire) }
    }

    /// Returns the present state of a port.
    #[inline]
    pub fn port(&self, port: u8) -> Option<&'static PortState> {
        let index = port.checked_sub(FIRST_PORT)?;
        self.state().ports.get(usize::from(index))
    }

    /// Returns a number that distinguishes this fabric from others of the machine: the inode of its
    /// directory; 0 once that was removed.
    pub fn number(&self) -> u64 {
        let directory = self.socket.parent().and_then(|path| path.metadata().ok());
        directory.map_or(0, |directory| directory.ino())
    }

    /// Returns the number of the node.
    pub fn node(&self) -> u32 {
        self.node
    }

    /// Returns the number of ports, which does not change.
    pub fn ports(&self) -> u8 {
        self.state().ports.len() as u8
    }

    /// Returns the version of the fabric: while it stays, so do networks of destinations.
    #[inline]
    pub fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// Returns a bit for each port that is not active, the first in the lowest.
    pub fn inactive(&self) -> u64 {
        let ports = self.state().ports.iter().zip(FIRST_PORT..);
        ports
            .filter(|(port, _)| port.state != ACTIVE)
            .fold(0, |word, (_, port)| word | crate::link::bit(port))
    }

    /// Returns the connection of this process. A child of fork(2) gets its own.
    ///
    /// # Errors
    /// ENODEV if the fabric has ended; the system's.
    fn connection(&self) -> Result<Arc<Connection>> {
        let mut connection = lock(&self.connection);
        if let Some(known) = connection
            .as_ref()
            .filter(|known| known.is_of_this_process())
        {
            return Ok(known.clone());
        }
        // The parent's: its descriptor was closed at the fork, and its memory is not mapped here.
        std::mem::forget(connection.take());
        if self.has_ended() {
            return Err(Errno(libc::ENODEV));
        }
        let (new, first) = Connection::open(&self.socket, self.node)?;
        new.keep(first);
        Ok(connection.insert(Arc::new(new)).clone())
    }

    /// Returns the descriptor of the connection, which a child of fork(2) closes.
    pub fn descriptor(&self) -> Option<RawFd> {
        let connection = lock(&self.connection);
        connection
            .as_ref()
            .map(|connection| connection.descriptor())
    }

    /// Takes over the messages of the fabric's process, without waiting, and returns the changes.
    pub fn look(&self) -> Changes {
        // Held meanwhile, so that no thread takes over an earlier message after a later one.
        let seen = lock(&self.seen);
        let received = self.connection().and_then(|connection| connection.last());
        match received {
            Ok(None) => Changes::default(),
            Ok(Some(state)) => self.take(seen, state),
            Err(error) if !is_end(error) => {
                // Of this process: it has no descriptors or no memory left, for example.
                report(format_args!("cannot read the state of the fabric: {error}"));
                std::thread::sleep(PAUSE);
                Changes::default()
            }
            Err(_) if self.has_ended.swap(true, Ordering::Relaxed) => Changes::default(),
            Err(_) => {
                *lock(&self.connection) = None;
                let mut state = self.state().clone();
                state.version = self.version().wrapping_add(1);
                for port in &mut state.ports {
                    (port.state, port.physical) = (DOWN, POLLING);
                }
                self.take(seen, state)
            }
        }
    }

    fn take(&self, mut seen: MutexGuard<'_, Vec<&'static NodeState>>, state: NodeState) -> Changes {
        let before = self.state();
        let any = self.version.swap(state.version, Ordering::AcqRel) != state.version;
        let now = content(state);
        let known = seen.iter().find(|known| ***known == now).copied();
        let now = known.unwrap_or_else(|| {
            seen.push(Box::leak(Box::new(now)));
            seen[seen.len() - 1]
        });
        self.now
            .store(ptr::from_ref(now).cast_mut(), Ordering::Release);
        let pairs = before.ports.iter().zip(&now.ports).zip(FIRST_PORT..);
        let ports = pairs.flat_map(|((before, now), port)| {
            changes_of(before, now)
                .into_iter()
                .map(move |change| (port, change))
        });
        Changes {
            ports: ports.collect(),
            any,
        }
    }

    /// Returns the management datagrams that [`Fabric::look`] has received.
    pub fn take_datagrams(&self) -> Vec<Datagram> {
        let connection = self.connection();
        connection.map_or_else(|_| Vec::new(), |connection| connection.take_datagrams())
    }

    /// Sends a management datagram, unless the fabric has ended.
    pub fn send(&self, datagram: &Datagram) {
        if let Ok(connection) = self.connection() {
            connection.send(datagram);
        }
    }

    /// Waits for a message of the fabric's process, at most this long. Returns false once there
    /// will be none.
    pub fn wait(&self, longest: Duration) -> bool {
        match self.connection() {
            Ok(connection) => {
                connection.wait(longest);
                true
            }
            Err(_) => !self.has_ended(),
        }
    }

    /// Returns the number of the network that an address vector leads to; [`NOWHERE`] if packets
    /// are lost on the way.
    pub fn towards(&self, vector: &ibv_ah_attr) -> u32 {
        self.network(vector).unwrap_or(NOWHERE)
    }

    /// Returns the number of the network that an address vector leads to ([`Fabric::towards`]), or
    /// nothing, after a line on standard error, if the fabric could not be asked now.
    pub fn network(&self, vector: &ibv_ah_attr) -> Option<u32> {
        if vector.is_global != 0 && crate::link::group(vector.grh.dgid).is_some() {
            return Some(self.state().groups);
        }
        let destination = destination(vector);
        let version = self.version();
        let known = lock(&self.networks).get(&destination).copied();
        if let Some((_, network)) = known.filter(|(of, _)| *of == version) {
            return Some(network);
        }
        let connection = match self.connection() {
            Err(_) if self.has_ended() => return Some(NOWHERE),
            other => other,
        };
        let asked = connection.and_then(|connection| connection.reach(destination));
        let reported = |error: &Errno| {
            let lid = destination.lid;
            report(format_args!("cannot ask the fabric for LID {lid}: {error}"));
        };
        let network = asked.inspect_err(reported).ok()?.unwrap_or(NOWHERE);
        lock(&self.networks).insert(destination, (version, network));
        Some(network)
    }

    /// Returns whether the process that keeps the fabric has ended.
    pub fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::Relaxed)
    }

    /// Returns the range of the traffic's counts, which a child of fork(2) must not write to.
    pub fn traffic_range(&self) -> Option<(usize, usize)> {
        let connection = lock(&self.connection);
        connection
            .as_ref()
            .map(|connection| connection.traffic().range())
    }

    /// Returns the entry in which traffic to a destination is counted; `None` if there are no more.
    pub fn counted(&self, vector: &ibv_ah_attr) -> Option<Counted> {
        let connection = self.connection().ok()?;
        TrafficTable::open(connection.traffic(), destination(vector))
    }
}

/// Receives answers to queue pair 1, which the processes of a node share.
static AGENT: OnceLock<fn(&Datagram)> = OnceLock::new();
/// The queue pair of general services.
const GENERAL_SERVICES: u32 = 1;

/// Sets the function that is called with each datagram to queue pair 1 of the node. It must not
/// block. Only the first call has an effect.
pub fn set_administration_agent(agent: fn(&Datagram)) {
    let _ = AGENT.set(agent);
}

/// Gives a datagram to that function, if it is to queue pair 1. Returns whether it is.
pub fn take_administration(datagram: &Datagram) -> bool {
    let is_to_agent = datagram.queue_pair == GENERAL_SERVICES;
    if let Some(agent) = AGENT.get().filter(|_| is_to_agent) {
        agent(datagram);
    }
    is_to_agent
}

/// Returns whether an error of a connection says that the process that keeps the fabric has ended.
fn is_end(Errno(number): Errno) -> bool {
    matches!(
        number,
        libc::ECONNRESET
            | libc::EPIPE
            | libc::ECONNREFUSED
            | libc::ENOENT
            | libc::ENODEV
            | libc::ENOTCONN
            | libc::EPROTO
    )
}

/// Prints a line on standard error, once in this process.
fn report(text: std::fmt::Arguments<'_>) {
    static WAS_REPORTED: AtomicBool = AtomicBool::new(false);
    if !WAS_REPORTED.swap(true, Ordering::Relaxed) {
        eprintln!("verbena: {text}; packets may be lost");
    }
}

/// Returns the destination of an address vector.
pub fn destination(vector: &ibv_ah_attr) -> Destination {
    Destination {
        port: vector.port_num,
        lid: vector.dlid,
    }
}

/// Returns a state without its version, so that equal ones are stored once.
fn content(state: NodeState) -> NodeState {
    NodeState {
        version: 0,
        ..state
    }
}

fn changes_of(before: &PortState, now: &PortState) -> Vec<PortChange> {
    let is_active = |port: &PortState| port.state == ACTIVE;
    let gids = |port: &PortState| (port.prefix, port.guids.clone());
    let manager = |port: &PortState| (port.sm_lid, port.sm_sl);
    let lid = |port: &PortState| (port.lid, port.lmc);
    [
        (is_active(before) && !is_active(now), PortChange::Down),
        (lid(before) != lid(now), PortChange::Lid),
        (manager(before) != manager(now), PortChange::Manager),
        (gids(before) != gids(now), PortChange::Gids),
        (before.p_keys != now.p_keys, PortChange::PKeys),
        (
            before.reregistrations != now.reregistrations,
            PortChange::Reregister,
        ),
        (!is_active(before) && is_active(now), PortChange::Active),
    ]
    .into_iter()
    .filter_map(|(is_so, change)| is_so.then_some(change))
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_change_of_a_port_is_reported() {
        let before = PortState {
            state: ACTIVE,
            ..PortState::default()
        };
        assert_eq!(changes_of(&before, &before), []);
        let now = PortState {
            state: 2,
            lid: 1,
            sm_sl: 1,
            prefix: 1,
            p_keys: vec![1],
            reregistrations: 1,
            ..PortState::default()
        };
        let all = [
            PortChange::Lid,
            PortChange::Manager,
            PortChange::Gids,
            PortChange::PKeys,
            PortChange::Reregister,
        ];
        assert_eq!(changes_of(&before, &now)[0], PortChange::Down);
        assert_eq!(changes_of(&before, &now)[1..], all);
        assert_eq!(changes_of(&now, &before)[5], PortChange::Active);
    }
}
