//! The subset of the pcapng format (draft-ietf-opsawg-pcapng) needed to capture RoCEv2 packets: one
//! section, one interface per process, packets with a direction, and packet counts.
//!
//! Each function appends one block. Numbers are little-endian, as the section header declares.

/// LINKTYPE_RAW: packets begin with an IPv4 or IPv6 header.
const LINK_TYPE: u16 = 101;

mod block {
    pub const SECTION_HEADER: u32 = 0x0a0d_0d0a;
    pub const INTERFACE_DESCRIPTION: u32 = 1;
    pub const INTERFACE_STATISTICS: u32 = 5;
    pub const ENHANCED_PACKET: u32 = 6;
}

/// Option codes, which depend on the block.
mod option {
    pub const END: u16 = 0;
    pub const SECTION_APPLICATION: u16 = 4;
    pub const INTERFACE_NAME: u16 = 2;
    pub const INTERFACE_DESCRIPTION: u16 = 3;
    pub const INTERFACE_RESOLUTION: u16 = 9;
    pub const PACKET_FLAGS: u16 = 2;
    pub const STATISTICS_RECEIVED: u16 = 4;
    pub const STATISTICS_DROPPED: u16 = 5;
}

/// Direction of a packet, and whether its checksum is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flags {
    Inbound,
    InboundDamaged,
    Outbound,
}

impl Flags {
    fn word(self) -> u32 {
        const CRC_ERROR: u32 = 1 << 24;
        match self {
            Flags::Inbound => 1,
            Flags::InboundDamaged => 1 | CRC_ERROR,
            Flags::Outbound => 2,
        }
    }
}

/// Appends the section header, the start of a file.
pub fn section_header(out: &mut Vec<u8>, application: &str) {
    append(out, block::SECTION_HEADER, |body| {
        body.extend(0x1a2b_3c4du32.to_le_bytes());
        body.extend([1, 0, 0, 0]);
        // Section length: unknown.
        body.extend((-1i64).to_le_bytes());
        put(body, option::SECTION_APPLICATION, application.as_bytes());
        put(body, option::END, &[]);
    });
}

/// Appends the next interface; interfaces are numbered from 0.
pub fn interface(out: &mut Vec<u8>, name: &str, description: &str) {
    const NANOSECONDS: u8 = 9;
    append(out, block::INTERFACE_DESCRIPTION, |body| {
        body.extend(LINK_TYPE.to_le_bytes());
        // Reserved; then no limit on packet length.
        body.extend([0; 2]);
        body.extend([0; 4]);
        put(body, option::INTERFACE_NAME, name.as_bytes());
        put(body, option::INTERFACE_DESCRIPTION, description.as_bytes());
        put(body, option::INTERFACE_RESOLUTION, &[NANOSECONDS]);
        put(body, option::END, &[]);
    });
}

/// Appends a packet; `time` is in nanoseconds since 1970.
pub fn packet(out: &mut Vec<u8>, interface: u32, time: u64, flags: Flags, frame: &[u8]) {
    append(out, block::ENHANCED_PACKET, |body| {
        body.extend(interface.to_le_bytes());
        stamp(body, time);
        let length = frame.len() as u32;
        // Captured length and original length.
        body.extend(length.to_le_bytes());
        body.extend(length.to_le_bytes());
        body.extend(frame);
        pad(body);
        put(body, option::PACKET_FLAGS, &flags.word().to_le_bytes());
        put(body, option::END, &[]);
    });
}

/// Appends the number of packets of an interface until `time`, and how many of them were dropped.
pub fn statistics(out: &mut Vec<u8>, interface: u32, time: u64, received: u64, dropped: u64) {
    append(out, block::INTERFACE_STATISTICS, |body| {
        body.extend(interface.to_le_bytes());
        stamp(body, time);
        put(body, option::STATISTICS_RECEIVED, &received.to_le_bytes());
        put(body, option::STATISTICS_DROPPED, &dropped.to_le_bytes());
        put(body, option::END, &[]);
    });
}

/// Appends a timestamp, high half first.
fn stamp(body: &mut Vec<u8>, time: u64) {
    body.extend(((time >> 32) as u32).to_le_bytes());
    body.extend((time as u32).to_le_bytes());
}

/// Appends a block: type, length, body, and the length again.
fn append(out: &mut Vec<u8>, kind: u32, fill: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend(kind.to_le_bytes());
    out.extend([0; 4]);
    fill(out);
    let length = ((out.len() - start + 4) as u32).to_le_bytes();
    out[start + 4..start + 8].copy_from_slice(&length);
    out.extend(length);
}

/// Appends an option; the value is cut to the 16-bit maximum.
fn put(body: &mut Vec<u8>, code: u16, value: &[u8]) {
    let value = &value[..value.len().min(usize::from(u16::MAX))];
    body.extend(code.to_le_bytes());
    body.extend((value.len() as u16).to_le_bytes());
    body.extend(value);
    pad(body);
}

/// Pads to a multiple of 4, the alignment of blocks and their contents.
fn pad(body: &mut Vec<u8>) {
    body.resize(body.len().next_multiple_of(4), 0);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Splits a file into its blocks, checking both lengths of each.
    fn blocks(mut file: &[u8]) -> Vec<(u32, &[u8])> {
        let word = |bytes: &[u8]| u32::from_le_bytes(bytes[..4].try_into().unwrap());
        let mut found = Vec::new();
        while !file.is_empty() {
            let length = word(&file[4..]) as usize;
            assert_eq!(length % 4, 0);
            assert_eq!(word(&file[length - 4..]) as usize, length);
            found.push((word(file), &file[8..length - 4]));
            file = &file[length..];
        }
        found
    }

    #[test]
    fn a_file_is_a_chain_of_blocks() {
        let mut file = Vec::new();
        section_header(&mut file, "verbena");
        interface(&mut file, "12", "a");
        packet(
            &mut file,
            0,
            0x0123_4567_89ab_cdef,
            Flags::Outbound,
            &[7; 33],
        );
        statistics(&mut file, 0, 9, 34, 1);
        let blocks = blocks(&file);
        let kinds: Vec<u32> = blocks.iter().map(|(kind, _)| *kind).collect();
        assert_eq!(kinds, [0x0a0d_0d0a, 1, 6, 5]);
        let packet = blocks[2].1;
        assert_eq!(
            packet[4..12],
            [0x67, 0x45, 0x23, 0x01, 0xef, 0xcd, 0xab, 0x89]
        );
        assert_eq!(packet[12..20], [33, 0, 0, 0, 33, 0, 0, 0]);
        assert_eq!(
            (&packet[20..53], &packet[53..56]),
            (&[7; 33][..], &[0; 3][..])
        );
        assert_eq!(packet[56..], [2, 0, 4, 0, 2, 0, 0, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn a_damaged_packet_has_the_crc_error_flag() {
        assert_eq!(Flags::InboundDamaged.word(), 0x0100_0001);
    }
}
