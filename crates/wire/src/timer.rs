//! Five-bit timer codes of packets and queue pairs.

/// RNR wait times in units of 10 microseconds, by code: the table "Encoding for RNR NAK Timer
/// Field" (9.7.5.2.8).
const RNR_TENS_OF_MICROSECONDS: [u32; 32] = [
    65_536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1_024,
    1_536, 2_048, 3_072, 4_096, 6_144, 8_192, 12_288, 16_384, 24_576, 32_768, 49_152,
];

/// The wait time of a requester after a receiver was not ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RnrTimer(u8);

impl RnrTimer {
    /// Returns the timer with this code, 0 to 31.
    pub const fn from_code(code: u8) -> Option<Self> {
        if code < 32 { Some(Self(code)) } else { None }
    }

    /// Returns the timer in the low five bits of a syndrome or attribute.
    pub const fn from_low_bits(bits: u8) -> Self {
        Self(bits & 0x1f)
    }

    /// Returns the code. Code 0 is the longest wait, not the shortest.
    pub const fn code(self) -> u8 {
        self.0
    }

    /// Returns the minimum wait in nanoseconds.
    pub const fn nanoseconds(self) -> u64 {
        RNR_TENS_OF_MICROSECONDS[self.0 as usize] as u64 * 10_000
    }
}

/// The time a requester waits for an acknowledgement before it retransmits (9.7.6.1.3, local ACK
/// timeout).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct AckTimeout(u8);

impl AckTimeout {
    /// No timeout: a lost packet is never retransmitted.
    pub const INFINITE: Self = Self(0);

    /// Returns the timeout with this code, 0 to 31.
    pub const fn from_code(code: u8) -> Option<Self> {
        if code < 32 { Some(Self(code)) } else { None }
    }

    /// Returns the timeout in the low five bits of an attribute.
    pub const fn from_low_bits(bits: u8) -> Self {
        Self(bits & 0x1f)
    }

    /// Returns the timeout in the high five bits of a byte, as in connection management.
    pub(crate) const fn from_high_bits(bits: u8) -> Self {
        Self(bits >> 3)
    }

    /// Returns the code.
    pub const fn code(self) -> u8 {
        self.0
    }

    /// Returns 4.096 us x 2^code in nanoseconds; `None` if infinite. An adapter may wait up to four
    /// times as long.
    pub const fn nanoseconds(self) -> Option<u64> {
        if self.0 == 0 {
            None
        } else {
            Some(4_096 << self.0)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rnr_delays_equal_the_specification() {
        let table = [
            (0, 655_360_000),
            (1, 10_000),
            (5, 60_000),
            (12, 640_000),
            (14, 1_280_000),
            (25, 61_440_000),
            (31, 491_520_000),
        ];
        for (code, nanoseconds) in table {
            assert_eq!(
                RnrTimer::from_code(code).map(RnrTimer::nanoseconds),
                Some(nanoseconds)
            );
        }
        assert_eq!(RnrTimer::from_code(32), None);
    }

    #[test]
    fn rnr_delays_grow_with_the_code_except_zero() {
        let waits: std::vec::Vec<_> = (1..32)
            .filter_map(RnrTimer::from_code)
            .map(RnrTimer::nanoseconds)
            .collect();
        assert!(waits.is_sorted_by(|a, b| a < b));
        assert!(RnrTimer(0).nanoseconds() > waits[30]);
    }

    #[test]
    fn ack_timeout_14_is_67_ms() {
        assert_eq!(
            AckTimeout::from_code(14).and_then(AckTimeout::nanoseconds),
            Some(67_108_864)
        );
        assert_eq!(AckTimeout::INFINITE.nanoseconds(), None);
        assert_eq!(
            AckTimeout::from_code(31).and_then(AckTimeout::nanoseconds),
            Some(4_096 << 31)
        );
        assert_eq!(AckTimeout::from_code(32), None);
    }
}
