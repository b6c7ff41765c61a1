//! Probe of whether packets to a host arrive by UDP, unmodified. The peer reports probes over TCP.
//!
//! A probe is a regular packet to queue pair 1, from the socket that other packets use. A peer that
//! receives it intact reports that over the fallback connection. Where UDP does not pass, none
//! arrives; where a NAT rewrites addresses or ports, none arrives intact, because the ICRC covers
//! them.
//!
//! It is a management datagram of the communication management class, whose remote communication ID
//! lets `steering` find the receiving process, with an attribute that the
//! architecture does not assign. Probes go only to peers that completed a handshake.
//!
//! | bytes of the datagram | contents |
//! |---|---|
//! | 8 to 15, the transaction ID | token of the receiver, which names the connection |
//! | 16 and 17, the attribute ID | `Vb` |
//! | 28 to 31, the receiver's communication ID | its slot |
//!
//! Time and socket are the caller's.

use super::frame::Token;
use crate::roce::management_port::packet;
use verbena_wire::Psn;
use verbena_wire::icrc;
use verbena_wire::mad;
use verbena_wire::roce::{Route, seal};

const ATTRIBUTE: [u8; 2] = *b"Vb";
/// Nanoseconds to wait for the report of each probe; the next probe follows, and after the last one
/// the probing has failed. The peer may have to wait for a processor, and a probe may be lost.
/// Counted from the sending of the probe, because the sender may have to wait, too.
const TIMEOUTS: [u64; 5] = [20_000_000, 40_000_000, 80_000_000, 160_000_000, 300_000_000];

/// Result of probing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UdpVerdict {
    /// Packets pass.
    Passes,
    /// Packets do not pass.
    Fails,
}

/// Next action of a trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextAction {
    /// Send the probe.
    Ask,
    /// Call again at this time.
    Wait(u64),
    /// Nothing was reported; the trial is over.
    GiveUp,
}

/// A trial in progress.
#[derive(Clone, Copy, Debug)]
pub struct UdpProbe {
    due: u64,
    attempts: usize,
}

impl UdpProbe {
    /// Starts a trial.
    pub fn new(now: u64) -> UdpProbe {
        UdpProbe {
            due: now,
            attempts: 0,
        }
    }

    /// Returns the next action.
    pub fn step(&mut self, now: u64) -> NextAction {
        if now < self.due {
            return NextAction::Wait(self.due);
        }
        let Some(timeout) = TIMEOUTS.get(self.attempts) else {
            return NextAction::GiveUp;
        };
        self.attempts += 1;
        self.due = now + timeout;
        NextAction::Ask
    }
}

/// Returns the probe packet for the peer with this token and slot, sealed for a route.
pub fn question(token: Token, slot: u8, route: &Route) -> Option<Vec<u8>> {
    let mut datagram = [0; mad::LENGTH];
    let mut put = |at: usize, bytes: &[u8]| datagram[at..at + bytes.len()].copy_from_slice(bytes);
    // Base version 1, class version 2, method Send.
    put(0, &[1, mad::Class::COMMUNICATION.0, 2, 3]);
    put(8, &token);
    put(16, &ATTRIBUTE);
    put(28, &u32::from(slot).to_be_bytes());
    let packet = packet(Psn::new(0), &datagram)?;
    let mut bytes = vec![0; packet.length() + icrc::LENGTH];
    let length = packet.emit(&mut bytes).ok()?;
    seal(route, length, &mut bytes).ok()?;
    Some(bytes)
}

/// Returns the token in a management datagram, if it is a probe.
pub fn token_of(datagram: &[u8; mad::LENGTH]) -> Option<Token> {
    let is_question = datagram[1] == mad::Class::COMMUNICATION.0 && datagram[16..18] == ATTRIBUTE;
    let (token, _) = datagram[8..].split_first_chunk()?;
    is_question.then_some(*token)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::roce::route::route;
    use crate::roce::steering::slot_of;
    use std::net::{Ipv4Addr, Ipv6Addr};
    use verbena_hca_os::udp::Address;
    use verbena_wire::packet::Packet;
    use verbena_wire::roce::open;

    const TOKEN: Token = [3; 8];

    fn at(ip: Ipv6Addr, port: u16) -> Address {
        Address { ip, port, scope: 0 }
    }

    #[test]
    fn probing_gives_up_after_a_few_attempts() {
        let mut udp_probe = UdpProbe::new(1000);
        let mut now = 1000;
        let mut questions = 0;
        loop {
            match udp_probe.step(now) {
                NextAction::Ask => questions += 1,
                NextAction::Wait(until) => {
                    assert!(until > now);
                    now = until;
                }
                NextAction::GiveUp => break,
            }
        }
        assert_eq!(questions, TIMEOUTS.len());
        assert_eq!(now, 1000 + TIMEOUTS.iter().sum::<u64>());
        assert_eq!(udp_probe.step(now), NextAction::GiveUp);
    }

    #[test]
    fn late_probe_waits_its_full_timeout() {
        let late = 10_000_000_000;
        let mut udp_probe = UdpProbe::new(0);
        for timeout in TIMEOUTS {
            assert_eq!(udp_probe.step(late), NextAction::Ask);
            assert_eq!(udp_probe.step(late), NextAction::Wait(late + timeout));
            udp_probe.due = late;
        }
        assert_eq!(udp_probe.step(late), NextAction::GiveUp);
    }

    #[test]
    fn probe_is_steered_to_its_slot_and_fails_after_nat() {
        let from = at(Ipv4Addr::new(10, 9, 0, 1).to_ipv6_mapped(), 50_000);
        let to = at(Ipv4Addr::new(10, 9, 0, 2).to_ipv6_mapped(), 4791);
        for slot in [1, 17, 63] {
            let question = question(TOKEN, slot, &route(from, to, 0, 0)).unwrap();
            assert_eq!(slot_of(&question), u32::from(slot));
            let (bytes, _) = open(&route(from, to, 0, 64), &question).unwrap();
            let packet = Packet::parse(bytes).unwrap();
            let datagram: &[u8; mad::LENGTH] = packet.payload.try_into().unwrap();
            assert_eq!(token_of(datagram), Some(TOKEN));
            // After address translation it does not arrive intact.
            let elsewhere = at(Ipv4Addr::new(10, 9, 0, 77).to_ipv6_mapped(), 50_000);
            for (from, to) in [(elsewhere, to), (at(from.ip, 1), to), (from, elsewhere)] {
                assert!(open(&route(from, to, 0, 64), &question).is_err());
            }
        }
    }

    #[test]
    fn other_datagrams_have_no_probe_token() {
        let mut datagram = [0; mad::LENGTH];
        assert_eq!(token_of(&datagram), None);
        datagram[1] = mad::Class::COMMUNICATION.0;
        datagram[16..18].copy_from_slice(&(mad::cm::Attribute::Rep as u16).to_be_bytes());
        assert_eq!(token_of(&datagram), None);
    }
}
