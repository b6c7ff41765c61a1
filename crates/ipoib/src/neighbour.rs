//! The table of neighbours: IP addresses, their hardware addresses, and packets that wait for one.
//!
//! An entry is *resolving* while requests are sent for it, *known* once an answer came, and
//! *failed* for a second after three requests without one. A known entry that is used
//! [`LIFETIME`] after its last confirmation is asked for again while it stays in use; without an
//! answer it is resolving again. Time is in milliseconds from any start.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;

use crate::administration::record::Path;
use crate::hardware_address::HardwareAddress;

/// Most entries.
pub const MOST_ENTRIES: usize = 1024;
/// Most packets that wait for one neighbour.
pub const MOST_WAITING: usize = 64;
/// Most bytes that wait for all neighbours.
pub const MOST_WAITING_BYTES: usize = 4 << 20;
/// Time from a confirmation until the entry is asked for again.
pub const LIFETIME: u64 = 30_000;
/// Pause between requests, and time for which a neighbour counts as failed.
pub const PAUSE: u64 = 1_000;
/// Requests without an answer after which a neighbour has failed.
pub const REQUESTS: u32 = 3;
/// Time after which an unused entry is removed.
pub const UNUSED: u64 = 300_000;

/// The address of a neighbour on the link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Neighbour {
    /// Its hardware address.
    pub hardware: HardwareAddress,
    /// The path to its port; LID 0 on Ethernet.
    pub path: Path,
}

#[derive(Debug)]
enum State {
    Resolving { sent: u32, next: u64 },
    Known { at: Neighbour, confirmed: u64 },
    Probing { at: Neighbour, sent: u32, next: u64 },
    Failed { until: u64 },
}

#[derive(Debug)]
struct Entry {
    state: State,
    waiting: VecDeque<Vec<u8>>,
    used: u64,
}

/// The decision on a packet.
#[derive(Debug, PartialEq, Eq)]
pub enum Decision {
    /// Send it there.
    Send(Neighbour),
    /// Send it there, and ask for the address.
    SendAndAsk(Neighbour),
    /// It waits for the address.
    Waits,
    /// It waits, and the address must be asked for.
    WaitsAndAsk,
    /// It is dropped: too many wait.
    QueueFull,
    /// It is dropped: the neighbour does not answer.
    Failed,
}

/// Work that is due.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Due {
    /// Addresses to ask for.
    pub ask: Vec<IpAddr>,
    /// Packets that were dropped because their neighbours do not answer.
    pub dropped: u64,
}

/// The table.
#[derive(Debug, Default)]
pub struct Table {
    entries: HashMap<IpAddr, Entry>,
    waiting_bytes: usize,
}

impl Table {
    /// Decides on a packet to a neighbour; one that has to wait is stored. The number is that of
    /// stored packets that were dropped because the table was full.
    pub fn send(&mut self, to: IpAddr, packet: &[u8], now: u64) -> (Decision, u64) {
        let dropped = match self.entries.contains_key(&to) {
            true => 0,
            false => self.make_space(),
        };
        let entry = self.entries.entry(to).or_insert_with(|| Entry {
            // Failed until now: it is asked for at once.
            state: State::Failed { until: now },
            waiting: VecDeque::new(),
            used: now,
        });
        entry.used = now;
        let (decision, must_ask) = match &mut entry.state {
            State::Known { at, confirmed } if now < *confirmed + LIFETIME => {
                return (Decision::Send(*at), dropped);
            }
            State::Known { at, .. } => {
                let at = *at;
                let next = now + PAUSE;
                entry.state = State::Probing { at, sent: 1, next };
                return (Decision::SendAndAsk(at), dropped);
            }
            State::Probing { at, .. } => return (Decision::Send(*at), dropped),
            State::Failed { until } if now < *until => return (Decision::Failed, dropped),
            State::Failed { .. } => {
                let next = now + PAUSE;
                entry.state = State::Resolving { sent: 1, next };
                (Decision::WaitsAndAsk, true)
            }
            State::Resolving { .. } => (Decision::Waits, false),
        };
        let is_full = entry.waiting.len() == MOST_WAITING
            || self.waiting_bytes + packet.len() > MOST_WAITING_BYTES;
        if is_full {
            if must_ask {
                // Packets of other neighbours fill the queue: the next packet asks.
                entry.state = State::Failed { until: now };
            }
            return (Decision::QueueFull, dropped);
        }
        self.waiting_bytes += packet.len();
        entry.waiting.push_back(packet.to_vec());
        (decision, dropped)
    }

