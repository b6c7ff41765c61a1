//! The generator's random numbers: reproducible from a seed on every machine.

/// SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014).
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// Returns a generator for a seed.
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// Returns any number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    /// Returns one of `0..end`.
    pub fn below(&mut self, end: u32) -> u32 {
        (self.number() % u64::from(end.max(1))) as u32
    }

    /// Returns true with a probability of `cases` percent.
    pub fn percent(&mut self, cases: u32) -> bool {
        self.below(100) < cases
    }

    /// Returns one of several values; `None` if there are none.
    pub fn among<T: Clone>(&mut self, values: &[T]) -> Option<T> {
        if values.is_empty() {
            return None;
        }
        Some(values[self.below(values.len() as u32) as usize].clone())
    }
}
