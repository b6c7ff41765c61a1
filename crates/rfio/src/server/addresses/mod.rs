//! Limits by address: what each host, or a network together, may have of sessions, requests and bytes.
//!
//! A file has a line for each network; the narrowest that holds an address decides about it. Sessions beyond a limit are
//! refused with the reason. Requests beyond a rate are not: they wait, so that programs get slower and do not fail. What is read
//! again holds from then on for sessions that stand as well, except that none of them is ended.
//!
//! A host of IPv6 has a network of 64 bits to itself and is counted as one, whichever of its addresses it comes from.

mod network;
mod party;
mod rules;
#[cfg(test)]
mod tests;

pub use network::Network;
pub use rules::{BadRule, Rules};

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, RwLock};
use std::time::Instant;

use party::{Bucket, Party, Used};
use rules::{Rule, Terms};

/// The limits, and who uses how much of them.
#[derive(Debug, Default)]
pub struct Addresses {
    rules: RwLock<Arc<Rules>>,
    /// How often they were replaced.
    generation: AtomicU64,
    parties: Mutex<HashMap<Network, Arc<Party>>>,
}
/// Why a session is not begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unwelcome {
    /// The network is refused.
    #[error("connections from {0} are not taken here")]
    Refused(Network),
    /// A host has as many sessions as it may.
    #[error("sessions: {host} has {has} already, the limit of each address in {network}")]
    Host {
        /// The host.
        host: Network,
        /// How many.
        has: usize,
        /// Whose limit it is.
        network: Network,
    },
    /// A network has.
    #[error("sessions: {network} has {has} already, its limit")]
    Network {
        /// The network.
        network: Network,
        /// How many.
        has: usize,
    },
}
/// A session's part in what its address has, until it is dropped.
#[derive(Debug)]
pub struct Presence {
    addresses: Arc<Addresses>,
    host: IpAddr,
    generation: u64,
    standing: Standing,
}

/// What the rules of a generation mean for a session.
#[derive(Debug)]
enum Standing {
    /// Nothing limits it.
    Free,
    /// It counts.
    Counted(Terms, Arc<Party>),
}

impl Addresses {
    /// These limits.
    pub fn of(rules: Rules) -> Arc<Self> {
        Arc::new(Self {
            rules: RwLock::new(Arc::new(rules)),
            ..Self::default()
        })
    }

    /// Other limits, from now on.
    pub fn replace(&self, rules: Rules) {
        *self
            .rules
            .write()
            .unwrap_or_else(|poison| poison.into_inner()) = Arc::new(rules);
        self.generation.fetch_add(1, Ordering::Release);
    }

    fn rules(&self) -> Arc<Rules> {
        let rules = self.rules.read();
        Arc::clone(&rules.unwrap_or_else(|poison| poison.into_inner()))
    }

    /// Whether nobody is let in from an address.
    pub fn refuse(&self, address: SocketAddr) -> bool {
        let rules = self.rules();
        let rule = rules.of(address.ip().to_canonical());
        rule.is_some_and(|rule| rule.terms.is_refused)
    }

    /// A session from an address, if it may have one more.
    pub fn enter(
        self: &Arc<Self>,
        address: SocketAddr,
        now: Instant,
    ) -> Result<Presence, Unwelcome> {
        let host = address.ip().to_canonical();
        let generation = self.generation.load(Ordering::Acquire);
        let rules = self.rules();
        let standing = match rules.of(host) {
            None => Standing::Free,
            Some(rule) if rule.terms.is_refused => return Err(Unwelcome::Refused(rule.network)),
            Some(rule) => {
                let party = self.party(rule, host, now);
                {
                    let mut used = party.lock();
                    let has = used.sessions;
                    if rule.terms.sessions.is_some_and(|most| has >= most) {
                        return Err(rule.unwelcome(host, has));
                    }
                    used.sessions += 1;
                }
                Standing::Counted(rule.terms, party)
            }
        };
        Ok(Presence {
            addresses: Arc::clone(self),
            host,
            generation,
            standing,
        })
    }

    fn party(&self, rule: &Rule, host: IpAddr, now: Instant) -> Arc<Party> {
        let mut parties = self
            .parties
            .lock()
            .unwrap_or_else(|poison| poison.into_inner());
        // Who has a session has a reference, and who has gone is remembered for as long as something is owed. References come
        // from here alone, under the lock.
        parties.retain(|_, party| Arc::strong_count(party) > 1 || party.has_used_some(now));
        let party = parties.entry(rule.party(host)).or_default();
        Arc::clone(party)
    }
}

impl Presence {
    /// Whether the next request may be looked at now.
    pub fn may_ask(&mut self, now: Instant) -> bool {
        self.follow(now);
        let Standing::Counted(terms, party) = &self.standing else {
            return true;
        };
        if terms.requests.is_none() && terms.bytes.is_none() {
            return true;
        }
        let mut used = party.lock();
        let Used {
            requests, bytes, ..
        } = &mut *used;
        [(requests, terms.requests), (bytes, terms.bytes)]
            .into_iter()
            .all(|(bucket, rate)| {
                rate.is_none_or(|rate| {
                    bucket
                        .get_or_insert_with(|| Bucket::full(rate, now))
                        .has_some(rate, now)
                })
            })
    }

    /// A request is looked at.
    pub fn has_asked(&self) {
        self.charge(|used| &mut used.requests, 1.0);
    }

    /// A request, which may be carried out, is about so many bytes of data at most.
    pub fn expects(&self, bytes: usize) {
        self.charge(|used| &mut used.bytes, bytes as f64);
    }

    /// It was about so many fewer.
    pub fn did_without(&self, bytes: usize) {
        self.charge(|used| &mut used.bytes, -(bytes as f64));
    }

    fn charge(&self, bucket: fn(&mut Used) -> &mut Option<Bucket>, amount: f64) {
        if let Standing::Counted(_, party) = &self.standing
            && let Some(bucket) = bucket(&mut party.lock())
        {
            bucket.left -= amount;
        }
    }

    /// Stands under the rules as they are now. A session that stands is not ended: where they refuse it, it keeps its old terms.
    pub fn follow(&mut self, now: Instant) {
        let generation = self.addresses.generation.load(Ordering::Acquire);
        if generation == self.generation {
            return;
        }
        self.generation = generation;
        let rules = self.addresses.rules();
        let standing = match rules.of(self.host) {
            None => Standing::Free,
            Some(rule) if rule.terms.is_refused => return,
            Some(rule) => {
                let party = self.addresses.party(rule, self.host, now);
                party.lock().sessions += 1;
                Standing::Counted(rule.terms, party)
            }
        };
        std::mem::replace(&mut self.standing, standing).leave();
    }
}

impl Standing {
    fn leave(&self) {
        if let Self::Counted(_, party) = self {
            party.lock().sessions -= 1;
        }
    }
}

impl Drop for Presence {
    fn drop(&mut self) {
        self.standing.leave();
    }
}
