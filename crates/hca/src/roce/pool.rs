//! Port 4791, which all processes of a user share: 64 sockets, *slots*, of which each process reads its own.
//!
//! All are bound to the port (SO_REUSEPORT). A filter in the kernel chooses by the packet's queue pair number: what is for
//! block `b` of 256 numbers goes to slot `b mod 64` ([`super::steering`]); and a process has only numbers whose blocks are
//! of its slot ([`super::port`]). Every process holds all slots, so their order in the kernel never changes, whoever ends.
//!
//! The first process makes them and listens under an abstract name, of which there is one in each network namespace; those
//! that come later call there and are given the slots and the listener itself. So whoever is left goes on listening, and
//! when the last one ends everything is gone, and nothing has to be cleaned up. A system closes one after the other: who
//! finds no listener may still find slots, and waits until they are gone, too. New ones among them would be in another
//! order.

use super::steering;
use crate::errno::{Errno, Result};
use crate::shm::registry;
use crate::sys::socket::Socket;
use crate::sys::udp::{Sharing, Udp};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;
use verbena_wire::udp::PORT;

/// Sockets that share the port.
pub const SLOTS: u32 = 64;

/// How long one who has the slots may take to hand them on. Nobody who lives and runs takes so long.
const PATIENCE: Duration = Duration::from_secs(2);

/// The slots of this user in this network namespace.
#[derive(Debug)]
pub struct Pool {
    slots: Vec<Udp>,
    listener: Socket,
}

impl Pool {
    /// The slots: those that there are, or new ones.
    ///
    /// # Errors
    /// EADDRINUSE when somebody else has the port, EBUSY when processes with another runtime directory have it,
    /// ETIMEDOUT when those that have it do not answer; the system's. A line on standard error says more.
    pub fn join() -> Result<Pool> {
        let answer = Pool::make_or_ask();
        if let Err(error) = answer {
            let reason = match error {
                Errno(libc::EADDRINUSE) => {
                    "another user, or the kernel's own RoCE (`rdma link`), has it".into()
                }
                Errno::EBUSY => {
                    "processes of yours with another VERBENA_RUNTIME_DIR have it".into()
                }
                Errno(libc::ETIMEDOUT) => "a process of yours has it and does not answer".into(),
                error => format!("{error}"),
            };
            eprintln!(
                "verbena: UDP port {PORT} cannot be used: {reason}; only this host can be reached"
            );
        }
        answer
    }

    fn make_or_ask() -> Result<Pool> {
        const ATTEMPTS: u32 = 20;
        const PAUSE: Duration = Duration::from_millis(10);
        let mut reason = Errno(libc::ETIMEDOUT);
        for _ in 0..ATTEMPTS {
            let answer = match Socket::listen_abstract(&name()) {
                Ok(listener) => Pool::make(listener, PORT),
                Err(Errno(libc::EADDRINUSE)) => Pool::ask(),
                Err(error) => Err(error),
            };
            reason = match answer {
                // Those who had it are ending; or others have it.
                Err(in_use @ Errno(libc::EADDRINUSE)) => in_use,
                // The last one has ended, before we called or before it has heard us; or too many call at once.
                Err(Errno(libc::ECONNREFUSED | libc::ECONNRESET) | Errno::EAGAIN) => {
                    Errno(libc::ETIMEDOUT)
                }
                answer => return answer,
            };
            std::thread::sleep(PAUSE);
        }
        Err(reason)
    }

    fn make(listener: Socket, port: u16) -> Result<Pool> {
        let mut slots = vec![Udp::receiver(port, Sharing::SharedByUs)?];
        for _ in 1..SLOTS {
            slots.push(Udp::receiver(port, Sharing::Shared)?);
        }
        if let Some(first) = slots.first() {
            first.choose_by(&steering::program())?;
        }
        Ok(Pool { slots, listener })
    }

    fn ask() -> Result<Pool> {
        Pool::receive(&Socket::connect_abstract(&name())?)
    }

    fn receive(socket: &Socket) -> Result<Pool> {
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
        let slots: Vec<Udp> = descriptors.map(Udp::of).collect();
        if slots.len() != SLOTS as usize {
            return Err(Errno::EPROTO);
        }
        Ok(Pool { slots, listener })
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

    /// The listener and the slots.
    pub fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        std::iter::once(self.listener.as_fd()).chain(self.slots.iter().map(Udp::as_fd))
    }
}

/// The name in the network namespace under which who has the slots is called.
fn name() -> Vec<u8> {
    // SAFETY: geteuid cannot fail and touches nothing.
    format!("verbena-roce-{}", unsafe { libc::geteuid() }).into_bytes()
}

/// Anybody can take a name: only those of this user are believed.
fn check_user(socket: &Socket) -> Result<()> {
    let (_, user) = socket.peer()?;
    // SAFETY: as above.
    if user == unsafe { libc::geteuid() } {
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
        let name = format!("verbena-roce-test-{port}").into_bytes();
        let make = || Pool::make(Socket::listen_abstract(&name).unwrap(), port);
        assert_eq!(make().unwrap_err(), Errno(libc::EADDRINUSE));
        drop(left);
        assert_eq!(make().unwrap().slots.len(), SLOTS as usize);
    }
}
