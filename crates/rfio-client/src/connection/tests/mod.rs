//! Random operations of several threads, against a simulated peer with random behavior.

mod peer;
mod steps;

use proptest::test_runner::Config as ProptestConfig;
use verbena_rfio_protocol::types::{Handle, Range};

use super::{MultiplexedConnection, Operation, OperationOutput};
use crate::{Address, Error, Options};

/// Returns a configuration with this number of cases, or that of `PROPTEST_CASES`.
fn cases(few: u32) -> ProptestConfig {
    match std::env::var_os("PROPTEST_CASES") {
        Some(_) => ProptestConfig::default(),
        None => ProptestConfig::with_cases(few),
    }
}

fn options() -> Options {
    Options::plain("nobody")
}

/// Random numbers from a seed (xorshift64*).
struct Dice(u64);

impl Dice {
    fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % bound.max(1)
    }
}
