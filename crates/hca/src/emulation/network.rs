//! The time of the network to a queue pair's peer: requests in packets leave earlier by it.
//!
//! Half of a round trip stands for the way there. The shortest of the last ones counts, so that
//! data are seldom early: one that waits for a sleeping program, or behind other requests, says
//! nothing about the network.

/// Classes by size, each of twice the size of the one before.
const CLASSES: usize = 32;

/// Round trips after which an older shortest one is forgotten.
const WINDOW: u32 = 64;

/// Shortest round trips of a class, in nanoseconds; `u64::MAX` for none.
#[derive(Clone, Copy)]
struct Shortest {
    /// Of the present window.
    now: u64,
    /// Of the window before.
    before: u64,
    /// Round trips in the present window.
    count: u32,
}

/// The round trips of a connection, by the size of their requests.
pub struct Network([Shortest; CLASSES]);

impl Default for Network {
    fn default() -> Network {
        let none = Shortest {
            now: u64::MAX,
            before: u64::MAX,
            count: 0,
        };
        Network([none; CLASSES])
    }
}

impl Network {
    /// Notes the nanoseconds from the start of a request's first packet until its answer.
    pub fn note(&mut self, bytes: u64, nanoseconds: u64) {
        let one = &mut self.0[class(bytes)];
        one.now = one.now.min(nanoseconds);
        one.count += 1;
        if one.count == WINDOW {
            (one.before, one.now, one.count) = (one.now, u64::MAX, 0);
        }
    }

    /// Returns the shortest of the last 64 to 128 round trips of requests of about this size; 0
    /// before the first.
    pub fn round_trip(&self, bytes: u64) -> u64 {
        let one = &self.0[class(bytes)];
        match one.now.min(one.before) {
            u64::MAX => 0,
            shortest => shortest,
        }
    }
}

fn class(bytes: u64) -> usize {
    (bytes.checked_ilog2().unwrap_or(0) as usize).min(CLASSES - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shortest_round_trip_of_a_size_is_forgotten_after_two_windows() {
        let mut network = Network::default();
        assert_eq!(network.round_trip(8), 0);
        network.note(8, 10_000);
        network.note(15, 30_000);
        network.note(16, 50_000);
        assert_eq!(
            [8, 12, 16].map(|bytes| network.round_trip(bytes)),
            [10_000, 10_000, 50_000]
        );
        for _ in 0..WINDOW {
            network.note(8, 20_000);
        }
        assert_eq!(network.round_trip(8), 10_000);
        for _ in 0..WINDOW {
            network.note(8, 20_000);
        }
        assert_eq!(network.round_trip(8), 20_000);
        assert_eq!(network.round_trip(u64::MAX), 0);
    }
}
