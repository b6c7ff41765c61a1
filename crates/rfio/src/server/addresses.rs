//! Limits by address: what each host, or a network together, may have of sessions, requests and bytes.
//!
//! A file has a line for each network; the narrowest that holds an address decides about it. Sessions beyond a limit are
//! refused with the reason. Requests beyond a rate are not: they wait, so that programs get slower and do not fail. What is read
//! again holds from then on for sessions that stand as well, except that none of them is ended.
//!
//! A host of IPv6 has a network of 64 bits to itself and is counted as one, whichever of its addresses it comes from.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, RwLock};
use std::time::Instant;

/// Addresses that begin with the same bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Network {
    first: IpAddr,
    bits: u8,
}

impl Network {
    /// The network of an address with so many bits.
    fn around(address: IpAddr, bits: u8) -> Self {
        let first = match address {
            IpAddr::V4(v4) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(bits)).unwrap_or(0);
                IpAddr::V4((v4.to_bits() & mask).into())
            }
            IpAddr::V6(v6) => {
                let mask = u128::MAX.checked_shl(128 - u32::from(bits)).unwrap_or(0);
                IpAddr::V6((v6.to_bits() & mask).into())
            }
        };
        Self { first, bits }
    }

    fn holds(&self, address: IpAddr) -> bool {
        address.is_ipv4() == self.first.is_ipv4() && Self::around(address, self.bits) == *self
    }

    /// Bits of an address of the same family.
    fn most_bits(address: IpAddr) -> u8 {
        match address {
            IpAddr::V4(_) => 32,
            IpAddr::V6(_) => 128,
        }
    }
}

impl std::fmt::Display for Network {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.bits == Self::most_bits(self.first) {
            true => write!(f, "{}", self.first),
            false => write!(f, "{}/{}", self.first, self.bits),
        }
    }
}

impl FromStr for Network {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits)),
            None => (text, None),
        };
        let address: IpAddr = address
            .parse()
            .map_err(|_| format!("'{text}' is no address, nor ADDRESS/BITS"))?;
        let most = Self::most_bits(address);
        let bits = match bits {
            Some(bits) => bits.parse().ok().filter(|&bits| bits <= most),
            None => Some(most),
        };
        let bits = bits.ok_or_else(|| format!("'{text}' has more bits than {most}, or none"))?;
        let network = Self::around(address, bits);
        if network.first != address {
            return Err(format!(
                "'{text}' has bits beyond the network; write {network}"
            ));
        }
        // With no bits beyond it, such a network has at least the 96 bits before the address of IPv4.
        match address.to_canonical() {
            IpAddr::V4(v4) if address.is_ipv6() => Err(format!(
                "'{text}' is of IPv4; write {}",
                Self::around(v4.into(), bits - 96)
            )),
            _ => Ok(network),
        }
    }
}

/// What is allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Terms {
    is_refused: bool,
    sessions: Option<usize>,
    /// Requests a second.
    requests: Option<u64>,
    /// Bytes of file data a second.
    bytes: Option<u64>,
}

/// Who has the terms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Whose {
    /// Each host for itself.
    Each,
    /// All of the network.
    Together,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Rule {
    network: Network,
    terms: Terms,
    whose: Whose,
}

/// What a file says.
#[derive(Debug, Clone, Default)]
pub struct Rules(Vec<Rule>);

/// A line that makes no sense.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {what}")]
pub struct BadRule {
    /// Its number, from 1.
    pub line: usize,
    /// Why.
    pub what: String,
}

impl Rules {
    /// Reads text: `NETWORK refuse`, or `NETWORK [together] [sessions=N] [requests=N] [bytes=SIZE]`; `#` begins a comment.
    pub fn parse(text: &str) -> Result<Self, BadRule> {
        let mut rules: Vec<Rule> = Vec::new();
        for (index, line) in text.lines().enumerate() {
            let bad = |what| BadRule {
                line: index + 1,
                what,
            };
            let line = line.split_once('#').map_or(line, |(line, _)| line);
            let mut words = line.split_whitespace();
            let Some(network) = words.next() else {
                continue;
            };
            let rule = rule(network.parse().map_err(bad)?, words).map_err(bad)?;
            if rules.iter().any(|other| other.network == rule.network) {
                return Err(bad(format!("{} has a line already", rule.network)));
            }
            rules.push(rule);
        }
        // The narrowest first.
        rules.sort_by_key(|rule| std::cmp::Reverse(rule.network.bits));
        Ok(Self(rules))
    }

