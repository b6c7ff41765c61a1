//! Files of proc(5) about a network namespace, which are opened in it and read by another process.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Most bytes read of a file.
const MOST_BYTES: usize = 1 << 20;

/// Opens a file of the network namespace of this process. One that the kernel does not have, such
/// as those of IPv6, is empty.
///
/// # Errors
///
/// The system's.
pub fn open(name: &str) -> io::Result<File> {
    File::open(format!("/proc/self/net/{name}")).or_else(|_| File::open("/dev/null"))
}

/// Reads a file from its beginning.
///
/// # Errors
///
/// The system's.
pub fn text(file: &File) -> io::Result<String> {
    let mut bytes = Vec::new();
    let mut part = [0; 4096];
    while bytes.len() < MOST_BYTES {
        match file.read_at(&mut part, bytes.len() as u64)? {
            0 => break,
            length => bytes.extend_from_slice(&part[..length]),
        }
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
