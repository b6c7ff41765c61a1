//! Joins consecutive segments of a TCP connection to one long packet, as an adapter with LRO or
//! the kernel's GRO does: one write of the device then takes the place of many.

use crate::checksum;
use crate::ip::IPV4_HEADER;
use crate::offload::{self, Header, Long, Partial};
use crate::transport::{self, TCP, TCP_CHECKSUM, TCP_HEADER};

/// Most connections whose segments are joined at the same time.
const MOST_FLOWS: usize = 8;
/// Longest packet.
const LONGEST: usize = 65_535;
const ACK: u8 = 0x10;
const PSH: u8 = 0x08;

/// Bytes of a buffer: the device's header, and a packet.
const BUFFER: usize = offload::LENGTH + (1 << 16);

/// A packet that waits for more segments.
struct Pending {
    /// The device's header and the packet, which ends at `end`.
    buffer: Vec<u8>,
    end: usize,
    /// Data of each segment but the last.
    length: usize,
    ip_header: usize,
    headers: usize,
    packets: u64,
    next_sequence: u32,
    is_full: bool,
}

/// Packets that wait for more segments.
#[derive(Default)]
pub struct Joiner {
    pending: Vec<Pending>,
    spare: Vec<Vec<u8>>,
}

/// A segment that can be joined if its checksum is right.
struct Segment<'a> {
    /// The headers.
    front: &'a [u8],
    /// Length of the packet.
    length: usize,
    ip_header: usize,
    sequence: u32,
    has_push: bool,
}

/// What became of a segment.
#[derive(PartialEq, Eq)]
enum Appended {
    Done,
    /// It does not follow the packet that waits.
    Apart,
    /// Its checksum is wrong.
    Broken,
}

impl Joiner {
    /// Takes a packet of this length with these first bytes, which have its headers. `read` copies
    /// bytes of it, from an offset on; it fails only as a whole. `write` gets packets behind the
    /// device's header, and the number of packets that were joined in each, in the order of each
    /// connection. Returns whether the packet was taken.
    pub fn take(
        &mut self,
        front: &[u8],
        length: usize,
        read: impl Fn(usize, &mut [u8]) -> bool,
        mut write: impl FnMut(&[u8], u64),
    ) -> bool {
        let Some(segment) = Segment::of(front, length) else {
            return self.pass(length, read, write);
        };
        let of_flow = |pending: &Pending| segment.is_of(pending);
        match self.pending.iter().position(of_flow) {
            Some(at) => match self.pending[at].append(&segment, &read) {
                Appended::Done => {
                    if self.pending[at].is_full {
                        self.write(at, &mut write);
                    }
                    return true;
                }
                Appended::Broken => return self.pass(length, read, write),
                Appended::Apart => self.write(at, &mut write),
            },
            None if self.pending.len() == MOST_FLOWS => self.write(0, &mut write),
            None => {}
        }
        let buffer = self.buffer();
        match Pending::new(buffer, &segment, &read) {
            Ok(pending) => self.pending.push(pending),
            Err(buffer) => {
                self.spare.push(buffer);
                return self.pass(length, read, write);
            }
        }
        true
    }

    /// Takes a packet that is there as a whole.
    pub fn take_whole(&mut self, packet: &[u8], write: impl FnMut(&[u8], u64)) -> bool {
        let read = |from: usize, into: &mut [u8]| {
            into.copy_from_slice(&packet[from..from + into.len()]);
            true
        };
        self.take(packet, packet.len(), read, write)
    }

    /// Writes a packet that is not joined.
    fn pass(
        &mut self,
        length: usize,
        read: impl Fn(usize, &mut [u8]) -> bool,
        mut write: impl FnMut(&[u8], u64),
    ) -> bool {
        // It may be of a connection whose segments wait.
        self.flush(&mut write);
        let mut buffer = self.buffer();
        let bytes = buffer.get_mut(..offload::LENGTH + length);
        let is_taken = bytes.is_some_and(|bytes| {
            let (header, packet) = bytes.split_at_mut(offload::LENGTH);
            header.copy_from_slice(&Header::default().bytes());
            let is_read = read(0, packet);
            if is_read {
                write(bytes, 1);
            }
            is_read
        });
        self.spare.push(buffer);
        is_taken
    }

    fn buffer(&mut self) -> Vec<u8> {
        self.spare.pop().unwrap_or_else(|| vec![0; BUFFER])
    }

