//! A network in virtual time: each packet, protected by its ICRC, is lost, duplicated, corrupted or
//! delayed as the seed determines.

use std::collections::BTreeMap;

use verbena_transport::Instant;
use verbena_wire::roce::{self, Network as Layer, Route, V6};
use verbena_wire::{Gid, udp};

use super::random::Random;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum To {
    Requester,
    Responder,
}

/// Fault rates per thousand packets.
#[derive(Debug, Clone, Copy, Default)]
pub struct Manners {
    pub loss: u64,
    pub duplication: u64,
    pub corruption: u64,
    /// Requester's packets that trigger a congestion notification.
    pub congestion: u64,
    /// Maximum delay of a packet relative to the next, in nanoseconds.
    pub jitter: u64,
}

#[derive(Debug)]
pub struct Network {
    pub random: Random,
    pub manners: Manners,
    pub lost: u64,
    pub damaged: u64,
    pub carried: u64,
    flying: BTreeMap<(Instant, u64), (To, Vec<u8>)>,
    number: u64,
}

const DELAY: u64 = 2_000;

fn route(to: To) -> Route {
    let (requester, responder) = (Gid([0xfd; 16]), Gid([0xfe; 16]));
    let (source, destination) = match to {
        To::Requester => (responder, requester),
        To::Responder => (requester, responder),
    };
    let network = Layer::V6(V6 {
        traffic_class: 0,
        flow_label: 0,
        hop_limit: 64,
        source,
        destination,
    });
    Route {
        network,
        source_port: 0xc000,
        destination_port: udp::PORT,
        udp_checksum: 0,
    }
}

impl Network {
    pub fn new(seed: u64, manners: Manners) -> Self {
        let random = Random(seed);
        let flying = BTreeMap::new();
        Self {
            random,
            manners,
            lost: 0,
            damaged: 0,
            carried: 0,
            flying,
            number: 0,
        }
    }

    pub fn send(&mut self, now: Instant, to: To, packet: &[u8]) {
        let mut sealed = packet.to_vec();
        sealed.resize(packet.len() + 4, 0);
        roce::seal(&route(to), packet.len(), &mut sealed).expect("room for the ICRC");
        let copies = 1 + u64::from(self.random.permille(self.manners.duplication));
        for _ in 0..copies {
            if self.random.permille(self.manners.loss) {
                self.lost += 1;
                continue;
            }
            let mut sealed = sealed.clone();
            if self.random.permille(self.manners.corruption) {
                let bit = self.random.below(8 * sealed.len() as u64) as usize;
                sealed[bit / 8] ^= 1 << (bit % 8);
            }
            let at = now.plus(DELAY + self.random.below(self.manners.jitter + 1));
            self.number += 1;
            self.flying.insert((at, self.number), (to, sealed));
        }
    }

    pub fn next_arrival(&self) -> Option<Instant> {
        self.flying.keys().next().map(|(at, _)| *at)
    }

    /// Returns the next packet that has arrived with a valid ICRC.
    pub fn receive(&mut self, now: Instant) -> Option<(To, Vec<u8>)> {
        while self.next_arrival().is_some_and(|at| at <= now) {
            let (_, (to, sealed)) = self.flying.pop_first()?;
            match roce::open(&route(to), &sealed) {
                Ok((packet, _)) => {
                    self.carried += 1;
                    return Some((to, packet.to_vec()));
                }
                Err(_) => self.damaged += 1,
            }
        }
        None
    }
}
