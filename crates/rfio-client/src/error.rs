//! Errors of the client, and their causes.

use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use verbena_rfio_protocol::reply::Refusal;
use verbena_rfio_protocol::{Malformed, Reply, Status};

use super::address::Address;

/// An error of the client library.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The server refused the request.
    #[error("{0}")]
    Refused(Refusal),
    /// The server refused the session: the user is not accepted, or there is no common version.
    /// The text is empty, or says which credentials the client has, and where it looked for them.
    #[error("{0}{1}")]
    NotLetIn(Refusal, String),
    /// A failure, with a whole message for users.
    #[error("{1}")]
    Explained(Status, String),
    /// The server cannot be reached.
    #[error("cannot connect to {0}: {1}{hint}", hint = socket_hint(Path::new(""), .0))]
    Unreachable(Address, io::Error),
    /// The connection failed.
    #[error("the connection to the server failed: {0}")]
    Connection(io::Error),
    /// The server closed the connection.
    #[error("the server closed the connection {0}")]
    Dropped(&'static str),
    /// No data arrived within the time limit.
    #[error("the server did not answer in time")]
    TimedOut,
    /// The server violated the protocol.
    #[error("the server violates the protocol: {0}")]
    Protocol(String),
    /// The server could not prove that it knows the secret.
    #[error("the server could not prove that it knows the shared secret")]
    Impostor,
    /// The server ended the connection because of the client's certificate.
    #[error("the server refused the client's certificate: {0}")]
    CertificateRefused(&'static str),
    /// Data arrived damaged.
    #[error(
        "the checksum of the data at byte {offset} does not match: expected {expected:08x}, found \
         {found:08x}"
    )]
    Damaged {
        /// Offset in the file, in bytes.
        offset: u64,
        /// The server's checksum.
        expected: u32,
        /// Checksum of the received data.
        found: u32,
    },
    /// The file has changed since it was opened.
    #[error("the file changed during the copy")]
    Changed,
    /// The session belongs to the parent process.
    #[error("the connection belongs to the parent process that opened it")]
    Forked,
    /// The server's message exceeds a limit of this client.
    #[error("{0}")]
    TooMuch(String),
    /// The file is of a kind that copies leave out.
    #[error("left out: {0} is not copied")]
    LeftOut(&'static str),
    /// A local operation failed.
    #[error("{0}: {1}")]
    Local(String, io::Error),
    /// The client's configuration is invalid.
    #[error("{0}")]
    Setup(String),
    /// Data must travel by RDMA, and this host has no usable device.
    #[error(
        "{0}; start this program with 'verbena run --', or use TCP: --fabric tcp, or \
         RFIO_FABRIC=tcp"
    )]
    NoDevice(String),
    /// The data queue pair failed.
    #[error("RDMA: {0}")]
    Fabric(String),
}

impl Error {
    /// Returns the error for a reply of another operation, which a frame's kind excludes.
    pub fn unexpected(reply: &Reply) -> Self {
        Self::Protocol(format!("unexpected reply {}", reply.name()))
    }

    /// Returns the error for required RDMA that the server does not offer.
    pub(super) fn no_device_of_server() -> Self {
        Self::Fabric(
            "the server has no device; start rfiod with 'verbena run --', or use TCP: --fabric \
             tcp, or RFIO_FABRIC=tcp"
                .into(),
        )
    }

    /// Returns whether the connection was closed, as a kept one is when its server is restarted.
    pub fn is_closed_connection(&self) -> bool {
        matches!(self, Self::Dropped(_) | Self::Connection(_))
    }

    /// Returns RFIO's status for the error.
    pub fn status(&self) -> Status {
        let of_io =
            |error: &io::Error, otherwise| error.raw_os_error().map_or(otherwise, Status::errno);
        match self {
            Self::Refused(refusal) | Self::NotLetIn(refusal, _) => refusal.status,
            Self::Explained(status, _) => *status,
            Self::Unreachable(_, error) => of_io(error, Status::NO_SUCH_HOST),
            Self::Connection(error) => of_io(error, Status::COMMUNICATION),
            Self::Dropped(_) => Status::CONNECTION_DROPPED,
            Self::TimedOut => Status::TIMED_OUT,
            Self::Protocol(_) | Self::Fabric(_) | Self::NoDevice(_) | Self::Forked => {
                Status::COMMUNICATION
            }
            Self::Impostor | Self::CertificateRefused(_) => Status::errno(libc::EACCES),
            Self::Damaged { .. } => Status::CHECKSUM,
            Self::Changed => Status::errno(libc::ESTALE),
            Self::LeftOut(_) => Status::NOT_SUPPORTED,
            Self::TooMuch(_) => Status::errno(libc::EOVERFLOW),
            Self::Local(_, error) => of_io(error, Status::INTERNAL),
            Self::Setup(_) => Status::errno(libc::EINVAL),
        }
    }