    /// Writes all packets that wait.
    pub fn flush(&mut self, mut write: impl FnMut(&[u8], u64)) {
        while !self.pending.is_empty() {
            self.write(0, &mut write);
        }
    }

    fn write(&mut self, at: usize, write: &mut impl FnMut(&[u8], u64)) {
        let mut pending = self.pending.remove(at);
        pending.finish();
        write(&pending.buffer[..pending.end], pending.packets);
        self.spare.push(pending.buffer);
    }
}

impl<'a> Segment<'a> {
    /// Returns the segment of a packet that can be joined: data, no flags but ACK and PSH, and a
    /// right checksum of an IPv4 header, because a joined packet gets another one.
    fn of(front: &'a [u8], length: usize) -> Option<Segment<'a>> {
        let (ip_header, protocol) = transport::plain(front)?;
        let stated = match ip_header {
            IPV4_HEADER => usize::from(u16::from_be_bytes([front[2], front[3]])),
            _ => ip_header + usize::from(u16::from_be_bytes([front[4], front[5]])),
        };
        let transport = front.get(ip_header..)?;
        if protocol != TCP || stated != length || transport.len() < TCP_HEADER {
            return None;
        }
        let headers = ip_header + usize::from(transport[12] >> 4) * 4;
        let is_plain = transport[13] & !PSH == ACK && headers >= ip_header + TCP_HEADER;
        if !is_plain || headers >= length || length > LONGEST {
            return None;
        }
        if ip_header == IPV4_HEADER && checksum::fold(checksum::add(0, &front[..ip_header])) != 0 {
            return None;
        }
        let sequence = [transport[4], transport[5], transport[6], transport[7]];
        Some(Segment {
            front: front.get(..headers)?,
            length,
            ip_header,
            sequence: u32::from_be_bytes(sequence),
            has_push: transport[13] & PSH != 0,
        })
    }

    /// Returns the length of its data.
    fn data(&self) -> usize {
        self.length - self.front.len()
    }

    /// Copies its data. Returns `false` if its checksum is wrong: a joined packet gets another one.
    fn read(&self, read: &impl Fn(usize, &mut [u8]) -> bool, data: &mut [u8]) -> bool {
        read(self.front.len(), data)
            && transport::has_right_checksum_of(self.front, data, self.ip_header, TCP)
    }

    /// Returns whether addresses and ports are those of a packet that waits.
    fn is_of(&self, pending: &Pending) -> bool {
        let other = pending.packet();
        let ports = |packet: &[u8]| [0, 1, 2, 3].map(|at| packet[self.ip_header + at]);
        let range = addresses(self.ip_header);
        pending.ip_header == self.ip_header
            && other[range.clone()] == self.front[range]
            && ports(other) == ports(self.front)
    }
}

/// Returns the place of the addresses in an IP header.
fn addresses(ip_header: usize) -> std::ops::Range<usize> {
    if ip_header == IPV4_HEADER {
        12..20
    } else {
        8..40
    }
}

impl Pending {
    /// Returns the packet of one segment, or the buffer if the segment's checksum is wrong.
    fn new(
        mut buffer: Vec<u8>,
        segment: &Segment<'_>,
        read: &impl Fn(usize, &mut [u8]) -> bool,
    ) -> Result<Pending, Vec<u8>> {
        let headers = segment.front.len();
        let (start, end) = (offload::LENGTH + headers, offload::LENGTH + segment.length);
        buffer[..offload::LENGTH].fill(0);
        buffer[offload::LENGTH..start].copy_from_slice(segment.front);
        if !segment.read(read, &mut buffer[start..end]) {
            return Err(buffer);
        }
        let length = segment.data();
        Ok(Pending {
            buffer,
            end,
            length,
            ip_header: segment.ip_header,
            headers,
            packets: 1,
            next_sequence: segment.sequence.wrapping_add(length as u32),
            is_full: segment.has_push,
        })
    }

    fn packet(&self) -> &[u8] {
        &self.buffer[offload::LENGTH..self.end]
    }

    /// Appends the next segment.
    fn append(
        &mut self,
        segment: &Segment<'_>,
        read: &impl Fn(usize, &mut [u8]) -> bool,
    ) -> Appended {
        let length = segment.data();
        let is_next = !self.is_full
            && segment.sequence == self.next_sequence
            && segment.front.len() == self.headers
            && length <= self.length
            && self.packet().len() + length <= LONGEST;
        if !is_next || !self.has_equal_headers(segment) {
            return Appended::Apart;
        }
        let end = self.end + length;
        if !segment.read(read, &mut self.buffer[self.end..end]) {
            return Appended::Broken;
        }
        self.end = end;
        self.packets += 1;
        self.next_sequence = self.next_sequence.wrapping_add(length as u32);
        self.is_full = segment.has_push || length < self.length;
        if segment.has_push {
            self.buffer[offload::LENGTH + self.ip_header + 13] |= PSH;
        }
        Appended::Done
    }

