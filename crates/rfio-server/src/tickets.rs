//! Acceptance of tickets: by issuer and time, and each ticket once.
//!
//! A redeemed ticket is remembered until it could no longer be accepted. The bounds: a ticket is
//! valid for [`LONGEST_LIFE`] at most, and at most [`MOST`] are remembered at a time; beyond that
//! none is accepted. Redemptions before a restart are not remembered, so a ticket must have been
//! issued after the start. Clocks of issuer and server may differ by the permitted skew; in cases
//! of doubt the ticket is refused.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashSet};
use std::sync::{Arc, Mutex, RwLock};
use std::time::Duration;

use verbena_rfio_auth::secrets::Secrets;
use verbena_rfio_auth::ticket::now;
use verbena_rfio_protocol::ticket::{Claims, LONGEST_LIFE};

/// Maximum number of tickets remembered at a time: 4,000 a second with a lifetime of a minute.
pub const MOST: usize = 1 << 18;

/// Default for the permitted difference between the clocks of issuer and server.
pub const USUAL_SKEW: Duration = Duration::from_secs(5);

/// Why a genuine ticket is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TicketRefusal {
    /// It was redeemed before.
    #[error("the ticket was already used; request another one")]
    Used,
    /// It is too old, by this number of nanoseconds.
    #[error("the ticket expired {} s ago by this server's clock; request another one", .0 / SECOND)]
    Expired(i64),
    /// It was issued in the future, by this number of nanoseconds.
    #[error("the ticket is dated {} s in the future: the clocks of its issuer and of this server \
             differ", .0 / SECOND)]
    Future(i64),
    /// Its lifetime is out of range.
    #[error("the ticket's lifetime is zero or longer than {} s", LONGEST_LIFE / SECOND)]
    Life,
    /// It may have been redeemed before the server's restart.
    #[error("the ticket may predate this server's start; request another one in some seconds")]
    BeforeTheStart,
    /// There is no space to remember it.
    #[error("{0} tickets were used in the last minutes, the maximum that can be tracked")]
    Crowd(usize),
}

const SECOND: i64 = 1_000_000_000;

/// The issuers of tickets, and the redeemed tickets.
#[derive(Debug)]
pub struct Tickets {
    issuers: RwLock<Arc<Secrets>>,
    skew: i64,
    started: i64,
    most: usize,
    redeemed: Mutex<Redeemed>,
}

/// Redeemed tickets that could be presented again.
#[derive(Debug, Default)]
struct Redeemed {
    nonces: HashSet<[u8; 16]>,
    /// Ordered by expiry, the earliest on top.
    expiries: BinaryHeap<Reverse<(i64, [u8; 16])>>,
    /// Tickets that expire no later than this may have been forgotten. The clock may be set back
    /// before it.
    forgotten: i64,
}

impl Tickets {
    /// Returns a store that trusts no issuer.
    pub fn none() -> Self {
        Self::of(Secrets::default(), USUAL_SKEW)
    }

    /// Returns a store for tickets of these issuers, whose clocks may differ by `skew` from this
    /// host's.
    pub fn of(issuers: Secrets, skew: Duration) -> Self {
        Self {
            issuers: RwLock::new(Arc::new(issuers)),
            skew: i64::try_from(skew.as_nanos()).unwrap_or(i64::MAX),
            started: now(),
            most: MOST,
            redeemed: Mutex::default(),
        }
    }

    /// Replaces the accepted issuers.
    pub fn replace_issuers(&self, issuers: Secrets) {
        *self
            .issuers
            .write()
            .unwrap_or_else(|poison| poison.into_inner()) = Arc::new(issuers);
    }

    /// Returns the issuers' secrets.
    pub fn issuers(&self) -> Arc<Secrets> {
        let issuers = self.issuers.read();
        Arc::clone(&issuers.unwrap_or_else(|poison| poison.into_inner()))
    }

    /// Returns whether there is any issuer.
    pub(crate) fn are_accepted(&self) -> bool {
        !self.issuers().is_empty()
    }

    /// Redeems a ticket with verified claims at `now`, in nanoseconds since 1970.
    ///
    /// # Errors
    /// Why it is refused.
    pub fn redeem(&self, claims: &Claims, now: i64) -> Result<(), TicketRefusal> {
        let (issued, expires) = (claims.issued, claims.expires);
        if !(1..=LONGEST_LIFE).contains(&expires.saturating_sub(issued)) {
            return Err(TicketRefusal::Life);
        }
        if issued > now.saturating_add(self.skew) {
            return Err(TicketRefusal::Future(issued.saturating_sub(now)));
        }
        let mut redeemed = self
            .redeemed
            .lock()
            .unwrap_or_else(|poison| poison.into_inner());
        redeemed.forget_until(now.saturating_sub(self.skew));
        if expires < now.saturating_sub(self.skew) || expires <= redeemed.forgotten {
            return Err(TicketRefusal::Expired(now.saturating_sub(expires)));
        }
        if issued < self.started.saturating_add(self.skew) {
            return Err(TicketRefusal::BeforeTheStart);
        }
        if redeemed.nonces.contains(&claims.nonce) {
            return Err(TicketRefusal::Used);
        }
        if redeemed.nonces.len() >= self.most {
            return Err(TicketRefusal::Crowd(self.most));
        }
        redeemed.nonces.insert(claims.nonce);
        redeemed.expiries.push(Reverse((expires, claims.nonce)));
        Ok(())
    }
}

