//! The byte stream under a client's session: a socket, or TLS over one.

use std::io::{self, IoSlice, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection};
use verbena_rfio_auth::tls;
use verbena_rfio_common::socket::{Blocking, Socket};

use super::address::Address;
use super::bounds::ReplyDeadline;
use super::error::Error;

const STAGING: usize = 16 << 10;

enum Channel {
    Plain(Socket),
    Tls(Socket, Box<ClientConnection>),
}

/// A byte stream with a small receive buffer.
pub struct Stream {
    channel: Channel,
    staging: Box<[u8]>,
    from: usize,
    to: usize,
}

/// A socket with a time limit for the whole exchange, not for each call.
struct TimedSocket<'a>(&'a Socket, &'a mut ReplyDeadline);

impl TimedSocket<'_> {
    fn note(&mut self, moved: io::Result<usize>) -> io::Result<usize> {
        let moved = moved?;
        self.1.count(moved);
        match self.1.is_over() {
            true => Err(io::ErrorKind::TimedOut.into()),
            false => Ok(moved),
        }
    }
}

impl Read for TimedSocket<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let received = self.0.receive(bytes);
        self.note(received)
    }
}

impl Write for TimedSocket<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_vectored(&[IoSlice::new(bytes)])
    }
    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        let sent = self.0.send(slices);
        self.note(sent)
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Connects to the first of a host's addresses that answers.
fn dial(address: &Address, timeout: Duration) -> Result<Socket, Error> {
    let unreachable = |error| Error::Unreachable(address.clone(), error);
    match address {
        Address::Socket(path) => Ok(Socket::unix(
            std::os::unix::net::UnixStream::connect(path).map_err(unreachable)?,
        )),
        Address::Host(host, port) => {
            let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
            for candidate in (host.as_str(), *port)
                .to_socket_addrs()
                .map_err(unreachable)?
            {
                let stream = match timeout.is_zero() {
                    true => TcpStream::connect(candidate),
                    false => TcpStream::connect_timeout(&candidate, timeout),
                };
                match stream.and_then(Socket::tcp) {
                    Ok(socket) => return Ok(socket),
                    Err(error) => last = error,
                }
            }
            Err(unreachable(last))
        }
    }
}

impl Stream {
    /// Connects; with TLS if it is configured and the service is on the network.
    ///
    /// # Errors
    /// The server is unreachable, or the TLS handshake fails.
    pub fn connect(
        address: &Address,
        tls: Option<&Arc<ClientConfig>>,
        timeout: Duration,
    ) -> Result<Self, Error> {
        let socket = dial(address, timeout)?;
        socket.set_timeout(timeout).map_err(Error::Connection)?;
        let mut deadline = ReplyDeadline::new(timeout);
        let channel = match (tls, address) {
            (Some(config), Address::Host(host, _)) => {
                let name = ServerName::try_from(host.clone()).map_err(|_| {
                    Error::Setup(format!("'{host}' is not a valid name for a certificate"))
                })?;
                let mut connection = ClientConnection::new(Arc::clone(config), name)
                    .map_err(|error| Error::Setup(error.to_string()))?;
                while connection.is_handshaking() {
                    connection
                        .complete_io(&mut TimedSocket(&socket, &mut deadline))
                        .map_err(connection_error)?;
                }
                Channel::Tls(socket, Box::new(connection))
            }
            _ => Channel::Plain(socket),
        };
        Ok(Self {
            channel,
            staging: vec![0; STAGING].into_boxed_slice(),
            from: 0,
            to: 0,
        })
    }

    /// Returns whether TLS is in use.
    pub fn is_encrypted(&self) -> bool {
        matches!(&self.channel, Channel::Tls(..))
    }

    /// Returns the key that binds a proof to this channel; empty without TLS.
    ///
    /// # Errors
    /// TLS cannot export the key.
    pub fn key(&self) -> Result<Vec<u8>, Error> {
        match &self.channel {
            Channel::Plain(_) => Ok(Vec::new()),
            Channel::Tls(_, connection) => Ok(tls::channel_key(connection)
                .map_err(connection_error)?
                .to_vec()),
        }
    }

    /// Returns whether the server has closed the connection.
    pub fn is_closed_by_peer(&self) -> bool {
        let (Channel::Plain(socket) | Channel::Tls(socket, _)) = &self.channel;
        socket.is_closed_by_peer()
    }

    /// Makes the socket non-blocking; only [`Stream::receive_some`] and [`Stream::send_some`] may
    /// be used afterwards.
    ///
    /// # Errors
    /// The error of the system call.
    pub fn set_nonblocking(&self) -> Result<(), Error> {
        let (Channel::Plain(socket) | Channel::Tls(socket, _)) = &self.channel;
        socket.set_blocking(Blocking::No).map_err(Error::Connection)
    }

