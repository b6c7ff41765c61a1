//! A process's end of the exchange.

use super::frame::{self, GATHERED, LEFT_BEHIND, LOST, REFUSED, word};
use super::greeting::{Secret, introduce};
use crate::error::{Error, Result};
use crate::verbs::patience::Patience;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

/// What a process waits for that waits for the others at the exchange.
pub const AT_EXCHANGE: &str = "the exchange";
/// How long one place is tried for the hub before the next one.
const PLACE_PATIENCE: Duration = Duration::from_secs(2);
/// How long until all places are tried again.
const AGAIN: Duration = Duration::from_millis(20);

/// Where the hub of a job may be, and what proves that it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rendezvous {
    /// HOST:PORT each.
    pub places: Vec<String>,
    /// The job's.
    pub secret: Secret,
}

impl Rendezvous {
    /// At one place, HOST:PORT.
    pub fn at(place: impl ToString, secret: &Secret) -> Rendezvous {
        Rendezvous {
            places: vec![place.to_string()],
            secret: secret.clone(),
        }
    }
}

/// A process's end of the exchange.
pub struct Connection {
    pub(super) stream: TcpStream,
    pub(super) replies: Receiver<Vec<u8>>,
}

/// Connects process `rank` to the hub of the job. The rendezvous is asked for again for a while, for it may be told later;
/// until then, what is in the way.
pub fn connect_to_hub(
    mut rendezvous: impl FnMut() -> std::result::Result<Rendezvous, String>,
    job: &str,
    rank: usize,
    patience: &Patience,
) -> Result<Connection> {
    let fail = |reason: String| Error::adapter("connecting to the exchange", reason);
    let since = Instant::now();
    let stream = 'found: loop {
        // One trouble explains enough where hundreds of places were tried.
        let mut trouble = "nobody said where process 0 may listen".to_owned();
        match rendezvous() {
            Err(reason) => trouble = reason,
            Ok(Rendezvous { places, secret }) => {
                for place in places {
                    match knock(&place, job, &secret, rank) {
                        Ok(stream) => break 'found stream,
                        Err(error) => trouble = format!("{place}: {error}"),
                    }
                }
            }
        }
        if patience.stop.load(Ordering::Relaxed) {
            return Err(Error::Interrupted);
        }
        if since.elapsed() > patience.limit {
            return Err(fail(trouble));
        }
        std::thread::sleep(AGAIN);
    };
    let reader = stream
        .try_clone()
        .map_err(|error| fail(error.to_string()))?;
    let (sender, replies) = channel();
    let (lost, left_behind) = (
        Arc::clone(&patience.lost),
        Arc::clone(&patience.left_behind),
    );
    std::thread::spawn(move || listen(reader, &sender, &lost, &left_behind));
    Ok(Connection { stream, replies })
}

/// Asks whether the hub of the job is at a place.
fn knock(place: &str, job: &str, secret: &Secret, rank: usize) -> io::Result<TcpStream> {
    let mut trouble = io::Error::new(io::ErrorKind::NotFound, "no address");
    for address in place.to_socket_addrs()? {
        match greet(address, job, secret, rank) {
            Ok(stream) => return Ok(stream),
            Err(error) => trouble = error,
        }
    }
    Err(trouble)
}

fn greet(address: SocketAddr, job: &str, secret: &Secret, rank: usize) -> io::Result<TcpStream> {
    let mut stream = TcpStream::connect_timeout(&address, PLACE_PATIENCE)?;
    introduce(&mut stream, job, secret, rank, PLACE_PATIENCE)?;
    Ok(stream)
}

/// Hands answers on; what ends every wait of the process, also one at its adapter, it sets.
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
    /// The address of this host on the way to the hub.
    pub fn address(&self) -> Option<IpAddr> {
        let address = self.stream.local_addr().ok()?;
        Some(address.ip().to_canonical())
    }

    /// The address at which the hub was found.
    pub fn address_of_hub(&self) -> Option<IpAddr> {
        let address = self.stream.peer_addr().ok()?;
        Some(address.ip().to_canonical())
    }

    /// Everybody's bytes among `members`; those of a process that is absent are empty.
    pub fn gather(
        &mut self,
        members: &[usize],
        mine: &[u8],
        patience: &Patience,
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
                Err(RecvTimeoutError::Timeout) => patience.look(AT_EXCHANGE, &mut since)?,
                Err(RecvTimeoutError::Disconnected) => {
                    patience.look(AT_EXCHANGE, &mut since)?;
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
