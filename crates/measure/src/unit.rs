//! Formats values for display; files use one unit per quantity (rule 15).

/// Formats nanoseconds.
pub fn time(nanos: f64) -> String {
    match nanos.abs() {
        v if v < 1e3 => format!("{} ns", short(nanos)),
        v if v < 1e6 => format!("{} us", short(nanos / 1e3)),
        v if v < 1e9 => format!("{} ms", short(nanos / 1e6)),
        _ => format!("{} s", short(nanos / 1e9)),
    }
}

/// Formats bytes per second; MB is 10^6 bytes.
pub fn rate(bytes_per_second: f64) -> String {
    match bytes_per_second.abs() {
        v if v < 1e6 => format!("{} kB/s", short(bytes_per_second / 1e3)),
        v if v < 1e9 => format!("{} MB/s", short(bytes_per_second / 1e6)),
        _ => format!("{} GB/s", short(bytes_per_second / 1e9)),
    }
}

/// Formats a size in bytes with binary prefixes.
pub fn size(bytes: f64) -> String {
    match bytes {
        v if v < 1024.0 => format!("{} B", short(v)),
        v if v < 1048576.0 => format!("{} KiB", short(v / 1024.0)),
        v if v < 1073741824.0 => format!("{} MiB", short(v / 1048576.0)),
        v => format!("{} GiB", short(v / 1073741824.0)),
    }
}

/// Parses a size: bytes, or a number of KiB, MiB or GiB by the first letter of the unit, as in `8`,
/// `4K`, `4KiB` or `1M`.
///
/// # Errors
///
/// Describes the expected format, or states that the size is too large.
pub fn read_size(text: &str) -> Result<u64, String> {
    let unreadable = || format!("{text:?} is not a size such as 8, 4K or 1M");
    let number = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let shift = match &text[number.len()..] {
        "" | "B" => 0,
        "k" | "K" | "KiB" => 10,
        "m" | "M" | "MiB" => 20,
        "g" | "G" | "GiB" => 30,
        _ => return Err(unreadable()),
    };
    if number.is_empty() || !number.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(unreadable());
    }
    let bytes: Option<u64> = number.parse().ok();
    bytes
        .and_then(|bytes| bytes.checked_mul(1 << shift))
        .ok_or_else(|| format!("{text:?} is too large for a size in bytes"))
}

/// Formats a count or number.
pub fn number(value: f64) -> String {
    match value.abs() {
        v if v >= 1e9 => format!("{} G", short(value / 1e9)),
        v if v >= 1e6 => format!("{} M", short(value / 1e6)),
        v if v >= 1e4 => format!("{} k", short(value / 1e3)),
        _ => short(value),
    }
}

/// Formats a value by its unit's name in files.
pub fn display(value: f64, unit: &str) -> String {
    match unit {
        "ns" => time(value),
        "bytes/s" => rate(value),
        "bytes" => size(value),
        "1/s" => format!("{}/s", number(value)),
        "" => number(value),
        other => format!("{} {other}", number(value)),
    }
}

fn short(value: f64) -> String {
    let digits = match value.abs() {
        v if v >= 100.0 || v == 0.0 => 0,
        v if v >= 10.0 => 1,
        _ => 2,
    };
    let text = format!("{value:.digits$}");
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_parsed_with_and_without_a_unit() {
        assert_eq!(read_size("8"), Ok(8));
        assert_eq!((read_size("4K"), read_size("4KiB")), (Ok(4096), Ok(4096)));
        assert_eq!(
            (read_size("1M"), read_size("2g")),
            (Ok(1 << 20), Ok(2 << 30))
        );
        for wrong in ["", "K", "4x", "-5", "+5", "1.5K", "8é", "4 K", "4KB", "4k8"] {
            let error = read_size(wrong).unwrap_err();
            assert!(
                error.contains(wrong) && error.contains("such as"),
                "{error}"
            );
        }
        for large in ["99999999999999999999", "18446744073709551615G"] {
            assert!(
                read_size(large).unwrap_err().contains("too large"),
                "{large}"
            );
        }
    }

    #[test]
    fn values_are_formatted_with_three_digits() {
        assert_eq!(time(1234.0), "1.23 us");
        assert_eq!(rate(985_600_000.0), "986 MB/s");
        assert_eq!(size(65536.0), "64 KiB");
        assert_eq!(display(2.5e6, "1/s"), "2.5 M/s");
    }
}
