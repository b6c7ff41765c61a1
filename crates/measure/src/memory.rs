//! The memory of this process, and that of the host.

use crate::{control_group, unit};
use std::path::Path;

/// Returns the resident set size in bytes (proc_pid_status(5), `VmRSS`) after trimming freed
/// memory: the allocator keeps freed memory, and the next allocations from it would appear to cost
/// nothing.
pub fn resident() -> Option<u64> {
    release();
    bytes("/proc/self/status", "VmRSS:")
}

/// Gives freed memory back to the host, which the allocator would keep.
pub fn release() {
    // malloc_trim(3) is specific to glibc; other allocators keep nothing that it could release.
    #[cfg(target_env = "gnu")]
    // SAFETY: malloc_trim has no preconditions and releases only pages that hold no allocation.
    unsafe {
        libc::malloc_trim(0)
    };
}

/// Returns the memory that new allocations may use, in bytes: that of the host (proc_meminfo(5),
/// `MemAvailable`), or less if a control group limits this process.
pub fn available() -> Option<u64> {
    let of_host = bytes("/proc/meminfo", "MemAvailable:");
    let of_group = control_group::available(Path::new("/"));
    of_host.into_iter().chain(of_group).min()
}

/// Returns the reason to refuse a model that needs more memory than there is, with both figures in
/// bytes; `None` if there is enough.
pub fn shortage(needed: u64, available: u64) -> Option<String> {
    (needed > available).then(|| {
        format!(
            "the model needs about {} of memory, and {} are available; use fewer processes",
            unit::size(needed as f64),
            unit::size(available as f64)
        )
    })
}

/// Reads a line with kilobytes.
fn bytes(file: &str, name: &str) -> Option<u64> {
    let text = std::fs::read_to_string(file).ok()?;
    let line = text.lines().find(|line| line.starts_with(name))?;
    let kilobytes: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kilobytes * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::hint::black_box;

    #[test]
    fn a_need_above_the_available_memory_is_refused_with_both_figures() {
        assert_eq!(shortage(1 << 20, 1 << 20), None);
        let reason = shortage(3 << 30, 1 << 30).unwrap();
        assert!(
            reason.contains("3 GiB of memory, and 1 GiB are"),
            "{reason}"
        );
    }

    #[test]
    fn freed_memory_does_not_hide_later_growth() {
        const PIECE: usize = 4000;
        let fill = |bytes: usize| vec![vec![1u8; PIECE]; bytes / PIECE];
        let large = black_box(fill(64 << 20));
        drop(large);
        let before = resident().unwrap();
        let small = black_box(fill(16 << 20));
        let grown = resident().unwrap().saturating_sub(before);
        assert!(grown > 12 << 20, "{grown} bytes for 16 MiB");
        drop(small);
    }
}