    /// The rule for an address.
    fn of(&self, address: IpAddr) -> Option<&Rule> {
        self.0.iter().find(|rule| rule.network.holds(address))
    }
}

fn rule<'a>(network: Network, words: impl Iterator<Item = &'a str>) -> Result<Rule, String> {
    let mut terms = Terms::default();
    let mut whose = Whose::Each;
    for word in words {
        let number = |value: &str, suffixes| {
            scaled(value, suffixes)
                .filter(|&number| number > 0)
                .ok_or_else(|| format!("'{word}' has no number from 1 on"))
        };
        match word.split_once('=') {
            None if word == "refuse" => terms.is_refused = true,
            None if word == "together" => whose = Whose::Together,
            Some(("sessions", value)) => {
                terms.sessions = usize::try_from(number(value, Suffixes::No)?).ok();
            }
            Some(("requests", value)) => terms.requests = Some(number(value, Suffixes::No)?),
            Some(("bytes", value)) => terms.bytes = Some(number(value, Suffixes::Yes)?),
            _ => {
                return Err(format!(
                    "'{word}' is none of refuse, together, sessions=N, requests=N, bytes=SIZE"
                ));
            }
        }
    }
    let only_refused = Terms {
        is_refused: true,
        ..Terms::default()
    };
    match terms {
        _ if terms == Terms::default() => Err(format!("{network} has no limit")),
        _ if terms.is_refused && (terms != only_refused || whose == Whose::Together) => Err(
            format!("{network} is refused, so nothing else can be said of it"),
        ),
        _ => Ok(Rule {
            network,
            terms,
            whose,
        }),
    }
}

/// Whether a number may have k, M or G behind it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Suffixes {
    No,
    Yes,
}

fn scaled(text: &str, suffixes: Suffixes) -> Option<u64> {
    let shift = match text.as_bytes().last()? {
        b'k' | b'K' => 10,
        b'M' => 20,
        b'G' => 30,
        _ => return text.parse().ok(),
    };
    let digits = (suffixes == Suffixes::Yes).then(|| &text[..text.len() - 1])?;
    digits.parse::<u64>().ok()?.checked_mul(1 << shift)
}

/// What is left of a rate: it fills up to what a second brings.
#[derive(Debug)]
struct Bucket {
    /// What a second brings.
    rate: f64,
    left: f64,
    at: Instant,
}

impl Bucket {
    fn full(rate: u64, now: Instant) -> Self {
        let rate = rate as f64;
        Self {
            rate,
            left: rate,
            at: now,
        }
    }

    /// Whether anything is left. What is taken may be more, and is owed then: a request may be larger than the rate.
    fn has_some(&mut self, rate: u64, now: Instant) -> bool {
        self.rate = rate as f64;
        self.left = self.left_at(now);
        self.at = self.at.max(now);
        self.left > 0.0
    }

    fn left_at(&self, now: Instant) -> f64 {
        let passed = now.saturating_duration_since(self.at).as_secs_f64();
        (self.left + passed * self.rate).min(self.rate)
    }

    fn is_full(&self, now: Instant) -> bool {
        self.left_at(now) >= self.rate
    }
}

/// One that has terms: a host, or a network together.
#[derive(Debug, Default)]
struct Party(Mutex<Used>);

#[derive(Debug, Default)]
struct Used {
    sessions: usize,
    requests: Option<Bucket>,
    bytes: Option<Bucket>,
}

