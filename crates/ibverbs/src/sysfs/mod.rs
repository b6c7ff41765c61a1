//! The device's files below `/sys`, as a kernel would show them, and the verbs that read such
//! files: ibv_get_sysfs_path, ibv_read_sysfs_file (both historical, both used by Open MPI and
//! ibv_devinfo).
//!
//! `content` generates them. For the path shim they are real files, in `tree`.

mod content;
mod counters;
mod tree;

use std::ffi::CStr;

use libc::{c_char, c_int, ssize_t};

use content::{Entry, entries};
use counters::{Totals, totals};
use verbena_hca::emulation;
use verbena_hca_net::device;

/// Maximum number of links in a path, as in the kernel.
const MOST_LINKS: usize = 40;

/// Returns the text of the file at `path`, relative to `/sys`.
pub fn text_of(path: &str) -> Option<String> {
    let totals = match path.contains("counters/") {
        true => totals(),
        false => Totals::new(),
    };
    let all = entries(&totals);
    let mut rest: Vec<&str> = path.split('/').rev().collect();
    let mut place: Vec<&str> = vec![];
    let mut links = 0;
    while let Some(part) = rest.pop() {
        match part {
            "" | "." => continue,
            ".." => drop(place.pop()),
            name => place.push(name),
        }
        match all.get(&place.join("/")) {
            Some(Entry::File(text)) if rest.iter().all(|part| part.is_empty()) => {
                return Some(text.clone());
            }
            Some(Entry::Link(target)) if links < MOST_LINKS => {
                links += 1;
                place.pop();
                rest.extend(target.split('/').rev());
            }
            Some(_) => return None,
            None => (),
        }
    }
    None
}

/// Returns the mount point of sysfs.
#[unsafe(no_mangle)]
pub extern "C" fn ibv_get_sysfs_path() -> *const c_char {
    c"/sys".as_ptr()
}

/// Reads `directory`/`file` into `buffer` without its last newline. Returns the length, or -1, also
/// if the buffer is too small, as in rdma-core.
///
/// # Safety
/// Both names must be C strings; `buffer` must have `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_read_sysfs_file(
    directory: *const c_char,
    file: *const c_char,
    buffer: *mut c_char,
    size: usize,
) -> c_int {
    // SAFETY: the caller promises C strings and a buffer of this size.
    unsafe {
        let (Ok(directory), Ok(file)) = (
            CStr::from_ptr(directory).to_str(),
            CStr::from_ptr(file).to_str(),
        ) else {
            return -1;
        };
        let path = format!("{directory}/{file}");
        let text = match path.strip_prefix("/sys/").and_then(text_of) {
            Some(text) => text,
            None => match std::fs::read_to_string(&path) {
                Ok(text) => text,
                Err(_) => return -1,
            },
        };
        fill(buffer, size, text.as_bytes())
    }
}

/// Copies the result of a read of `size` bytes, with a zero instead of its final newline, or
/// appended. Returns the length without either, or -1 if there is no space for the zero.
///
/// # Safety
/// `buffer` must be null or have `size` bytes.
unsafe fn fill(buffer: *mut c_char, size: usize, text: &[u8]) -> c_int {
    let read = &text[..text.len().min(size)];
    let kept = read.strip_suffix(b"\n").unwrap_or(read);
    if buffer.is_null() || kept.len() >= size {
        return -1;
    }
    // SAFETY: `kept` and one more byte fit; the text does not overlap the buffer.
    unsafe {
        buffer.copy_from_nonoverlapping(kept.as_ptr().cast(), kept.len());
        buffer.add(kept.len()).write(0);
    }
    kept.len() as c_int
}

