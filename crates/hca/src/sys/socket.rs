//! Sequenced-packet Unix sockets that carry descriptors and tell of the other end's death (unix(7), SCM_RIGHTS).

use crate::errno::{Errno, Result};
use std::ffi::OsStr;
use std::mem;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

/// Most descriptors in one message.
pub const MAX_DESCRIPTORS: usize = 4;

/// One end of a connection, or a listener.
#[derive(Debug)]
pub struct Socket {
    fd: OwnedFd,
}

/// A message as received: how many bytes, and the descriptors with it.
pub struct Received {
    /// Bytes filled in the caller's buffer; 0 when the other end is gone.
    pub length: usize,
    /// Descriptors that came along, at most [`MAX_DESCRIPTORS`].
    pub descriptors: Vec<OwnedFd>,
}

impl Socket {
    fn new() -> Result<Socket> {
        // SAFETY: no pointers; the result is checked before it is owned.
        let fd =
            unsafe { libc::socket(libc::AF_UNIX, libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC, 0) };
        if fd < 0 {
            return Err(Errno::last());
        }
        // SAFETY: `fd` was just made and nobody else owns it.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        Ok(Socket { fd })
    }

    /// Listens at `path`, which must not exist.
    pub fn listen(path: &Path) -> Result<Socket> {
        let socket = Socket::new()?;
        let (address, length) = address(path)?;
        // SAFETY: `address` is a sockaddr_un of which `length` bytes are filled.
        if unsafe { libc::bind(socket.fd.as_raw_fd(), (&raw const address).cast(), length) } != 0 {
            return Err(Errno::last());
        }
        // SAFETY: plain system call.
        if unsafe { libc::listen(socket.fd.as_raw_fd(), 512) } != 0 {
            return Err(Errno::last());
        }
        Ok(socket)
    }

    /// Connects to the listener at `path`. ECONNREFUSED or ENOENT mean that its process is gone.
    pub fn connect(path: &Path) -> Result<Socket> {
        let socket = Socket::new()?;
        let (address, length) = address(path)?;
        // SAFETY: `address` is a sockaddr_un of which `length` bytes are filled.
        if unsafe { libc::connect(socket.fd.as_raw_fd(), (&raw const address).cast(), length) } != 0
        {
            return Err(Errno::last());
        }
        Ok(socket)
    }

    /// Takes the next connection of a listener.
    pub fn accept(&self) -> Result<Socket> {
        // SAFETY: the address out-parameters may be null.
        let fd = unsafe {
            libc::accept4(
                self.fd.as_raw_fd(),
                std::ptr::null_mut(),
                std::ptr::null_mut(),
                libc::SOCK_CLOEXEC,
            )
        };
        if fd < 0 {
            return Err(Errno::last());
        }
        // SAFETY: `fd` was just made and nobody else owns it.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        Ok(Socket { fd })
    }

    /// Bounds how long [`Socket::receive`] and [`Socket::send`] wait; EAGAIN after that.
    pub fn set_timeout(&self, timeout: Duration) -> Result<()> {
        let time = libc::timeval {
            tv_sec: timeout.as_secs() as libc::time_t,
            tv_usec: timeout.subsec_micros() as libc::suseconds_t,
        };
        for option in [libc::SO_RCVTIMEO, libc::SO_SNDTIMEO] {
            // SAFETY: `time` is a valid timeval for the length of the call.
            let answer = unsafe {
                libc::setsockopt(
                    self.fd.as_raw_fd(),
                    libc::SOL_SOCKET,
                    option,
                    (&raw const time).cast(),
                    mem::size_of::<libc::timeval>() as libc::socklen_t,
                )
            };
            if answer != 0 {
                return Err(Errno::last());
            }
        }
        Ok(())
    }

    /// Process id (in our namespace) and user id of the other end, as the kernel knows them (SO_PEERCRED).
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

    /// Sends one message with descriptors.
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
            message.msg_controllen = unsafe { libc::CMSG_SPACE(payload) } as usize;
            // SAFETY: `control` is large enough for one header with MAX_DESCRIPTORS descriptors and aligned for it.
            unsafe {
                let header = libc::CMSG_FIRSTHDR(&message);
                (*header).cmsg_level = libc::SOL_SOCKET;
                (*header).cmsg_type = libc::SCM_RIGHTS;
                (*header).cmsg_len = libc::CMSG_LEN(payload) as usize;
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

    /// Receives one message. A message longer than `buffer` is refused with EPROTO.
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
        message.msg_controllen = mem::size_of_val(&control.0);
        // SAFETY: `message` points to live, writable buffers of the stated lengths.
        let n = unsafe { libc::recvmsg(self.fd.as_raw_fd(), &mut message, libc::MSG_CMSG_CLOEXEC) };
        if n < 0 {
            return Err(Errno::last());
        }
        let mut descriptors = Vec::new();
        // SAFETY: the kernel filled `control` with well-formed headers up to msg_controllen, and every descriptor in
        // an SCM_RIGHTS header is now ours alone.
        unsafe {
            let mut header = libc::CMSG_FIRSTHDR(&message);
            while !header.is_null() {
                if (*header).cmsg_level == libc::SOL_SOCKET
                    && (*header).cmsg_type == libc::SCM_RIGHTS
                {
                    let bytes = (*header).cmsg_len - libc::CMSG_LEN(0) as usize;
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
struct Control([u8; 64]);

impl Control {
    fn new() -> Control {
        Control([0; 64])
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
