//! Parses the file of limits by network.

use std::net::IpAddr;

use super::AddressRefusal;
use super::network::Network;

/// The limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct AddressLimits {
    pub(super) is_refused: bool,
    pub(super) sessions: Option<usize>,
    /// Requests a second.
    pub(super) requests: Option<u64>,
    /// Bytes of file data a second.
    pub(super) bytes: Option<u64>,
}

/// The unit to which limits apply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LimitUnit {
    /// Each host separately.
    Each,
    /// The network as a whole.
    Together,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Rule {
    pub(super) network: Network,
    pub(super) terms: AddressLimits,
    whose: LimitUnit,
}

/// The rules of a file.
#[derive(Debug, Clone, Default)]
pub struct Rules(pub(super) Vec<Rule>);

/// An invalid line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {what}")]
pub struct BadRule {
    /// Its number, from 1.
    pub line: usize,
    /// The error.
    pub what: String,
}

impl Rules {
    /// Parses lines `NETWORK refuse`, or `NETWORK [together] [sessions=N] [requests=N]
    /// [bytes=SIZE]`; `#` begins a comment.
    ///
    /// # Errors
    /// The first invalid line.
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
                return Err(bad(format!("{} already has a line", rule.network)));
            }
            rules.push(rule);
        }
        // The narrowest first.
        rules.sort_by_key(|rule| std::cmp::Reverse(rule.network.bits));
        Ok(Self(rules))
    }

    /// Returns the rule for an address.
    pub(super) fn of(&self, address: IpAddr) -> Option<&Rule> {
        self.0.iter().find(|rule| rule.network.holds(address))
    }
}

fn rule<'a>(network: Network, words: impl Iterator<Item = &'a str>) -> Result<Rule, String> {
    let mut terms = AddressLimits::default();
    let mut whose = LimitUnit::Each;
    for word in words {
        let number = |value: &str, suffixes| {
            scaled(value, suffixes)
                .filter(|&number| number > 0)
                .ok_or_else(|| format!("'{word}' lacks a number of at least 1"))
        };
        match word.split_once('=') {
            None if word == "refuse" => terms.is_refused = true,
            None if word == "together" => whose = LimitUnit::Together,
            Some(("sessions", value)) => {
                terms.sessions = usize::try_from(number(value, Suffixes::No)?).ok();
            }
            Some(("requests", value)) => terms.requests = Some(number(value, Suffixes::No)?),
            Some(("bytes", value)) => terms.bytes = Some(number(value, Suffixes::Yes)?),
            _ => {
                return Err(format!(
                    "'{word}' is unknown; expected refuse, together, sessions=N, requests=N or \
                     bytes=SIZE"
                ));
            }
        }
    }
    let only_refused = AddressLimits {
        is_refused: true,
        ..AddressLimits::default()
    };
    match terms {
        _ if terms == AddressLimits::default() => Err(format!("{network} has no limit")),
        _ if terms.is_refused && (terms != only_refused || whose == LimitUnit::Together) => {
            Err(format!("{network} is refused and cannot have other limits"))
        }
        _ => Ok(Rule {
            network,
            terms,
            whose,
        }),
    }
}

/// Whether a number may have the suffix k, M or G.
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

impl Rule {
    /// Returns the host or network to which the limits apply for an address.
    pub(super) fn usage(&self, host: IpAddr) -> Network {
        match (self.whose, host) {
            (LimitUnit::Together, _) => self.network,
            (LimitUnit::Each, IpAddr::V4(_)) => Network::around(host, 32),
            (LimitUnit::Each, IpAddr::V6(_)) => Network::around(host, self.network.bits.max(64)),
        }
    }

    pub(super) fn refusal(&self, host: IpAddr, has: usize) -> AddressRefusal {
        let network = self.network;
        match self.whose {
            LimitUnit::Each => AddressRefusal::Host {
                host: self.usage(host),
                has,
                network,
            },
            LimitUnit::Together => AddressRefusal::Network { network, has },
        }
    }
}
