//! What lies at an address of our own process: /proc/self/maps (proc_pid_maps(5)).

use crate::errno::{Errno, Result};
use std::fs;

/// One mapping of the process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vma {
    /// First address.
    pub start: u64,
    /// One past the last address.
    pub end: u64,
    /// May be loaded from.
    pub readable: bool,
    /// May be stored to.
    pub writable: bool,
    /// MAP_SHARED.
    pub shared: bool,
    /// Offset in the file behind it.
    pub offset: u64,
    /// Inode of the file behind it; 0 for anonymous memory.
    pub inode: u64,
    /// A kernel-made special mapping: `[stack]`, `[vdso]`... but not `[heap]`, which is ordinary memory.
    pub special: bool,
}

impl Vma {
    /// Private anonymous memory that may be written: what can be moved into shared pages unnoticed.
    pub fn is_private_anonymous(&self) -> bool {
        self.readable && self.writable && !self.shared && self.inode == 0 && !self.special
    }
}

/// All mappings that overlap `[start, end)`, in order.
pub fn overlapping(start: u64, end: u64) -> Result<Vec<Vma>> {
    Ok(all()?
        .into_iter()
        .filter(|vma| vma.start < end && vma.end > start)
        .collect())
}

/// All mappings of the process, in order.
pub fn all() -> Result<Vec<Vma>> {
    let text = fs::read_to_string("/proc/self/maps").map_err(Errno::from)?;
    text.lines()
        .map(|line| parse(line).ok_or(Errno::EIO))
        .collect()
}

fn parse(line: &str) -> Option<Vma> {
    let mut fields = line.split_ascii_whitespace();
    let (start, end) = fields.next()?.split_once('-')?;
    let rights = fields.next()?.as_bytes();
    let offset = fields.next()?;
    let _device = fields.next()?;
    let inode = fields.next()?.parse().ok()?;
    let name = fields.next().unwrap_or("");
    if rights.len() < 4 {
        return None;
    }
    Some(Vma {
        start: u64::from_str_radix(start, 16).ok()?,
        end: u64::from_str_radix(end, 16).ok()?,
        readable: rights[0] == b'r',
        writable: rights[1] == b'w',
        shared: rights[3] == b's',
        offset: u64::from_str_radix(offset, 16).ok()?,
        inode,
        special: name.starts_with('[') && name != "[heap]" && !name.starts_with("[anon"),
    })
}

/// Threads of this process.
pub fn thread_count() -> usize {
    fs::read_dir("/proc/self/task").map_or(usize::MAX, |tasks| tasks.count())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_a_line_of_each_kind() {
        let heap = parse("55d0a000-55d0c000 rw-p 00000000 00:00 0    [heap]").unwrap();
        assert!(heap.is_private_anonymous());
        assert_eq!((heap.start, heap.end), (0x55d0_a000, 0x55d0_c000));
        let stack = parse("7ffc0000-7ffd0000 rw-p 00000000 00:00 0   [stack]").unwrap();
        assert!(!stack.is_private_anonymous());
        let file = parse("7f00-8f00 r--p 00001000 fe:00 1234    /usr/lib/x y.so").unwrap();
        assert_eq!(
            (file.inode, file.offset, file.writable),
            (1234, 0x1000, false)
        );
        let shared = parse("7f00-8f00 rw-s 00001000 00:01 77   /memfd:x (deleted)").unwrap();
        assert!(shared.shared && !shared.is_private_anonymous());
        assert_eq!(parse("nonsense"), None);
    }

    #[test]
    fn finds_this_function_s_own_stack() {
        let here = 0u8;
        let address = &raw const here as u64;
        let found = overlapping(address, address + 1).unwrap();
        assert_eq!(found.len(), 1);
        assert!(found[0].writable);
    }
}
