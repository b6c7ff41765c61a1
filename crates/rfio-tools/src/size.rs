//! Parses human-readable sizes: `4096`, `64k`, `256M`, `1G`; the suffixes are powers of 1024.

/// Parses a size and returns bytes.
///
/// # Errors
/// The text is not an integer with an optional suffix, or the size exceeds 64 bits.
pub fn parse(text: &str) -> Result<u64, String> {
    let bad = || {
        format!(
            "'{text}' is not a size; write a number, optionally with k, M, G or T (powers of 1024)"
        )
    };
    let (digits, shift) = match text.char_indices().last().ok_or_else(bad)? {
        (at, 'k' | 'K') => (&text[..at], 10),
        (at, 'M' | 'm') => (&text[..at], 20),
        (at, 'G' | 'g') => (&text[..at], 30),
        (at, 'T' | 't') => (&text[..at], 40),
        _ => (text, 0),
    };
    let number: u64 = digits.parse().map_err(|_| bad())?;
    number.checked_mul(1 << shift).ok_or_else(bad)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_parsed() {
        assert_eq!(parse("4096"), Ok(4096));
        assert_eq!(parse("64k"), Ok(65_536));
        assert_eq!(parse("2G"), Ok(2 << 30));
        for bad in ["", "k", "1.5M", "-1", "99999999T", "10x"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
