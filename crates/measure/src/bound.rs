//! Upper bounds shown beside figures (rule 17).

use serde::{Deserialize, Serialize};

/// An upper bound (for times, a lower one) with its reason.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Bound {
    /// In the metric's unit.
    pub value: f64,
    /// The limiting resource, as text for the reader.
    pub reason: String,
}

/// Returns the payload a link can carry, in bytes per second: its data rate times the payload share
/// of a packet. A message shorter than the MTU has one packet of its own size.
pub fn link_payload(data_bits_per_second: f64, mtu: u32, overhead: u32, message: u64) -> Bound {
    let message = message.max(1) as f64;
    let packets = (message / f64::from(mtu.max(1))).ceil();
    let share = message / (message + packets * f64::from(overhead));
    Bound {
        value: data_bits_per_second / 8.0 * share,
        reason: format!(
            "link at {:.1} Gbit/s, {:.1} % of it payload in packets of {mtu} bytes",
            data_bits_per_second / 1e9,
            share * 100.0
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sdr_with_2048_byte_packets() {
        // 8 Gbit/s of data; 30 bytes of headers and checksums per packet.
        let bound = link_payload(8e9, 2048, 30, 1 << 20);
        assert!((bound.value / 1e6 - 985.6).abs() < 0.2, "{}", bound.value);
        assert!(link_payload(8e9, 2048, 30, 0).value > 0.0);
    }
}
