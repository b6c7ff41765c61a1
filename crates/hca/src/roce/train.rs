//! Packets of one queue pair that leave together: as many as the kernel cuts out of one buffer (UDP_SEGMENT), all of one
//! length but for the last.

use super::path::{Path, with_identification};
use crate::capture::{self, Seen};
use crate::errno::Errno;
use crate::sys::clock;
use std::cell::Cell;
use verbena_wire::icrc;
use verbena_wire::roce::seal;

/// Packets in one call (Linux: UDP_MAX_SEGMENTS).
const MOST: usize = 64;
/// Bytes in one call: what IP can say, less its headers.
const MOST_BYTES: usize = 65_000;
/// Room for a packet that is being made: headers, the largest MTU, pad and ICRC.
pub const PACKET: usize = 4096 + 128;

thread_local! {
    /// Kept for the next train of this thread.
    static BUFFER: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Packets that leave together; at the latest when it is dropped.
pub struct Train<'a> {
    path: &'a Path,
    buffer: Vec<u8>,
    /// Bytes of the packets that wait.
    used: usize,
    count: usize,
    /// Bytes of the first of them.
    segment: usize,
}

impl<'a> Train<'a> {
    /// Nothing waits.
    pub fn new(path: &'a Path) -> Train<'a> {
        // There is none any more where a process says its last words after its threads' own memory is gone (exit(3)).
        let mut buffer = BUFFER.try_with(Cell::take).unwrap_or_default();
        buffer.resize(MOST_BYTES + PACKET, 0);
        Train {
            path,
            buffer,
            used: 0,
            count: 0,
            segment: 0,
        }
    }

    /// Where the next packet is made.
    pub fn room(&mut self) -> &mut [u8] {
        &mut self.buffer[self.used..self.used + PACKET]
    }

    /// Whether a packet of so many bytes, from its BTH to its last pad byte, would leave with what waits.
    pub fn takes(&self, length: usize) -> bool {
        let whole = length + icrc::LENGTH;
        whole <= self.segment
            && self.count < MOST
            && self.used + whole <= MOST_BYTES
            && self.path.segments()
    }

    /// A packet of so many bytes was made there.
    pub fn couple(&mut self, length: usize) {
        let whole = length + icrc::LENGTH;
        if self.count > 0 && !self.takes(length) {
            let start = self.used;
            self.leave();
            self.buffer.copy_within(start..start + length, 0);
        }
        let route = with_identification(self.path.route(), self.count as u16);
        // IP can say it, and there is room: a packet is shorter than that.
        if seal(&route, length, &mut self.buffer[self.used..]).is_err() {
            return;
        }
        if self.count == 0 {
            self.segment = whole;
        }
        self.used += whole;
        self.count += 1;
        if whole < self.segment {
            self.leave();
        }
    }

    /// Sends what waits. What the kernel does not take is lost, as packets are.
    pub fn leave(&mut self) {
        let (used, segment) = (
            std::mem::take(&mut self.used),
            std::mem::take(&mut self.segment),
        );
        if std::mem::take(&mut self.count) == 0 {
            return;
        }
        let bytes = &self.buffer[..used];
        match self.path.send(bytes, segment) {
            Err(Errno::EOPNOTSUPP) => self.leave_one_by_one(used, segment),
            _ if capture::is_on() => tell(self.path, bytes.chunks(segment)),
            _ => (),
        }
    }

    /// The kernel does not cut: each has a call and the identification 0 to itself.
    fn leave_one_by_one(&mut self, used: usize, segment: usize) {
        for packet in self.buffer[..used].chunks_mut(segment) {
            let length = packet.len() - icrc::LENGTH;
            if seal(self.path.route(), length, packet).is_ok() {
                let _ = self.path.send(packet, packet.len());
                if capture::is_on() {
                    tell(self.path, std::iter::once(&*packet));
                }
            }
        }
    }
}

/// Tells of packets that left in one call, whether or not the kernel had room for them.
#[cold]
fn tell<'a>(path: &Path, packets: impl Iterator<Item = &'a [u8]>) {
    let time = clock::wall();
    for (index, packet) in packets.enumerate() {
        let route = with_identification(&path.route_as_sent(), index as u16);
        capture::tell(Seen::Sent, time, &route, packet);
    }
}

impl Drop for Train<'_> {
    fn drop(&mut self) {
        self.leave();
        let buffer = std::mem::take(&mut self.buffer);
        let _ = BUFFER.try_with(|kept| kept.set(buffer));
    }
}
