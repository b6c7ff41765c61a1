//! Memory that this process holds.

/// Bytes of this process that are in memory (proc_pid_status(5), `VmRSS`), without what it has freed: an allocator keeps that for
/// later, and what is allocated next from it seems to cost nothing.
pub fn resident() -> Option<u64> {
    // Other allocators keep nothing that could be given back so.
    #[cfg(target_env = "gnu")]
    // SAFETY: the call only gives pages back that nobody uses.
    unsafe {
        libc::malloc_trim(0)
    };
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:"))?;
    let kilobytes: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kilobytes * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::hint::black_box;

    #[test]
    fn what_was_freed_does_not_hide_what_comes_next() {
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
