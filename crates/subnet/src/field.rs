//! Fields of management attributes: numbers of up to 64 bits at any bit of a block, the most
//! significant bit first.

/// A field of a block of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Field {
    /// Offset of its most significant bit.
    at: u16,
    /// Width in bits, 1 to 64.
    bits: u8,
}

impl Field {
    /// Returns the field of this width at a bit offset.
    pub const fn new(at: u16, bits: u8) -> Field {
        assert!(bits >= 1 && bits <= 64, "a field has 1 to 64 bits");
        Field { at, bits }
    }

    /// Returns the field that begins at a byte.
    pub const fn at_byte(byte: u16, bits: u8) -> Field {
        Field::new(byte * 8, bits)
    }

    /// Returns the largest value.
    pub const fn most(self) -> u64 {
        u64::MAX >> (64 - self.bits)
    }

    /// Returns the value in a block.
    ///
    /// # Panics
    ///
    /// Panics if the block ends before the field.
    pub fn get(self, block: &[u8]) -> u64 {
        let (first, end) = self.bytes();
        let whole = block[first..end]
            .iter()
            .fold(0u128, |whole, byte| whole << 8 | u128::from(*byte));
        (whole >> self.behind(end)) as u64 & self.most()
    }

    /// Sets the value in a block; bits beyond the width are dropped.
    ///
    /// # Panics
    ///
    /// Panics if the block ends before the field.
    pub fn set(self, block: &mut [u8], value: u64) {
        let (first, end) = self.bytes();
        let behind = self.behind(end);
        let mask = u128::from(self.most()) << behind;
        let mut whole = block[first..end]
            .iter()
            .fold(0u128, |whole, byte| whole << 8 | u128::from(*byte));
        whole = whole & !mask | u128::from(value) << behind & mask;
        for byte in block[first..end].iter_mut().rev() {
            *byte = whole as u8;
            whole >>= 8;
        }
    }

    /// Copies the value from one block to another.
    pub fn copy(self, from: &[u8], to: &mut [u8]) {
        self.set(to, self.get(from));
    }

    /// Returns the first byte and the one behind the last.
    fn bytes(self) -> (usize, usize) {
        let at = usize::from(self.at);
        (at / 8, (at + usize::from(self.bits)).div_ceil(8))
    }

    /// Returns the number of bits between the field and the end of its last byte.
    fn behind(self, end: usize) -> usize {
        end * 8 - usize::from(self.at) - usize::from(self.bits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_value_is_read_back_and_other_bits_stay(
            at in 0u16..448, bits in 1u8..=64, value: u64, block: [u8; 64],
        ) {
            let field = Field::new(at, bits);
            let mut changed = block;
            field.set(&mut changed, value);
            prop_assert_eq!(field.get(&changed), value & field.most());
            let (mut one, mut other) = (block, changed);
            field.set(&mut one, 0);
            field.set(&mut other, 0);
            prop_assert_eq!(one, other);
        }
    }

    #[test]
    fn the_first_bit_is_the_most_significant() {
        let mut block = [0; 2];
        Field::new(4, 8).set(&mut block, 0xab);
        assert_eq!(block, [0x0a, 0xb0]);
    }
}