    /// Converts an error of the handshake. A permanent refusal concerns the user: each further
    /// attempt would add another failure to the server's log.
    pub(super) fn of_handshake(self) -> Self {
        match self {
            Self::Refused(refusal)
                if refusal.status == Status::BAD_VERSION
                    || matches!(refusal.status.as_errno(), Some(libc::EACCES | libc::EPERM)) =>
            {
                Self::NotLetIn(refusal, String::new())
            }
            other => other,
        }
    }

    /// Returns whether the request may succeed over another connection to a server that was
    /// reachable before: the connection was lost, or the server is busy or stops.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Unreachable(..)
            | Self::Connection(_)
            | Self::Dropped(_)
            | Self::TimedOut
            | Self::Fabric(_) => true,
            Self::Refused(refusal) => {
                is_temporary(refusal.status)
                    || matches!(
                        refusal.status,
                        Status::CONNECTION_DROPPED | Status::COMMUNICATION
                    )
            }
            _ => false,
        }
    }

    /// Returns whether authentication failed, so that no other request to that server can succeed
    /// either.
    pub fn is_authentication_failure(&self) -> bool {
        matches!(
            self,
            Self::NotLetIn(..) | Self::Impostor | Self::CertificateRefused(_)
        )
    }

    /// Returns a copy of the error for another operation that it affects.
    pub fn duplicate(&self) -> Self {
        let io = |error: &io::Error| match error.raw_os_error() {
            Some(errno) => io::Error::from_raw_os_error(errno),
            None => io::Error::new(error.kind(), error.to_string()),
        };
        match self {
            Self::Refused(refusal) => Self::Refused(refusal.clone()),
            Self::NotLetIn(refusal, hint) => Self::NotLetIn(refusal.clone(), hint.clone()),
            Self::Explained(status, message) => Self::Explained(*status, message.clone()),
            Self::Unreachable(address, error) => Self::Unreachable(address.clone(), io(error)),
            Self::Connection(error) => Self::Connection(io(error)),
            Self::Dropped(when) => Self::Dropped(when),
            Self::TimedOut => Self::TimedOut,
            Self::Protocol(what) => Self::Protocol(what.clone()),
            Self::Impostor => Self::Impostor,
            Self::CertificateRefused(why) => Self::CertificateRefused(why),
            Self::Damaged {
                offset,
                expected,
                found,
            } => Self::Damaged {
                offset: *offset,
                expected: *expected,
                found: *found,
            },
            Self::Changed => Self::Changed,
            Self::LeftOut(what) => Self::LeftOut(what),
            Self::TooMuch(what) => Self::TooMuch(what.clone()),
            Self::Forked => Self::Forked,
            Self::Local(what, error) => Self::Local(what.clone(), io(error)),
            Self::Setup(what) => Self::Setup(what.clone()),
            Self::NoDevice(what) => Self::NoDevice(what.clone()),
            Self::Fabric(what) => Self::Fabric(what.clone()),
        }
    }

    /// Returns the errno, if the status is one.
    pub fn errno(&self) -> Option<i32> {
        self.status().as_errno()
    }
}

/// Returns a hint, or nothing: a name in brackets without a slash is a host, even if a Unix socket
/// in `directory`, the current one, has that name.
fn socket_hint(directory: &Path, address: &Address) -> String {
    let Address::Host(host, _) = address else {
        return String::new();
    };
    match std::fs::metadata(directory.join(host)) {
        Ok(about) if about.file_type().is_socket() => {
            format!("; for the Unix socket of that name, write [./{host}]:/PATH")
        }
        _ => String::new(),
    }
}

/// Returns whether a refusal is temporary: the server is busy (EAGAIN), or it stops (ESHUTDOWN) and
/// may be replaced by another one.
pub(super) fn is_temporary(status: Status) -> bool {
    matches!(
        status.as_errno(),
        Some(libc::EAGAIN) | Some(libc::ESHUTDOWN)
    )
}

/// Returns the error for unrequested data.
pub(super) fn too_much() -> Error {
    Error::Protocol("more data than requested".into())
}

impl From<Malformed> for Error {
    fn from(malformed: Malformed) -> Self {
        Self::Protocol(malformed.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use verbena_rfio_common::scratch::Scratch;

    #[test]
    fn names_of_unix_sockets_without_a_slash_get_a_hint() {
        let scratch = Scratch::new();
        let _listener = std::os::unix::net::UnixListener::bind(scratch.path("s.sock")).unwrap();
        std::fs::write(scratch.path("file"), "").unwrap();
        let hint = |name: &str| {
            let directory = scratch.path("");
            socket_hint(&directory, &Address::Host(name.into(), 5001))
        };
        assert!(hint("s.sock").contains("write [./s.sock]:/PATH"));
        assert_eq!(hint("file"), "");
        assert_eq!(hint("nothing"), "");
    }
}
