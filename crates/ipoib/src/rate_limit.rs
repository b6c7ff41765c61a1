//! The limit of ICMP errors, with the values of Linux (`net.ipv4.icmp_ratelimit`): for each
//! destination six at once, and one a second.
//!
//! Linux exempts the messages about MTUs, because routers send them to hosts that cannot know the
//! MTU otherwise. Here both ends of a message are in one kernel, which remembers the MTU of each
//! destination; only programs that ignore it get a second message.

use std::collections::HashMap;
use std::net::IpAddr;

/// Milliseconds for one message.
const PAUSE: u64 = 1_000;
/// Most messages at once.
const BURST: u64 = 6;
/// Most destinations.
const MOST: usize = 1024;

/// The time that each destination has saved for messages.
#[derive(Debug, Default)]
pub struct RateLimit {
    destinations: HashMap<IpAddr, Saved>,
}

#[derive(Debug, Clone, Copy)]
struct Saved {
    milliseconds: u64,
    at: u64,
}

impl RateLimit {
    /// Returns whether a message about this destination may be sent now, in milliseconds, and
    /// counts it.
    pub fn permits(&mut self, destination: IpAddr, now: u64) -> bool {
        let full = Saved {
            milliseconds: BURST * PAUSE,
            at: now,
        };
        let known = self.destinations.get(&destination);
        if known.is_none() && self.destinations.len() >= MOST {
            // One that has saved everything is as good as unknown.
            self.destinations
                .retain(|_, saved| saved.until(now) < BURST * PAUSE);
            if self.destinations.len() >= MOST {
                return false;
            }
        }
        let saved = self.destinations.entry(destination).or_insert(full);
        *saved = Saved {
            milliseconds: saved.until(now),
            at: now,
        };
        let is_permitted = saved.milliseconds >= PAUSE;
        if is_permitted {
            saved.milliseconds -= PAUSE;
        }
        is_permitted
    }
}

impl Saved {
    /// Returns the milliseconds that are saved at a time.
    fn until(&self, now: u64) -> u64 {
        let passed = now.saturating_sub(self.at);
        self.milliseconds.saturating_add(passed).min(BURST * PAUSE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::net::Ipv4Addr;

    fn address(number: u32) -> IpAddr {
        Ipv4Addr::from(number).into()
    }

    #[test]
    fn six_messages_leave_at_once_and_then_one_a_second() {
        let mut limit = RateLimit::default();
        let count = |limit: &mut RateLimit, now| {
            (0..100).filter(|_| limit.permits(address(1), now)).count()
        };
        assert_eq!(count(&mut limit, 0), 6);
        assert_eq!(count(&mut limit, 999), 0);
        assert_eq!(count(&mut limit, 1_000), 1);
        assert_eq!(count(&mut limit, 3_500), 2);
        assert_eq!(count(&mut limit, 1_000_000), 6);
        // Other destinations have their own.
        assert!(limit.permits(address(2), 1_000_000));
    }

    #[test]
    fn a_full_table_permits_new_destinations_when_old_ones_have_been_quiet() {
        let mut limit = RateLimit::default();
        assert!((0..MOST as u32).all(|number| limit.permits(address(number), 0)));
        assert!(!limit.permits(address(5_000), 999));
        assert!(limit.permits(address(7), 999));
        assert!(limit.permits(address(5_000), 1_000));
        // The one that sent a second message has not saved everything yet.
        assert_eq!(limit.destinations.len(), 2);
    }

    proptest! {
        #[test]
        fn no_destination_gets_more_than_its_rate(
            steps in prop::collection::vec((0u32..3, 0u64..1_500), 0..300),
        ) {
            let mut limit = RateLimit::default();
            let (mut now, mut sent) = (0, [0; 3]);
            for (number, pause) in steps {
                now += pause;
                sent[number as usize] += u64::from(limit.permits(address(number), now));
            }
            prop_assert!(sent.iter().all(|sent| *sent <= BURST + now / PAUSE));
        }
    }
}
