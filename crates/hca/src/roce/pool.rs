//! Port 4791, which all processes of a user share: 64 sockets, *slots*, of which each process reads its own. Where somebody
//! else has it, a port of our own ([`super::residence`]) is shared in the same way.
//!
//! All are bound to the port (SO_REUSEPORT). A filter in the kernel chooses by the packet's queue pair number: what is for
//! block `b` of 256 numbers goes to slot `b mod 64` ([`super::steering`]); and a process has only numbers whose blocks are
//! of its slot ([`super::port`]). Every process holds all slots, so their order in the kernel never changes, whoever ends.
//!
//! The first process makes them and listens under an abstract name, of which there is one for each port in each network namespace; those
//! that come later call there and are given the slots and the listener itself. So whoever is left goes on listening, and
//! when the last one ends everything is gone, and nothing has to be cleaned up. A system closes one after the other: who
//! finds no listener may still find slots, and waits until they are gone, too. New ones among them would be in another
//! order.

use super::residence::Residence;
use super::steering;
use super::tunnel;
use crate::errno::{Errno, Result};
use crate::shm::registry;
use crate::sys::socket::Socket;
use crate::sys::tcp::Tcp;
use crate::sys::udp::{Sharing, Udp};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

/// Sockets that share the port.
pub const SLOTS: u32 = 64;

/// How long one who has the slots may take to hand them on. Nobody who lives and runs takes so long.
const PATIENCE: Duration = Duration::from_secs(2);

/// The slots of this user in this network namespace.
#[derive(Debug)]
pub struct Pool {
    residence: Residence,
    slots: Vec<Udp>,
    listener: Socket,
    tunnels: Option<Tcp>,
}

impl Pool {
    /// The slots: those that there are, or new ones; of a private port where 4791 cannot be had. A line on standard error
    /// says then why not, and what follows.
    ///
    /// # Errors
    /// Of the last port that was tried: EADDRINUSE when somebody else has it, EBUSY when processes with another runtime
    /// directory have it, ETIMEDOUT when those that have it do not answer; the system's.
    pub fn join() -> Result<Pool> {
        let mut why_not = None;
        for residence in Residence::all() {
            match Pool::make_or_ask(residence) {
                Ok(pool) => {
                    if let Some(error) = why_not {
                        eprintln!("{}; {}", refusal(error), consequence(residence));
                    }
                    return Ok(pool);
                }
                Err(error) => {
                    why_not.get_or_insert(error);
                }
            }
        }
        let error = why_not.unwrap_or(Errno(libc::EADDRINUSE));
        eprintln!(
            "{}, nor any that could stand in for it; only this host can be reached",
            refusal(error)
        );
        Err(error)
    }

    fn make_or_ask(residence: Residence) -> Result<Pool> {
        const ATTEMPTS: u32 = 20;
        const PAUSE: Duration = Duration::from_millis(10);
        let name = name(residence);
        let mut reason = Errno(libc::ETIMEDOUT);
        for _ in 0..ATTEMPTS {
            let answer = match Socket::listen_abstract(&name) {
                Ok(listener) => {
                    make(residence.port()).map(|slots| (listener, slots, tunnel::listen(residence)))
                }
                Err(Errno(libc::EADDRINUSE)) => {
                    Socket::connect_abstract(&name).and_then(|socket| receive(&socket))
                }
                Err(error) => Err(error),
            };
            reason = match answer {
                // Those who had it are ending; or others have it.
                Err(in_use @ Errno(libc::EADDRINUSE)) => in_use,
                // The last one has ended, before we called or before it has heard us; or too many call at once.
                Err(Errno(libc::ECONNREFUSED | libc::ECONNRESET) | Errno::EAGAIN) => {
                    Errno(libc::ETIMEDOUT)
                }
                Err(error) => return Err(error),
                Ok((listener, slots, tunnels)) => {
                    // Who made the slots may have wanted none.
                    let tunnels = tunnels.or_else(|| tunnel::listen(residence));
                    return Ok(Pool {
                        residence,
                        slots,
                        listener,
                        tunnels,
                    });
                }
            };
            std::thread::sleep(PAUSE);
        }
        Err(reason)
    }