    /// Returns the address of a neighbour if it is known and need not be asked for.
    pub fn known(&mut self, to: IpAddr, now: u64) -> Option<Neighbour> {
        let entry = self.entries.get_mut(&to)?;
        let State::Known { at, confirmed } = entry.state else {
            return None;
        };
        (now < confirmed + LIFETIME).then(|| {
            entry.used = now;
            at
        })
    }

    /// Enters the address that a neighbour has stated, and returns the packets that waited for it,
    /// in their order. An address without an entry is entered only if `is_new`.
    pub fn confirm(
        &mut self,
        ip: IpAddr,
        at: Neighbour,
        is_new: bool,
        now: u64,
    ) -> (VecDeque<Vec<u8>>, u64) {
        let mut dropped = 0;
        if !self.entries.contains_key(&ip) {
            if !is_new {
                return (VecDeque::new(), 0);
            }
            dropped = self.make_space();
        }
        let confirmed = now;
        let entry = self.entries.entry(ip).or_insert_with(|| Entry {
            state: State::Known { at, confirmed },
            waiting: VecDeque::new(),
            // Entries that no packet was sent to are the first to be removed.
            used: 0,
        });
        entry.state = State::Known { at, confirmed };
        let waiting = std::mem::take(&mut entry.waiting);
        self.waiting_bytes -= waiting.iter().map(Vec::len).sum::<usize>();
        (waiting, dropped)
    }

    /// Returns whether a neighbour is known by another hardware address.
    pub fn contradicts(&self, ip: IpAddr, hardware: &HardwareAddress) -> bool {
        match self.entries.get(&ip).map(|entry| &entry.state) {
            Some(State::Known { at, .. } | State::Probing { at, .. }) => at.hardware != *hardware,
            _ => false,
        }
    }

    /// Makes space for an entry: removes the one that has not been used for the longest time, and
    /// returns the number of packets that waited in it.
    fn make_space(&mut self) -> u64 {
        if self.entries.len() < MOST_ENTRIES {
            return 0;
        }
        let oldest = self.entries.iter().min_by_key(|(_, entry)| entry.used);
        oldest.map(|(ip, _)| *ip).map_or(0, |ip| self.remove(ip))
    }

    fn remove(&mut self, ip: IpAddr) -> u64 {
        let Some(entry) = self.entries.remove(&ip) else {
            return 0;
        };
        self.waiting_bytes -= entry.waiting.iter().map(Vec::len).sum::<usize>();
        entry.waiting.len() as u64
    }

    /// Returns the requests that are due and the packets whose neighbours have failed.
    pub fn tick(&mut self, now: u64) -> Due {
        let mut due = Due::default();
        let mut freed = 0;
        for (ip, entry) in &mut self.entries {
            match &mut entry.state {
                State::Resolving { sent, next } if *next <= now => {
                    if *sent < REQUESTS {
                        *sent += 1;
                        *next = now + PAUSE;
                        due.ask.push(*ip);
                        continue;
                    }
                    due.dropped += entry.waiting.len() as u64;
                    freed += entry
                        .waiting
                        .drain(..)
                        .map(|packet| packet.len())
                        .sum::<usize>();
                    let until = now + PAUSE;
                    entry.state = State::Failed { until };
                }
                State::Probing { sent, next, .. } if *next <= now => {
                    due.ask.push(*ip);
                    *sent += 1;
                    *next = now + PAUSE;
                    if *sent > REQUESTS {
                        // Later packets wait for an answer instead of getting lost.
                        entry.state = State::Resolving {
                            sent: 1,
                            next: now + PAUSE,
                        };
                    }
                }
                _ => {}
            }
        }
        self.waiting_bytes -= freed;
        self.entries.retain(|_, entry| {
            let is_idle = matches!(entry.state, State::Known { .. } | State::Failed { .. });
            let last = match entry.state {
                State::Known { confirmed, .. } => entry.used.max(confirmed),
                _ => entry.used,
            };
            !is_idle || now < last + UNUSED
        });
        due
    }

