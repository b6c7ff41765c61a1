//! Mappings of this process: the PROCMAP_QUERY request of /proc/self/maps (Linux 6.11), and the
//! text of that file where the kernel has no such request (proc_pid_maps(5)).

use crate::errno::{Errno, Result};
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::FileExt;

const MAPS: &str = "/proc/self/maps";

/// One mapping of the process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vma {
    /// First address.
    pub start: u64,
    /// One past the last address.
    pub end: u64,
    /// Readable.
    pub readable: bool,
    /// Writable.
    pub writable: bool,
    /// Executable.
    pub executable: bool,
    /// MAP_SHARED.
    pub shared: bool,
    /// Offset in the file behind it.
    pub offset: u64,
    /// Inode of the file behind it; 0 for anonymous memory.
    pub inode: u64,
}

impl Vma {
    /// Returns whether it is writable private anonymous memory, which can be moved into shared
    /// pages unnoticed. The main thread's stack does not count, because it grows.
    pub fn is_private_anonymous(&self) -> bool {
        self.readable && self.writable && !self.shared && self.inode == 0 && !self.is_main_stack()
    }

    /// Returns the PROT_* flags of mmap(2).
    pub fn protection(&self) -> libc::c_int {
        let flag = |is_set, flag| if is_set { flag } else { 0 };
        flag(self.readable, libc::PROT_READ)
            | flag(self.writable, libc::PROT_WRITE)
            | flag(self.executable, libc::PROT_EXEC)
    }

    fn is_main_stack(&self) -> bool {
        // SAFETY: reads a value that the kernel passed at the start of the program.
        let on_the_stack = unsafe { libc::getauxval(libc::AT_RANDOM) };
        self.start <= on_the_stack && on_the_stack < self.end
    }
}

/// The mappings of the process that opened it; a forked child opens its own.
#[derive(Debug)]
pub struct Maps {
    file: File,
}

/// Returns whether the error comes from a kernel without this request, or from a layer above it
/// (QEMU's user mode: ENOSYS).
fn unknown(error: Errno) -> bool {
    matches!(
        error.0,
        libc::ENOTTY | libc::EINVAL | libc::EBADF | libc::ENOSYS
    )
}

impl AsFd for Maps {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl Maps {
    /// Opens the table of this process's mappings.
    ///
    /// # Errors
    /// The system's.
    pub fn open() -> Result<Maps> {
        let file = File::open(MAPS)?;
        Ok(Maps { file })
    }

    /// Returns all mappings that overlap `[start, end)`, in order.
    ///
    /// # Errors
    /// The system's.
    pub fn overlapping(&self, start: u64, end: u64) -> Result<Vec<Vma>> {
        match self.query_all(start, end, COVERING_OR_NEXT) {
            Err(error) if unknown(error) => overlapping(start, end),
            answer => answer,
        }
    }

    /// Returns all shared mappings of files, in order.
    ///
    /// # Errors
    /// The system's.
    pub fn shared_files(&self) -> Result<Vec<Vma>> {
        let flags = COVERING_OR_NEXT | FILE_BACKED | SHARED;
        match self.query_all(0, u64::MAX, flags) {
            Err(error) if unknown(error) => {
                let mut all = overlapping(0, u64::MAX)?;
                all.retain(|vma| vma.shared && vma.inode != 0);
                Ok(all)
            }
            answer => answer,
        }
    }

    /// Returns whether a shared mapping of a file has a name that begins with `name`; those of the
    /// file with inode `except` are skipped. Allocates nothing.
    ///
    /// # Errors
    /// The system's.
    pub fn has_shared(&self, name: &str, except: u64) -> Result<bool> {
        let mut at = 0;
        loop {
            match self.query(at, COVERING_OR_NEXT | FILE_BACKED | SHARED) {
                Ok(vma) if vma.inode != except && self.is_named(&vma, name.as_bytes())? => {
                    return Ok(true);
                }
                Ok(vma) => at = vma.end,
                Err(Errno::ENOENT) => return Ok(false),
                Err(error) => return Err(error),
            }
        }
    }

