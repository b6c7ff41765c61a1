//! Random numbers.

use ring::rand::{SecureRandom, SystemRandom};

/// Returns unpredictable random bytes.
///
/// # Panics
/// If the system has no random numbers, without which nothing here is secure.
pub fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    SystemRandom::new()
        .fill(&mut bytes)
        .expect("the system gives random numbers");
    bytes
}
