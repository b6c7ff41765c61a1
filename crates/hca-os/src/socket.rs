//! Sequenced-packet Unix sockets: they pass descriptors, carry doorbell rings and report the peer's
//! death (unix(7), SCM_RIGHTS).
//!
//! No call here waits for the peer, except [`Socket::wait_readable`], which has a timeout.

use crate::errno::{Errno, Result};
use std::ffi::OsStr;
use std::mem;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

/// Largest number of descriptors in one message: the slots of a UDP port and two listeners
/// (`roce/shared_port.rs`).
pub const MAX_DESCRIPTORS: usize = 66;

/// One end of a connection, or a listener.
#[derive(Debug)]
pub struct Socket {
    fd: OwnedFd,
}

/// A received message: its length and its descriptors.
pub struct Received {
    /// Bytes filled in the caller's buffer; 0 when the peer has closed the connection.
    pub length: usize,
    /// Descriptors that came along, at most [`MAX_DESCRIPTORS`].
    pub descriptors: Vec<OwnedFd>,
}

/// Result of [`Socket::take_rings`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rings {
    /// The peer lives; it may have rung or not.
    Taken,
    /// The peer has closed the connection.
    Ended,
}

impl Socket {
    fn new() -> Result<Socket> {
        let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        // SAFETY: the call takes no pointers; the result is checked before it is owned.
        let fd = unsafe { libc::socket(libc::AF_UNIX, kind, 0) };
        if fd < 0 {
            return Err(Errno::last());
        }
        // SAFETY: socket(2) just returned `fd`, and nothing else owns it.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        Ok(Socket { fd })
    }

    /// Listens at `path`, which must not exist.
    ///
    /// # Errors
    /// EADDRINUSE when `path` exists; ENAMETOOLONG; the system's.
    pub fn listen(path: &Path) -> Result<Socket> {
        Socket::listen_at(&address(path)?)
    }

    /// Connects to the listener at `path`.
    ///
    /// # Errors
    /// ECONNREFUSED or ENOENT when the listener's process has ended; EAGAIN when its accept queue
    /// is full; ENAMETOOLONG; the system's.
    pub fn connect(path: &Path) -> Result<Socket> {
        Socket::connect_to(&address(path)?)
    }

    /// Listens under an abstract name, which is free again when the listener's last descriptor is
    /// closed.
    ///
    /// # Errors
    /// EADDRINUSE when the name is taken in this network namespace; ENAMETOOLONG; the system's.
    pub fn listen_abstract(name: &[u8]) -> Result<Socket> {
        Socket::listen_at(&abstract_address(name)?)
    }

    /// Connects to the listener of an abstract name.
    ///
    /// # Errors
    /// As [`Socket::connect`].
    pub fn connect_abstract(name: &[u8]) -> Result<Socket> {
        Socket::connect_to(&abstract_address(name)?)
    }

    fn listen_at((address, length): &(libc::sockaddr_un, libc::socklen_t)) -> Result<Socket> {
        let socket = Socket::new()?;
        let pointer = std::ptr::from_ref(address).cast();
        // SAFETY: `address` is a sockaddr_un of which `length` bytes are filled.
        if unsafe { libc::bind(socket.fd.as_raw_fd(), pointer, *length) } != 0 {
            return Err(Errno::last());
        }
        // SAFETY: the call takes no pointers.
        if unsafe { libc::listen(socket.fd.as_raw_fd(), 512) } != 0 {
            return Err(Errno::last());
        }
        Ok(socket)
    }

    fn connect_to((address, length): &(libc::sockaddr_un, libc::socklen_t)) -> Result<Socket> {
        let socket = Socket::new()?;
        let pointer = std::ptr::from_ref(address).cast();
        // SAFETY: `address` is a sockaddr_un of which `length` bytes are filled.
        if unsafe { libc::connect(socket.fd.as_raw_fd(), pointer, *length) } != 0 {
            return Err(Errno::last());
        }
        Ok(socket)
    }

    /// Wraps a socket that was handed over.
    pub fn of(fd: OwnedFd) -> Socket {
        Socket { fd }
    }

