//! Mutual authentication of the hub and a process of its job: each proves by HMAC-SHA-256 (RFC
//! 2104) over fresh random bytes of both sides that it knows the job's secret, which is never sent.
//!
//! ```text
//! hub      32 random bytes
//! process  its rank (4), 32 random bytes, its proof (32)
//! hub      its proof (32)
//! process  that it stays (1)
//! ```
//!
//! A proof covers the job's name, the rank, both random strings and the side, so that it cannot be
//! replayed, by the other side or for another job. A process that gave up before the hub's proof
//! does not take its rank: it connects again.

use ring::hmac::{self, HMAC_SHA256, Key};
use ring::rand::{SecureRandom, SystemRandom};
use std::fmt;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

/// Length of a random string.
const NONCE: usize = 32;
const PROOF: usize = 32;
/// Length of a process's message, and its confirmation after the hub's proof.
const ANSWER: usize = 4 + NONCE + PROOF;
const STAYS: u8 = 1;
/// Random bytes in a secret.
const RANDOM: usize = 32;

type Nonce = [u8; NONCE];

/// The secret shared by the processes of a job. It is never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Creates a random secret.
    pub fn random() -> Secret {
        let bytes: [u8; RANDOM] = random();
        Secret(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
    }

    /// Creates a secret from the text passed to the processes.
    pub fn told(text: impl Into<String>) -> Secret {
        Secret(text.into())
    }

    /// Returns the text, to be passed only where no other user can read it.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

/// Returns random bytes.
///
/// # Panics
///
/// If the system has none, as the handshake would not be secure.
fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    SystemRandom::new()
        .fill(&mut bytes)
        .expect("the system gives random numbers");
    bytes
}

/// The side that a proof belongs to.
#[derive(Clone, Copy)]
enum Side {
    Process,
    Hub,
}

/// The data covered by a proof.
struct Transcript<'a> {
    job: &'a str,
    rank: u32,
    of_hub: &'a Nonce,
    of_process: &'a [u8],
}

impl Transcript<'_> {
    fn bytes(&self, side: Side) -> Vec<u8> {
        let side: &[u8] = match side {
            Side::Process => b"verbena exchange, process",
            Side::Hub => b"verbena exchange, hub....",
        };
        // The name, which has a variable length, is last.
        let rank = self.rank.to_le_bytes();
        [
            side,
            &rank,
            self.of_hub,
            self.of_process,
            self.job.as_bytes(),
        ]
        .concat()
    }

    fn proof(&self, secret: &Secret, side: Side) -> hmac::Tag {
        let key = Key::new(HMAC_SHA256, secret.0.as_bytes());
        hmac::sign(&key, &self.bytes(side))
    }

    /// Verifies a proof in constant time.
    fn is_proved(&self, secret: &Secret, side: Side, proof: &[u8]) -> bool {
        let key = Key::new(HMAC_SHA256, secret.0.as_bytes());
        hmac::verify(&key, &self.bytes(side), proof).is_ok()
    }
}

/// A connection to the hub during its handshake.
pub(super) struct Handshake {
    stream: TcpStream,
    nonce: Nonce,
    heard: Vec<u8>,
    /// Its rank, once it has been verified and answered.
    rank: Option<usize>,
    pub(super) since: Instant,
}

/// State of a handshake.
pub(super) enum HandshakeState {
    /// Incomplete.
    NotYet,
    /// Authenticated and confirmed as the process with this rank.
    Process { rank: usize },
    /// Failed.
    Failed,
}

impl Handshake {
    /// Starts the handshake on a new connection.
    pub(super) fn start(mut stream: TcpStream) -> io::Result<Handshake> {
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        let nonce = random();
        // The send buffer is empty: either the bytes fit or the connection is closed.
        stream.write_all(&nonce)?;
        Ok(Handshake {
            stream,
            nonce,
            heard: Vec::with_capacity(ANSWER),
            rank: None,
            since: Instant::now(),
        })
    }

