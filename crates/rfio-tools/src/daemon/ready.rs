//! Notifies systemd of the service's state (sd_notify(3): a datagram to the socket that systemd
//! names).

use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// Sends a state such as `READY=1`; does nothing if `NOTIFY_SOCKET` is not set.
pub fn notify(state: &str) {
    let Some(path) = std::env::var_os("NOTIFY_SOCKET") else {
        return;
    };
    let address = match path.as_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name),
        None => SocketAddr::from_pathname(&path),
    };
    if let (Ok(socket), Ok(address)) = (UnixDatagram::unbound(), address) {
        // The service runs without the notification, so an error is ignored.
        let _ = socket.send_to_addr(state.as_bytes(), &address);
    }
}