    /// Returns whether an entry waits for an answer, so that [`Table::tick`] must be called.
    pub fn is_waiting(&self) -> bool {
        let waits =
            |entry: &Entry| matches!(entry.state, State::Resolving { .. } | State::Probing { .. });
        self.entries.values().any(waits)
    }

    /// Returns the number of waiting packets.
    pub fn waiting(&self) -> u64 {
        self.entries
            .values()
            .map(|entry| entry.waiting.len() as u64)
            .sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::net::Ipv4Addr;

    fn at(number: u32) -> Neighbour {
        let mut bytes = [0; 20];
        bytes[..4].copy_from_slice(&number.to_be_bytes());
        Neighbour {
            hardware: HardwareAddress::parse(&bytes),
            path: Path {
                lid: 1,
                service_level: 0,
            },
        }
    }

    fn ip(number: u32) -> IpAddr {
        Ipv4Addr::from_bits(0x0a00_0000 + number).into()
    }

    #[test]
    fn packets_wait_in_order_until_the_address_is_known() {
        let mut table = Table::default();
        assert_eq!(table.send(ip(1), b"a", 0).0, Decision::WaitsAndAsk);
        assert_eq!(table.send(ip(1), b"b", 1).0, Decision::Waits);
        let (waiting, _) = table.confirm(ip(1), at(5), false, 2);
        assert_eq!(waiting, [b"a".to_vec(), b"b".to_vec()]);
        assert_eq!(table.send(ip(1), b"c", 3).0, Decision::Send(at(5)));
        assert_eq!((table.waiting(), table.waiting_bytes), (0, 0));
    }

    #[test]
    fn a_silent_neighbour_fails_after_three_requests_and_is_asked_again_later() {
        let mut table = Table::default();
        table.send(ip(1), b"a", 0);
        assert_eq!(table.tick(PAUSE - 1), Due::default());
        for time in [PAUSE, 2 * PAUSE] {
            assert_eq!(table.tick(time).ask, [ip(1)]);
        }
        assert_eq!(
            table.tick(3 * PAUSE),
            Due {
                ask: vec![],
                dropped: 1
            }
        );
        assert!(!table.is_waiting());
        assert_eq!(table.send(ip(1), b"b", 3 * PAUSE + 1).0, Decision::Failed);
        assert_eq!(table.send(ip(1), b"b", 4 * PAUSE).0, Decision::WaitsAndAsk);
    }

    #[test]
    fn an_old_entry_is_asked_for_while_it_stays_in_use() {
        let mut table = Table::default();
        table.confirm(ip(1), at(5), true, 0);
        assert_eq!(
            table.send(ip(1), b"a", LIFETIME).0,
            Decision::SendAndAsk(at(5))
        );
        assert_eq!(
            table.send(ip(1), b"a", LIFETIME + 1).0,
            Decision::Send(at(5))
        );
        table.confirm(ip(1), at(6), false, LIFETIME + 2);
        assert_eq!(
            table.send(ip(1), b"a", LIFETIME + 3).0,
            Decision::Send(at(6))
        );
        // Without an answer packets wait again.
        let later = 3 * LIFETIME;
        table.send(ip(1), b"a", later);
        for number in 1..=3 {
            assert_eq!(table.tick(later + number * PAUSE).ask, [ip(1)]);
        }
        assert_eq!(
            table.send(ip(1), b"b", later + 3 * PAUSE).0,
            Decision::Waits
        );
    }

    #[test]
    fn strangers_are_entered_only_if_they_asked_for_this_interface() {
        let mut table = Table::default();
        table.confirm(ip(1), at(5), false, 0);
        assert!(table.entries.is_empty());
        table.confirm(ip(1), at(5), true, 0);
        assert_eq!(table.entries.len(), 1);
    }

    #[test]
    fn entries_in_use_outlive_a_flood_of_strangers() {
        let mut table = Table::default();
        table.confirm(ip(0), at(5), true, 0);
        table.send(ip(0), b"a", 1);
        for number in 1..5_000 {
            table.confirm(ip(number), at(number), true, 2);
        }
        assert_eq!(table.entries.len(), MOST_ENTRIES);
        assert_eq!(table.send(ip(0), b"b", 3).0, Decision::Send(at(5)));
    }

    #[test]
    fn unused_entries_are_removed() {
        let mut table = Table::default();
        table.confirm(ip(1), at(5), true, 7);
        table.tick(7 + UNUSED - 1);
        assert_eq!(table.entries.len(), 1);
        table.tick(7 + UNUSED);
        assert!(table.entries.is_empty());
    }

    #[test]
    fn waiting_packets_of_all_neighbours_are_bounded() {
        let mut table = Table::default();
        let packet = vec![0; 60_000];
        for number in 0..1_000 {
            table.send(ip(number % 700), &packet, 0);
        }
        assert!(table.waiting_bytes <= MOST_WAITING_BYTES);
        assert!(table.waiting() >= 60);
    }

    #[derive(Debug, Clone)]
    enum Step {
        Send(u32),
        Confirm(u32, u32, bool),
        Tick(u64),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            4 => (0u32..6).prop_map(Step::Send),
            1 => (0u32..6, 0u32..3, any::<bool>())
                .prop_map(|(of, at, new)| Step::Confirm(of, at, new)),
            2 => (0u64..40_000).prop_map(Step::Tick),
        ];
        prop::collection::vec(step, 0..400)
    }

