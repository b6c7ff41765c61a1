//! Packets of a TUN device with offloads: completes checksums, and cuts long packets into segments
//! of the MTU, as an adapter with LSO does.

use crate::checksum;
use crate::offload::{self, Header, Long};
use crate::transport::{self, TCP, TCP_CHECKSUM, TCP_HEADER, UDP, UDP_CHECKSUM, UDP_HEADER};

/// Bits of TCP's flags: those that only the last segment has, and the one of the first.
const FIN: u8 = 0x01;
const PSH: u8 = 0x08;
const CWR: u8 = 0x80;

/// A packet as the device gave it, and the segments that are left of it.
#[derive(Debug)]
pub struct Segments {
    /// The device's header and the packet, which ends at `end`.
    buffer: Vec<u8>,
    end: usize,
    cut: Option<Cut>,
    /// The headers of a segment.
    front: Vec<u8>,
    /// Bytes that have been returned.
    at: usize,
    has_more: bool,
}

/// How a long packet is cut.
#[derive(Debug, Clone, Copy)]
struct Cut {
    ip_header: usize,
    protocol: u8,
    headers: usize,
    length: usize,
    number: u16,
}

/// A packet that is none the device should give.
#[derive(Debug, PartialEq, Eq)]
pub struct Invalid;

impl Segments {
    /// Returns no segments, with memory for packets of this length with their headers.
    pub fn new(longest: usize) -> Segments {
        Segments {
            buffer: vec![0; longest],
            end: 0,
            cut: None,
            front: Vec::new(),
            at: 0,
            has_more: false,
        }
    }

    /// Returns the memory for a header and a packet, to be read from the device. No segment is left
    /// while it is used.
    pub fn buffer(&mut self) -> &mut [u8] {
        &mut self.buffer
    }

    /// Takes the first bytes of the memory, which were read from the device.
    ///
    /// # Errors
    ///
    /// The header contradicts the packet.
    pub fn take(&mut self, length: usize) -> Result<(), Invalid> {
        self.has_more = false;
        let bytes = self.buffer.get_mut(..length).ok_or(Invalid)?;
        let (header, packet) = bytes
            .split_first_chunk_mut::<{ offload::LENGTH }>()
            .ok_or(Invalid)?;
        let header = Header::parse(header).ok_or(Invalid)?;
        self.end = length;
        self.at = 0;
        self.cut = match header.long {
            Some((long, length)) => Some(cut(packet, long, length)?),
            None => None,
        };
        if let (None, Some(partial)) = (header.long, header.partial) {
            let start = usize::from(partial.start);
            complete(packet, start, start + usize::from(partial.offset))?;
        }
        self.has_more = true;
        Ok(())
    }

    /// Writes the next segment to `into`. Returns `false` if there is none.
    pub fn next(&mut self, into: &mut Vec<u8>) -> bool {
        if !self.has_more {
            return false;
        }
        into.clear();
        match self.next_parts() {
            Some((front, data)) => {
                into.extend_from_slice(front);
                into.extend_from_slice(data);
            }
            None => {
                self.has_more = false;
                into.extend_from_slice(&self.buffer[offload::LENGTH..self.end]);
            }
        }
        true
    }

    /// Returns the first bytes of the long packet of which segments are left, the packet's length,
    /// and that of its longest segment.
    pub fn long(&self) -> Option<(&[u8], usize, usize)> {
        let cut = self.cut.filter(|_| self.has_more)?;
        let packet = &self.buffer[offload::LENGTH..self.end];
        let longest = packet.len().min(cut.headers + cut.length);
        Some((&packet[..cut.headers], packet.len(), longest))
    }

    /// Returns headers and data of the next segment of a long packet, if there is one.
    pub fn next_parts(&mut self) -> Option<(&[u8], &[u8])> {
        let cut = self.cut.as_mut().filter(|_| self.has_more)?;
        let packet = &self.buffer[offload::LENGTH..self.end];
        let (headers, data) = packet.split_at(cut.headers);
        let end = data.len().min(self.at + cut.length);
        let part = &data[self.at..end];
        self.front.clear();
        self.front.extend_from_slice(headers);
        self.has_more = end < data.len();
        cut.write_headers(&mut self.front, part, self.at, !self.has_more);
        self.at = end;
        cut.number = cut.number.wrapping_add(1);
        Some((&self.front, part))
    }
}

