//! TCP sockets for the TCP fallback (tcp(7)). No call waits for the peer, except
//! [`Tcp::wait_for_room`], which has a timeout.

use super::inet;
use super::udp::{Address, SocketName};
use crate::errno::{Errno, Result};
use std::io::IoSlice;
use std::mem;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// One end of a connection, a connection being made, or a listener.
#[derive(Debug)]
pub struct Tcp {
    fd: OwnedFd,
}

/// Kernel buffer size for each direction in bytes: twice a queue pair's window.
const BUFFER: libc::c_int = 2 << 20;
/// Connections that may wait to be accepted.
const BACKLOG: libc::c_int = 128;

impl Tcp {
    fn new(family: libc::c_int) -> Result<Tcp> {
        inet::open(family, libc::SOCK_STREAM).map(Tcp::of)
    }

    /// Wraps a socket that was handed over.
    pub fn of(fd: OwnedFd) -> Tcp {
        Tcp { fd }
    }

    /// Listens at a port of all addresses, of IPv4 and IPv6, or of IPv4 alone where the system has
    /// no IPv6.
    ///
    /// # Errors
    /// EADDRINUSE when another socket listens there; the system's.
    pub fn listen(port: u16) -> Result<Tcp> {
        let any = |ip| Address { ip, port, scope: 0 };
        match Tcp::listen_at(libc::AF_INET6, any(Ipv6Addr::UNSPECIFIED)) {
            Err(Errno(libc::EAFNOSUPPORT)) => {
                let any = any(Ipv4Addr::UNSPECIFIED.to_ipv6_mapped());
                Tcp::listen_at(libc::AF_INET, any)
            }
            answer => answer,
        }
    }

    fn listen_at(family: libc::c_int, at: Address) -> Result<Tcp> {
        let socket = Tcp::new(family)?;
        if family == libc::AF_INET6 {
            socket.set(libc::IPPROTO_IPV6, libc::IPV6_V6ONLY, 0)?;
        }
        // Connections of the port's previous owner may still be closing.
        socket.set(libc::SOL_SOCKET, libc::SO_REUSEADDR, 1)?;
        inet::bind(&socket.fd, at)?;
        // SAFETY: the call takes no pointers.
        match unsafe { libc::listen(socket.fd.as_raw_fd(), BACKLOG) } {
            0 => Ok(socket),
            _ => Err(Errno::last()),
        }
    }

    /// Begins to connect from a local address. When the socket becomes writable, [`Tcp::outcome`]
    /// returns the result.
    ///
    /// # Errors
    /// Those known at once: EADDRNOTAVAIL, ENETUNREACH, ECONNREFUSED from this host itself...
    pub fn connect(from: Ipv6Addr, to: Address) -> Result<Tcp> {
        let family = match to.ip.to_ipv4_mapped() {
            Some(_) => libc::AF_INET,
            None => libc::AF_INET6,
        };
        let socket = Tcp::new(family)?;
        socket.prepare()?;
        let local = |ip| Address {
            ip,
            port: 0,
            scope: 0,
        };
        inet::bind(&socket.fd, local(from))?;
        let name = SocketName::of(to);
        // SAFETY: `name` holds a socket address of the length that it says.
        let answer = unsafe { libc::connect(socket.fd.as_raw_fd(), name.pointer(), name.length) };
        match answer {
            0 => Ok(socket),
            _ => match Errno::last() {
                Errno(libc::EINPROGRESS) => Ok(socket),
                error => Err(error),
            },
        }
    }

    /// Returns the result of connecting.
    ///
    /// # Errors
    /// The network's.
    pub fn outcome(&self) -> Result<()> {
        let mut error: libc::c_int = 0;
        let mut length = mem::size_of_val(&error) as libc::socklen_t;
        // SAFETY: `error` is writable for `length` bytes.
        let answer = unsafe {
            libc::getsockopt(
                self.fd.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_ERROR,
                (&raw mut error).cast(),
                &mut length,
            )
        };
        match (answer, error) {
            (0, 0) => Ok(()),
            (0, error) => Err(Errno(error)),
            _ => Err(Errno::last()),
        }
    }

    /// Accepts the next connection of a listener.
    ///
    /// # Errors
    /// EAGAIN when there is none; the system's, when it has no descriptors or memory left.
    pub fn accept(&self) -> Result<Tcp> {
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
        let taken = Tcp::of(unsafe { OwnedFd::from_raw_fd(fd) });
        taken.prepare()?;
        Ok(taken)
    }

    /// Returns the peer's address.
    ///
    /// # Errors
    /// ENOTCONN when the connection has ended.
    pub fn peer(&self) -> Result<Address> {
        // SAFETY: an all-zero sockaddr_storage is valid.
        let mut storage: libc::sockaddr_storage = unsafe { mem::zeroed() };
        let mut length = mem::size_of_val(&storage) as libc::socklen_t;
        // SAFETY: `storage` is writable for `length` bytes.
        let answer = unsafe {
            libc::getpeername(self.fd.as_raw_fd(), (&raw mut storage).cast(), &mut length)
        };
        match SocketName::read(&storage) {
            Some(address) if answer == 0 => Ok(address),
            _ => Err(Errno::last()),
        }
    }

    /// Returns the local port.
    ///
    /// # Errors
    /// The system's.
    pub fn port(&self) -> Result<u16> {
        inet::port(&self.fd)
    }

