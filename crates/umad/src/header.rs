//! `struct ib_user_mad_hdr`, in front of each datagram.

use verbena_subnet::mad::Mad;
use verbena_subnet::{Packet, Port};

/// Size with an index of a partition key.
pub const LONG: usize = 64;
/// Size without.
pub const SHORT: usize = 56;

/// The header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// The agent.
    pub agent: u32,
    /// 0, or the errno of a request without an answer.
    pub status: u32,
    /// Time in which an answer is expected, in milliseconds; 0 for none.
    pub timeout: u32,
    /// Number of times that a request is sent again.
    pub retries: u32,
    /// Size of header and datagram.
    pub length: u32,
    /// Queue pair of the peer.
    pub qp: u32,
    /// LID of the peer.
    pub lid: u16,
    /// Service level.
    pub sl: u8,
    /// Low bits of the local LID.
    pub path_bits: u8,
    /// Index of the partition key.
    pub p_key_index: u16,
}

impl Header {
    /// Reads a header.
    ///
    /// # Panics
    ///
    /// Panics if there are fewer bytes than `size`.
    pub fn of(bytes: &[u8], size: usize) -> Header {
        let part = |at: usize| [0, 1, 2, 3].map(|byte| bytes[at + byte]);
        let native = |at: usize| u32::from_ne_bytes(part(at));
        Header {
            agent: native(0),
            status: native(4),
            timeout: native(8),
            retries: native(12),
            length: native(16),
            qp: u32::from_be_bytes(part(20)),
            lid: u16::from_be_bytes([bytes[28], bytes[29]]),
            sl: bytes[30],
            path_bits: bytes[31],
            p_key_index: match size {
                LONG => u16::from_ne_bytes([bytes[56], bytes[57]]),
                _ => 0,
            },
        }
    }

    /// Returns the header of a packet that an agent receives at a port.
    pub fn received(agent: u32, packet: &Packet, port: Option<&Port>) -> Header {
        let lmc = port.map_or(0, Port::lmc);
        Header {
            agent,
            status: 0,
            timeout: 0,
            retries: 0,
            length: 0,
            qp: packet.source_qp,
            lid: packet.slid,
            sl: packet.sl,
            path_bits: (packet.dlid & ((1 << lmc) - 1)) as u8,
            p_key_index: port.map_or(0, |port| port.index_of_p_key(packet.p_key)),
        }
    }

    /// Returns the message with this header and the first bytes of a datagram.
    pub fn message(mut self, size: usize, mad: &Mad, length: usize) -> Vec<u8> {
        self.length = (size + length) as u32;
        let mut all = vec![0; size + length];
        for (at, value) in [
            (0, self.agent),
            (4, self.status),
            (8, self.timeout),
            (12, self.retries),
            (16, self.length),
        ] {
            all[at..at + 4].copy_from_slice(&value.to_ne_bytes());
        }
        all[20..24].copy_from_slice(&self.qp.to_be_bytes());
        all[28..30].copy_from_slice(&self.lid.to_be_bytes());
        all[30] = self.sl;
        all[31] = self.path_bits;
        if size == LONG {
            all[56..58].copy_from_slice(&self.p_key_index.to_ne_bytes());
        }
        let part = &mad.bytes()[..length.min(mad.bytes().len())];
        all[size..size + part.len()].copy_from_slice(part);
        all
    }
}
