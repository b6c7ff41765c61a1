//! Connections to the process that keeps a fabric.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, recv, send,
    socket_with,
};

use crate::protocol::{Hello, SOCKET};

/// Connects with the process that keeps the fabric in a directory. The connection is closed on
/// exec.
///
/// # Errors
///
/// Fails if there is no such process, or it refuses the purpose.
pub fn connect(directory: &Path, hello: Hello) -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
    let address = SocketAddrUnix::new(directory.join(SOCKET))?;
    rustix::net::connect(&socket, &address)?;
    send(&socket, &hello.bytes(), SendFlags::NOSIGNAL)?;
    let mut number = [0; 4];
    let (length, _) = recv(&socket, &mut number, RecvFlags::empty())?;
    match i32::from_ne_bytes(number) {
        0 if length == number.len() => Ok(socket),
        _ if length != number.len() => Err(io::ErrorKind::ConnectionReset.into()),
        number => Err(io::Error::from_raw_os_error(number)),
    }
}