    /// Accepts the next connection of a listener.
    ///
    /// # Errors
    /// EAGAIN when there is none; the system's.
    pub fn accept(&self) -> Result<Socket> {
        // SAFETY: the address out-parameters may be null.
        let fd = unsafe {
            libc::accept4(
                self.fd.as_raw_fd(),
                std::ptr::null_mut(),
                std::ptr::null_mut(),
                libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK,
            )
        };
        if fd < 0 {
            return Err(Errno::last());
        }
        // SAFETY: accept4 just returned `fd`, and nothing else owns it.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        Ok(Socket { fd })
    }

    /// Waits until there is something to receive, or the peer has closed the connection.
    ///
    /// # Errors
    /// EAGAIN after `timeout`; the system's.
    pub fn wait_readable(&self, timeout: Duration) -> Result<()> {
        let mut wanted = libc::pollfd {
            fd: self.fd.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        let milliseconds = i32::try_from(timeout.as_millis()).unwrap_or(i32::MAX);
        // SAFETY: `wanted` is one valid pollfd.
        match unsafe { libc::poll(&mut wanted, 1, milliseconds) } {
            0 => Err(Errno::EAGAIN),
            n if n < 0 => Err(Errno::last()),
            _ => Ok(()),
        }
    }

    /// Rings the peer's doorbell: makes its socket readable. Returns whether it is; a full buffer
    /// counts. A peer that has ended needs no ring, and no action of the peer can block or kill
    /// this process.
    #[inline]
    pub fn ring(&self) -> bool {
        let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
        // SAFETY: the pointer leads to one readable byte.
        let sent = unsafe { libc::send(self.fd.as_raw_fd(), [1u8].as_ptr().cast(), 1, flags) };
        sent == 1 || Errno::last() == Errno::EAGAIN
    }

    /// Takes the doorbell rings so far. Anything that comes with them, descriptors included, is
    /// dropped by the kernel.
    pub fn take_rings(&self) -> Rings {
        // A peer that rings without end must not keep the caller here; remaining rings keep the
        // socket readable.
        const MOST: usize = 64;
        let mut byte = [0u8; 1];
        for _ in 0..MOST {
            // SAFETY: the pointer leads to one writable byte.
            let n = unsafe {
                libc::recv(
                    self.fd.as_raw_fd(),
                    byte.as_mut_ptr().cast(),
                    byte.len(),
                    libc::MSG_DONTWAIT,
                )
            };
            match n {
                0 => return Rings::Ended,
                n if n > 0 => (),
                _ => match Errno::last() {
                    Errno(libc::EAGAIN) => return Rings::Taken,
                    Errno(libc::EINTR | libc::ENOBUFS | libc::ENOMEM) => (),
                    _ => return Rings::Ended,
                },
            }
        }
        Rings::Taken
    }

    /// Returns the peer's process id (in this PID namespace) and user id, as the kernel knows them
    /// (SO_PEERCRED).
    ///
    /// # Errors
    /// The system's.
    pub fn peer(&self) -> Result<(i32, u32)> {
        let mut credentials = libc::ucred {
            pid: 0,
            uid: 0,
            gid: 0,
        };
        let mut length = mem::size_of::<libc::ucred>() as libc::socklen_t;
        // SAFETY: `credentials` is writable and `length` says its size.
        let answer = unsafe {
            libc::getsockopt(
                self.fd.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_PEERCRED,
                (&raw mut credentials).cast(),
                &mut length,
            )
        };
        if answer != 0 {
            return Err(Errno::last());
        }
        Ok((credentials.pid, credentials.uid))
    }

    /// Checks that the peer runs as the user of this process. Permissions of a directory keep other
    /// users away from its sockets unless they were loosened; any user can bind an abstract name.
    ///
    /// # Errors
    /// EPERM for a peer of another user; the system's.
    pub fn check_user(&self) -> Result<()> {
        let (_, theirs) = self.peer()?;
        // SAFETY: geteuid cannot fail and accesses no memory.
        match theirs == unsafe { libc::geteuid() } {
            true => Ok(()),
            false => Err(Errno::EPERM),
        }
    }

    /// Sends one message with descriptors.
    ///
    /// # Errors
    /// EAGAIN when the peer has not taken earlier messages; ETOOMANYREFS when too many descriptors
    /// of this user are in flight; the system's.
    ///
    /// # Panics
    /// With more than [`MAX_DESCRIPTORS`] descriptors.
    pub fn send(&self, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) -> Result<()> {
        assert!(descriptors.len() <= MAX_DESCRIPTORS);
        let mut iov = libc::iovec {
            iov_base: bytes.as_ptr().cast_mut().cast(),
            iov_len: bytes.len(),
        };
        let mut control = Control::new();
        // SAFETY: an all-zero msghdr is valid.
        let mut message: libc::msghdr = unsafe { mem::zeroed() };
        message.msg_iov = &mut iov;
        message.msg_iovlen = 1;
        if !descriptors.is_empty() {
            let payload = mem::size_of_val(descriptors) as u32;
            message.msg_control = control.0.as_mut_ptr().cast();
            // SAFETY: CMSG_SPACE is plain arithmetic.
            message.msg_controllen = unsafe { libc::CMSG_SPACE(payload) } as _;
            // SAFETY: `control` is large enough for one header with MAX_DESCRIPTORS descriptors and
            // aligned for it.
            unsafe {
                let header = libc::CMSG_FIRSTHDR(&message);
                (*header).cmsg_level = libc::SOL_SOCKET;
                (*header).cmsg_type = libc::SCM_RIGHTS;
                (*header).cmsg_len = libc::CMSG_LEN(payload) as _;
                let data = libc::CMSG_DATA(header).cast::<libc::c_int>();
                for (index, fd) in descriptors.iter().enumerate() {
                    data.add(index).write_unaligned(fd.as_raw_fd());
                }
            }
        }
        // SAFETY: `message` points to live buffers of the stated lengths.
        let n = unsafe { libc::sendmsg(self.fd.as_raw_fd(), &message, libc::MSG_NOSIGNAL) };
        if n < 0 { Err(Errno::last()) } else { Ok(()) }
    }

    /// Receives one message.
    ///
    /// # Errors
    /// EAGAIN when there is none; EPROTO when the message is longer than `buffer` or its
    /// descriptors did not fit; the system's.
    pub fn receive(&self, buffer: &mut [u8]) -> Result<Received> {
        let mut iov = libc::iovec {
            iov_base: buffer.as_mut_ptr().cast(),
            iov_len: buffer.len(),
        };
        let mut control = Control::new();
        // SAFETY: an all-zero msghdr is valid.
        let mut message: libc::msghdr = unsafe { mem::zeroed() };
        message.msg_iov = &mut iov;
        message.msg_iovlen = 1;
        message.msg_control = control.0.as_mut_ptr().cast();
        message.msg_controllen = mem::size_of_val(&control.0) as _;
        // SAFETY: `message` points to live, writable buffers of the stated lengths.
        let n = unsafe { libc::recvmsg(self.fd.as_raw_fd(), &mut message, libc::MSG_CMSG_CLOEXEC) };
        if n < 0 {
            return Err(Errno::last());
        }
        let mut descriptors = Vec::new();
        // SAFETY: the kernel filled `control` with well-formed headers up to msg_controllen, and
        // every descriptor in an SCM_RIGHTS header now belongs to this process alone.
        unsafe {
            let mut header = libc::CMSG_FIRSTHDR(&message);
            while !header.is_null() {
                if (*header).cmsg_level == libc::SOL_SOCKET
                    && (*header).cmsg_type == libc::SCM_RIGHTS
                {
                    let bytes = (*header).cmsg_len as usize - libc::CMSG_LEN(0) as usize;
                    let data = libc::CMSG_DATA(header).cast::<libc::c_int>();
                    for index in 0..bytes / mem::size_of::<libc::c_int>() {
                        let fd = data.add(index).read_unaligned();
                        descriptors.push(OwnedFd::from_raw_fd(fd));
                    }
                }
                header = libc::CMSG_NXTHDR(&message, header);
            }
        }
        if message.msg_flags & (libc::MSG_TRUNC | libc::MSG_CTRUNC) != 0 {
            return Err(Errno::EPROTO);
        }
        Ok(Received {
            length: n as usize,
            descriptors,
        })
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

#[repr(C, align(8))]
struct Control([u8; CONTROL]);

/// Space for one header with that many descriptors.
const CONTROL: usize = 16 + MAX_DESCRIPTORS.next_multiple_of(2) * 4;

impl Control {
    fn new() -> Control {
        Control([0; CONTROL])
    }
}

fn address(path: &Path) -> Result<(libc::sockaddr_un, libc::socklen_t)> {
    let name: &OsStr = path.as_os_str();
    // SAFETY: an all-zero sockaddr_un is valid.
    let mut address: libc::sockaddr_un = unsafe { mem::zeroed() };
    address.sun_family = libc::AF_UNIX as libc::sa_family_t;
    if name.len() >= address.sun_path.len() {
        return Err(Errno(libc::ENAMETOOLONG));
    }
    for (slot, byte) in address.sun_path.iter_mut().zip(name.as_bytes()) {
        *slot = *byte as libc::c_char;
    }
    let length = mem::offset_of!(libc::sockaddr_un, sun_path) + name.len() + 1;
    Ok((address, length as libc::socklen_t))
}

/// An abstract name begins with a zero byte and is ended only by its length (unix(7)).
fn abstract_address(name: &[u8]) -> Result<(libc::sockaddr_un, libc::socklen_t)> {
    // SAFETY: an all-zero sockaddr_un is valid.
    let mut address: libc::sockaddr_un = unsafe { mem::zeroed() };
    address.sun_family = libc::AF_UNIX as libc::sa_family_t;
    let places = &mut address.sun_path[1..];
    if name.len() > places.len() {
        return Err(Errno(libc::ENAMETOOLONG));
    }
    for (slot, byte) in places.iter_mut().zip(name) {
        *slot = *byte as libc::c_char;
    }
    let length = mem::offset_of!(libc::sockaddr_un, sun_path) + 1 + name.len();
    Ok((address, length as libc::socklen_t))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(name: &str) -> (Socket, Socket) {
        let path =
            std::env::temp_dir().join(format!("verbena-socket-{}-{name}", std::process::id()));
        let listener = Socket::listen(&path).unwrap();
        let caller = Socket::connect(&path).unwrap();
        let answerer = listener.accept().unwrap();
        std::fs::remove_file(&path).unwrap();
        (caller, answerer)
    }

    #[test]
    fn peer_of_this_user_passes_the_check() {
        let (a, b) = pair("user");
        assert_eq!((a.check_user(), b.check_user()), (Ok(()), Ok(())));
    }

    #[test]
    fn endless_rings_neither_block_nor_raise_signals() {
        let (a, b) = pair("rings");
        assert_eq!(b.take_rings(), Rings::Taken);
        assert_eq!(
            b.wait_readable(Duration::ZERO).err(),
            Some(Errno::EAGAIN),
            "no ring was received"
        );
        for _ in 0..100_000 {
            a.ring();
        }
        b.wait_readable(Duration::ZERO).unwrap();
        while b.wait_readable(Duration::ZERO).is_ok() {
            assert_eq!(b.take_rings(), Rings::Taken);
        }
        a.ring();
        b.wait_readable(Duration::ZERO).unwrap();
        drop(b);
        a.ring();
        assert_eq!(a.take_rings(), Rings::Ended);
    }

    #[test]
    fn send_and_receive_never_wait_for_the_peer() {
        let (a, b) = pair("silence");
        let mut buffer = [0u8; 8];
        assert_eq!(b.receive(&mut buffer).err(), Some(Errno::EAGAIN));
        let sent = (0..1_000_000).find_map(|_| a.send(&[7; 8], &[]).err());
        assert_eq!(sent, Some(Errno::EAGAIN), "the buffer is full");
        assert_eq!(b.receive(&mut buffer).unwrap().length, 8);
    }

    #[test]
    fn full_accept_queue_refuses_without_blocking() {
        let path = std::env::temp_dir().join(format!("verbena-socket-{}-deaf", std::process::id()));
        let listener = Socket::listen(&path).unwrap();
        let mut callers = Vec::new();
        let refusal = loop {
            match Socket::connect(&path) {
                Ok(caller) => callers.push(caller),
                Err(error) => break error,
            }
        };
        assert_eq!(refusal, Errno::EAGAIN);
        drop(listener);
        std::fs::remove_file(&path).unwrap();
    }
}