/// For the path shim: stores the zero-terminated path of the tree in `buffer`. Returns its length,
/// or a negative error number.
///
/// # Safety
/// `buffer` must have `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn verbena_sysfs_root(buffer: *mut c_char, size: usize) -> ssize_t {
    let root = match tree::root() {
        Ok(root) => root,
        Err(error) => return -(error.raw_os_error().unwrap_or(libc::EIO) as ssize_t),
    };
    // SAFETY: the caller promises the buffer.
    unsafe { store(root.as_os_str().as_encoded_bytes(), buffer, size) }
}

/// For the path shim: stores the zero-terminated names of the devices, without their index, in
/// `buffer`. Returns their length, or a negative error number.
///
/// # Safety
/// `buffer` must have `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn verbena_device_names(buffer: *mut c_char, size: usize) -> ssize_t {
    // It has printed the reason if it fails, and opening a device fails as well.
    let _ = emulation::begin();
    // SAFETY: the caller promises the buffer.
    unsafe { store(device::name_prefix().as_bytes(), buffer, size) }
}

/// Stores bytes and a zero in `buffer`. Returns their number, or a negative error number.
///
/// # Safety
/// `buffer` must have `size` bytes.
unsafe fn store(bytes: &[u8], buffer: *mut c_char, size: usize) -> ssize_t {
    if bytes.len() >= size {
        return -(libc::ENAMETOOLONG as ssize_t);
    }
    // SAFETY: the bytes and one more fit; they do not overlap the buffer.
    unsafe {
        buffer.copy_from_nonoverlapping(bytes.as_ptr().cast(), bytes.len());
        buffer.add(bytes.len()).write(0);
    }
    bytes.len() as ssize_t
}

/// For the path shim: updates the file or directory at `path`, relative to the tree.
///
/// # Safety
/// `path` must be a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn verbena_sysfs_refresh(path: *const c_char) {
    // SAFETY: the caller promises a C string.
    if let Ok(path) = unsafe { CStr::from_ptr(path) }.to_str() {
        tree::refresh(path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_found_through_links() {
        let device = "class/infiniband/verbena0";
        let text = |path: &str| text_of(path);
        assert_eq!(
            text(&format!("{device}/node_type")).as_deref(),
            Some("1: CA\n")
        );
        let key = text(&format!("{device}/ports/1/pkeys/0"));
        assert_eq!(key.as_deref(), Some("0xffff\n"));
        let vendor = text(&format!("{device}/device/vendor"));
        assert_eq!(vendor, text(&format!("{device}/../../vendor")));
        assert!(vendor.is_some());
        for name in ["verbena0", "uverbs0"] {
            let path = format!("class/infiniband_verbs/{name}/ibdev");
            assert_eq!(text(&path).as_deref(), Some("verbena0\n"));
        }
        assert_eq!(text(device), None);
        assert_eq!(text(&format!("{device}/ports")), None);
        assert_eq!(text(&format!("{device}/port")), None);
        assert_eq!(text(&format!("{device}/node_type/x")), None);
    }

    #[test]
    fn a_file_is_read_without_its_newline() {
        let read = |file: &CStr, size| {
            let mut buffer = [1u8; 16];
            let directory = c"/sys/class/infiniband/verbena0";
            // SAFETY: C strings; the buffer has at least `size` bytes.
            let length = unsafe {
                ibv_read_sysfs_file(
                    directory.as_ptr(),
                    file.as_ptr(),
                    buffer.as_mut_ptr().cast(),
                    size,
                )
            };
            (length, buffer)
        };
        let (length, buffer) = read(c"node_type", 16);
        assert_eq!((length, &buffer[..6]), (5, b"1: CA\0".as_slice()));
        let (length, buffer) = read(c"node_type", 6);
        assert_eq!((length, &buffer[..7]), (5, b"1: CA\0\x01".as_slice()));
        assert_eq!(read(c"node_type", 5), (-1, [1; 16]));
        assert_eq!(read(c"node_type", 0), (-1, [1; 16]));
        assert_eq!(read(c"nothing", 16).0, -1);
        assert_eq!(read(c"ports", 16).0, -1);
    }
}