impl Cut {
    /// Writes lengths, numbers and checksums of the segment with this data, which stand at `at`.
    fn write_headers(&self, front: &mut [u8], data: &[u8], at: usize, is_last: bool) {
        if transport::is_ipv4(front) {
            let first = u16::from_be_bytes([front[4], front[5]]);
            let number = first.wrapping_add(self.number);
            front[4..6].copy_from_slice(&number.to_be_bytes());
        }
        let length = front.len() + data.len();
        transport::set_length_of(front, self.ip_header, length);
        let transport = &mut front[self.ip_header..];
        let offset = if self.protocol == UDP {
            let length = (length - self.ip_header) as u16;
            transport[4..6].copy_from_slice(&length.to_be_bytes());
            UDP_CHECKSUM
        } else {
            let first = [transport[4], transport[5], transport[6], transport[7]];
            let sequence = u32::from_be_bytes(first).wrapping_add(at as u32);
            transport[4..8].copy_from_slice(&sequence.to_be_bytes());
            if !is_last {
                transport[13] &= !(FIN | PSH);
            }
            if at > 0 {
                transport[13] &= !CWR;
            }
            TCP_CHECKSUM
        };
        transport::set_checksum_of(front, data, self.ip_header, (self.protocol, offset));
    }
}

/// Returns how a long packet is cut.
fn cut(packet: &[u8], long: Long, length: u16) -> Result<Cut, Invalid> {
    let (ip_header, protocol) = transport::find(packet).ok_or(Invalid)?;
    let is_ipv4 = transport::is_ipv4(packet);
    let transport = &packet[ip_header..];
    let own_header = match (long, protocol) {
        (Long::TcpIpv4, TCP) if is_ipv4 => tcp_header(transport),
        (Long::TcpIpv6, TCP) if !is_ipv4 => tcp_header(transport),
        (Long::Udp, UDP) => Some(UDP_HEADER),
        _ => None,
    };
    let headers = ip_header + own_header.ok_or(Invalid)?;
    if length == 0 || packet.len() <= headers {
        return Err(Invalid);
    }
    Ok(Cut {
        ip_header,
        protocol,
        headers,
        length: length.into(),
        number: 0,
    })
}

/// Returns the length of a TCP header.
fn tcp_header(transport: &[u8]) -> Option<usize> {
    let length = usize::from(transport.get(12)? >> 4) * 4;
    (length >= TCP_HEADER && length <= transport.len()).then_some(length)
}

