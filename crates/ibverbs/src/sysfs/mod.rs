//! The files that a kernel would show of the device below `/sys`, and the verbs that read such
//! files: ibv_get_sysfs_path, ibv_read_sysfs_file (both historical, both used by Open MPI and
//! ibv_devinfo).
//!
//! The path shim asks here too ([`verbena_sysfs_read`]), so there is one place that knows them.
//! Formats: the kernel's `Documentation/ABI/stable/sysfs-class-infiniband`.

use std::ffi::CStr;
use std::fmt::Write;

use libc::{c_char, c_int, ssize_t};

use verbena_abi::IBV_PORT_ACTIVE;
use verbena_hca::device::{self, GIDS, NAME, gid_at};
use verbena_hca::link;

use crate::attributes::BOARD;

/// What stands at a path.
#[derive(Debug, PartialEq, Eq)]
pub enum Entry {
    /// A file with this text.
    File(String),
    /// A directory.
    Directory,
}

/// What stands at `path`, relative to `/sys`.
pub fn look_up(path: &str) -> Option<Entry> {
    let path = path.trim_matches('/');
    let files = files();
    if let Some((_, text)) = files.iter().find(|(name, _)| name == path) {
        return Some(Entry::File(format!("{text}\n")));
    }
    let below = |name: &str| {
        name.strip_prefix(path)
            .is_some_and(|rest| rest.starts_with('/'))
    };
    files
        .iter()
        .any(|(name, _)| below(name))
        .then_some(Entry::Directory)
}

/// The names of what is in the directory `path`, relative to `/sys`; none for what is no directory.
pub fn list(path: &str) -> Vec<String> {
    let path = path.trim_matches('/');
    let mut names: Vec<String> = files()
        .iter()
        .filter_map(|(name, _)| name.strip_prefix(path)?.strip_prefix('/'))
        .map(|rest| rest.split('/').next().unwrap_or(rest).to_owned())
        .collect();
    names.sort();
    names.dedup();
    names
}

/// All files, by path relative to `/sys`, with their text without the last newline.
fn files() -> Vec<(String, String)> {
    let guid = colons(device::guid());
    let mut files = vec![];
    let mut of_device = |name: &str, text: String| {
        files.push((format!("class/infiniband/{NAME}/{name}"), text));
    };
    of_device("node_type", "1: CA".into());
    of_device("node_guid", guid.clone());
    of_device("sys_image_guid", guid);
    of_device("node_desc", format!("Verbena {NAME}"));
    of_device("fw_ver", env!("CARGO_PKG_VERSION").into());
    of_device("hw_rev", "0".into());
    of_device("hca_type", "Verbena".into());
    of_device("board_id", BOARD.into());
    for port in 1..=link::ports() {
        for (name, text) in files_of_port(port) {
            of_device(&format!("ports/{port}/{name}"), text);
        }
    }
    for (_, interface) in link::interfaces() {
        let name = format!("device/net/{}/ifindex", interface.name);
        of_device(&name, interface.index.to_string());
    }
    if !link::is_ethernet() && loopback_is_up() {
        // Of the interfaces whose addresses lead to the adapter, the one that every host has. The
        // kernel numbers it 1 (LOOPBACK_IFINDEX).
        of_device("device/net/lo/ifindex", "1".into());
    }
    for (name, text) in [("ibdev", NAME), ("abi_version", "1"), ("dev", "231:192")] {
        files.push((format!("class/infiniband_verbs/{NAME}/{name}"), text.into()));
    }
    files
}

/// The files of a port, by path relative to its directory.
fn files_of_port(number: u8) -> Vec<(String, String)> {
    let port = device::port_attributes(number);
    let mut files = vec![];
    let mut of_port = |name: &str, text: String| files.push((name.to_owned(), text));
    of_port("lid", format!("{:#x}", port.lid));
    of_port("lid_mask_count", port.lmc.to_string());
    of_port("sm_lid", format!("{:#x}", port.sm_lid));
    of_port("sm_sl", port.sm_sl.to_string());
    let (state, phys_state) = match port.state {
        IBV_PORT_ACTIVE => ("4: ACTIVE", "5: LinkUp"),
        _ => ("1: DOWN", "3: Disabled"),
    };
    of_port("state", state.into());
    of_port("phys_state", phys_state.into());
    of_port("rate", device::rate(number).name.into());
    of_port("cap_mask", format!("{:#010x}", port.port_cap_flags));
    let interface = link::interface(number);
    let (link_layer, kind) = match interface {
        Some(_) => ("Ethernet", "RoCE v2"),
        None => ("InfiniBand", "IB/RoCE v1"),
    };
    of_port("link_layer", link_layer.into());
    for (index, gid) in (0..GIDS).filter_map(|index| Some((index, gid_at(number, index)?))) {
        of_port(&format!("gids/{index}"), format!("{gid:?}"));
        of_port(&format!("gid_attrs/types/{index}"), kind.into());
        if let Some(interface) = interface {
            of_port(&format!("gid_attrs/ndevs/{index}"), interface.name.clone());
        }
    }
    of_port("pkeys/0", format!("{:#06x}", device::PKEY));
    files
}

fn loopback_is_up() -> bool {
    std::net::UdpSocket::bind((std::net::Ipv4Addr::LOCALHOST, 0)).is_ok()
}

/// A GUID as sysfs prints it: four groups of four hexadecimal digits.
fn colons(guid: u64) -> String {
    let mut text = String::new();
    for (i, pair) in guid.to_be_bytes().chunks_exact(2).enumerate() {
        let separator = if i == 0 { "" } else { ":" };
        let _ = write!(text, "{separator}{:02x}{:02x}", pair[0], pair[1]);
    }
    text
}

