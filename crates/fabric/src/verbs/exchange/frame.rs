//! Frames: a length, then so many bytes.

use std::io::{self, Read, Write};
use std::net::TcpStream;

/// Longest frame; results of a point with all its samples stay far below.
const LONGEST: usize = 256 << 20;
/// The first byte of a reply: everybody's bytes, the rank that is gone, why the hub says no more, or nothing but that the
/// others went on.
pub(super) const GATHERED: u8 = 1;
pub(super) const LOST: u8 = 2;
pub(super) const REFUSED: u8 = 3;
pub(super) const LEFT_BEHIND: u8 = 4;

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
    check(length)?;
    // Memory is taken as bytes come, and not as they are promised.
    let mut frame = Vec::new();
    stream.take(length as u64).read_to_end(&mut frame)?;
    match frame.len() == length {
        true => Ok(frame),
        false => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

pub(super) fn write(stream: &mut TcpStream, body: &[u8]) -> io::Result<()> {
    check(body.len())?;
    let mut frame = Vec::with_capacity(4 + body.len());
    frame.extend((body.len() as u32).to_le_bytes());
    frame.extend(body);
    stream.write_all(&frame)
}

/// Whether a frame may be as long.
pub(super) fn check(length: usize) -> io::Result<()> {
    match length <= LONGEST {
        true => Ok(()),
        false => {
            let text = format!("a frame of {length} bytes, and at most {LONGEST} are taken");
            Err(io::Error::new(io::ErrorKind::InvalidData, text))
        }
    }
}