    /// Receives available data; `None` if there are none.
    ///
    /// # Errors
    /// The connection failed or was closed.
    pub fn receive_some(&mut self, bytes: &mut [u8]) -> Result<Option<usize>, Error> {
        if self.from == self.to {
            let received = match bytes.len() >= STAGING {
                true => return none_if_timed_out(self.channel.receive(bytes)),
                false => none_if_timed_out(self.channel.receive(&mut self.staging))?,
            };
            let Some(received) = received else {
                return Ok(None);
            };
            (self.from, self.to) = (0, received);
        }
        let staged = bytes.len().min(self.to - self.from);
        bytes[..staged].copy_from_slice(&self.staging[self.from..self.from + staged]);
        self.from += staged;
        Ok(Some(staged))
    }

    /// Sends as much as possible; `None` if that is nothing.
    ///
    /// # Errors
    /// The connection failed.
    pub fn send_some(&mut self, slices: &[IoSlice<'_>]) -> Result<Option<usize>, Error> {
        let taken = match &mut self.channel {
            Channel::Plain(socket) => {
                return none_if_timed_out(socket.send(slices).map_err(connection_error));
            }
            Channel::Tls(_, connection) => connection
                .writer()
                .write_vectored(slices)
                .map_err(connection_error)?,
        };
        let flushed = self.flush_some()?;
        Ok((taken > 0 || flushed).then_some(taken))
    }

    /// Flushes data accepted but not sent yet; returns whether none are left.
    ///
    /// # Errors
    /// The connection failed.
    pub fn flush_some(&mut self) -> Result<bool, Error> {
        if let Channel::Tls(socket, connection) = &mut self.channel {
            while connection.wants_write() {
                match connection.write_tls(&mut &*socket) {
                    Ok(_) => {}
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                    Err(error) => {
                        return Err(
                            pending_alert(socket, connection).unwrap_or(connection_error(error))
                        );
                    }
                }
            }
        }
        Ok(true)
    }

    /// Returns a descriptor to poll.
    ///
    /// # Errors
    /// It cannot be duplicated.
    pub fn descriptor(&self) -> Result<OwnedFd, Error> {
        let (Channel::Plain(socket) | Channel::Tls(socket, _)) = &self.channel;
        let copy = socket.as_fd().try_clone_to_owned();
        copy.map_err(Error::Connection)
    }

    /// Closes the connection.
    pub fn close(&mut self) {
        match &mut self.channel {
            Channel::Plain(socket) => socket.shut_down(),
            Channel::Tls(socket, connection) => {
                connection.send_close_notify();
                let _ = connection.write_tls(&mut &*socket);
                socket.shut_down();
            }
        }
    }
}

impl Channel {
    /// Receives at least one byte.
    fn receive(&mut self, bytes: &mut [u8]) -> Result<usize, Error> {
        let received = match self {
            Self::Plain(socket) => socket.receive(bytes).map_err(connection_error)?,
            Self::Tls(socket, connection) => loop {
                match connection.reader().read(bytes) {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    other => break other.map_err(connection_error)?,
                }
                if connection
                    .read_tls(&mut &*socket)
                    .map_err(connection_error)?
                    == 0
                {
                    break 0;
                }
                connection
                    .process_new_packets()
                    .map_err(|error| connection_error(io::Error::other(error)))?;
            },
        };
        if received == 0 {
            Err(Error::Dropped("before its reply was complete"))
        } else {
            Ok(received)
        }
    }
}

/// Returns the server's alert if the server closed the connection for that reason and sending fails
/// now. The refusal of a certificate is the first message after the client's part of the handshake,
/// and may arrive when the hello is already in flight.
fn pending_alert(socket: &Socket, connection: &mut ClientConnection) -> Option<Error> {
    while connection.read_tls(&mut &*socket).ok()? > 0 {
        if let Err(error) = connection.process_new_packets() {
            return Some(connection_error(io::Error::other(error)));
        }
    }
    None
}

fn none_if_timed_out<T>(result: Result<T, Error>) -> Result<Option<T>, Error> {
    match result {
        Err(Error::TimedOut) => Ok(None),
        other => other.map(Some),
    }
}

fn connection_error(error: io::Error) -> Error {
    if let Some(why) = tls::rejection_by_server(&error) {
        return Error::CertificateRefused(why);
    }
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => Error::TimedOut,
        io::ErrorKind::UnexpectedEof => Error::Dropped("before its reply was complete"),
        io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => {
            Error::Dropped("without an answer")
        }
        _ => Error::Connection(error),
    }
}

impl std::fmt::Debug for Stream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self.channel {
            Channel::Plain(_) => "plain stream",
            Channel::Tls(..) => "TLS stream",
        })
    }
}

#[cfg(test)]
mod tests;
