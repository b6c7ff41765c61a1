//! Comparing what somebody must know, in a time that says nothing about where the first difference is.

/// Whether two byte strings are equal. Only their lengths show in the time that it takes.
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
    fn equality() {
        assert!(super::are_equal(b"", b""));
        assert!(super::are_equal(b"abc", b"abc"));
        assert!(!super::are_equal(b"abc", b"abd"));
        assert!(!super::are_equal(b"abc", b"ab"));
    }
}