    /// Returns whether the headers are equal but for lengths, numbers, checksums and PSH.
    fn has_equal_headers(&self, segment: &Segment<'_>) -> bool {
        let (own, other) = (self.packet(), segment.front);
        let same = |range: std::ops::Range<usize>| own[range.clone()] == other[range];
        let tcp = |at: usize| self.ip_header + at;
        let ip = match self.ip_header {
            // Type of service; "don't fragment"; time to live and protocol.
            IPV4_HEADER => same(0..2) && same(6..10),
            // Traffic class, flow label; hop limit.
            _ => same(0..4) && same(7..8),
        };
        // Acknowledgement and header length, window, urgent pointer, options.
        ip && same(tcp(8)..tcp(13)) && same(tcp(14)..tcp(16)) && same(tcp(18)..self.headers)
    }

    /// Writes the device's header, the lengths and the sum of the pseudo header.
    fn finish(&mut self) {
        if self.packets == 1 {
            return;
        }
        let ip_header = self.ip_header;
        let header = Header {
            long: Some((
                match ip_header {
                    IPV4_HEADER => Long::TcpIpv4,
                    _ => Long::TcpIpv6,
                },
                self.length as u16,
            )),
            partial: Some(Partial {
                start: ip_header as u16,
                offset: TCP_CHECKSUM as u16,
            }),
            headers: self.headers as u16,
        };
        let (space, packet) = self.buffer[..self.end].split_at_mut(offload::LENGTH);
        space.copy_from_slice(&header.bytes());
        transport::set_length(packet, ip_header);
        let sum = !checksum::fold(transport::pseudo_sum(packet, ip_header, TCP));
        let at = ip_header + TCP_CHECKSUM;
        packet[at..at + 2].copy_from_slice(&sum.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::segment::tests::{packet, segments};
    use proptest::prelude::*;

    /// First bytes of packets that are given.
    const FRONT: usize = 120;

    /// Returns all that is written for some packets, with the numbers of packets.
    fn joined(packets: &[Vec<u8>]) -> Vec<(Vec<u8>, u64)> {
        let mut joiner = Joiner::default();
        let mut written = Vec::new();
        for packet in packets {
            let read = |from: usize, into: &mut [u8]| {
                into.copy_from_slice(&packet[from..from + into.len()]);
                true
            };
            let front = &packet[..packet.len().min(FRONT)];
            let write = |bytes: &[u8], count| written.push((bytes.to_vec(), count));
            assert!(joiner.take(front, packet.len(), read, write));
        }
        joiner.flush(|bytes, count| written.push((bytes.to_vec(), count)));
        written
    }

    fn cut(is_v6: bool, data: &[u8], length: u16) -> Vec<Vec<u8>> {
        let kind = if is_v6 { Long::TcpIpv6 } else { Long::TcpIpv4 };
        let header = Header {
            long: Some((kind, length)),
            ..Header::default()
        };
        segments(&header, &packet(is_v6, TCP, 12, data)).unwrap()
    }

    #[test]
    fn segments_of_a_packet_become_one_packet() {
        for is_v6 in [false, true] {
            let written = joined(&cut(is_v6, &[7; 1050], 100));
            assert_eq!(written.len(), 1);
            assert_eq!(written[0].1, 11);
            let header = Header::parse(written[0].0.first_chunk().unwrap()).unwrap();
            assert_eq!(header.long.unwrap().1, 100);
        }
    }

    #[test]
    fn segments_that_do_not_follow_stay_apart() {
        let all = cut(false, &[7; 300], 100);
        let changed = |at: usize, value: u8| {
            let mut other = all[1].clone();
            other[at] = value;
            transport::set_length(&mut other, 20);
            transport::set_checksum(&mut other, 20, TCP, TCP_CHECKSUM);
            other
        };
        // Sequence, acknowledgement, window, type of service, FIN, URG, ECE, CWR, urgent pointer,
        // another port, an option.
        for (at, value) in [
            (27, 1),
            (31, 1),
            (35, 1),
            (1, 3),
            (33, 0x11),
            (33, 0x30),
            (33, 0x50),
            (33, 0x90),
            (39, 1),
            (21, 1),
            (41, 1),
        ] {
            let written = joined(&[all[0].clone(), changed(at, value)]);
            assert_eq!(written.len(), 2, "byte {at}");
        }
        let mut broken = all[1].clone();
        broken[60] ^= 1;
        let written = joined(&[all[0].clone(), broken.clone(), all[1].clone()]);
        assert_eq!(written.len(), 3);
        assert_eq!(written[1].0[offload::LENGTH..], broken);
    }

    #[test]
    fn segments_with_a_wrong_ip_header_checksum_stay_apart() {
        let all = cut(false, &[7; 300], 100);
        for wrong in 0..3 {
            let mut packets = all.clone();
            packets[wrong][10] ^= 1;
            let written = joined(&packets);
            assert!(
                written
                    .iter()
                    .any(|(bytes, count)| *count == 1 && bytes[offload::LENGTH..] == packets[wrong])
            );
            let count: u64 = written.iter().map(|(_, count)| count).sum();
            assert_eq!(count, 3);
        }
    }

    #[test]
    fn a_packet_that_cannot_be_read_is_not_taken() {
        let all = cut(false, &[7; 300], 100);
        let mut joiner = Joiner::default();
        let (mut written, whole) = (0, all[0].clone());
        let right = |from: usize, into: &mut [u8]| {
            into.copy_from_slice(&whole[from..from + into.len()]);
            true
        };
        assert!(joiner.take(&all[0], all[0].len(), right, |_, _| written += 1));
        for packet in [&all[1], &packet(true, TCP, 0, b"data"), &vec![0; 10]] {
            assert!(!joiner.take(packet, packet.len(), |_, _| false, |_, _| written += 1));
        }
        assert!(!joiner.take(&[0; 10], BUFFER, |_, _| true, |_, _| written += 1));
        joiner.flush(|_, count| assert_eq!(count, 1));
        assert_eq!(written, 1);
    }

    #[test]
    fn flows_are_joined_side_by_side_and_bounded() {
        let mut all = Vec::new();
        for number in 0..3usize {
            for port in 0..MOST_FLOWS as u8 {
                let mut one = cut(false, &[7; 300], 100).swap_remove(number);
                one[21] = port;
                transport::set_checksum(&mut one, 20, TCP, TCP_CHECKSUM);
                all.push(one);
            }
        }
        assert_eq!(joined(&all).len(), MOST_FLOWS);
        all.insert(4, cut(true, &[7; 100], 100).swap_remove(0));
        let count: u64 = joined(&all).iter().map(|(_, count)| count).sum();
        assert_eq!(count, all.len() as u64);
    }

    proptest! {
        /// Cutting a joined packet again gives the packets that were joined.
        #[test]
        fn cutting_is_the_inverse_of_joining(
            is_v6: bool, data in prop::collection::vec(any::<u8>(), 1..9000), length in 1u16..3000,
        ) {
            let all = cut(is_v6, &data, length);
            let mut again = Vec::new();
            for (bytes, count) in joined(&all) {
                let header = Header::parse(bytes.first_chunk().unwrap()).unwrap();
                let parts = segments(&header, &bytes[offload::LENGTH..]).unwrap();
                prop_assert_eq!(parts.len() as u64, count);
                again.extend(parts);
            }
            // The numbers of IPv4 packets start anew with each joined packet.
            prop_assert_eq!(again.len(), all.len());
            for (one, other) in again.iter().zip(&all) {
                let skip = if is_v6 { 0..0 } else { 4..12 };
                prop_assert_eq!(&one[..skip.start], &other[..skip.start]);
                prop_assert_eq!(&one[skip.end..], &other[skip.end..]);
            }
        }

        /// No packet is lost, of any kind.
        #[test]
        fn every_packet_is_written(
            kinds in prop::collection::vec((0u8..4, 0usize..3, any::<bool>()), 0..60),
        ) {
            let all: Vec<Vec<u8>> = kinds.into_iter().map(|(kind, number, is_v6)| match kind {
                0 => packet(is_v6, 17, 0, b"data"),
                1 => vec![0; number * 30],
                _ => cut(is_v6, &[7; 300], 100).swap_remove(number),
            }).collect();
            let count: u64 = joined(&all).iter().map(|(_, count)| count).sum();
            prop_assert_eq!(count, all.len() as u64);
        }
    }
}
