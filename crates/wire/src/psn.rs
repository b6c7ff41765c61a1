//! Packet sequence numbers: 24 bits that wrap, compared by distance (specification 9.7.1).

use core::fmt;

/// A packet sequence number.
///
/// Two of them are ordered only relative to each other: one precedes the other if it is less than half the number
/// space behind it. So there is no `Ord`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Psn(u32);

impl Psn {
    /// How many there are.
    pub const SPACE: u32 = 1 << 24;
    /// The most packets that may be outstanding: half the space, so that new and duplicate can be told apart.
    pub const WINDOW: u32 = 1 << 23;

    /// The low 24 bits of `value`.
    pub const fn new(value: u32) -> Self {
        Self(value & (Self::SPACE - 1))
    }

    /// The number.
    pub const fn value(self) -> u32 {
        self.0
    }

    /// The number after it.
    pub const fn next(self) -> Self {
        self.plus(1)
    }

    /// The number before it.
    pub const fn previous(self) -> Self {
        Self::new(self.0.wrapping_sub(1))
    }

    /// The number `packets` later.
    pub const fn plus(self, packets: u32) -> Self {
        Self::new(self.0.wrapping_add(packets))
    }

    /// How many packets later than `other` this is; negative if it is earlier. Within ±2^23.
    pub const fn since(self, other: Self) -> i32 {
        // Shifted to the top, the sign of 24 bits is that of 32.
        (self.0.wrapping_sub(other.0) << 8) as i32 >> 8
    }

    /// How many packets it takes from `other` on, always forwards, to come to this: less than [`Self::SPACE`].
    pub const fn ahead_of(self, other: Self) -> u32 {
        Self::new(self.0.wrapping_sub(other.0)).0
    }

    /// Whether this is earlier than `other`.
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
    fn order_goes_round() {
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
        fn distance_is_what_was_added(start in 0u32..Psn::SPACE, by in 0u32..Psn::WINDOW) {
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
