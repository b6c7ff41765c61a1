//! Sends the records to `verbena trace`, which receives them at the datagram socket that
//! VERBENA_TRACE names.

use std::env;
use std::os::unix::ffi::OsStrExt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// The environment variable with the socket's path.
const VARIABLE: &str = "VERBENA_TRACE";

struct Listener {
    descriptor: libc::c_int,
    address: libc::sockaddr_un,
    /// Whether sending has failed, so that no more is sent.
    gone: AtomicBool,
}

fn listener() -> Option<&'static Listener> {
    static LISTENER: OnceLock<Option<Listener>> = OnceLock::new();
    LISTENER.get_or_init(Listener::named).as_ref()
}

/// Returns whether records are received.
pub fn has_listener() -> bool {
    listener().is_some_and(|listener| !listener.gone.load(Ordering::Relaxed))
}

/// Sends a record. Blocks while the receiver's buffer is full, so that no record is lost.
pub fn send(text: &str) {
    if let Some(listener) = listener() {
        listener.send(text.as_bytes());
    }
}

impl Listener {
    fn named() -> Option<Listener> {
        let path = env::var_os(VARIABLE)?;
        // SAFETY: all-zero is a valid value of this structure of integers.
        let mut address: libc::sockaddr_un = unsafe { std::mem::zeroed() };
        address.sun_family = libc::AF_UNIX as libc::sa_family_t;
        let bytes = path.as_bytes();
        // The last byte stays zero.
        if bytes.is_empty() || bytes.len() >= address.sun_path.len() {
            return None;
        }
        for (to, from) in address.sun_path.iter_mut().zip(bytes) {
            *to = *from as libc::c_char;
        }
        // SAFETY: socket(2) takes no pointers.
        let descriptor =
            unsafe { libc::socket(libc::AF_UNIX, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) };
        (descriptor >= 0).then_some(Listener {
            descriptor,
            address,
            gone: AtomicBool::new(false),
        })
    }

    fn send(&self, bytes: &[u8]) {
        while !self.gone.load(Ordering::Relaxed) {
            // SAFETY: buffer and address are valid for their lengths. If the program has closed the
            // socket, another file with its number refuses the call, or sends one datagram to the
            // address given here.
            let sent = unsafe {
                libc::sendto(
                    self.descriptor,
                    bytes.as_ptr().cast(),
                    bytes.len(),
                    libc::MSG_NOSIGNAL,
                    (&raw const self.address).cast(),
                    size_of::<libc::sockaddr_un>() as libc::socklen_t,
                )
            };
            if sent >= 0 {
                return;
            }
            match std::io::Error::last_os_error().raw_os_error() {
                Some(libc::EINTR) => {}
                // The system is short of memory for the datagram for a moment.
                Some(libc::ENOBUFS | libc::EAGAIN) => std::thread::yield_now(),
                _ => self.gone.store(true, Ordering::Relaxed),
            }
        }
    }
}
