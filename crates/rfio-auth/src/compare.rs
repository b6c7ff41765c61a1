//! Comparison of secrets in constant time, which does not reveal the position of the first
//! difference.

/// Returns whether two byte strings are equal. The time depends on their lengths only.
pub fn are_equal(ours: &[u8], theirs: &[u8]) -> bool {
    if ours.len() != theirs.len() {
        return false;
    }
    let difference = ours.iter().zip(theirs).fold(0, |sum, (a, b)| sum | (a ^ b));
    std::hint::black_box(difference) == 0
}

#[cfg(test)]
mod tests {
    #[test]
    fn comparison_equals_slice_equality() {
        assert!(super::are_equal(b"", b""));
        assert!(super::are_equal(b"abc", b"abc"));
        assert!(!super::are_equal(b"abc", b"abd"));
        assert!(!super::are_equal(b"abc", b"ab"));
    }
}
