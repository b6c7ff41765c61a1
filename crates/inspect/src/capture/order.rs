//! Sorts the packets of several processes by time.
//!
//! A process delivers a packet some time after its timestamp, so an older one may still arrive.
//! Packets are therefore held back for a while. A packet that arrives later still is written out of
//! order; analysers can sort.

use verbena_hca_net::capture::collect::Packet;

/// Time packets are held back, in nanoseconds.
const HELD_BACK: u64 = 20_000_000;

#[derive(Default)]
pub struct Waiting(Vec<Packet>);

impl Waiting {
    /// Returns the buffer for new packets.
    pub fn room(&mut self) -> &mut Vec<Packet> {
        &mut self.0
    }

    /// Takes the packets old enough at `now`, in order.
    pub fn ready(&mut self, now: u64) -> Vec<Packet> {
        self.before(now.saturating_sub(HELD_BACK))
    }

    pub fn all(&mut self) -> Vec<Packet> {
        self.before(u64::MAX)
    }

    fn before(&mut self, time: u64) -> Vec<Packet> {
        // A stable sort keeps the order of one process's packets with equal timestamps.
        self.0.sort_by_key(|packet| packet.time);
        let rest = self.0.partition_point(|packet| packet.time < time);
        let later = self.0.split_off(rest);
        std::mem::replace(&mut self.0, later)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use verbena_hca_net::capture::Seen;

    fn told(source: usize, time: u64) -> Packet {
        Packet {
            source,
            time,
            seen: Seen::Sent,
            frame: Vec::new(),
        }
    }

    fn times(packets: Vec<Packet>) -> Vec<(usize, u64)> {
        let name = |packet: &Packet| (packet.source, packet.time);
        packets.iter().map(name).collect()
    }

    #[test]
    fn packets_of_all_processes_are_ordered_by_time() {
        let mut waiting = Waiting::default();
        let now = 10 * HELD_BACK;
        waiting
            .room()
            .extend([told(0, now - HELD_BACK - 1), told(0, now)]);
        waiting
            .room()
            .extend([told(1, now - HELD_BACK - 2), told(1, now - 1)]);
        let first = times(waiting.ready(now));
        assert_eq!(first, [(1, now - HELD_BACK - 2), (0, now - HELD_BACK - 1)]);
        assert_eq!(times(waiting.all()), [(1, now - 1), (0, now)]);
    }
}
