//! Clock comparison between nodes: before each common start, one process of every other node
//! queries the first node's clock over UDP, while both spin, as a sleeping thread wakes up late.
//!
//! A query is the responder's token and a number; a response is the requester's token, the number
//! and the clock reading. Tokens are random and exchanged before each start, so that no other
//! process can respond and messages of earlier starts are ignored. Numbers are little-endian.

use crate::error::{Error, Result};
use ring::rand::{SecureRandom, SystemRandom};
use std::cell::Cell;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::ops::RangeInclusive;
use std::time::{Duration, Instant};
use verbena_measure::clock::Clock;
use verbena_measure::clock::offset::{Offset, Reading};

const QUERIES: usize = 64;
/// Timeout of a response before the next query. Responses take microseconds, unless a process was
/// preempted.
const ANSWER: Duration = Duration::from_millis(100);
/// Time limit of further queries once there is a reading.
const ENOUGH: Duration = Duration::from_millis(500);
/// Time limit of the whole comparison, for busy hosts.
const LONGEST: Duration = Duration::from_secs(5);
/// Empty polls before yielding the processor, possibly to the awaited process.
const LOOKS: u32 = 500;
/// Number that marks the end of the queries. Sent several times, as datagrams may be lost.
const NO_MORE: u32 = u32::MAX;
const END_MESSAGES: usize = 3;

/// Accepted range of a clock's tick, in nanoseconds; no counter is faster or slower.
const TICKS: RangeInclusive<f64> = 1e-3..=1e6;

const PASS: usize = 16;
const QUERY: usize = PASS + 4;
const REPLY: usize = QUERY + 8;

/// The socket and token of a process.
#[derive(Debug)]
pub struct ClockPort {
    socket: UdpSocket,
    pass: Cell<[u8; PASS]>,
    nanos_per_tick: f64,
    longest: Duration,
}

/// The data about it that other processes need.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ClockPortInfo {
    port: u16,
    pass: [u8; PASS],
    nanos_per_tick: f64,
}

impl ClockPortInfo {
    pub(super) fn to_bytes(self) -> Vec<u8> {
        let mut bytes = self.port.to_le_bytes().to_vec();
        bytes.extend(self.pass);
        bytes.extend(self.nanos_per_tick.to_le_bytes());
        bytes
    }

    pub(super) fn from_bytes(bytes: &[u8]) -> Option<ClockPortInfo> {
        let (port, rest) = bytes.split_first_chunk()?;
        let (pass, rest) = rest.split_first_chunk()?;
        let nanos_per_tick = f64::from_le_bytes(rest.try_into().ok()?);
        TICKS.contains(&nanos_per_tick).then_some(ClockPortInfo {
            port: u16::from_le_bytes(*port),
            pass: *pass,
            nanos_per_tick,
        })
    }
}

fn failed(error: io::Error) -> Error {
    Error::adapter("comparing clocks", error.to_string())
}

/// Waits until the next poll.
fn wait(looks: &mut u32) {
    *looks += 1;
    match looks.is_multiple_of(LOOKS) {
        true => std::thread::yield_now(),
        false => std::hint::spin_loop(),
    }
}

impl ClockPort {
    /// Opens a port on the address at which other nodes reach this one.
    ///
    /// # Errors
    ///
    /// Returns [`Error::Adapter`] if the socket cannot be opened.
    pub fn open(address: Option<IpAddr>, clock: &Clock) -> Result<ClockPort> {
        let address = address.unwrap_or(Ipv4Addr::LOCALHOST.into());
        let socket = UdpSocket::bind((address, 0)).map_err(failed)?;
        socket.set_nonblocking(true).map_err(failed)?;
        Ok(ClockPort {
            socket,
            pass: Cell::default(),
            nanos_per_tick: clock.nanos_per_tick,
            longest: LONGEST,
        })
    }

    /// Creates a new token and returns the data for other processes.
    pub(super) fn info(&self) -> Result<ClockPortInfo> {
        let mut pass = [0; PASS];
        let random = SystemRandom::new().fill(&mut pass);
        random.map_err(|_| failed(io::Error::other("no random numbers")))?;
        self.pass.set(pass);
        Ok(ClockPortInfo {
            port: self.socket.local_addr().map_err(failed)?.port(),
            pass,
            nanos_per_tick: self.nanos_per_tick,
        })
    }

    /// Responds to all requesters until they are done.
    pub(super) fn answer(&self, askers: &[(Option<IpAddr>, ClockPortInfo)], clock: &Clock) {
        let since = Instant::now();
        let mut looks = 0;
        let mut asking: Vec<&(Option<IpAddr>, ClockPortInfo)> = askers.iter().collect();
        while !asking.is_empty() && since.elapsed() < self.longest {
            let mut question = [0; REPLY];
            let Ok((QUERY, from)) = self.socket.recv_from(&mut question) else {
                wait(&mut looks);
                continue;
            };
            let number = &question[PASS..QUERY];
            let is_for_me = question[..PASS] == self.pass.get();
            let (true, Some(at)) = (is_for_me, asker_at(&asking, from)) else {
                continue;
            };
            if number == NO_MORE.to_le_bytes() {
                asking.remove(at);
                continue;
            }
            let mut answer = asking[at].1.pass.to_vec();
            answer.extend(number);
            answer.extend(clock.now().to_le_bytes());
            let _ = self.socket.send_to(&answer, from);
        }
    }

