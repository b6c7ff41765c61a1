//! Connections to the process that keeps a fabric.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, recv, send,
    socket_with,
};

use crate::protocol::{FaultMessage, Hello, SOCKET};

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
    ask(&socket, &hello.bytes())?;
    Ok(socket)
}

/// Has the process that keeps the fabric in a directory execute a fault.
///
/// # Errors
///
/// Fails if there is no such process, or it has no such port or link.
pub fn request_fault(directory: &Path, hello: Hello, fault: FaultMessage) -> io::Result<()> {
    ask(&connect(directory, hello)?, &fault.bytes())
}

/// Sends a message and awaits the errno that answers it.
fn ask(socket: &OwnedFd, message: &[u8]) -> io::Result<()> {
    send(socket, message, SendFlags::NOSIGNAL)?;
    let mut number = [0; 4];
    let (length, _) = recv(socket, &mut number, RecvFlags::empty())?;
    match i32::from_ne_bytes(number) {
        0 if length == number.len() => Ok(()),
        _ if length != number.len() => Err(io::ErrorKind::ConnectionReset.into()),
        number => Err(io::Error::from_raw_os_error(number)),
    }
}