/// Completes a checksum whose place has the sum of the pseudo header.
fn complete(packet: &mut [u8], start: usize, at: usize) -> Result<(), Invalid> {
    if at + 2 > packet.len() {
        return Err(Invalid);
    }
    let sum = checksum::fold(checksum::add(0, &packet[start..]));
    // Zero means no checksum in UDP; in TCP both mean the same.
    let sum = if sum == 0 { 0xffff } else { sum };
    packet[at..at + 2].copy_from_slice(&sum.to_be_bytes());
    Ok(())
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::offload::Partial;
    use proptest::prelude::*;

    /// Returns a packet with TCP or UDP, a right length and a right checksum.
    pub fn packet(is_v6: bool, protocol: u8, options: usize, data: &[u8]) -> Vec<u8> {
        let ip_header = if is_v6 { 40 } else { 20 };
        let mut packet = vec![0; ip_header];
        if is_v6 {
            packet[0] = 0x60;
            (packet[6], packet[7]) = (protocol, 64);
            (packet[8], packet[23], packet[24], packet[39]) = (0xfd, 1, 0xfd, 2);
        } else {
            packet[0] = 0x45;
            (packet[4], packet[5]) = (0xff, 0xfe);
            (packet[8], packet[9]) = (64, protocol);
            packet[12..20].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
        }
        let offset = if protocol == TCP {
            let mut header = vec![0; 20 + options];
            header[..4].copy_from_slice(&[0x12, 0x34, 0x56, 0x78]);
            header[4..8].copy_from_slice(&0xffff_f000u32.to_be_bytes());
            header[12] = ((20 + options) << 2) as u8;
            header[13] = 0x10;
            packet.extend_from_slice(&header);
            TCP_CHECKSUM
        } else {
            packet.extend_from_slice(&[0x12, 0x34, 0x56, 0x78]);
            packet.extend_from_slice(&((8 + data.len()) as u16).to_be_bytes());
            packet.extend_from_slice(&[0, 0]);
            UDP_CHECKSUM
        };
        packet.extend_from_slice(data);
        transport::set_length(&mut packet, ip_header);
        transport::set_checksum(&mut packet, ip_header, protocol, offset);
        packet
    }

    /// Returns segments whose memory has these bytes.
    fn filled(bytes: &[u8]) -> Segments {
        let mut segments = Segments::new(bytes.len());
        segments.buffer().copy_from_slice(bytes);
        segments
    }

    /// Returns the segments of a packet behind a header.
    pub fn segments(header: &Header, packet: &[u8]) -> Result<Vec<Vec<u8>>, Invalid> {
        let mut segments = filled(&[&header.bytes()[..], packet].concat());
        segments.take(offload::LENGTH + packet.len())?;
        let (mut all, mut one) = (Vec::new(), Vec::new());
        while segments.next(&mut one) {
            all.push(one.clone());
        }
        Ok(all)
    }

    fn long(kind: Long, length: u16) -> Header {
        Header {
            long: Some((kind, length)),
            ..Header::default()
        }
    }

    #[test]
    fn there_is_no_segment_before_a_packet() {
        assert!(!Segments::new(0).next(&mut Vec::new()));
    }

    #[test]
    fn only_long_packets_are_given_in_parts() {
        let short = packet(false, TCP, 0, b"data");
        let mut all = filled(&[&[0; offload::LENGTH][..], &short].concat());
        all.take(offload::LENGTH + short.len()).unwrap();
        assert_eq!(all.long(), None);
        assert_eq!(all.next_parts(), None);
        let mut one = Vec::new();
        assert!(all.next(&mut one) && one == short);

        let whole = packet(true, TCP, 12, &[7; 250]);
        let header = long(Long::TcpIpv6, 100);
        let mut all = filled(&[&header.bytes()[..], &whole].concat());
        all.take(offload::LENGTH + whole.len()).unwrap();
        assert_eq!(all.long(), Some((&whole[..72], 322, 172)));
        let (front, data) = all.next_parts().unwrap();
        assert_eq!((front.len(), data), (72, &[7; 100][..]));
        // The rest can be taken as whole packets.
        assert!(all.next(&mut one));
        assert_eq!(one.len(), 172);
        assert_eq!(all.next_parts().unwrap().1.len(), 50);
        assert_eq!(all.long(), None);
        assert_eq!(all.next_parts(), None);
        assert!(!all.next(&mut one));
    }

    #[test]
    fn a_short_packet_passes_as_it_is() {
        let packet = packet(false, UDP, 0, b"data");
        assert_eq!(segments(&Header::default(), &packet), Ok(vec![packet]));
    }

    #[test]
    fn a_partial_checksum_is_completed() {
        for (is_v6, protocol, offset) in [(false, TCP, 16), (true, TCP, 16), (false, UDP, 6)] {
            let whole = packet(is_v6, protocol, 0, b"data");
            let ip_header = if is_v6 { 40 } else { 20 };
            let mut partial = whole.clone();
            let sum = !checksum::fold(transport::pseudo_sum(&whole, ip_header, protocol));
            let at = ip_header + offset;
            partial[at..at + 2].copy_from_slice(&sum.to_be_bytes());
            let start = ip_header as u16;
            let header = Header {
                partial: Some(Partial {
                    start,
                    offset: offset as u16,
                }),
                ..Header::default()
            };
            assert_eq!(segments(&header, &partial), Ok(vec![whole]));
        }
    }

    #[test]
    fn headers_that_contradict_the_packet_are_refused() {
        let tcp = packet(false, TCP, 0, b"data");
        let udp = packet(true, UDP, 0, b"data");
        for (header, packet) in [
            (long(Long::TcpIpv6, 2), &tcp),
            (long(Long::TcpIpv4, 0), &tcp),
            (long(Long::TcpIpv4, 2), &udp),
            (long(Long::Udp, 2), &tcp),
        ] {
            assert_eq!(segments(&header, packet), Err(Invalid), "{header:?}");
        }
        let beyond = Partial {
            start: 20,
            offset: 40,
        };
        let beyond = Header {
            partial: Some(beyond),
            ..Header::default()
        };
        assert_eq!(segments(&beyond, &tcp), Err(Invalid));
        assert_eq!(segments(&long(Long::TcpIpv4, 2), &tcp[..30]), Err(Invalid));
    }

    /// Inserts bytes behind the fixed IP header, and corrects lengths and checksums.
    fn with_options(mut packet: Vec<u8>, options: &[u8]) -> Vec<u8> {
        let is_ipv4 = packet[0] >> 4 == 4;
        let at = if is_ipv4 { 20 } else { 40 };
        packet.splice(at..at, options.iter().copied());
        match is_ipv4 {
            true => packet[0] += (options.len() / 4) as u8,
            false => packet[6] = 0,
        }
        let ip_header = at + options.len();
        transport::set_length(&mut packet, ip_header);
        transport::set_checksum(&mut packet, ip_header, TCP, TCP_CHECKSUM);
        packet
    }

    #[test]
    fn packets_with_options_and_extensions_are_cut() {
        // Padding; a hop-by-hop header, then one of destination options, each with padding.
        let ipv4 = with_options(packet(false, TCP, 0, &[7; 30]), &[1; 20]);
        let extensions = [60, 0, 1, 4, 0, 0, 0, 0, TCP, 0, 1, 4, 0, 0, 0, 0];
        let ipv6 = with_options(packet(true, TCP, 0, &[7; 30]), &extensions);
        for (kind, whole, ip_header) in [(Long::TcpIpv4, ipv4, 40), (Long::TcpIpv6, ipv6, 56)] {
            let all = segments(&long(kind, 20), &whole).unwrap();
            let lengths: Vec<usize> = all.iter().map(|one| one.len() - ip_header).collect();
            assert_eq!(lengths, [40, 30]);
            for one in &all {
                assert!(crate::ip::addresses(one).is_some());
                assert!(transport::has_right_checksum(one, ip_header, TCP));
                let is_right = checksum::fold(checksum::add(0, &one[..ip_header])) == 0;
                assert!(is_right || kind == Long::TcpIpv6);
            }
            let cut = segments(&long(kind, 20), &whole[..ip_header - 1]);
            assert_eq!(cut, Err(Invalid));
        }
    }

    #[test]
    fn flags_of_the_end_are_in_the_last_segment_only() {
        let mut packet = packet(false, TCP, 12, &[7; 30]);
        packet[33] |= FIN | PSH | CWR;
        let all = segments(&long(Long::TcpIpv4, 10), &packet).unwrap();
        let flags: Vec<u8> = all.iter().map(|one| one[33]).collect();
        assert_eq!(flags, [0x10 | CWR, 0x10, 0x10 | FIN | PSH]);
        let numbers: Vec<u8> = all.iter().map(|one| one[5]).collect();
        assert_eq!(numbers, [0xfe, 0xff, 0]);
    }

    proptest! {
        #[test]
        fn segments_have_all_data_and_right_checksums(
            is_v6: bool, is_tcp: bool, options in 0usize..10,
            data in prop::collection::vec(any::<u8>(), 1..6000), length in 1u16..2000,
        ) {
            let protocol = if is_tcp { TCP } else { UDP };
            let kind = match (is_tcp, is_v6) {
                (true, false) => Long::TcpIpv4,
                (true, true) => Long::TcpIpv6,
                (false, _) => Long::Udp,
            };
            let whole = packet(is_v6, protocol, options * 4, &data);
            let ip_header = if is_v6 { 40 } else { 20 };
            let headers = whole.len() - data.len();
            let mut found = Vec::new();
            for one in segments(&long(kind, length), &whole).unwrap() {
                prop_assert!(crate::ip::addresses(&one).is_some());
                prop_assert!(transport::has_right_checksum(&one, ip_header, protocol));
                prop_assert!(is_v6 || checksum::fold(checksum::add(0, &one[..20])) == 0);
                if is_tcp {
                    let sequence = one[ip_header + 4..].first_chunk::<4>().unwrap();
                    let sequence = u32::from_be_bytes(*sequence).wrapping_sub(0xffff_f000);
                    prop_assert_eq!(sequence as usize, found.len());
                }
                prop_assert!(one.len() - headers <= usize::from(length));
                found.extend_from_slice(&one[headers..]);
            }
            prop_assert_eq!(found, data);
        }

        #[test]
        fn any_bytes_are_cut_or_refused(
            bytes in prop::collection::vec(any::<u8>(), 0..300), kind in 0u8..6,
        ) {
            let mut bytes = bytes;
            if let [_, gso, ..] = bytes.as_mut_slice() {
                *gso = kind;
            }
            let mut segments = filled(&bytes);
            if segments.take(bytes.len()).is_ok() {
                let mut one = Vec::new();
                while segments.next(&mut one) {}
            }
        }
    }
}