    /// Compares clocks with another process; `None` if it does not respond.
    pub(super) fn ask(
        &self,
        address: Option<IpAddr>,
        other: &ClockPortInfo,
        clock: &Clock,
    ) -> Option<Offset> {
        let address = address.unwrap_or(Ipv4Addr::LOCALHOST.into());
        let place = SocketAddr::new(address, other.port);
        let since = Instant::now();
        let mut readings = Vec::with_capacity(QUERIES);
        // Send time of each query until its response arrives.
        let mut asked = Vec::with_capacity(QUERIES);
        let say = |number: u32| {
            let mut question = other.pass.to_vec();
            question.extend(number.to_le_bytes());
            self.socket.send_to(&question, place)
        };
        while asked.len() < QUERIES {
            let limit = match readings.is_empty() {
                true => self.longest,
                false => ENOUGH,
            };
            if since.elapsed() > limit {
                break;
            }
            let number = asked.len() as u32;
            asked.push(Some(clock.now()));
            if say(number).is_ok() {
                readings.extend(self.hear(&mut asked, clock));
            }
        }
        for _ in 0..END_MESSAGES {
            let _ = say(NO_MORE);
        }
        Offset::of(&readings, other.nanos_per_tick / self.nanos_per_tick)
    }

    /// Waits for the next response to any query. A late response gives a wider bound on the offset,
    /// but a valid one.
    fn hear(&self, asked: &mut [Option<u64>], clock: &Clock) -> Option<Reading> {
        let since = Instant::now();
        let mut looks = 0;
        while since.elapsed() < ANSWER {
            let mut answer = [0; REPLY + 1];
            let got = self.socket.recv_from(&mut answer);
            let back = clock.now();
            let is_mine = matches!(got, Ok((REPLY, _))) && answer[..PASS] == self.pass.get();
            let number = answer[PASS..QUERY].try_into().map(u32::from_le_bytes);
            if is_mine
                && let Ok(number) = number
                && let Some(sent) = asked.get_mut(number as usize).and_then(Option::take)
            {
                let there = answer[QUERY..REPLY].try_into().expect("eight bytes");
                let there = u64::from_le_bytes(there);
                return Some(Reading { sent, there, back });
            }
            wait(&mut looks);
        }
        None
    }
}

/// Returns the requester that a query came from: the one with this port, and of several hosts' with
/// the same port the one with this address.
fn asker_at(asking: &[&(Option<IpAddr>, ClockPortInfo)], from: SocketAddr) -> Option<usize> {
    let has_port = |asker: &&(Option<IpAddr>, ClockPortInfo)| asker.1.port == from.port();
    let is_same = |asker: &&(Option<IpAddr>, ClockPortInfo)| {
        has_port(asker) && asker.0 == Some(from.ip().to_canonical())
    };
    let exact = asking.iter().position(is_same);
    exact.or_else(|| asking.iter().position(has_port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clock_message_encoding_round_trips() {
        let port = ClockPort::open(None, &Clock::system()).unwrap();
        let told = port.info().unwrap();
        assert_eq!(ClockPortInfo::from_bytes(&told.to_bytes()), Some(told));
        for wrong in [&b""[..], &[0; 26], &told.to_bytes()[1..]] {
            assert_eq!(ClockPortInfo::from_bytes(wrong), None);
        }
        for nonsense in [f64::NAN, f64::INFINITY, f64::MIN_POSITIVE, 0.0, -1.0, 1e300] {
            let told = ClockPortInfo {
                nanos_per_tick: nonsense,
                ..told
            };
            assert_eq!(
                ClockPortInfo::from_bytes(&told.to_bytes()),
                None,
                "{nonsense}"
            );
        }
    }

    /// Opens a port with a shorter time limit.
    fn port(clock: &Clock, longest: Duration) -> ClockPort {
        ClockPort {
            longest,
            ..ClockPort::open(None, clock).unwrap()
        }
    }

    #[test]
    fn clock_comparison_with_a_silent_process_times_out() {
        let clock = Clock::system();
        let longest = Duration::from_millis(300);
        let [asks, silent] = [(); 2].map(|()| port(&clock, longest));
        let other = silent.info().unwrap();
        assert_eq!(asks.ask(None, &other, &clock), None);
        // No process asks: the responder proceeds too.
        silent.answer(&[(None, asks.info().unwrap())], &clock);
    }

    /// The responder was preempted for longer than a query's timeout: all queries until then are
    /// answered late.
    #[test]
    fn late_clock_answers_are_used() {
        let clock = Clock::system();
        let longest = Duration::from_secs(30);
        let [asks, answers] = [(); 2].map(|()| port(&clock, longest));
        let (asker, answerer) = (asks.info().unwrap(), answers.info().unwrap());
        let clock = &clock;
        let offset = std::thread::scope(|scope| {
            let asking = scope.spawn(move || asks.ask(None, &answerer, clock));
            std::thread::sleep(ENOUGH + 3 * ANSWER);
            answers.answer(&[(None, asker)], clock);
            asking.join().unwrap()
        });
        assert!(offset.is_some());
    }
}
