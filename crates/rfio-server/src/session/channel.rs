//! The byte stream under a session: a socket, or TLS over one. It never blocks.

use std::io::{self, IoSlice, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use rustls::ServerConnection;
use verbena_rfio_auth::certificate::CertificateUsers;
use verbena_rfio_auth::tls;
use verbena_rfio_common::socket::Socket;

use super::tls_identity::TlsIdentity;

/// Bytes of plaintext that rustls may buffer while the socket is full.
const TLS_BUFFER: usize = 256 << 10;

/// A byte stream.
#[derive(Debug)]
pub enum Channel {
    /// Without TLS.
    Plain(Socket),
    /// With TLS, and the mapping of certificates to users if the client was asked for one.
    Tls(Socket, Box<ServerConnection>, Option<Arc<CertificateUsers>>),
}

impl Channel {
    /// Starts TLS on a socket.
    ///
    /// # Errors
    /// rustls rejects the configuration.
    pub fn encrypt(socket: Socket, tls: &tls::TlsServer) -> io::Result<Self> {
        let config = Arc::clone(&tls.config);
        let mut connection = ServerConnection::new(config).map_err(io::Error::other)?;
        connection.set_buffer_limit(Some(TLS_BUFFER));
        Ok(Self::Tls(socket, Box::new(connection), tls.users.clone()))
    }

    /// Returns the identity of a client that has shown a certificate and proved possession of its
    /// key. `None` until the handshake is complete.
    pub fn tls_identity(&self) -> Option<TlsIdentity> {
        match self {
            Self::Tls(_, connection, Some(users)) if !connection.is_handshaking() => {
                let own = connection.peer_certificates()?.first()?;
                Some(TlsIdentity::of(own, users))
            }
            _ => None,
        }
    }

    /// Returns the key that binds a proof to this channel; empty without TLS.
    ///
    /// # Errors
    /// TLS cannot export the key.
    pub fn key(&self) -> io::Result<Vec<u8>> {
        match self {
            Self::Plain(_) => Ok(Vec::new()),
            Self::Tls(_, connection, _) => Ok(tls::channel_key(connection)?.to_vec()),
        }
    }

    /// Returns whether the channel is protected against eavesdropping and modification.
    pub fn is_encrypted(&self) -> bool {
        matches!(self, Self::Tls(..))
    }

    /// Receives data; zero is the end of the stream.
    ///
    /// # Errors
    /// `WouldBlock` if there are none; otherwise the connection failed.
    pub fn receive(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.receive(bytes),
            Self::Tls(socket, connection, _) => receive_tls(socket, connection, bytes),
        }
    }

    /// Appends at most `most` received bytes to a vector; returns how many.
    ///
    /// # Errors
    /// As [`Channel::receive`].
    pub fn receive_more(&mut self, bytes: &mut Vec<u8>, most: usize) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.receive_more(bytes, most),
            Self::Tls(socket, connection, _) => {
                let start = bytes.len();
                bytes.resize(start + most.min(64 << 10), 0);
                let received = receive_tls(socket, connection, &mut bytes[start..]);
                bytes.truncate(start + received.as_ref().map_or(0, |&received| received));
                received
            }
        }
    }

    /// Sends as much as possible; returns the number of bytes accepted.
    ///
    /// # Errors
    /// `WouldBlock` if none were accepted; otherwise the connection failed.
    pub fn send(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.send(slices),
            Self::Tls(socket, connection, _) => {
                while connection.wants_write() {
                    connection.write_tls(&mut &*socket)?;
                }
                let taken = connection.writer().write_vectored(slices)?;
                flush_tls(socket, connection)?;
                Ok(taken)
            }
        }
    }

    /// Returns whether the client has closed the connection.
    pub fn is_closed_by_peer(&self) -> bool {
        match self {
            Self::Plain(socket) | Self::Tls(socket, ..) => socket.is_closed_by_peer(),
        }
    }

    /// Returns whether the client's host has acknowledged all that was sent.
    pub fn is_delivered(&self) -> bool {
        match self {
            Self::Plain(socket) | Self::Tls(socket, ..) => socket.is_delivered(),
        }
    }

    /// Flushes data accepted earlier; returns whether none are left.
    ///
    /// # Errors
    /// The connection failed.
    pub fn flush(&mut self) -> io::Result<bool> {
        match self {
            Self::Plain(_) => Ok(true),
            Self::Tls(socket, connection, _) => flush_tls(socket, connection),
        }
    }
}

fn flush_tls(socket: &Socket, connection: &mut ServerConnection) -> io::Result<bool> {
    while connection.wants_write() {
        match connection.write_tls(&mut &*socket) {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
            Err(error) => return Err(error),
        }
    }
    Ok(true)
}

fn receive_tls(
    socket: &Socket,
    connection: &mut ServerConnection,
    bytes: &mut [u8],
) -> io::Result<usize> {
    loop {
        match connection.reader().read(bytes) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            other => return other,
        }
        // A missing close_notify alert is tolerated: incomplete frames are detected by their
        // lengths.
        if connection.read_tls(&mut &*socket)? == 0 {
            return Ok(0);
        }
        let state = connection.process_new_packets().map_err(io::Error::other);
        // The handshake's answer, or the alert with the reason of failure.
        flush_tls(socket, connection)?;
        state?;
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Plain(socket) | Self::Tls(socket, ..) => socket.as_fd(),
        }
    }
}