impl Redeemed {
    /// Forgets tickets that expired before `time`.
    fn forget_until(&mut self, time: i64) {
        while let Some(&Reverse((expires, nonce))) = self.expiries.peek()
            && expires < time
        {
            self.expiries.pop();
            self.nonces.remove(&nonce);
            self.forgotten = self.forgotten.max(expires);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use verbena_rfio_protocol::types::{Path, Text};

    use super::*;

    const SKEW: i64 = 5 * SECOND;

    fn tickets(started: i64, most: usize) -> Tickets {
        let issuers = Secrets::parse("xrootd:0123456789abcdef").unwrap();
        Tickets {
            started,
            most,
            ..Tickets::of(issuers, Duration::from_secs(5))
        }
    }

    fn claims(number: u64, issued: i64, life: i64) -> Claims {
        let mut nonce = [0; 16];
        nonce[..8].copy_from_slice(&number.to_be_bytes());
        Claims {
            issuer: Text::new("xrootd"),
            user: Text::new("ann"),
            path: Path::new("/a").unwrap(),
            access: 1,
            issued,
            expires: issued.saturating_add(life),
            nonce,
        }
    }

    #[test]
    fn a_ticket_is_accepted_once_and_within_its_lifetime() {
        let start = 1_000 * SECOND;
        let tickets = tickets(start, MOST);
        let life = 60 * SECOND;
        let issued = start + 100 * SECOND;
        let ticket = claims(1, issued, life);
        assert_eq!(tickets.redeem(&ticket, issued + SECOND), Ok(()));
        assert_eq!(
            tickets.redeem(&ticket, issued + SECOND),
            Err(TicketRefusal::Used)
        );
        // Refused as used up to the last moment of its validity, and refused afterwards even if the
        // clock is set back.
        let last = issued + life + SKEW;
        assert_eq!(tickets.redeem(&ticket, last), Err(TicketRefusal::Used));
        assert_eq!(
            tickets.redeem(&ticket, last + 1),
            Err(TicketRefusal::Expired(SKEW + 1))
        );
        assert!(matches!(
            tickets.redeem(&ticket, issued),
            Err(TicketRefusal::Expired(_))
        ));
        // After a clock that was ahead is corrected, newly issued tickets are accepted.
        let next = claims(2, issued + life + 1, life);
        assert_eq!(tickets.redeem(&next, issued + life + 1), Ok(()));
    }

    #[test]
    fn clocks_may_differ_by_the_skew_and_not_by_more() {
        let tickets = tickets(0, MOST);
        let now = 1_000_000 * SECOND;
        let life = 10 * SECOND;
        for (number, (issued, taken)) in [
            (now + SKEW, true),
            (now + SKEW + 1, false),
            (now - life - SKEW, true),
            (now - life - SKEW - 1, false),
        ]
        .into_iter()
        .enumerate()
        {
            let outcome = tickets.redeem(&claims(number as u64, issued, life), now);
            assert_eq!(outcome.is_ok(), taken, "{outcome:?}");
        }
    }

    #[test]
    fn tickets_issued_before_the_start_are_refused() {
        let start = 1_000_000 * SECOND;
        let tickets = tickets(start, MOST);
        for (number, (issued, taken)) in [
            (start, false),
            (start + SKEW - 1, false),
            (start + SKEW, true),
        ]
        .into_iter()
        .enumerate()
        {
            let outcome = tickets.redeem(&claims(number as u64, issued, SECOND * 60), start + SKEW);
            assert_eq!(outcome.is_ok(), taken, "{outcome:?}");
        }
    }

    #[test]
    fn lifetimes_out_of_bounds_are_refused() {
        let tickets = tickets(0, MOST);
        let now = 1_000_000 * SECOND;
        for life in [i64::MIN, -1, 0, LONGEST_LIFE + 1, i64::MAX] {
            let outcome = tickets.redeem(&claims(1, now, life), now);
            assert_eq!(outcome, Err(TicketRefusal::Life), "{life}");
        }
    }

    #[test]
    fn too_many_tickets_are_refused_until_some_expire() {
        let tickets = tickets(0, 2);
        let now = 1_000_000 * SECOND;
        let issue = |number| claims(number, now, SECOND);
        assert_eq!(tickets.redeem(&issue(1), now), Ok(()));
        assert_eq!(tickets.redeem(&issue(2), now), Ok(()));
        assert_eq!(tickets.redeem(&issue(3), now), Err(TicketRefusal::Crowd(2)));
        let later = now + SECOND + SKEW + 1;
        assert_eq!(tickets.redeem(&claims(4, later, SECOND), later), Ok(()));
        assert_eq!(tickets.redeemed.lock().unwrap().nonces.len(), 1);
    }

    proptest! {
        /// For any times and clock jumps no ticket is accepted twice, and the number of remembered
        /// tickets stays within its bound.
        #[test]
        fn no_ticket_is_accepted_twice(
            steps in prop::collection::vec((0u64..8, -400i64..400), 1..200)) {
            let base = 1_000_000 * SECOND;
            let tickets = tickets(0, 4);
            let lives = [1, 5, 60, 300, 30, 2, 299, 120];
            let mut taken = HashSet::new();
            for (number, clock) in steps {
                // A ticket's times are fixed when it is issued and do not depend on when it is
                // shown.
                let issued = base + (number as i64 * 37 % 200) * SECOND;
                let ticket = claims(number, issued, lives[number as usize] * SECOND);
                if tickets.redeem(&ticket, base + clock * SECOND).is_ok() {
                    prop_assert!(taken.insert(number), "{number} was taken twice");
                }
                let redeemed = tickets.redeemed.lock().unwrap();
                prop_assert!(redeemed.nonces.len() <= 4);
                prop_assert_eq!(redeemed.nonces.len(), redeemed.expiries.len());
            }
        }
    }
}
