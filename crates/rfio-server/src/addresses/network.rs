//! Networks in rules.

use std::net::IpAddr;
use std::str::FromStr;

/// The addresses with the same leading bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Network {
    first: IpAddr,
    pub(super) bits: u8,
}

impl Network {
    /// Returns the network of an address with a prefix of `bits` bits.
    pub(super) fn around(address: IpAddr, bits: u8) -> Self {
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

    pub(super) fn holds(&self, address: IpAddr) -> bool {
        address.is_ipv4() == self.first.is_ipv4() && Self::around(address, self.bits) == *self
    }

    /// Returns the number of bits of an address of the same family.
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
            .map_err(|_| format!("'{text}' is neither an address nor ADDRESS/BITS"))?;
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
        // No bits are set after the prefix, so it has at least the 96 bits before the IPv4 address.
        match address.to_canonical() {
            IpAddr::V4(v4) if address.is_ipv6() => Err(format!(
                "'{text}' is an IPv4 network; write {}",
                Self::around(v4.into(), bits - 96)
            )),
            _ => Ok(network),
        }
    }
}
