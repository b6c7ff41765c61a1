//! TX batch: packets of one queue pair sent in one call, segmented by the kernel (UDP_SEGMENT), all
//! of one length except a shorter last one.

use super::path::Path;
use crate::capture::{self, Seen};
use std::cell::Cell;
use verbena_hca_os::clock;
use verbena_hca_os::errno::Errno;
use verbena_wire::icrc::Series;
use verbena_wire::roce::{seal, seal_in};
use verbena_wire::{Mtu, bth, icrc};

/// Packets per call (Linux: UDP_MAX_SEGMENTS).
const MOST: usize = 64;
/// Bytes per call: IP's limit, less headers.
const MOST_BYTES: usize = 65_000;
/// Space for one packet under construction: headers, the largest MTU, padding and ICRC.
pub const PACKET: usize = 4096 + 128;

/// Returns how many packets with a full payload and no extension headers one batch holds.
#[must_use]
pub const fn packets(mtu: Mtu) -> u32 {
    let fit = MOST_BYTES / (bth::LENGTH + mtu.bytes() as usize + icrc::LENGTH);
    if fit < MOST { fit as u32 } else { MOST as u32 }
}

thread_local! {
    /// Buffer kept for the next batch of this thread.
    static BUFFER: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// A TX batch, flushed at the latest when it is dropped.
pub struct TxBatch<'a> {
    path: &'a Path,
    series: Series,
    buffer: Vec<u8>,
    /// Bytes of the waiting packets.
    used: usize,
    count: usize,
    /// Bytes of the first packet.
    segment: usize,
}

impl<'a> TxBatch<'a> {
    /// Creates an empty batch.
    #[inline]
    pub fn new(path: &'a Path) -> TxBatch<'a> {
        // There is no thread-local buffer when a process sends its last packets after thread-local
        // storage has been destroyed (exit(3)).
        let mut buffer = BUFFER.try_with(Cell::take).unwrap_or_default();
        buffer.resize(MOST_BYTES + PACKET, 0);
        TxBatch {
            path,
            series: Series::new(path.route()),
            buffer,
            used: 0,
            count: 0,
            segment: 0,
        }
    }

    /// Returns the buffer for the next packet.
    #[inline]
    pub fn room(&mut self) -> &mut [u8] {
        &mut self.buffer[self.used..self.used + PACKET]
    }

    /// Returns whether a packet of `length` bytes, counted from its BTH to its last pad byte, fits
    /// into the same call as the waiting packets.
    #[inline]
    pub fn takes(&self, length: usize) -> bool {
        let whole = length + icrc::LENGTH;
        whole <= self.segment
            && self.count < MOST
            && self.used + whole <= MOST_BYTES
            && self.path.segments()
    }

    /// Adds the packet of `length` bytes that was written to [`TxBatch::room`]. Flushes first if it
    /// does not fit, and afterwards if it ends the batch.
    #[inline]
    pub fn push(&mut self, length: usize) {
        let whole = length + icrc::LENGTH;
        if self.count > 0 && !self.takes(length) {
            let start = self.used;
            self.flush();
            self.buffer.copy_within(start..start + length, 0);
        }
        if self.seal(length) && whole < self.segment {
            self.flush();
        }
    }

    /// Returns the buffer for further packets of `length` bytes in the same call, one each
    /// `length + icrc::LENGTH` bytes; empty if packets of this length do not continue the batch.
    #[inline]
    pub fn room_for_equal(&mut self, length: usize) -> &mut [u8] {
        let whole = length + icrc::LENGTH;
        let continues = self.path.segments() && (self.count == 0 || self.segment == whole);
        let count = match continues {
            true => (MOST - self.count).min((MOST_BYTES - self.used) / whole),
            false => 0,
        };
        &mut self.buffer[self.used..self.used + count * whole]
    }

    /// Adds `count` packets of `length` bytes each that were written to
    /// [`TxBatch::room_for_equal`]. Flushes if they fill the batch.
    #[inline]
    pub fn push_equal(&mut self, count: usize, length: usize) {
        let sealed = (0..count).take_while(|_| self.seal(length)).count();
        if sealed > 0 && !self.takes(length) {
            self.flush();
        }
    }

    /// Adds the ICRC of the packet of `length` bytes behind the waiting ones, which waits then.
    #[inline]
    fn seal(&mut self, length: usize) -> bool {
        let identification = self.count as u16;
        let packet = &mut self.buffer[self.used..];
        // Cannot fail: a packet is within IP's limit, and there is space for its ICRC.
        let Ok(whole) = seal_in(&mut self.series, identification, length, packet) else {
            return false;
        };
        if self.count == 0 {
            self.segment = whole;
        }
        self.used += whole;
        self.count += 1;
        true
    }

    /// Sends the waiting packets. Packets that the kernel does not take are lost, as packets may
    /// be.
    #[inline]
    pub fn flush(&mut self) {
        let (used, segment) = (
            std::mem::take(&mut self.used),
            std::mem::take(&mut self.segment),
        );
        if std::mem::take(&mut self.count) == 0 {
            return;
        }
        let bytes = &self.buffer[..used];
        match self.path.send(bytes, segment) {
            Err(Errno::EOPNOTSUPP) => self.flush_one_by_one(used, segment),
            _ if capture::is_on() => capture_packets(self.path, bytes.chunks(segment)),
            _ => (),
        }
    }

    /// Sends each packet in its own call with identification 0, because the kernel does not
    /// segment.
    fn flush_one_by_one(&mut self, used: usize, segment: usize) {
        for packet in self.buffer[..used].chunks_mut(segment) {
            let length = packet.len() - icrc::LENGTH;
            if seal(self.path.route(), length, packet).is_ok() {
                let _ = self.path.send(packet, packet.len());
                if capture::is_on() {
                    capture_packets(self.path, std::iter::once(&*packet));
                }
            }
        }
    }
}

/// Captures packets that were sent in one call, whether or not the kernel had space for them.
#[cold]
fn capture_packets<'a>(path: &Path, packets: impl Iterator<Item = &'a [u8]>) {
    let time = clock::wall();
    for (index, packet) in packets.enumerate() {
        let route = path.route_as_sent().with_identification(index as u16);
        capture::record_packet(Seen::Sent, time, &route, packet);
    }
}

impl Drop for TxBatch<'_> {
    #[inline]
    fn drop(&mut self) {
        self.flush();
        let buffer = std::mem::take(&mut self.buffer);
        let _ = BUFFER.try_with(|kept| kept.set(buffer));
    }
}
