//! Port probe: checks whether a Verbena adapter receives at a private port of another host
//! ([`super::udp_port`]).
//!
//! | bytes | probe | answer |
//! |---|---|---|
//! | 0 to 3 | `Vrb?` | `Vrb!` |
//! | 4 to 7 | 0, see below | 0 |
//! | 8 to 15 | random | the same |
//!
//! The 0 makes `steering` deliver the probe to slot 0, which all processes that share the
//! port read.
//!
//! An answer counts if it repeats the probe's random bytes, so only a host that can read traffic to
//! that address can give it, and such a host could take the packets as well. The answer is as long
//! as the probe and reveals only that an adapter is there, so spoofed probes give no amplification.
//!
//! Answers are cached, so that not every datagram needs a probe; a negative result is cached for
//! less time, because an adapter may start.

use super::udp_port::UdpPort;
use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::net::Ipv6Addr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use verbena_hca_os::clock;
use verbena_hca_os::errno::Errno;
use verbena_hca_os::udp::{Address, Udp};

const QUESTION: [u8; 4] = *b"Vrb?";
const ANSWER: [u8; 4] = *b"Vrb!";
const RANDOM: usize = 8;
const LENGTH: usize = RANDOM + 8;

/// Nanoseconds for which a positive result is cached.
const PRESENT_FOR: u64 = 10_000_000_000;
/// Nanoseconds for which a negative result is cached.
const ABSENT_FOR: u64 = 1_000_000_000;
/// Milliseconds to wait after each probe. An adapter may have to wait for a processor first.
const TIMEOUTS_MS: [u64; 4] = [100, 200, 400, 800];

/// Address, scope (of a link-local address: its interface) and private port.
type ProbedPort = (Ipv6Addr, u32, UdpPort);

/// Cached results of port probes, each with the time at which it expires.
#[derive(Debug, Default)]
pub struct ProbeCache {
    results: Mutex<HashMap<ProbedPort, (bool, u64)>>,
    /// Ports at which an adapter was ever found.
    ever_found: Mutex<HashSet<ProbedPort>>,
}

impl ProbeCache {
    /// Returns whether a Verbena adapter receives at a private port of `to`, probing if needed.
    /// `socket` creates the socket to probe from.
    pub fn has_adapter(
        &self,
        udp_port: UdpPort,
        to: Address,
        socket: impl FnOnce() -> Result<Udp, Errno>,
    ) -> bool {
        let probed_port = (to.ip, to.scope, udp_port);
        let lock = || self.results.lock().unwrap_or_else(PoisonError::into_inner);
        let now = clock::now();
        if let Some((answer, until)) = lock().get(&probed_port)
            && now < *until
        {
            return *answer;
        }
        // The probe runs without the lock, so that other threads need not wait for it.
        let port = udp_port.port();
        let answer = socket().is_ok_and(|socket| ask(&socket, Address { port, ..to }));
        let lifetime = if answer { PRESENT_FOR } else { ABSENT_FOR };
        let now = clock::now();
        if answer {
            let mut ever_found = self
                .ever_found
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            ever_found.insert(probed_port);
        }
        let mut results = lock();
        results.retain(|_, (_, until)| now < *until);
        results.insert(probed_port, (answer, now + lifetime));
        answer
    }

    /// Returns whether a Verbena adapter was ever found at the port: if it has stopped since,
    /// errors are reported for that port and no other.
    pub fn had_adapter(&self, udp_port: UdpPort, to: Address) -> bool {
        let ever_found = self
            .ever_found
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        ever_found.contains(&(to.ip, to.scope, udp_port))
    }
}

/// Sends the probes and waits for an answer.
fn ask(socket: &Udp, to: Address) -> bool {
    let random = RandomState::new().build_hasher().finish().to_ne_bytes();
    let (question, wanted) = (probe_bytes(QUESTION, random), probe_bytes(ANSWER, random));
    for timeout in TIMEOUTS_MS.map(Duration::from_millis) {
        // A probe that cannot be sent now is repeated later.
        if socket.send(&to, &question, LENGTH, 0) == Err(Errno(libc::ECONNREFUSED)) {
            return false;
        }
        let end = clock::now() + timeout.as_nanos() as u64;
        while let Some(rest) = end.checked_sub(clock::now()) {
            let mut buffer = [0; LENGTH + 1];
            match socket.receive_within(&mut buffer, Duration::from_nanos(rest)) {
                Ok(length) if buffer.get(..length) == Some(&wanted) => return true,
                // The host is up, and the port is closed.
                Err(Errno(libc::ECONNREFUSED)) => return false,
                _ => (),
            }
        }
    }
    false
}

