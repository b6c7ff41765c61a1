//! How the hub and a process of its job know each other: both prove, by HMAC-SHA-256 (RFC 2104) over fresh random bytes of
//! either side, that they know the job's secret, which itself is never sent.
//!
//! ```text
//! hub      32 random bytes
//! process  its rank (4), 32 random bytes, its proof (32)
//! hub      its proof (32)
//! process  that it stays (1)
//! ```
//!
//! A proof is of the job's name, the rank, both random strings and whose it is, so that none can be used again, by the
//! other side or for another job. A process that no longer waited for the hub's proof takes no place: it comes again.

use ring::hmac::{self, HMAC_SHA256, Key};
use ring::rand::{SecureRandom, SystemRandom};
use std::fmt;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

/// Bytes that one side makes up.
const NONCE: usize = 32;
const PROOF: usize = 32;
/// What a process says, and once it has the hub's proof.
const ANSWER: usize = 4 + NONCE + PROOF;
const STAYS: u8 = 1;
/// Bytes of a secret.
const RANDOM: usize = 32;

type Nonce = [u8; NONCE];

/// What the processes of a job know and nobody else does. It is never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// One that nobody can guess.
    pub fn random() -> Secret {
        let bytes: [u8; RANDOM] = random();
        Secret(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
    }

    /// One that the processes were told.
    pub fn told(text: impl Into<String>) -> Secret {
        Secret(text.into())
    }

    /// For telling it where only the user's own processes can read.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

/// Random bytes.
///
/// # Panics
/// If the system has none, without which nothing here is safe.
fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    SystemRandom::new()
        .fill(&mut bytes)
        .expect("the system gives random numbers");
    bytes
}

/// Whose proof it is.
#[derive(Clone, Copy)]
enum Side {
    Process,
    Hub,
}

/// What is proved.
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
        // The name, whose length varies, stands last.
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

    /// Takes the same time whatever is wrong with the proof.
    fn is_proved(&self, secret: &Secret, side: Side, proof: &[u8]) -> bool {
        let key = Key::new(HMAC_SHA256, secret.0.as_bytes());
        hmac::verify(&key, &self.bytes(side), proof).is_ok()
    }
}

/// Somebody at the hub's door.
pub(super) struct Visitor {
    stream: TcpStream,
    nonce: Nonce,
    heard: Vec<u8>,
    /// Its rank, once it has proved it and was answered.
    rank: Option<usize>,
    pub(super) since: Instant,
}

/// What is known of a visitor.
pub(super) enum Known {
    /// Nothing yet.
    NotYet,
    /// It is a process of the job, of this rank, and stays.
    Process { rank: usize },
    /// It is not.
    Stranger,
}

impl Visitor {
    /// Greets whoever connected.
    pub(super) fn greet(mut stream: TcpStream) -> io::Result<Visitor> {
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        let nonce = random();
        // Into an empty buffer: it fits, or the connection is gone.
        stream.write_all(&nonce)?;
        Ok(Visitor {
            stream,
            nonce,
            heard: Vec::with_capacity(ANSWER),
            rank: None,
            since: Instant::now(),
        })
    }

    /// Hears what it has said so far, without waiting for more.
    pub(super) fn hear(&mut self, job: &str, secret: &Secret) -> Known {
        match self.follow(job, secret) {
            Ok(known) => known,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Known::NotYet,
            Err(_) => Known::Stranger,
        }
    }

    fn follow(&mut self, job: &str, secret: &Secret) -> io::Result<Known> {
        let rank = match self.rank {
            Some(rank) => rank,
            None => {
                self.read_answer()?;
                let Some((rank, proof)) = self.proved(job, secret) else {
                    return Ok(Known::Stranger);
                };
                // Into an empty buffer, as the greeting was.
                self.stream.write_all(proof.as_ref())?;
                *self.rank.insert(rank)
            }
        };
        let mut last = [0];
        self.stream.read_exact(&mut last)?;
        match last == [STAYS] {
            true => Ok(Known::Process { rank }),
            false => Ok(Known::Stranger),
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

    /// The rank of a process of the job, and the hub's proof for it.
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

    /// The connection of a process.
    pub(super) fn into_stream(self) -> io::Result<TcpStream> {
        self.stream.set_nonblocking(false)?;
        Ok(self.stream)
    }
}

impl AsFd for Visitor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

/// The process's part, over a connection to what may be the hub. Whoever is there has so much time for all that it says.
pub(super) fn introduce(
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
                "what listens there does not know this process: another job, or another secret";
            io::Error::new(error.kind(), text)
        }
        _ => error,
    })?;
    if !transcript.is_proved(secret, Side::Hub, &proof) {
        let text = "what listens there is something else";
        return Err(io::Error::new(io::ErrorKind::InvalidData, text));
    }
    stream.write_all(&[STAYS])?;
    stream.set_read_timeout(None)
}

/// Fills `bytes` by the deadline, however slowly they come.
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
