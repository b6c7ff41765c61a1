//! A process's connection to the exchange.

use super::frame::{self, GATHERED, LEFT_BEHIND, LOST, REFUSED, word};
use super::handshake::{Secret, authenticate};
use crate::error::{Error, Result};
use crate::verbs::wait_limit::WaitLimit;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

/// Name of the wait for other processes at the exchange.
pub const AT_EXCHANGE: &str = "the exchange";
/// Time limit per address when searching for the hub.
const ADDRESS_TIMEOUT: Duration = Duration::from_secs(2);
/// Delay until all addresses are tried again.
const AGAIN: Duration = Duration::from_millis(20);

/// Possible addresses of a job's hub, and the secret that authenticates it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rendezvous {
    /// Addresses as HOST:PORT.
    pub places: Vec<String>,
    /// Secret of the job.
    pub secret: Secret,
}

impl Rendezvous {
    /// Returns a rendezvous with one address, HOST:PORT.
    pub fn at(place: impl ToString, secret: &Secret) -> Rendezvous {
        Rendezvous {
            places: vec![place.to_string()],
            secret: secret.clone(),
        }
    }
}

/// A process's connection to the exchange.
pub struct Connection {
    pub(super) stream: TcpStream,
    pub(super) replies: Receiver<Vec<u8>>,
}

/// Connects process `rank` to the hub of the job. `rendezvous` is called repeatedly, as it may
/// become available later; until then it returns the reason.
///
/// # Errors
///
/// Returns [`Error::Interrupted`] on a stop request, and [`Error::Adapter`] with the last failure
/// after the time limit.
pub fn connect_to_hub(
    mut rendezvous: impl FnMut() -> std::result::Result<Rendezvous, String>,
    job: &str,
    rank: usize,
    wait_limit: &WaitLimit,
) -> Result<Connection> {
    let fail = |reason: String| Error::adapter("connecting to the exchange", reason);
    let since = Instant::now();
    let stream = 'found: loop {
        // The last failure is enough of an explanation if hundreds of addresses were tried.
        let mut trouble = "process 0 has no address to listen on".to_owned();
        match rendezvous() {
            Err(reason) => trouble = reason,
            Ok(Rendezvous { places, secret }) => {
                for place in places {
                    match try_address(&place, job, &secret, rank) {
                        Ok(stream) => break 'found stream,
                        Err(error) => trouble = format!("{place}: {error}"),
                    }
                }
            }
        }
        if wait_limit.stop.load(Ordering::Relaxed) {
            return Err(Error::Interrupted);
        }
        if since.elapsed() > wait_limit.limit {
            return Err(fail(trouble));
        }
        std::thread::sleep(AGAIN);
    };
    let reader = stream
        .try_clone()
        .map_err(|error| fail(error.to_string()))?;
    let (sender, replies) = channel();
    let (lost, left_behind) = (
        Arc::clone(&wait_limit.lost),
        Arc::clone(&wait_limit.left_behind),
    );
    std::thread::spawn(move || listen(reader, &sender, &lost, &left_behind));
    Ok(Connection { stream, replies })
}

/// Port probe: tries to connect to the hub of the job at an address.
fn try_address(place: &str, job: &str, secret: &Secret, rank: usize) -> io::Result<TcpStream> {
    let mut trouble = io::Error::new(io::ErrorKind::NotFound, "no address");
    for address in place.to_socket_addrs()? {
        match connect_and_authenticate(address, job, secret, rank) {
            Ok(stream) => return Ok(stream),
            Err(error) => trouble = error,
        }
    }
    Err(trouble)
}

fn connect_and_authenticate(
    address: SocketAddr,
    job: &str,
    secret: &Secret,
    rank: usize,
) -> io::Result<TcpStream> {
    let mut stream = TcpStream::connect_timeout(&address, ADDRESS_TIMEOUT)?;
    authenticate(&mut stream, job, secret, rank, ADDRESS_TIMEOUT)?;
    Ok(stream)
}

/// Passes replies on and sets the flags that end every wait of the process, including those at its
/// adapter.
fn listen(
    mut stream: TcpStream,
    answers: &Sender<Vec<u8>>,
    lost: &AtomicUsize,
    left_behind: &AtomicBool,
) {
    while let Ok(frame) = frame::read(&mut stream) {
        match frame.first().copied() {
            Some(LOST) => {
                let rank = word(&frame, 1).map_or(0, |rank| rank as usize);
                lost.store(rank + 1, Ordering::Relaxed);
            }
            Some(LEFT_BEHIND) => left_behind.store(true, Ordering::Relaxed),
            _ if answers.send(frame).is_err() => return,
            _ => {}
        }
    }
}

impl Connection {
    /// Returns the local address of the connection to the hub.
    pub fn address(&self) -> Option<IpAddr> {
        let address = self.stream.local_addr().ok()?;
        Some(address.ip().to_canonical())
    }

    /// Returns the remote address of the connection to the hub.
    pub fn address_of_hub(&self) -> Option<IpAddr> {
        let address = self.stream.peer_addr().ok()?;
        Some(address.ip().to_canonical())
    }

    /// Exchanges bytes among `members`; those of an absent process are empty.
    ///
    /// # Errors
    ///
    /// Returns [`Error::Adapter`] if the hub refuses or the connection fails, and the errors of
    /// [`WaitLimit::look`].
    pub fn gather(
        &mut self,
        members: &[usize],
        mine: &[u8],
        wait_limit: &WaitLimit,
    ) -> Result<Vec<Vec<u8>>> {
        let mut body = Vec::with_capacity(4 + 4 * members.len() + mine.len());
        body.extend((members.len() as u32).to_le_bytes());
        members
            .iter()
            .for_each(|&member| body.extend((member as u32).to_le_bytes()));
        body.extend(mine);
        let gone = |reason: String| Error::adapter("the exchange", reason);
        frame::write(&mut self.stream, &body).map_err(|error| gone(error.to_string()))?;
        let mut since = None;
        let frame = loop {
            match self.replies.recv_timeout(Duration::from_millis(20)) {
                Ok(frame) => break frame,
                Err(RecvTimeoutError::Timeout) => wait_limit.look(AT_EXCHANGE, &mut since)?,
                Err(RecvTimeoutError::Disconnected) => {
                    wait_limit.look(AT_EXCHANGE, &mut since)?;
                    return Err(gone("the hub closed the connection".to_owned()));
                }
            }
        };
        if let Some((&REFUSED, reason)) = frame.split_first() {
            return Err(gone(String::from_utf8_lossy(reason).into_owned()));
        }
        unpack(&frame, members.len()).ok_or_else(|| gone("a malformed reply".to_owned()))
    }
}

fn unpack(frame: &[u8], count: usize) -> Option<Vec<Vec<u8>>> {
    let (&kind, mut rest) = frame.split_first()?;
    if kind != GATHERED {
        return None;
    }
    let mut parts = Vec::with_capacity(count);
    for _ in 0..count {
        let length = word(rest, 0)? as usize;
        let (part, after) = rest[4..].split_at_checked(length)?;
        parts.push(part.to_vec());
        rest = after;
    }
    rest.is_empty().then_some(parts)
}
