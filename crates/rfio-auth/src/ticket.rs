//! Tickets in the form that issuers create and clients carry; their claims are defined in
//! [`verbena_rfio_protocol::ticket`].
//!
//! Between issuer and client a ticket is a line of hexadecimal digits: the key, then the claims. A
//! reader of that line can use the ticket, once, in place of its user: it must be protected like
//! the issuer's other answers, by TLS for example.

use std::str::FromStr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ring::hmac::{self, HMAC_SHA256};
use verbena_rfio_common::random::random;
use verbena_rfio_protocol::ticket::{Claims, LONGEST_LIFE, signed};
use verbena_rfio_protocol::types::{Path, Text};

/// Length of a key in bytes.
const KEY: usize = 32;

/// A ticket: its claims, and the key that proves them.
#[derive(Clone, PartialEq, Eq)]
pub struct Ticket {
    /// The claims.
    pub claims: Claims,
    /// The key. Possession of it is possession of the ticket.
    pub key: [u8; KEY],
}

impl std::fmt::Debug for Ticket {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ticket of {:?}", self.claims)
    }
}

/// Why a ticket is invalid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadTicket {
    /// Its lifetime would be zero or too long.
    #[error("a ticket is valid for 1 to {most} seconds, not for {asked}",
        most = LONGEST_LIFE / 1_000_000_000)]
    Life {
        /// Requested lifetime in seconds.
        asked: u64,
    },
    /// The text has not the form of a ticket.
    #[error("invalid ticket: truncated or changed on its way from the issuer")]
    Text,
}

/// A permission for one file: the user, the access, and the lifetime of the ticket.
#[derive(Debug, Clone)]
pub struct TicketGrant<'a> {
    /// The issuer's name, as known to the file server.
    pub issuer: &'a str,
    /// The user's name; empty means anonymous.
    pub user: &'a str,
    /// The file.
    pub path: Path,
    /// Bits of `OpenFlags::READ` and `OpenFlags::WRITE`.
    pub access: u32,
    /// Lifetime from now on.
    pub life: Duration,
}

/// Returns the time in nanoseconds since 1970, by this host's clock.
pub fn now() -> i64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .ok()
        .and_then(|since| i64::try_from(since.as_nanos()).ok())
        .unwrap_or(0)
}

impl Ticket {
    /// Issues a ticket under a secret shared with the file server.
    ///
    /// # Errors
    /// [`BadTicket::Life`] if the lifetime is out of range.
    pub fn issue(secret: &[u8], grant: TicketGrant<'_>) -> Result<Self, BadTicket> {
        let life = i64::try_from(grant.life.as_nanos())
            .ok()
            .filter(|life| (1..=LONGEST_LIFE).contains(life))
            .ok_or(BadTicket::Life {
                asked: grant.life.as_secs(),
            })?;
        let issued = now();
        let claims = Claims {
            issuer: Text::new(grant.issuer),
            user: Text::new(grant.user),
            path: grant.path,
            access: grant.access,
            issued,
            expires: issued.saturating_add(life),
            nonce: random(),
        };
        Ok(Self::sign(secret, claims))
    }

    /// Returns the ticket with these claims under a secret.
    pub fn sign(secret: &[u8], claims: Claims) -> Self {
        let key = hmac::sign(&hmac::Key::new(HMAC_SHA256, secret), &signed(&claims));
        let mut bytes = [0; KEY];
        bytes.copy_from_slice(key.as_ref());
        Self { claims, key: bytes }
    }
}

impl std::fmt::Display for Ticket {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let claims = self.claims.encode();
        for byte in self.key.iter().chain(&claims) {
            write!(f, "{byte:02x}")?;
        }
        Ok(())
    }
}

impl FromStr for Ticket {
    type Err = BadTicket;

    fn from_str(text: &str) -> Result<Self, BadTicket> {
        let bytes = bytes_of(text).ok_or(BadTicket::Text)?;
        let (key, claims) = bytes.split_first_chunk().ok_or(BadTicket::Text)?;
        let claims = Claims::decode(claims).map_err(|_| BadTicket::Text)?;
        Ok(Self { claims, key: *key })
    }
}

/// Decodes pairs of lower-case hexadecimal digits.
fn bytes_of(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let pairs = text.as_bytes().chunks(2);
    pairs
        .map(|pair| match pair {
            [high, low] => Some(digit(*high)? << 4 | digit(*low)?),
            _ => None,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn grant(life: Duration) -> TicketGrant<'static> {
        TicketGrant {
            issuer: "xrootd",
            user: "ann",
            path: Path::new("/run7/hits.root").unwrap(),
            access: 1,
            life,
        }
    }

    #[test]
    fn tickets_round_trip_and_are_unique() {
        let issue = || Ticket::issue(b"0123456789abcdef", grant(Duration::from_secs(60))).unwrap();
        let (one, other) = (issue(), issue());
        assert_eq!(one.to_string().parse(), Ok(one.clone()));
        assert_ne!(one.claims.nonce, other.claims.nonce);
        assert_ne!(one.key, other.key);
        assert_eq!(one.claims.expires - one.claims.issued, 60_000_000_000);
        assert_eq!(
            format!("{one:?}").find(&one.to_string()[..64]),
            None,
            "logs hold no keys"
        );
    }

    #[test]
    fn lifetimes_are_bounded() {
        for (seconds, accepted) in [(0, false), (1, true), (300, true), (301, false)] {
            let issued = Ticket::issue(b"0123456789abcdef", grant(Duration::from_secs(seconds)));
            assert_eq!(issued.is_ok(), accepted, "{seconds} s");
        }
    }

    proptest! {
        /// A text that parses as a ticket is formatted identically, and a truncated one does not
        /// parse.
        #[test]
        fn arbitrary_text_parses_or_is_refused(
            cut in 0usize..400, at in 0usize..400, digit in "[0-9a-fA-F ]") {
            let ticket = Ticket::issue(b"0123456789abcdef", grant(Duration::from_secs(60)))
                .unwrap();
            let text = ticket.to_string();
            if cut < text.len() {
                prop_assert_eq!(text[..cut].parse::<Ticket>(), Err(BadTicket::Text));
            }
            let mut changed = text.clone();
            changed.replace_range(at % text.len()..at % text.len() + 1, &digit);
            if let Ok(read) = changed.parse::<Ticket>() {
                prop_assert_eq!(read.to_string(), changed.clone());
                prop_assert_eq!(read == ticket, changed == text);
            }
        }
    }
}