    /// As [`Maps::has_shared`], from the text of the file, for kernels without the request. A name
    /// that contains `name` after a space counts, too. Allocates nothing.
    ///
    /// # Errors
    /// The system's.
    pub fn text_has(&self, name: &str) -> Result<bool> {
        let mut text = [0; 4096];
        let mut at = 0;
        // The end of a piece may be the beginning of the name, and is kept for the next.
        let mut kept = 0;
        loop {
            let read = match self.file.read_at(&mut text[kept..], at) {
                Ok(0) => return Ok(false),
                Ok(read) => read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error.into()),
            };
            at += read as u64;
            let end = kept + read;
            let begins = |window: &[u8]| window[0] == b' ' && &window[1..] == name.as_bytes();
            if text[..end].windows(1 + name.len()).any(begins) {
                return Ok(true);
            }
            kept = name.len().min(end);
            text.copy_within(end - kept..end, 0);
        }
    }

    /// Returns whether the name of a mapping begins with these bytes.
    fn is_named(&self, vma: &Vma, name: &[u8]) -> Result<bool> {
        let mut room = [0u8; 256];
        let mut query = Query {
            size: size_of::<Query>() as u64,
            flags: COVERING_OR_NEXT,
            address: vma.start,
            name: room.as_mut_ptr() as u64,
            name_size: room.len() as u32,
            ..Query::default()
        };
        match self.ask(&mut query) {
            Ok(()) => Ok(room.starts_with(name)),
            // Longer than any name searched for, or unmapped meanwhile.
            Err(Errno(libc::ENAMETOOLONG | libc::ENOENT)) => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn query_all(&self, start: u64, end: u64, flags: u64) -> Result<Vec<Vma>> {
        let mut found = Vec::new();
        let mut at = start;
        while at < end {
            match self.query(at, flags) {
                Ok(vma) if vma.start < end => {
                    at = vma.end;
                    found.push(vma);
                }
                Ok(_) | Err(Errno::ENOENT) => break,
                Err(error) => return Err(error),
            }
        }
        Ok(found)
    }

    /// Returns the mapping at an address, or the next one above, among those that `flags` select.
    fn query(&self, address: u64, flags: u64) -> Result<Vma> {
        let mut query = Query {
            size: size_of::<Query>() as u64,
            flags,
            address,
            ..Query::default()
        };
        self.ask(&mut query)?;
        Ok(Vma {
            start: query.start,
            end: query.end,
            readable: query.rights & READABLE != 0,
            writable: query.rights & WRITABLE != 0,
            executable: query.rights & EXECUTABLE != 0,
            shared: query.rights & SHARED != 0,
            offset: query.offset,
            inode: query.inode,
        })
    }

    fn ask(&self, query: &mut Query) -> Result<()> {
        // SAFETY: the request is paired with its structure (linux/fs.h, struct procmap_query); a
        // name is written to a buffer of the stated size.
        let answer = unsafe {
            libc::ioctl(
                self.file.as_raw_fd(),
                PROCMAP_QUERY as libc::Ioctl,
                &raw mut *query,
            )
        };
        match answer < 0 {
            true => Err(Errno::last()),
            false => Ok(()),
        }
    }
}

/// _IOWR('f', 17, struct procmap_query)
const PROCMAP_QUERY: u64 = 0xc068_6611;
const READABLE: u64 = 1 << 0;
const WRITABLE: u64 = 1 << 1;
const EXECUTABLE: u64 = 1 << 2;
const SHARED: u64 = 1 << 3;
const COVERING_OR_NEXT: u64 = 1 << 4;
const FILE_BACKED: u64 = 1 << 5;

#[repr(C)]
#[derive(Default)]
struct Query {
    size: u64,
    flags: u64,
    address: u64,
    start: u64,
    end: u64,
    rights: u64,
    page_size: u64,
    offset: u64,
    inode: u64,
    device: [u32; 2],
    name_size: u32,
    build_id_size: u32,
    name: u64,
    build_id: u64,
}

const _: () = assert!(size_of::<Query>() == 0x68);

/// Returns all mappings that overlap `[start, end)`, in order, from the text of the file.
///
/// # Errors
/// The system's; EIO for a line that cannot be parsed.
pub fn overlapping(start: u64, end: u64) -> Result<Vec<Vma>> {
    let mut found = Vec::new();
    for line in BufReader::with_capacity(64 * 1024, File::open(MAPS)?).lines() {
        let vma = parse(&line?).ok_or(Errno::EIO)?;
        if vma.start >= end {
            break;
        }
        if vma.end > start {
            found.push(vma);
        }
    }
    Ok(found)
}

fn parse(line: &str) -> Option<Vma> {
    let mut fields = line.split_ascii_whitespace();
    let (start, end) = fields.next()?.split_once('-')?;
    let rights = fields.next()?.as_bytes();
    let offset = fields.next()?;
    let _device = fields.next()?;
    let inode = fields.next()?.parse().ok()?;
    if rights.len() < 4 {
        return None;
    }
    Some(Vma {
        start: u64::from_str_radix(start, 16).ok()?,
        end: u64::from_str_radix(end, 16).ok()?,
        readable: rights[0] == b'r',
        writable: rights[1] == b'w',
        executable: rights[2] == b'x',
        shared: rights[3] == b's',
        offset: u64::from_str_radix(offset, 16).ok()?,
        inode,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_lines_of_each_kind_are_parsed() {
        let heap = parse("55d0a000-55d0c000 rw-p 00000000 00:00 0    [heap]").unwrap();
        assert!(heap.is_private_anonymous());
        assert_eq!((heap.start, heap.end), (0x55d0_a000, 0x55d0_c000));
        let file = parse("7f00-8f00 r-xp 00001000 fe:00 1234    /usr/lib/x y.so").unwrap();
        assert_eq!(
            (file.inode, file.offset, file.writable),
            (1234, 0x1000, false)
        );
        assert_eq!(file.protection(), libc::PROT_READ | libc::PROT_EXEC);
        let shared = parse("7f00-8f00 rw-s 00001000 00:01 77   /memfd:x (deleted)").unwrap();
        assert!(shared.shared && !shared.is_private_anonymous());
        assert_eq!(parse("nonsense"), None);
    }

    #[test]
    fn main_stack_is_not_movable() {
        // SAFETY: reads a value that the kernel passed at the start of the program.
        let there = unsafe { libc::getauxval(libc::AT_RANDOM) };
        let stack = overlapping(there, there + 1).unwrap();
        assert!(stack.len() == 1 && stack[0].writable && !stack[0].is_private_anonymous());
    }

    #[test]
    fn shared_mapping_is_found_by_name() {
        let maps = Maps::open().unwrap();
        let name = "/memfd:a-name-of-this-test";
        let has = || match maps.has_shared(name, 0) {
            Err(error) if unknown(error) => maps.text_has(name),
            answer => answer,
        };
        assert_eq!(has(), Ok(false));
        let file = crate::memfd::Memfd::create(c"a-name-of-this-test", 4096).unwrap();
        let rights = crate::mapping::MappingRights::Read;
        let mapping = crate::mapping::Mapping::of(&file, rights).unwrap();
        assert_eq!((has(), maps.text_has(name)), (Ok(true), Ok(true)));
        let inode = file.identity().unwrap().1;
        assert!(!maps.has_shared(name, inode).unwrap_or(false));
        drop(mapping);
        assert_eq!(has(), Ok(false));
    }

    #[test]
    fn procmap_query_agrees_with_proc_maps() {
        let maps = Maps::open().unwrap();
        let here = 0u8;
        let address = &raw const here as u64;
        let found = maps.overlapping(address, address + 1).unwrap();
        assert_eq!(found.len(), 1);
        assert!(found[0].writable);
        // Memory of this test's own, in three mappings, with a hole after it: other tests change
        // the rest.
        // SAFETY: a fresh mapping.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                4 * 4096,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        } as u64;
        // SAFETY: inside the mapping just made.
        unsafe {
            libc::mprotect((base + 4096) as *mut _, 4096, libc::PROT_READ);
            libc::munmap((base + 3 * 4096) as *mut _, 4096);
        }
        let cut = |all: Vec<Vma>| -> Vec<_> {
            let cut = |vma: &Vma| {
                (
                    vma.start.max(base),
                    vma.end.min(base + 3 * 4096),
                    vma.protection(),
                )
            };
            all.iter().map(cut).collect()
        };
        let asked = cut(maps.overlapping(base, base + 3 * 4096).unwrap());
        assert_eq!(asked.len(), 3);
        assert_eq!(asked, cut(overlapping(base, base + 3 * 4096).unwrap()));
        // SAFETY: the rest of the mapping made above.
        unsafe { libc::munmap(base as *mut _, 3 * 4096) };
    }
}