impl Party {
    fn lock(&self) -> MutexGuard<'_, Used> {
        self.0.lock().unwrap_or_else(|poison| poison.into_inner())
    }

    /// Whether one that has never been here would have more.
    fn has_used_some(&self, now: Instant) -> bool {
        let used = self.lock();
        let mut buckets = used.requests.iter().chain(&used.bytes);
        buckets.any(|bucket| !bucket.is_full(now))
    }
}

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

impl Rule {
    /// Who has the terms, of which an address is one.
    fn party(&self, host: IpAddr) -> Network {
        match (self.whose, host) {
            (Whose::Together, _) => self.network,
            (Whose::Each, IpAddr::V4(_)) => Network::around(host, 32),
            (Whose::Each, IpAddr::V6(_)) => Network::around(host, self.network.bits.max(64)),
        }
    }

    fn unwelcome(&self, host: IpAddr, has: usize) -> Unwelcome {
        let network = self.network;
        match self.whose {
            Whose::Each => Unwelcome::Host {
                host: self.party(host),
                has,
                network,
            },
            Whose::Together => Unwelcome::Network { network, has },
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::net::{Ipv4Addr, Ipv6Addr};
    use std::time::Duration;

    fn limits(text: &str) -> Arc<Addresses> {
        Addresses::of(Rules::parse(text).unwrap())
    }

    fn at(text: &str) -> SocketAddr {
        SocketAddr::new(text.parse().unwrap(), 9)
    }

    #[test]
    fn lines_are_read_and_bad_ones_are_named() {
        let good = "# x\n\n10.0.0.0/8 sessions=4 # each\n::/0 together requests=10 bytes=2M\n192.0.2.1 refuse\n";
        assert_eq!(Rules::parse(good).unwrap().0.len(), 3);
        for (line, word) in [
            ("10.0.0.1/8 sessions=4", "10.0.0.0/8"),
            ("10.0.0.0/33 sessions=4", "more bits"),
            ("10.0.0.0/ sessions=4", "more bits"),
            ("host sessions=4", "no address"),
            ("::ffff:10.0.0.0/104 sessions=4", "write 10.0.0.0/8"),
            ("::ffff:10.0.0.1 sessions=4", "write 10.0.0.1"),
            ("::ffff:0:0/96 refuse", "write 0.0.0.0/0"),
            ("::ffff:0:0/95 refuse", "beyond the network"),
            ("10.0.0.1", "no limit"),
            ("10.0.0.1 together", "no limit"),
            ("10.0.0.1 sessions=0", "from 1 on"),
            ("10.0.0.1 sessions=2k", "from 1 on"),
            ("10.0.0.1 requests=-1", "from 1 on"),
            ("10.0.0.1 bytes=99999999999G", "from 1 on"),
            ("10.0.0.1 bytes=M", "from 1 on"),
            ("10.0.0.1 bytes=", "from 1 on"),
            ("10.0.0.1 refuse sessions=4", "nothing else"),
            ("10.0.0.1 refuse together", "nothing else"),
            ("10.0.0.1 sesions=4", "none of"),
            ("192.0.2.1 sessions=4", "already"),
        ] {
            let bad = Rules::parse(&format!("192.0.2.1/32 refuse\n{line}\n")).unwrap_err();
            assert_eq!(bad.line, 2, "{line}");
            assert!(bad.what.contains(word), "{line}: {bad}");
        }
    }

    #[test]
    fn the_narrowest_network_decides_whatever_the_order() {
        let now = Instant::now();
        let lines = [
            "10.0.0.0/8 sessions=1",
            "10.1.0.0/16 sessions=2",
            "10.1.2.3 refuse",
        ];
        for order in [[0, 1, 2], [2, 1, 0], [1, 2, 0]] {
            let addresses = limits(&order.map(|index| lines[index]).join("\n"));
            let enter = |text| addresses.enter(at(text), now);
            let _kept =
                [enter("10.9.9.9"), enter("10.1.9.9"), enter("10.1.9.9")].map(Result::unwrap);
            let refused = enter("10.9.9.9").unwrap_err().to_string();
            assert!(
                refused.contains("10.9.9.9 has 1") && refused.contains("10.0.0.0/8"),
                "{refused}"
            );
            assert!(enter("10.1.9.9").is_err());
            // Each host for itself.
            assert!(enter("10.9.9.8").is_ok());
            assert!(
                enter("10.1.2.3")
                    .unwrap_err()
                    .to_string()
                    .contains("not taken")
            );
            assert!(enter("::ffff:10.1.2.3").is_err(), "the same host by IPv6");
            assert!(enter("11.0.0.1").is_ok());
            assert!(addresses.refuse(at("10.1.2.3")) && addresses.refuse(at("::ffff:10.1.2.3")));
            assert!(!addresses.refuse(at("10.1.9.9")) && !addresses.refuse(at("11.0.0.1")));
        }
    }

    #[test]
    fn a_network_together_and_a_host_of_ipv6_count_as_one() {
        let now = Instant::now();
        let addresses = limits("10.0.0.0/8 together sessions=2\n2001:db8::/32 sessions=1");
        let one = addresses.enter(at("10.0.0.1"), now).unwrap();
        let _two = addresses.enter(at("10.200.0.1"), now).unwrap();
        let refused = addresses.enter(at("10.3.0.1"), now).unwrap_err();
        assert!(
            refused.to_string().contains("10.0.0.0/8 has 2"),
            "{refused}"
        );
        drop(one);
        assert!(addresses.enter(at("10.3.0.1"), now).is_ok());
        let _host = addresses.enter(at("2001:db8::1"), now).unwrap();
        assert!(
            addresses.enter(at("2001:db8::ffff"), now).is_err(),
            "the same host"
        );
        assert!(
            addresses.enter(at("2001:db8:0:1::1"), now).is_ok(),
            "another one"
        );
    }

    /// However a client spreads its requests over sessions, over time and over reconnecting, it gets no more than the rate, and what a
    /// second saves up.
    #[test]
    fn a_rate_holds_over_all_sessions_of_a_host() {
        let begin = Instant::now();
        let addresses = limits("10.0.0.0/8 requests=100");
        let mut asked = 0;
        for millisecond in 0..10_000u64 {
            let now = begin + Duration::from_millis(millisecond);
            // A new session each time.
            let mut session = addresses.enter(at("10.0.0.1"), now).unwrap();
            while session.may_ask(now) {
                session.has_asked();
                asked += 1;
            }
        }
        assert!(
            (1_090..=1_101).contains(&asked),
            "{asked} in ten seconds at 100 a second"
        );
        let mut other = addresses.enter(at("10.0.0.2"), begin).unwrap();
        assert!(other.may_ask(begin), "another host has its own");
    }

    #[test]
    fn a_request_larger_than_the_rate_is_paid_for_afterwards() {
        let begin = Instant::now();
        let addresses = limits("::1 bytes=1M");
        let mut session = addresses.enter(at("::1"), begin).unwrap();
        assert!(session.may_ask(begin));
        session.expects(5 << 20);
        for (milliseconds, may) in [(0, false), (3_990, false), (4_010, true)] {
            assert_eq!(
                session.may_ask(begin + Duration::from_millis(milliseconds)),
                may
            );
        }
    }

    /// What is owed is owed by the host, and not by the session: whether it stays, or goes for any time and comes back.
    #[test]
    fn a_debt_outlives_the_session() {
        let begin = Instant::now();
        for rule in ["10.0.0.0/8 bytes=1M", "10.0.0.0/8 together bytes=1M"] {
            let addresses = limits(rule);
            let later = |milliseconds| begin + Duration::from_millis(milliseconds);
            let may_ask = |milliseconds| {
                let mut session = addresses
                    .enter(at("10.0.0.1"), later(milliseconds))
                    .unwrap();
                session.may_ask(later(milliseconds))
            };
            let mut session = addresses.enter(at("10.0.0.1"), begin).unwrap();
            assert!(session.may_ask(begin));
            session.expects(11 << 20);
            drop(session);
            // Others come and go meanwhile.
            for (milliseconds, may) in [(0, false), (3_000, false), (9_990, false), (10_010, true)]
            {
                let other = addresses.enter(at("10.0.0.2"), later(milliseconds));
                drop(other.unwrap());
                assert_eq!(may_ask(milliseconds), may, "{rule} after {milliseconds} ms");
            }
        }
        let addresses = limits("10.0.0.0/8 bytes=1M");
        for host in 0..100u32 {
            let host = IpAddr::V4(Ipv4Addr::from(0x0a00_0000 + host));
            let entered = addresses.enter(SocketAddr::new(host, 9), begin).unwrap();
            drop(entered);
        }
        assert_eq!(
            addresses.parties.lock().unwrap().len(),
            1,
            "who owes nothing is forgotten"
        );
    }

    #[test]
    fn what_was_expected_and_did_not_come_is_given_back() {
        let begin = Instant::now();
        let addresses = limits("::1 requests=10 bytes=1M");
        let mut session = addresses.enter(at("::1"), begin).unwrap();
        assert!(session.may_ask(begin));
        session.expects(8 << 20);
        assert!(!session.may_ask(begin));
        session.did_without(8 << 20);
        assert!(session.may_ask(begin));
        // No more than a second brings is ever saved up.
        session.did_without(8 << 20);
        assert!(session.may_ask(begin));
        session.expects((1 << 20) + 1);
        assert!(!session.may_ask(begin));
    }

    /// Sessions that stand are not ended by a refusal, and are not freed by it either.
    #[test]
    fn who_is_refused_later_keeps_the_old_terms() {
        let now = Instant::now();
        let addresses = limits("10.0.0.0/8 requests=1");
        let mut session = addresses.enter(at("10.0.0.1"), now).unwrap();
        assert!(session.may_ask(now));
        session.has_asked();
        addresses.replace(Rules::parse("10.0.0.0/8 refuse").unwrap());
        assert!(addresses.enter(at("10.0.0.1"), now).is_err());
        assert!(!session.may_ask(now));
        assert!(session.may_ask(now + Duration::from_secs(1)));
        session.has_asked();
        assert!(!session.may_ask(now + Duration::from_secs(1)));
    }

    #[test]
    fn new_rules_hold_for_sessions_that_stand() {
        let now = Instant::now();
        let addresses = limits("10.0.0.0/8 sessions=3");
        let mut sessions = [(); 3].map(|()| addresses.enter(at("10.0.0.1"), now).unwrap());
        addresses.replace(Rules::parse("10.0.0.0/8 together sessions=4 requests=1").unwrap());
        for session in &mut sessions {
            session.may_ask(now);
        }
        let _fourth = addresses.enter(at("10.0.0.2"), now).unwrap();
        assert!(addresses.enter(at("10.0.0.3"), now).is_err());
        assert!(sessions[0].may_ask(now));
        sessions[0].has_asked();
        assert!(!sessions[1].may_ask(now), "the rate is of all together");
        addresses.replace(Rules::default());
        assert!(sessions[1].may_ask(now));
        drop(sessions);
        // Nobody is counted twice or forgotten.
        addresses.replace(Rules::parse("10.0.0.0/8 sessions=1").unwrap());
        assert!(addresses.enter(at("10.0.0.1"), now).is_ok());
    }

    proptest! {
        /// An address is held by its own network of any length, and by no network that differs within its bits.
        #[test]
        fn networks_hold_what_begins_alike(v4: u32, v6: u128, bits in 0u8..=32, flipped in 0u8..32) {
            let host = IpAddr::V4(Ipv4Addr::from(v4));
            let network = Network::around(host, bits);
            prop_assert!(network.holds(host));
            prop_assert_eq!(network.to_string().parse(), Ok(network));
            let other = IpAddr::V4(Ipv4Addr::from(v4 ^ (1 << (31 - flipped))));
            prop_assert_eq!(network.holds(other), flipped >= bits);
            prop_assert!(!network.holds(IpAddr::V6(Ipv6Addr::from(v6))));
            let host = IpAddr::V6(Ipv6Addr::from(v6));
            let network = Network::around(host, bits * 4);
            prop_assert!(network.holds(host));
            prop_assert_eq!(network.to_string().parse(), Ok(network));
        }
    }
}
