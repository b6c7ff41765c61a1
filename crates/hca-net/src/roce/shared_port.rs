//! Port 4791, shared by all processes of a user: 64 sockets, *slots*, of which each process reads
//! its own. Where another process has 4791, a private port ([`super::udp_port`]) is shared in the
//! same way.
//!
//! All slots are bound to the port (SO_REUSEPORT). A kernel filter selects by queue pair number:
//! block `b` of 256 numbers goes to slot `b mod 64` (`steering`), and a process uses only
//! numbers whose blocks map to its slot ([`super::port`]). Every process holds all slots, so their
//! order in the kernel stays the same when processes exit.
//!
//! The first process creates the slots and listens at an abstract socket, one for each port in each
//! network namespace. Later processes connect there and receive the slots and the listener itself.
//! So any remaining process keeps listening, and when the last one exits the kernel closes
//! everything without cleanup. It closes the descriptors one after another: a process that finds no
//! listener may still find slots, and waits until they are closed, too, because new slots beside
//! old ones would be in another order.

use super::fallback::{self, user};
use super::steering::{self, SLOTS};
use super::udp_port::UdpPort;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;
use verbena_hca_os::errno::{Errno, Result};
use verbena_hca_os::socket::Socket;
use verbena_hca_os::tcp::Tcp;
use verbena_hca_os::udp::{Sharing, Udp};
use verbena_hca_shm::registry;

/// Longest wait for the slots from a process that has them, far longer than a running process
/// needs.
const TIMEOUT: Duration = Duration::from_secs(2);

/// The slots of this user in this network namespace.
#[derive(Debug)]
pub struct SharedPort {
    udp_port: UdpPort,
    slots: Vec<Udp>,
    listener: Socket,
    fallback: Option<Tcp>,
}

impl SharedPort {
    /// Joins the existing slots or creates new ones; at a private port where 4791 is unavailable,
    /// with a line on standard error about cause and effect.
    ///
    /// # Errors
    /// The error of the first port that was tried: EADDRINUSE if another user has it, EBUSY if
    /// processes with another runtime directory have it, ETIMEDOUT if the processes that have it do
    /// not answer; the system's errors.
    pub fn join() -> Result<SharedPort> {
        let mut why_not = None;
        for udp_port in UdpPort::all() {
            match SharedPort::make_or_ask(udp_port) {
                Ok(shared) => {
                    if let Some(error) = why_not {
                        eprintln!("{}; {}", refusal(error), consequence(udp_port));
                    }
                    return Ok(shared);
                }
                Err(error) => {
                    why_not.get_or_insert(error);
                }
            }
        }
        let error = why_not.unwrap_or(Errno(libc::EADDRINUSE));
        eprintln!(
            "{}, nor any private port; only this host is reachable",
            refusal(error)
        );
        Err(error)
    }

    fn make_or_ask(udp_port: UdpPort) -> Result<SharedPort> {
        const ATTEMPTS: u32 = 20;
        const PAUSE: Duration = Duration::from_millis(10);
        let name = name(udp_port);
        let mut reason = Errno(libc::ETIMEDOUT);
        for _ in 0..ATTEMPTS {
            let answer = match Socket::listen_abstract(&name) {
                Ok(listener) => {
                    make(udp_port.port()).map(|slots| (listener, slots, fallback::listen(udp_port)))
                }
                Err(Errno(libc::EADDRINUSE)) => {
                    Socket::connect_abstract(&name).and_then(|socket| receive(&socket))
                }
                Err(error) => Err(error),
            };
            reason = match answer {
                // The processes that had it are exiting, or others have it.
                Err(in_use @ Errno(libc::EADDRINUSE)) => in_use,
                // The last process exited before we connected or before it answered, or too many
                // connect at once.
                Err(Errno(libc::ECONNREFUSED | libc::ECONNRESET) | Errno::EAGAIN) => {
                    Errno(libc::ETIMEDOUT)
                }
                Err(error) => return Err(error),
                Ok((listener, slots, fallback)) => {
                    // The process that created the slots may have disabled the TCP fallback.
                    let fallback = fallback.or_else(|| fallback::listen(udp_port));
                    return Ok(SharedPort {
                        udp_port,
                        slots,
                        listener,
                        fallback,
                    });
                }
            };
            std::thread::sleep(PAUSE);
        }
        Err(reason)
    }

    /// Returns the port of the slots: 4791 or a private one.
    pub fn udp_port(&self) -> UdpPort {
        self.udp_port
    }

