//! Limits by address on the sessions, requests and bytes of each host or of a network as a whole.
//!
//! A file has a line for each network; the narrowest one that contains an address applies. Sessions
//! beyond a limit are refused with the reason. Requests beyond a rate are delayed instead, so that
//! programs slow down and do not fail. Reloaded limits also apply to established sessions, but end
//! none of them.
//!
//! An IPv6 host is identified by its 64-bit network prefix, regardless of the rest of its address.

mod network;
mod rules;
#[cfg(test)]
mod tests;
mod usage;

pub use network::Network;
pub use rules::{BadRule, Rules};

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, RwLock};
use std::time::Instant;

use rules::{AddressLimits, Rule};
use usage::{AddressUsage, Bucket, Used};

/// The limits, and their usage.
#[derive(Debug, Default)]
pub struct Addresses {
    rules: RwLock<Arc<Rules>>,
    /// Number of times the limits were replaced.
    generation: AtomicU64,
    parties: Mutex<HashMap<Network, Arc<AddressUsage>>>,
}
/// Why a session is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AddressRefusal {
    /// The network is refused.
    #[error("connections from {0} are refused")]
    Refused(Network),
    /// A host has reached its limit of sessions.
    #[error("sessions: {host} already has {has}, the limit of each address in {network}")]
    Host {
        /// The host.
        host: Network,
        /// Its number of sessions.
        has: usize,
        /// The network whose line sets the limit.
        network: Network,
    },
    /// A network has reached its limit of sessions.
    #[error("sessions: {network} already has {has}, its limit")]
    Network {
        /// The network.
        network: Network,
        /// Its number of sessions.
        has: usize,
    },
}
/// A session's share of its address's limits, held until dropped.
#[derive(Debug)]
pub struct AddressShare {
    addresses: Arc<Addresses>,
    host: IpAddr,
    generation: u64,
    effect: RuleEffect,
}

/// Effect of the current rules on a session.
#[derive(Debug)]
enum RuleEffect {
    /// No limit applies.
    Free,
    /// The session counts towards these limits.
    Counted(AddressLimits, Arc<AddressUsage>),
}

impl Addresses {
    /// Creates a set of limits.
    pub fn of(rules: Rules) -> Arc<Self> {
        Arc::new(Self {
            rules: RwLock::new(Arc::new(rules)),
            ..Self::default()
        })
    }

    /// Replaces the limits.
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

    /// Returns whether connections from an address are refused.
    pub fn refuse(&self, address: SocketAddr) -> bool {
        let rules = self.rules();
        let rule = rules.of(address.ip().to_canonical());
        rule.is_some_and(|rule| rule.terms.is_refused)
    }

    /// Counts a new session from an address.
    ///
    /// # Errors
    /// The limit that was reached.
    pub fn enter(
        self: &Arc<Self>,
        address: SocketAddr,
        now: Instant,
    ) -> Result<AddressShare, AddressRefusal> {
        let host = address.ip().to_canonical();
        let generation = self.generation.load(Ordering::Acquire);
        let rules = self.rules();
        let effect = match rules.of(host) {
            None => RuleEffect::Free,
            Some(rule) if rule.terms.is_refused => {
                return Err(AddressRefusal::Refused(rule.network));
            }
            Some(rule) => {
                let usage = self.usage(rule, host, now);
                {
                    let mut used = usage.lock();
                    let has = used.sessions;
                    if rule.terms.sessions.is_some_and(|most| has >= most) {
                        return Err(rule.refusal(host, has));
                    }
                    used.sessions += 1;
                }
                RuleEffect::Counted(rule.terms, usage)
            }
        };
        Ok(AddressShare {
            addresses: Arc::clone(self),
            host,
            generation,
            effect,
        })
    }

    fn usage(&self, rule: &Rule, host: IpAddr, now: Instant) -> Arc<AddressUsage> {
        let mut parties = self
            .parties
            .lock()
            .unwrap_or_else(|poison| poison.into_inner());
        // A party with sessions is referenced, and one without is kept while its rate limits are
        // not fully replenished. References are created only here, under the lock.
        parties.retain(|_, usage| Arc::strong_count(usage) > 1 || usage.has_used_some(now));
        let usage = parties.entry(rule.usage(host)).or_default();
        Arc::clone(usage)
    }
}

impl AddressShare {
    /// Returns whether the next request may be read now.
    pub(crate) fn may_read_request(&mut self, now: Instant) -> bool {
        self.apply_rules(now);
        let RuleEffect::Counted(terms, usage) = &self.effect else {
            return true;
        };
        if terms.requests.is_none() && terms.bytes.is_none() {
            return true;
        }
        let mut used = usage.lock();
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

    /// Charges one request.
    pub(crate) fn charge_request(&self) {
        self.charge(|used| &mut used.requests, 1.0);
    }

    /// Charges a request that may be carried out with its maximum length of data, in bytes.
    pub(crate) fn charge_bytes(&self, bytes: usize) {
        self.charge(|used| &mut used.bytes, bytes as f64);
    }

    /// Refunds the bytes that were not transferred.
    pub(crate) fn refund_bytes(&self, bytes: usize) {
        self.charge(|used| &mut used.bytes, -(bytes as f64));
    }

    fn charge(&self, bucket: fn(&mut Used) -> &mut Option<Bucket>, amount: f64) {
        if let RuleEffect::Counted(_, usage) = &self.effect
            && let Some(bucket) = bucket(&mut usage.lock())
        {
            bucket.left -= amount;
        }
    }

    /// Applies the current rules. An established session is not ended: if they refuse it, it keeps
    /// its old limits.
    pub(crate) fn apply_rules(&mut self, now: Instant) {
        let generation = self.addresses.generation.load(Ordering::Acquire);
        if generation == self.generation {
            return;
        }
        self.generation = generation;
        let rules = self.addresses.rules();
        let effect = match rules.of(self.host) {
            None => RuleEffect::Free,
            Some(rule) if rule.terms.is_refused => return,
            Some(rule) => {
                let usage = self.addresses.usage(rule, self.host, now);
                usage.lock().sessions += 1;
                RuleEffect::Counted(rule.terms, usage)
            }
        };
        std::mem::replace(&mut self.effect, effect).leave();
    }
}

impl RuleEffect {
    fn leave(&self) {
        if let Self::Counted(_, usage) = self {
            usage.lock().sessions -= 1;
        }
    }
}

impl Drop for AddressShare {
    fn drop(&mut self) {
        self.effect.leave();
    }
}
