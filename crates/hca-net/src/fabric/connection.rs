//! The connection of a process to the process that keeps its fabric.

use super::TrafficTable;
use std::io::Read;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use verbena_fabric_protocol::{Datagram, Destination, Hello, NodeState, Purpose};
use verbena_hca_os::errno::{Errno, Result};
use verbena_hca_os::socket::Socket;

/// Time after which a process that keeps the fabric, but does not answer, counts as gone.
const TIMEOUT: Duration = Duration::from_secs(20);
/// Pause before another attempt while its queue of connections is full.
const PAUSE: Duration = Duration::from_millis(2);
/// Bytes of the longest message: a node has up to 254 ports.
const LONGEST: usize = 256 << 10;
/// Datagrams that wait to be taken over; further ones are lost.
const MOST_DATAGRAMS: usize = 4096;
/// Pause before another attempt to acknowledge a state.
const AGAIN: Duration = Duration::from_millis(100);

/// The connection.
#[derive(Debug)]
pub struct Connection {
    process: u32,
    socket: Socket,
    traffic: Arc<TrafficTable>,
    /// A state that was received and is still to be taken over.
    kept: Mutex<Option<NodeState>>,
    /// Datagrams that were received and are still to be taken over.
    datagrams: Mutex<Vec<Datagram>>,
    /// The version of a state whose acknowledgement found no space in the socket.
    unacknowledged: Mutex<Option<u64>>,
}

impl Connection {
    /// Connects, and returns the connection with the first state of the node.
    ///
    /// # Errors
    /// ENODEV if the node has no adapter; the system's.
    pub fn open(path: &Path, node: u32) -> Result<(Connection, NodeState)> {
        let (traffic, file) = TrafficTable::create()?;
        let deadline = Instant::now() + TIMEOUT;
        let socket = loop {
            match Socket::connect(path) {
                Err(Errno::EAGAIN) if Instant::now() < deadline => std::thread::sleep(PAUSE),
                other => break other?,
            }
        };
        let hello = Hello {
            purpose: Purpose::Adapter,
            is_nonblocking: true,
            index: 0,
            node,
        };
        socket.send(&hello.bytes(), &[file.as_fd()])?;
        let mut number = [0; 4];
        receive_in_time(&socket, &mut number)?;
        match i32::from_ne_bytes(number) {
            0 => {}
            number => return Err(Errno(number)),
        }
        let connection = Connection {
            process: std::process::id(),
            socket,
            traffic: Arc::new(traffic),
            kept: Mutex::default(),
            datagrams: Mutex::default(),
            unacknowledged: Mutex::default(),
        };
        let mut buffer = vec![0; LONGEST];
        let length = receive_in_time(&connection.socket, &mut buffer)?;
        let state = connection.accept(&buffer[..length])?;
        Ok((connection, state))
    }

    /// Returns whether this process has opened the connection.
    pub fn is_of_this_process(&self) -> bool {
        self.process == std::process::id()
    }

