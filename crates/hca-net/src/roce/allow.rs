//! Source filter: VERBENA_ALLOW lists the networks from which packets are accepted, in CIDR
//! notation (RFC 4632), separated by commas. Without it, packets from all sources are accepted.
//!
//! RoCEv2 has no authentication, and source addresses can be forged: the filter keeps out hosts
//! that do not forge theirs, and those whose forged packets routers and switches drop.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::str::FromStr;
use std::sync::OnceLock;
use verbena_hca_os::errno::{Errno, Result};

const VARIABLE: &str = "VERBENA_ALLOW";

/// A network: addresses with the same prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    /// IPv6 or mapped IPv4; bits behind the prefix are 0.
    first: u128,
    mask: u128,
}

/// A word that is not a network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotANetwork(String);

impl fmt::Display for NotANetwork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let NotANetwork(word) = self;
        write!(
            f,
            "`{word}` is not a network; write an address, optionally with a prefix length: \
             10.0.0.0/8, fd00::/8"
        )
    }
}

impl std::error::Error for NotANetwork {}

impl FromStr for Network {
    type Err = NotANetwork;

    fn from_str(word: &str) -> std::result::Result<Network, NotANetwork> {
        let refused = || NotANetwork(word.to_owned());
        let (address, bits) = match word.split_once('/') {
            Some((address, bits)) => (address, Some(bits)),
            None => (word, None),
        };
        let address: IpAddr = address.parse().map_err(|_| refused())?;
        let (mapped, most): (_, u32) = match address {
            IpAddr::V4(address) => (address.to_ipv6_mapped(), 32),
            IpAddr::V6(address) => (address, 128),
        };
        let bits = match bits {
            Some(bits) => bits.parse().map_err(|_| refused())?,
            None => most,
        };
        let behind: u32 = most.checked_sub(bits).ok_or_else(refused)?;
        let mask = u128::MAX.checked_shl(behind).unwrap_or(0);
        let first = u128::from(mapped);
        match first & !mask {
            0 => Ok(Network { first, mask }),
            // Bits behind the prefix: more likely a mistake than intended.
            _ => Err(refused()),
        }
    }
}

impl Network {
    #[inline]
    fn contains(&self, address: Ipv6Addr) -> bool {
        u128::from(address) & self.mask == self.first
    }
}

/// Networks from which packets are accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allowed(Option<Vec<Network>>);

impl Allowed {
    /// Returns whether packets from this source are accepted.
    #[inline]
    pub fn includes(&self, source: Ipv6Addr) -> bool {
        match &self.0 {
            None => true,
            Some(networks) => networks.iter().any(|network| network.contains(source)),
        }
    }

    fn parse(words: &str) -> std::result::Result<Allowed, NotANetwork> {
        let networks: std::result::Result<_, _> = words.split(',').map(str::parse).collect();
        networks.map(|networks| Allowed(Some(networks)))
    }
}

/// Returns the filter that the environment sets; read once.
///
/// # Errors
/// EINVAL for an invalid list of networks; a line on standard error explains it.
#[inline]
pub fn chosen() -> Result<&'static Allowed> {
    static CHOSEN: OnceLock<Result<Allowed>> = OnceLock::new();
    let chosen = CHOSEN.get_or_init(|| match std::env::var(VARIABLE).as_deref() {
        Err(_) | Ok("") => Ok(Allowed(None)),
        Ok(words) => Allowed::parse(words).map_err(|error| {
            eprintln!("verbena: {VARIABLE}: {error}");
            Errno::EINVAL
        }),
    });
    chosen.as_ref().map_err(|error| *error)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn includes(words: &str, address: &str) -> bool {
        let address: IpAddr = address.parse().unwrap();
        let address = match address {
            IpAddr::V4(address) => address.to_ipv6_mapped(),
            IpAddr::V6(address) => address,
        };
        Allowed::parse(words).unwrap().includes(address)
    }

    #[test]
    fn network_includes_addresses_of_its_prefix() {
        assert!(includes("10.9.0.0/24", "10.9.0.1"));
        assert!(includes("10.9.0.0/24", "10.9.0.255"));
        assert!(!includes("10.9.0.0/24", "10.9.1.0"));
        assert!(includes("fd09::/64", "fd09::77"));
        assert!(!includes("fd09::/64", "fd09:0:0:1::77"));
        assert!(includes("10.9.0.7", "10.9.0.7"));
        assert!(!includes("10.9.0.7", "10.9.0.6"));
    }

    #[test]
    fn networks_of_one_family_exclude_the_other() {
        assert!(includes("0.0.0.0/0", "203.0.113.9"));
        assert!(!includes("0.0.0.0/0", "fd09::1"));
        assert!(includes("::/0", "fd09::1"));
        assert!(includes("10.0.0.0/8,fd00::/8", "fd09::1"));
        assert!(includes("10.0.0.0/8,fd00::/8", "10.1.2.3"));
        assert!(!includes("10.0.0.0/8,fd00::/8", "11.1.2.3"));
    }

    #[test]
    fn invalid_network_is_refused() {
        for word in [
            "",
            "10.0.0.0/33",
            "fd00::/129",
            "10.0.0.1/24",
            "10.0.0.0/",
            "/8",
            "eth0",
            "10.0.0.0/-1",
            "10.0.0.0/8,",
        ] {
            assert!(Allowed::parse(word).is_err(), "{word}");
        }
        assert!(Allowed(None).includes(Ipv6Addr::LOCALHOST));
    }
}