/// Where sysfs is mounted.
#[unsafe(no_mangle)]
pub extern "C" fn ibv_get_sysfs_path() -> *const c_char {
    c"/sys".as_ptr()
}

/// Reads `directory`/`file` into `buffer` without its last newline. Returns the length, or -1; that too where the
/// buffer is too small, as rdma-core does.
///
/// # Safety
/// Both names are C strings; `buffer` has `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_read_sysfs_file(
    directory: *const c_char,
    file: *const c_char,
    buffer: *mut c_char,
    size: usize,
) -> c_int {
    // SAFETY: C strings and a buffer of this size, by the caller's promise.
    unsafe {
        let (Ok(directory), Ok(file)) = (
            CStr::from_ptr(directory).to_str(),
            CStr::from_ptr(file).to_str(),
        ) else {
            return -1;
        };
        let path = format!("{directory}/{file}");
        let text = match path.strip_prefix("/sys/").and_then(look_up) {
            Some(Entry::File(text)) => text,
            Some(Entry::Directory) => return -1,
            None => match std::fs::read_to_string(&path) {
                Ok(text) => text,
                Err(_) => return -1,
            },
        };
        fill(buffer, size, text.as_bytes())
    }
}

/// Copies what a read of `size` bytes gives, with a zero in place of the newline it ends with, or behind it. Returns the
/// length without either, or -1 where there is no room for the zero.
///
/// # Safety
/// `buffer` has `size` bytes.
unsafe fn fill(buffer: *mut c_char, size: usize, text: &[u8]) -> c_int {
    let read = &text[..text.len().min(size)];
    let kept = read.strip_suffix(b"\n").unwrap_or(read);
    if buffer.is_null() || kept.len() >= size {
        return -1;
    }
    // SAFETY: `kept` and one more byte fit; the text is elsewhere.
    unsafe {
        buffer.copy_from_nonoverlapping(kept.as_ptr().cast(), kept.len());
        buffer.add(kept.len()).write(0);
    }
    kept.len() as c_int
}

/// The names in the directory at `path` (relative to `/sys`), each with a final zero, for the path
/// shim: the length of all of them, of which as much is written as fits; 0 where there is no
/// directory.
///
/// # Safety
/// `path` is a C string; `buffer` has `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn verbena_sysfs_list(
    path: *const c_char,
    buffer: *mut c_char,
    size: usize,
) -> usize {
    // SAFETY: a C string by the caller's promise.
    let path = unsafe { CStr::from_ptr(path) };
    let names = path.to_str().map(list).unwrap_or_default();
    let text: String = names.iter().map(|name| format!("{name}\0")).collect();
    let length = text.len().min(size);
    // SAFETY: `length` bytes fit; the text is elsewhere.
    unsafe { buffer.copy_from_nonoverlapping(text.as_ptr().cast(), length) };
    text.len()
}

/// For the path shim: the length of the file at `path` (relative to `/sys`), with as much of it as
/// fits in `buffer`; -1 where there is nothing, -2 where there is a directory.
///
/// # Safety
/// `path` is a C string; `buffer` has `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn verbena_sysfs_read(
    path: *const c_char,
    buffer: *mut c_char,
    size: usize,
) -> ssize_t {
    // SAFETY: a C string by the caller's promise.
    let path = unsafe { CStr::from_ptr(path) };
    match path.to_str().ok().and_then(look_up) {
        None => -1,
        Some(Entry::Directory) => -2,
        Some(Entry::File(text)) => {
            let length = text.len().min(size);
            // SAFETY: `length` bytes fit; the text is elsewhere.
            unsafe { buffer.copy_from_nonoverlapping(text.as_ptr().cast(), length) };
            text.len() as ssize_t
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_and_directories() {
        let file = |text: &str| Some(Entry::File(text.into()));
        assert_eq!(
            look_up("class/infiniband/verbena0/node_type"),
            file("1: CA\n")
        );
        assert_eq!(
            look_up("class/infiniband/verbena0/ports/1/pkeys/0"),
            file("0xffff\n")
        );
        assert_eq!(look_up("class/infiniband/verbena0"), Some(Entry::Directory));
        assert_eq!(
            look_up("class/infiniband/verbena0/ports/"),
            Some(Entry::Directory)
        );
        assert_eq!(look_up("class/infiniband/verbena0/port"), None);
        assert_eq!(look_up("class/infiniband/verbena0/driver"), None);
    }

    #[test]
    fn a_directory_lists_each_name_once() {
        assert_eq!(list("class/infiniband/"), ["verbena0"]);
        let ports = list("class/infiniband/verbena0/ports");
        assert_eq!(ports, ["1"]);
        assert!(list("class/infiniband/verbena0/ports/1").contains(&"gids".to_owned()));
        assert!(list("class/infiniband/verbena0/node_type").is_empty());
        assert!(list("class/infiniband/verbena").is_empty());
    }

    #[test]
    fn the_devices_network_interface_is_there_while_it_is_up() {
        let interfaces = list("class/infiniband/verbena0/device/net");
        assert_eq!(interfaces == ["lo"], loopback_is_up());
    }

    #[test]
    fn guids_as_sysfs_prints_them() {
        assert_eq!(colons(0x0200_1234_5678_9abc), "0200:1234:5678:9abc");
    }

    #[test]
    fn a_file_is_read_without_its_newline_or_not_at_all() {
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
