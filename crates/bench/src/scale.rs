//! Memory of large models: estimated and refused before it is allocated.

use crate::forecast::shortage;
use verbena_fabric::{Error, Result};

/// Checks that the `needed` bytes of a model are available.
///
/// # Errors
///
/// Fails if they are not; the error has both figures.
pub fn check(needed: u64) -> Result<()> {
    match shortage(needed) {
        Some(reason) => Err(Error::invalid("memory", reason)),
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
