//! Frames: a length, then so many bytes.

use std::io::{self, Read, Write};
use std::net::TcpStream;

/// Longest frame taken; results of a point with all its samples stay far below.
const LONGEST: usize = 256 << 20;
/// The first byte of a reply: everybody's bytes, or the rank that is gone.
pub(super) const GATHERED: u8 = 1;
pub(super) const LOST: u8 = 2;

/// The little-endian number at a place.
pub(super) fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(
        bytes.get(at..at.checked_add(4)?)?.try_into().ok()?,
    ))
}

pub(super) fn read(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut length = [0; 4];
    stream.read_exact(&mut length)?;
    let length = u32::from_le_bytes(length) as usize;
    if length > LONGEST {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "frame too long"));
    }
    let mut frame = vec![0; length];
    stream.read_exact(&mut frame)?;
    Ok(frame)
}

pub(super) fn write(stream: &mut TcpStream, body: &[u8]) -> io::Result<()> {
    let mut frame = Vec::with_capacity(4 + body.len());
    frame.extend((body.len() as u32).to_le_bytes());
    frame.extend(body);
    stream.write_all(&frame)
}
