//! The limit of locked memory, which hardware adapters use when they register memory: setrlimit(2),
//! RLIMIT_MEMLOCK; proc(5).

use std::fs;

/// Returns an explanation if the limit of locked memory explains why registering `bytes` bytes
/// failed.
pub(super) fn explanation(bytes: usize) -> Option<String> {
    let limits = fs::read_to_string("/proc/self/limits").ok()?;
    let status = fs::read_to_string("/proc/self/status").ok()?;
    from_texts(&limits, &status, bytes as u64)
}

fn from_texts(limits: &str, status: &str, bytes: u64) -> Option<String> {
    let line = limits
        .lines()
        .find(|line| line.starts_with("Max locked memory"))?;
    // "unlimited" is not a number.
    let limit: u64 = line.split_whitespace().nth(3)?.parse().ok()?;
    let kilobytes = |name: &str| -> u64 {
        let line = status.lines().find(|line| line.starts_with(name));
        let number = line.and_then(|line| line.split_whitespace().nth(1));
        number.and_then(|number| number.parse().ok()).unwrap_or(0)
    };
    let locked = (kilobytes("VmLck:") + kilobytes("VmPin:")) << 10;
    let needed = locked.saturating_add(bytes);
    (needed > limit).then(|| {
        format!(
            "hardware adapters lock registered memory; `ulimit -l` allows {} KiB, but {} KiB are \
             needed including memory already locked; raise memlock in /etc/security/limits.conf, \
             or the limits of the service that starts this",
            limit >> 10,
            needed.div_ceil(1 << 10)
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATUS: &str = "Name:\tverbena\nVmLck:\t       8 kB\nVmPin:\t     100 kB\n";

    fn limits(soft: &str) -> String {
        format!(
            "Limit                     Soft Limit           Hard Limit           Units\n\
             Max locked memory         {soft}                8388608              bytes\n"
        )
    }

    #[test]
    fn an_exceeded_memlock_limit_is_reported_with_the_needed_amount() {
        let words = from_texts(&limits("65536"), STATUS, 1 << 20).unwrap();
        assert!(words.contains("`ulimit -l` allows 64 KiB"), "{words}");
        assert!(words.contains("1132 KiB are needed"), "{words}");
        // With the memory already locked it exceeds the limit.
        assert!(from_texts(&limits("114687"), STATUS, 4096).is_some());
        assert_eq!(from_texts(&limits("114688"), STATUS, 4096), None);
    }

    #[test]
    fn a_sufficient_memlock_limit_is_not_reported() {
        assert_eq!(from_texts(&limits("unlimited"), STATUS, u64::MAX), None);
        for strange in ["", "Max locked memory", "Max locked memory x y z"] {
            assert_eq!(from_texts(strange, STATUS, u64::MAX), None);
        }
    }
}