    /// Sets the options of a connection: messages leave at once, buffers are large, and a peer that
    /// has vanished is detected after half a minute of silence or ten seconds without an
    /// acknowledgement.
    fn prepare(&self) -> Result<()> {
        const SILENCE_S: libc::c_int = 15;
        const BETWEEN_S: libc::c_int = 5;
        const TIMES: libc::c_int = 3;
        const UNACKNOWLEDGED_MS: libc::c_int = 10_000;
        self.set(libc::SOL_SOCKET, libc::SO_KEEPALIVE, 1)?;
        self.set(libc::IPPROTO_TCP, libc::TCP_KEEPIDLE, SILENCE_S)?;
        self.set(libc::IPPROTO_TCP, libc::TCP_KEEPINTVL, BETWEEN_S)?;
        self.set(libc::IPPROTO_TCP, libc::TCP_KEEPCNT, TIMES)?;
        self.set(libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT, UNACKNOWLEDGED_MS)?;
        self.set(libc::IPPROTO_TCP, libc::TCP_NODELAY, 1)?;
        self.set(libc::SOL_SOCKET, libc::SO_SNDBUF, BUFFER)?;
        self.set(libc::SOL_SOCKET, libc::SO_RCVBUF, BUFFER)
    }

    fn set(&self, level: libc::c_int, option: libc::c_int, value: libc::c_int) -> Result<()> {
        inet::set(&self.fd, level, option, value)
    }

    /// Reads the bytes that have arrived; 0 at the end of the stream.
    ///
    /// # Errors
    /// EAGAIN when none have; the network's.
    pub fn read(&self, into: &mut [u8]) -> Result<usize> {
        // SAFETY: `into` is writable for its length.
        let count = unsafe {
            libc::recv(
                self.fd.as_raw_fd(),
                into.as_mut_ptr().cast(),
                into.len(),
                libc::MSG_DONTWAIT,
            )
        };
        usize::try_from(count).map_err(|_| Errno::last())
    }

    /// Writes as many bytes of `parts`, one after another, as the kernel has space for. Returns
    /// their number.
    ///
    /// # Errors
    /// EAGAIN when it has no space; the network's.
    pub fn write(&self, parts: &[IoSlice<'_>]) -> Result<usize> {
        // SAFETY: an all-zero msghdr is valid.
        let mut message: libc::msghdr = unsafe { mem::zeroed() };
        // IoSlice has the layout of iovec, as its documentation guarantees; sendmsg does not write
        // to it.
        message.msg_iov = parts.as_ptr().cast_mut().cast();
        message.msg_iovlen = parts.len() as _;
        let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
        // SAFETY: `message` points to live buffers of the stated lengths.
        let count = unsafe { libc::sendmsg(self.fd.as_raw_fd(), &message, flags) };
        usize::try_from(count).map_err(|_| Errno::last())
    }

    /// Waits until there is space to write, `milliseconds` at most.
    pub fn wait_for_room(&self, milliseconds: i32) {
        let mut wanted = libc::pollfd {
            fd: self.fd.as_raw_fd(),
            events: libc::POLLOUT,
            revents: 0,
        };
        // SAFETY: `wanted` is one valid pollfd.
        unsafe { libc::poll(&mut wanted, 1, milliseconds) };
    }

    /// Shuts the connection down in both directions, also for other holders of its descriptor.
    pub fn end(&self) {
        // SAFETY: the call takes no pointers; on an unconnected socket it fails without effect.
        unsafe { libc::shutdown(self.fd.as_raw_fd(), libc::SHUT_RDWR) };
    }
}

impl AsFd for Tcp {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn here(port: u16) -> Address {
        let ip = Ipv4Addr::LOCALHOST.to_ipv6_mapped();
        Address { ip, port, scope: 0 }
    }

    fn wait_for(mut ready: impl FnMut() -> bool) {
        while !ready() {
            std::thread::yield_now();
        }
    }

    #[test]
    fn tcp_carries_bytes_both_ways_and_reports_the_end() {
        let listener = Tcp::listen(0).unwrap();
        let calling = Tcp::connect(here(0).ip, here(listener.port().unwrap())).unwrap();
        let mut taken = None;
        wait_for(|| {
            taken = listener.accept().ok();
            taken.is_some()
        });
        let taken = taken.unwrap();
        calling.wait_for_room(1000);
        calling.outcome().unwrap();
        assert_eq!(taken.peer().unwrap().ip, here(0).ip);
        assert_eq!(taken.read(&mut [0; 8]), Err(Errno::EAGAIN));
        let parts = [IoSlice::new(b"two "), IoSlice::new(b"parts")];
        assert_eq!(calling.write(&parts), Ok(9));
        let mut bytes = [0; 16];
        wait_for(|| taken.read(&mut bytes) == Ok(9));
        assert_eq!(&bytes[..9], b"two parts");
        taken.end();
        wait_for(|| calling.read(&mut bytes) == Ok(0));
    }

    #[test]
    fn write_without_room_is_refused() {
        let listener = Tcp::listen(0).unwrap();
        let calling = Tcp::connect(here(0).ip, here(listener.port().unwrap())).unwrap();
        calling.wait_for_room(1000);
        let block = [7; 1 << 16];
        let error = std::iter::repeat_with(|| calling.write(&[IoSlice::new(&block)]))
            .find_map(|answer| answer.err());
        assert_eq!(error, Some(Errno::EAGAIN));
    }

    #[test]
    fn connection_to_a_closed_port_is_refused() {
        let port = Tcp::listen(0).unwrap().port().unwrap();
        let refused = Tcp::connect(here(0).ip, here(port)).and_then(|calling| {
            calling.wait_for_room(1000);
            calling.outcome()
        });
        assert_eq!(refused, Err(Errno(libc::ECONNREFUSED)));
    }
}