    fn kept(&self) -> MutexGuard<'_, Option<NodeState>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn unacknowledged(&self) -> MutexGuard<'_, Option<u64>> {
        let word = self.unacknowledged.lock();
        word.unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps the first state for [`Connection::last`].
    pub fn keep(&self, first: NodeState) {
        *self.kept() = Some(first);
    }

    /// Returns the counts of this process's traffic.
    pub fn traffic(&self) -> &Arc<TrafficTable> {
        &self.traffic
    }

    /// Reads a message and acknowledges it.
    fn accept(&self, message: &[u8]) -> Result<NodeState> {
        let state = NodeState::of(message).ok_or(Errno::EPROTO)?;
        *self.unacknowledged() = Some(state.version);
        self.acknowledge()?;
        Ok(state)
    }

    /// Acknowledges the last state, unless that was done or the socket has no space now.
    fn acknowledge(&self) -> Result<()> {
        let mut version = self.unacknowledged();
        if let Some(number) = *version {
            match self.socket.send(&number.to_ne_bytes(), &[]) {
                Err(Errno::EAGAIN | Errno(libc::EINTR)) => return Ok(()),
                sent => sent?,
            }
            *version = None;
        }
        Ok(())
    }

    /// Returns the last state that was received since the last call, without waiting.
    ///
    /// # Errors
    /// ECONNRESET once the process has ended.
    pub fn last(&self) -> Result<Option<NodeState>> {
        self.acknowledge()?;
        let mut buffer = vec![0; LONGEST];
        let mut last = self.kept().take();
        loop {
            match self.socket.receive(&mut buffer) {
                Ok(received) if received.length > 0 => {
                    let message = &buffer[..received.length];
                    match Datagram::of(message) {
                        Some(datagram) => self.add_datagram(datagram),
                        None => last = Some(self.accept(message)?),
                    }
                }
                Ok(_) => return Err(Errno(libc::ECONNRESET)),
                Err(Errno::EAGAIN) => return Ok(last),
                Err(Errno(libc::EINTR)) => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn add_datagram(&self, datagram: Datagram) {
        let mut all = self.datagrams();
        if all.len() < MOST_DATAGRAMS {
            all.push(datagram);
        }
    }

    fn datagrams(&self) -> MutexGuard<'_, Vec<Datagram>> {
        let all = self.datagrams.lock();
        all.unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the datagrams that [`Connection::last`] has received.
    pub fn take_datagrams(&self) -> Vec<Datagram> {
        std::mem::take(&mut *self.datagrams())
    }

    /// Sends a datagram; it is lost if the socket has no space.
    pub fn send(&self, datagram: &Datagram) {
        let _ = self.socket.send(&datagram.bytes(), &[]);
    }

    /// Returns the descriptor by whose closing the fabric's process notices this one's end.
    pub fn descriptor(&self) -> RawFd {
        self.socket.as_fd().as_raw_fd()
    }

    /// Waits for a message or the end of the process, at most this long, and not beyond the time to
    /// acknowledge the last state again.
    pub fn wait(&self, longest: Duration) {
        let timeout = match *self.unacknowledged() {
            Some(_) => AGAIN.min(longest),
            None => longest,
        };
        let _ = self.socket.wait_readable(timeout);
    }

    /// Asks for the network that a destination is in; `None` if packets to it are lost.
    ///
    /// # Errors
    /// The system's.
    pub fn reach(&self, destination: Destination) -> Result<Option<u32>> {
        let (mut own, other) = UnixStream::pair()?;
        own.set_read_timeout(Some(TIMEOUT))?;
        let descriptors: [BorrowedFd<'_>; 1] = [other.as_fd()];
        let deadline = Instant::now() + TIMEOUT;
        while let Err(error) = self.socket.send(&destination.call(), &descriptors) {
            match error {
                Errno::EAGAIN if Instant::now() < deadline => std::thread::sleep(PAUSE),
                error => return Err(error),
            }
        }
        drop(other);
        // If the process ends, so does the stream.
        let mut word = [0; 4];
        own.read_exact(&mut word)?;
        match i32::from_ne_bytes(word) {
            0 => {
                own.read_exact(&mut word)?;
                Ok(Some(u32::from_ne_bytes(word)))
            }
            libc::ENODEV => Ok(None),
            number => Err(Errno(number)),
        }
    }
}

/// Receives a message of a process that is expected to send one, and returns its length.
fn receive_in_time(socket: &Socket, buffer: &mut [u8]) -> Result<usize> {
    let deadline = Instant::now() + TIMEOUT;
    while let Err(error) = socket.wait_readable(deadline - Instant::now()) {
        if error != Errno(libc::EINTR) || Instant::now() >= deadline {
            return Err(error);
        }
    }
    match socket.receive(buffer)?.length {
        0 => Err(Errno(libc::ECONNRESET)),
        length => Ok(length),
    }
}
