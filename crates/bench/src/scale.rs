//! Memory of large models: estimated and refused before it is allocated.

use verbena_fabric::{Error, Result};
use verbena_measure::memory::available;
use verbena_measure::unit;

/// Memory of a process of a pattern, in bytes: 80 to 330 KiB, measured with 16 to 1024 processes.
pub const PROCESS: u64 = 384 << 10;

/// Checks that the `needed` bytes of a model are available.
///
/// # Errors
///
/// Fails if they are not; the error has both figures.
pub fn check(needed: u64) -> Result<()> {
    match available().filter(|available| needed > *available) {
        Some(available) => Err(Error::invalid(
            "memory",
            format!(
                "the model needs about {} of memory, and {} are available; use fewer processes",
                unit::size(needed as f64),
                unit::size(available as f64)
            ),
        )),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_larger_than_the_memory_is_refused_with_both_figures() {
        assert!(check(1 << 20).is_ok());
        let error = check(1 << 60).unwrap_err().to_string();
        assert!(error.contains("about 1073741824 GiB"), "{error}");
    }
}