    /// Processes the received data without waiting for more.
    pub(super) fn receive(&mut self, job: &str, secret: &Secret) -> HandshakeState {
        match self.advance(job, secret) {
            Ok(known) => known,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => HandshakeState::NotYet,
            Err(_) => HandshakeState::Failed,
        }
    }

    fn advance(&mut self, job: &str, secret: &Secret) -> io::Result<HandshakeState> {
        let rank = match self.rank {
            Some(rank) => rank,
            None => {
                self.read_answer()?;
                let Some((rank, proof)) = self.proved(job, secret) else {
                    return Ok(HandshakeState::Failed);
                };
                // The send buffer is empty, as above: the hub's first bytes have been read by now.
                self.stream.write_all(proof.as_ref())?;
                *self.rank.insert(rank)
            }
        };
        let mut last = [0];
        self.stream.read_exact(&mut last)?;
        match last == [STAYS] {
            true => Ok(HandshakeState::Process { rank }),
            false => Ok(HandshakeState::Failed),
        }
    }

    fn read_answer(&mut self) -> io::Result<()> {
        while self.heard.len() < ANSWER {
            let mut bytes = [0; ANSWER];
            match self.stream.read(&mut bytes[self.heard.len()..]) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => {
                    let from = self.heard.len();
                    self.heard.extend(&bytes[from..from + count]);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Verifies the process's proof; returns its rank and the hub's proof.
    fn proved(&self, job: &str, secret: &Secret) -> Option<(usize, hmac::Tag)> {
        let (rank, rest) = self.heard.split_at(4);
        let (nonce, proof) = rest.split_at(NONCE);
        let rank = u32::from_le_bytes(rank.try_into().expect("four bytes"));
        let transcript = Transcript {
            job,
            rank,
            of_hub: &self.nonce,
            of_process: nonce,
        };
        let is_proved = transcript.is_proved(secret, Side::Process, proof);
        is_proved.then(|| (rank as usize, transcript.proof(secret, Side::Hub)))
    }

    pub(super) fn into_stream(self) -> io::Result<TcpStream> {
        self.stream.set_nonblocking(false)?;
        Ok(self.stream)
    }
}

impl AsFd for Handshake {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

/// Performs the process's side of the handshake over a connection that may lead to the hub, within
/// the time limit.
pub(super) fn authenticate(
    stream: &mut TcpStream,
    job: &str,
    secret: &Secret,
    rank: usize,
    limit: Duration,
) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let deadline = Instant::now() + limit;
    let mut of_hub = [0; NONCE];
    read_until(stream, &mut of_hub, deadline)?;
    let of_process: Nonce = random();
    let transcript = Transcript {
        job,
        rank: rank as u32,
        of_hub: &of_hub,
        of_process: &of_process,
    };
    let mut answer = transcript.rank.to_le_bytes().to_vec();
    answer.extend(of_process);
    answer.extend(transcript.proof(secret, Side::Process).as_ref());
    stream.write_all(&answer)?;
    let mut proof = [0; PROOF];
    read_until(stream, &mut proof, deadline).map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset => {
            let text =
                "the listener there does not accept this process: it has another job or another \
                 secret";
            io::Error::new(error.kind(), text)
        }
        _ => error,
    })?;
    if !transcript.is_proved(secret, Side::Hub, &proof) {
        let text = "the listener there is not this job's exchange";
        return Err(io::Error::new(io::ErrorKind::InvalidData, text));
    }
    stream.write_all(&[STAYS])?;
    stream.set_read_timeout(None)
}

/// Fills `bytes` before the deadline, however slowly they arrive.
fn read_until(stream: &mut TcpStream, bytes: &mut [u8], deadline: Instant) -> io::Result<()> {
    let mut done = 0;
    while done < bytes.len() {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        match stream.read(&mut bytes[done..]) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => done += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
