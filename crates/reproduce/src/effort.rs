//! The cost of computing a point: messages, their parts, memory, and a stated time.

use verbena_model::adapter::Fidelity;

/// Stated processor time of a message between 64 nodes, in nanoseconds.
const MESSAGE: f64 = 5_000.0;
/// Stated processor time of a packet, or of a train of packets at message fidelity, in nanoseconds.
const PART: f64 = 3_000.0;
/// Power of the nodes by which both grow: the state of larger systems leaves the caches.
const GROWTH: f64 = 0.3;
/// Nodes from which they grow.
const SMALL: u64 = 64;
/// Most trains of a message at message fidelity, unless buffers of switches are smaller.
const TRAINS: u64 = 64;

/// The effort of a computation on a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Effort {
    /// Number of nodes.
    pub nodes: u64,
    /// Number of messages.
    pub messages: u64,
    /// Number of packets or trains of packets.
    pub parts: u64,
    /// Memory in bytes.
    pub memory: u64,
}

impl Effort {
    /// Returns the stated time in seconds, of one processor. Measured with bisections on 32 and 256
    /// nodes and exchanges of all with all on 256 (docs/models-parts.md, "Speed"); systems differ
    /// from it by a factor of up to four.
    pub fn seconds(&self) -> f64 {
        let growth = (self.nodes.max(SMALL) as f64 / SMALL as f64).powf(GROWTH);
        (self.messages as f64 * MESSAGE + self.parts as f64 * PART) * growth * 1e-9
    }

    /// Returns the efforts of two computations one after the other.
    #[must_use]
    pub fn and(self, other: Effort) -> Effort {
        Effort {
            nodes: self.nodes.max(other.nodes),
            messages: self.messages.saturating_add(other.messages),
            parts: self.parts.saturating_add(other.parts),
            memory: self.memory.max(other.memory),
        }
    }
}

/// Returns the parts of a message of `bytes` bytes that a model simulates.
pub fn parts(bytes: u64, mtu: u64, fidelity: Fidelity) -> u64 {
    let packets = bytes.div_ceil(mtu.max(1)).max(1);
    match fidelity {
        Fidelity::Packet => packets,
        Fidelity::Message => packets.min(TRAINS),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stated_time_grows_with_messages_parts_and_nodes() {
        let effort = Effort {
            nodes: 64,
            messages: 1_000_000,
            parts: 2_000_000,
            memory: 10,
        };
        assert_eq!(effort.seconds(), 11.0);
        let larger = Effort {
            nodes: 4096,
            ..effort
        };
        assert!(larger.seconds() > 2.0 * effort.seconds());
        let both = effort.and(larger);
        assert_eq!(
            (both.nodes, both.messages, both.parts),
            (4096, 2_000_000, 4_000_000)
        );
    }

    #[test]
    fn long_messages_have_packets_or_a_few_trains() {
        let of = |fidelity| [0, 1, 2049, 1 << 20].map(|bytes| parts(bytes, 2048, fidelity));
        assert_eq!(of(Fidelity::Packet), [1, 1, 2, 512]);
        assert_eq!(of(Fidelity::Message), [1, 1, 2, 64]);
    }
}
