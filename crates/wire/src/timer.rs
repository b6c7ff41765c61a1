//! Timers that packets and queue pairs carry as five bits.

/// Microseconds in units of 10, in the order of the codes: the table "Encoding for RNR NAK Timer Field" (9.7.5.2.8).
const RNR_TENS_OF_MICROSECONDS: [u32; 32] = [
    65_536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1_024,
    1_536, 2_048, 3_072, 4_096, 6_144, 8_192, 12_288, 16_384, 24_576, 32_768, 49_152,
];

/// How long a requester waits after a receiver was not ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RnrTimer(u8);

impl RnrTimer {
    /// The timer with this code, 0 to 31.
    pub const fn from_code(code: u8) -> Option<Self> {
        if code < 32 { Some(Self(code)) } else { None }
    }

    /// The low five bits of a syndrome.
    pub(crate) const fn from_low_bits(bits: u8) -> Self {
        Self(bits & 0x1f)
    }

    /// Its code. Code 0 is the longest wait, not the shortest.
    pub const fn code(self) -> u8 {
        self.0
    }

    /// The least time to wait, in nanoseconds.
    pub const fn nanoseconds(self) -> u64 {
        RNR_TENS_OF_MICROSECONDS[self.0 as usize] as u64 * 10_000
    }
}

/// How long a requester waits for an acknowledgement before it sends again (9.7.6.1.3, local ACK timeout).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct AckTimeout(u8);

impl AckTimeout {
    /// No timeout: what is lost stays lost.
    pub const INFINITE: Self = Self(0);

    /// The timeout with this code, 0 to 31.
    pub const fn from_code(code: u8) -> Option<Self> {
        if code < 32 { Some(Self(code)) } else { None }
    }

    /// The high five bits of a byte, where connection management has them.
    pub(crate) const fn from_high_bits(bits: u8) -> Self {
        Self(bits >> 3)
    }

    /// Its code.
    pub const fn code(self) -> u8 {
        self.0
    }

    /// 4.096 us x 2^code in nanoseconds; nothing if infinite. An adapter may take up to four times as long.
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
    fn rnr_codes_wait_as_the_specification_says() {
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
    fn rnr_waits_grow_with_the_code_but_for_zero() {
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
