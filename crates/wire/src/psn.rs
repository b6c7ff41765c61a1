//! Packet sequence numbers: 24 bits that wrap, compared by distance (specification 9.7.1).

use core::fmt;

/// A packet sequence number.
///
/// Order is only relative: one number precedes another if it is less than half the number space
/// behind it. So there is no `Ord`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Psn(u32);

impl Psn {
    /// The number of PSNs.
    pub const SPACE: u32 = 1 << 24;
    /// The maximum number of outstanding packets: half the space, so that new packets and
    /// duplicates can be distinguished.
    pub const WINDOW: u32 = 1 << 23;

    /// Returns the low 24 bits of `value`.
    pub const fn new(value: u32) -> Self {
        Self(value & (Self::SPACE - 1))
    }

    /// Returns the number.
    pub const fn value(self) -> u32 {
        self.0
    }

    /// Returns the next number.
    pub const fn next(self) -> Self {
        self.plus(1)
    }

    /// Returns the previous number.
    pub const fn previous(self) -> Self {
        Self::new(self.0.wrapping_sub(1))
    }

    /// Returns the number `packets` later.
    pub const fn plus(self, packets: u32) -> Self {
        Self::new(self.0.wrapping_add(packets))
    }

    /// Returns the signed distance from `other` in packets; negative if this is earlier. Within
    /// ±2^23.
    pub const fn since(self, other: Self) -> i32 {
        // Shifted to the top, bit 23 becomes the sign bit.
        (self.0.wrapping_sub(other.0) << 8) as i32 >> 8
    }

    /// Returns the forward distance from `other` in packets: less than [`Self::SPACE`].
    pub const fn ahead_of(self, other: Self) -> u32 {
        Self::new(self.0.wrapping_sub(other.0)).0
    }

    /// Returns whether this is earlier than `other`.
    pub const fn precedes(self, other: Self) -> bool {
        self.since(other) < 0
    }
}

impl fmt::Display for Psn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn psn_order_wraps_around() {
        let last = Psn::new(0x00ff_ffff);
        assert_eq!(last.next(), Psn::new(0));
        assert!(last.precedes(Psn::new(0)));
        assert!(!Psn::new(0).precedes(last));
        assert_eq!(Psn::new(5).since(last), 6);
        assert_eq!(last.since(Psn::new(5)), -6);
        assert_eq!(
            Psn::new(0).since(Psn::new(Psn::WINDOW)),
            -(Psn::WINDOW as i32)
        );
    }

    proptest! {
        #[test]
        fn psn_distance_equals_the_increment(start in 0u32..Psn::SPACE, by in 0u32..Psn::WINDOW) {
            let start = Psn::new(start);
            let later = start.plus(by);
            prop_assert_eq!(later.since(start), by as i32);
            prop_assert_eq!(later.ahead_of(start), by);
            prop_assert_eq!(start.ahead_of(later), (Psn::SPACE - by) % Psn::SPACE);
            prop_assert_eq!(start.since(later), -(by as i32));
            prop_assert_eq!(start.precedes(later), by != 0);
            prop_assert_eq!(later.next().previous(), later);
        }
    }
}