    /// Hands the slots to all processes that have connected. Does not wait.
    pub fn serve(&self) {
        /// Connections served in one call.
        const BATCH: usize = 64;
        let accept = || self.listener.accept().ok();
        for caller in std::iter::from_fn(accept).take(BATCH) {
            if caller.check_user().is_ok() {
                let all: Vec<BorrowedFd<'_>> = self.descriptors().collect();
                let directory = registry::directory();
                // If the message does not fit, the process connects again.
                let _ = caller.send(directory.as_os_str().as_bytes(), &all);
            }
        }
    }

    /// Returns the socket of a slot.
    #[inline]
    pub fn slot(&self, slot: u32) -> Option<&Udp> {
        self.slots.get(slot as usize)
    }

    /// Returns the listener for processes that want to share the port.
    pub fn listener(&self) -> &Socket {
        &self.listener
    }

    /// Returns the listener for fallback connections, if there is one.
    pub fn fallback(&self) -> Option<&Tcp> {
        self.fallback.as_ref()
    }

    /// Returns the listener, the slots, and the listener for fallback connections.
    pub fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let slots = self.slots.iter().map(Udp::as_fd);
        let fallback = self.fallback.iter().map(Tcp::as_fd);
        std::iter::once(self.listener.as_fd())
            .chain(slots)
            .chain(fallback)
    }
}

fn make(port: u16) -> Result<Vec<Udp>> {
    let mut slots = vec![Udp::receiver(port, Sharing::SharedByUs)?];
    for _ in 1..SLOTS {
        slots.push(Udp::receiver(port, Sharing::Shared)?);
    }
    if let Some(first) = slots.first() {
        first.choose_by(&steering::program())?;
    }
    Ok(slots)
}

/// Receives the listener, the slots and the listener for fallback connections from a process that
/// has them.
fn receive(socket: &Socket) -> Result<(Socket, Vec<Udp>, Option<Tcp>)> {
    socket.check_user()?;
    socket.wait_readable(TIMEOUT).map_err(|error| match error {
        Errno::EAGAIN => Errno(libc::ETIMEDOUT),
        error => error,
    })?;
    let mut path = [0; 512];
    let received = socket.receive(&mut path)?;
    if received.length == 0 {
        return Err(Errno(libc::ECONNRESET));
    }
    if path.get(..received.length) != Some(registry::directory().as_os_str().as_bytes()) {
        return Err(Errno::EBUSY);
    }
    let mut descriptors = received.descriptors.into_iter();
    let listener = descriptors.next().map(Socket::of).ok_or(Errno::EPROTO)?;
    let slots: Vec<Udp> = descriptors
        .by_ref()
        .take(SLOTS as usize)
        .map(Udp::of)
        .collect();
    if slots.len() != SLOTS as usize {
        return Err(Errno::EPROTO);
    }
    Ok((listener, slots, descriptors.next().map(Tcp::of)))
}

/// Describes why 4791 is unavailable.
fn refusal(error: Errno) -> String {
    let reason = match error {
        Errno(libc::EADDRINUSE) => {
            "it is used by another user, or by the kernel's RoCE (`rdma link`)".into()
        }
        Errno::EBUSY => "it is used by your processes with another VERBENA_RUNTIME_DIR".into(),
        Errno(libc::ETIMEDOUT) => "it is used by a process of yours that does not answer".into(),
        error => format!("{error}"),
    };
    let port = UdpPort::PUBLIC.port();
    format!("verbena: cannot use UDP port {port}: {reason}")
}

/// Describes the effect of receiving at another port.
fn consequence(udp_port: UdpPort) -> String {
    format!(
        "using private port {}, which only Verbena on other hosts finds",
        udp_port.port()
    )
}

/// Returns the abstract socket name of the process that has the slots.
fn name(udp_port: UdpPort) -> Vec<u8> {
    let user = user();
    match udp_port {
        UdpPort::PUBLIC => format!("verbena-roce-{user}"),
        private => format!("verbena-roce-{user}-{}", private.port()),
    }
    .into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_not_created_beside_remaining_slots() {
        let left = Udp::receiver(0, Sharing::Shared).unwrap();
        let port = left.port().unwrap();
        assert_eq!(make(port).unwrap_err(), Errno(libc::EADDRINUSE));
        drop(left);
        assert_eq!(make(port).unwrap().len(), SLOTS as usize);
    }
}