    /// Whose slots they are: of 4791, or of a private port.
    pub fn residence(&self) -> Residence {
        self.residence
    }

    /// Hands the slots to all who call. Waits for nobody.
    pub fn serve(&self) {
        /// Callers heard before others get their turn.
        const BATCH: usize = 64;
        let accept = || self.listener.accept().ok();
        for caller in std::iter::from_fn(accept).take(BATCH) {
            if check_user(&caller).is_ok() {
                let all: Vec<BorrowedFd<'_>> = self.descriptors().collect();
                let directory = registry::directory();
                // One that has no room for it calls again.
                let _ = caller.send(directory.as_os_str().as_bytes(), &all);
            }
        }
    }

    /// A slot's socket.
    pub fn slot(&self, slot: u32) -> Option<&Udp> {
        self.slots.get(slot as usize)
    }

    /// Where others call.
    pub fn listener(&self) -> &Socket {
        &self.listener
    }

    /// Where other hosts connect that want a tunnel, if they can.
    pub fn tunnels(&self) -> Option<&Tcp> {
        self.tunnels.as_ref()
    }

    /// The listener, the slots, and where tunnels begin.
    pub fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let slots = self.slots.iter().map(Udp::as_fd);
        let tunnels = self.tunnels.iter().map(Tcp::as_fd);
        std::iter::once(self.listener.as_fd())
            .chain(slots)
            .chain(tunnels)
    }
}

/// New slots.
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

/// The listener, the slots, and where tunnels begin, from one who has them.
fn receive(socket: &Socket) -> Result<(Socket, Vec<Udp>, Option<Tcp>)> {
    check_user(socket)?;
    socket
        .wait_readable(PATIENCE)
        .map_err(|error| match error {
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

/// Why 4791 cannot be had.
fn refusal(error: Errno) -> String {
    let reason = match error {
        Errno(libc::EADDRINUSE) => {
            "another user, or the kernel's own RoCE (`rdma link`), has it".into()
        }
        Errno::EBUSY => "processes of yours with another VERBENA_RUNTIME_DIR have it".into(),
        Errno(libc::ETIMEDOUT) => "a process of yours has it and does not answer".into(),
        error => format!("{error}"),
    };
    let port = Residence::PUBLIC.port();
    format!("verbena: UDP port {port} cannot be used: {reason}")
}

/// What that means for a process that is reached at another.
fn consequence(residence: Residence) -> String {
    format!(
        "private port {} is used, where Verbena on other hosts finds this one and no other adapter does",
        residence.port()
    )
}

/// The name in the network namespace under which who has the slots is called.
fn name(residence: Residence) -> Vec<u8> {
    let user = user();
    match residence {
        Residence::PUBLIC => format!("verbena-roce-{user}"),
        private => format!("verbena-roce-{user}-{}", private.port()),
    }
    .into_bytes()
}

/// Who we are to the kernel.
pub(super) fn user() -> u32 {
    // SAFETY: geteuid cannot fail and touches nothing.
    unsafe { libc::geteuid() }
}

/// Anybody can take a name: only those of this user are believed.
pub(super) fn check_user(socket: &Socket) -> Result<()> {
    let (_, theirs) = socket.peer()?;
    if theirs == user() {
        Ok(())
    } else {
        Err(Errno::EPERM)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_not_made_beside_some_that_are_left() {
        let left = Udp::receiver(0, Sharing::Shared).unwrap();
        let port = left.port().unwrap();
        assert_eq!(make(port).unwrap_err(), Errno(libc::EADDRINUSE));
        drop(left);
        assert_eq!(make(port).unwrap().len(), SLOTS as usize);
    }
}
