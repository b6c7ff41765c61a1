//! Frames: a length, followed by that many bytes.

use std::io::{self, Read, Write};
use std::net::TcpStream;

/// Longest frame in bytes; the results of a point with all its samples are far smaller.
const LONGEST: usize = 256 << 20;
/// First byte of a reply: all members' bytes, the rank of a lost process, the reason for a refusal,
/// or the notice that the other processes continued without this one.
pub(super) const GATHERED: u8 = 1;
pub(super) const LOST: u8 = 2;
pub(super) const REFUSED: u8 = 3;
pub(super) const LEFT_BEHIND: u8 = 4;

/// Returns the little-endian number at offset `at`.
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
    // Memory grows with the received data, not with the announced length.
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

pub(super) fn check(length: usize) -> io::Result<()> {
    match length <= LONGEST {
        true => Ok(()),
        false => {
            let text = format!("a frame of {length} bytes, and at most {LONGEST} are taken");
            Err(io::Error::new(io::ErrorKind::InvalidData, text))
        }
    }
}