fn probe_bytes(kind: [u8; 4], random: [u8; 8]) -> [u8; LENGTH] {
    let mut bytes = [0; LENGTH];
    bytes[..kind.len()].copy_from_slice(&kind);
    bytes[RANDOM..].copy_from_slice(&random);
    bytes
}

/// Returns the answer to a datagram, if it is a port probe.
pub fn answer_to(datagram: &[u8]) -> Option<[u8; LENGTH]> {
    let random = *datagram.last_chunk()?;
    (datagram == probe_bytes(QUESTION, random)).then(|| probe_bytes(ANSWER, random))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::net::Ipv4Addr;
    use verbena_hca_os::udp::{Inbox, Sharing};

    fn here(port: u16) -> Address {
        let ip = Ipv4Addr::LOCALHOST.to_ipv6_mapped();
        Address { ip, port, scope: 0 }
    }

    fn asker() -> Udp {
        let socket = Udp::sender(here(0)).unwrap();
        socket.keep_failures().unwrap();
        socket
    }

    /// Answers the first probe at a socket with the result of `make`, from the address that the
    /// probe was sent to.
    fn answer_once(socket: &Udp, make: impl Fn(&[u8]) -> Vec<u8>) {
        let mut inbox = Inbox::default();
        while inbox.receive(socket) == 0 {
            std::thread::yield_now();
        }
        let arrived = inbox.arrived(0).unwrap();
        let datagram = &arrived.bytes[..arrived.segment.min(arrived.bytes.len())];
        socket.answer(&arrived, &make(datagram)).unwrap();
    }

    #[test]
    fn open_port_answers_probe_and_closed_port_refuses() {
        let receiver = Udp::receiver(0, Sharing::Alone).unwrap();
        let port = receiver.port().unwrap();
        let answering = std::thread::scope(|scope| {
            scope.spawn(|| answer_once(&receiver, |question| answer_to(question).unwrap().into()));
            ask(&asker(), here(port))
        });
        assert!(answering);
        drop(receiver);
        assert!(!ask(&asker(), here(port)));
    }

    #[test]
    fn answer_with_other_random_bytes_is_ignored() {
        let receiver = Udp::receiver(0, Sharing::Alone).unwrap();
        let port = receiver.port().unwrap();
        let lifetime = std::thread::scope(|scope| {
            scope.spawn(|| {
                answer_once(&receiver, |question| {
                    let mut answer = answer_to(question).unwrap();
                    answer[RANDOM] ^= 1;
                    answer.into()
                });
                // The probe is repeated, and the port is closed by then.
                drop(receiver);
            });
            ask(&asker(), here(port))
        });
        assert!(!lifetime);
    }

    #[test]
    fn datagram_other_than_a_probe_is_not_answered() {
        let question = probe_bytes(QUESTION, [7; 8]);
        assert_eq!(answer_to(&question), Some(probe_bytes(ANSWER, [7; 8])));
        for other in [
            &question[1..],
            &[&question[..], &[0]].concat(),
            b"",
            &probe_bytes(ANSWER, [7; 8]),
        ] {
            assert_eq!(answer_to(other), None);
        }
    }

    #[test]
    fn cached_probe_result_is_not_probed_again() {
        let udp_port = UdpPort::all().nth(1).unwrap();
        let probe_cache = ProbeCache::default();
        let asked = Cell::new(0);
        let has_adapter = || {
            probe_cache.has_adapter(udp_port, here(0), || {
                asked.set(asked.get() + 1);
                Err(Errno(libc::EADDRNOTAVAIL))
            })
        };
        assert!(!has_adapter() && !has_adapter());
        assert_eq!(asked.get(), 1);
    }
}