    proptest! {
        /// Each packet is sent once, dropped once, or waits; those of a neighbour stay in order.
        #[test]
        fn every_packet_is_accounted_for(steps in steps()) {
            let mut table = Table::default();
            let (mut now, mut given, mut sent, mut dropped) = (0, 0u64, 0, 0);
            let mut last: HashMap<IpAddr, u64> = HashMap::new();
            for step in steps {
                match step {
                    Step::Send(to) => {
                        given += 1;
                        let (decision, lost) = table.send(ip(to), &given.to_be_bytes(), now);
                        dropped += lost;
                        match decision {
                            Decision::Send(_) | Decision::SendAndAsk(_) => {
                                sent += 1;
                                prop_assert!(last.insert(ip(to), given) < Some(given));
                                prop_assert!(table.entries[&ip(to)].waiting.is_empty());
                            }
                            Decision::QueueFull | Decision::Failed => dropped += 1,
                            Decision::Waits | Decision::WaitsAndAsk => {}
                        }
                    }
                    Step::Confirm(of, number, is_new) => {
                        let (waiting, lost) = table.confirm(ip(of), at(number), is_new, now);
                        dropped += lost;
                        for packet in waiting {
                            sent += 1;
                            let number = u64::from_be_bytes(packet.try_into().unwrap());
                            prop_assert!(last.insert(ip(of), number) < Some(number));
                        }
                    }
                    Step::Tick(time) => {
                        now += time;
                        dropped += table.tick(now).dropped;
                    }
                }
                prop_assert_eq!(given, sent + dropped + table.waiting());
                let waiting = table.entries.values().flat_map(|entry| &entry.waiting);
                let bytes: usize = waiting.map(Vec::len).sum();
                prop_assert_eq!(bytes, table.waiting_bytes);
            }
        }
    }
}
