//! What the records of a channel say: kinds, flags, syndromes.

/// A message, or part of one, for a receive queue.
pub const SEND: u8 = 1;
/// A message for a receive queue whose bytes the responder fetches: the payload lists buffers ([`Source`]).
pub const SEND_PULL: u8 = 2;
/// Part of an RDMA write.
pub const WRITE: u8 = 3;
/// An RDMA write with immediate data whose bytes are in place already.
pub const WRITE_NOTICE: u8 = 4;
/// An RDMA read request.
pub const READ: u8 = 5;
/// An atomic operation.
pub const ATOMIC: u8 = 6;
/// A datagram; the payload is a [`Datagram`], perhaps a GRH, and the data.
pub const DATAGRAM: u8 = 7;
/// The requester found that we must go to the error state: it asked by itself for what it was not allowed.
pub const VIOLATION: u8 = 8;
/// A flush: everything before it is in place when it is answered.
pub const FLUSH: u8 = 9;

/// Answer: not done; `immediate` is the syndrome.
pub const NAK: u8 = 32;
/// Answer: bytes of a read, from `word` on.
pub const READ_DATA: u8 = 33;
/// Answer: what an atomic found, in `word`.
pub const ATOMIC_RESULT: u8 = 34;

/// First record of its message.
pub const FIRST: u8 = 1;
/// Last record of its message.
pub const LAST: u8 = 2;
/// `immediate` holds immediate data.
pub const IMMEDIATE: u8 = 4;
/// `immediate` holds a key to invalidate.
pub const INVALIDATE: u8 = 8;
/// The receiver's event is solicited.
pub const SOLICITED: u8 = 16;
/// A datagram has a GRH.
pub const GLOBAL: u8 = 32;
/// A datagram is for a multicast group.
pub const MULTICAST: u8 = 64;

/// Syndrome: no receive was posted. The upper bits hold the responder's RNR timer code.
pub const RECEIVER_NOT_READY: u32 = 1;
/// Syndrome: nobody here to answer; as if the packet had been lost.
pub const LOST: u32 = 2;
/// Syndrome: the request is not one that the responder can accept.
pub const INVALID_REQUEST: u32 = 3;
/// Syndrome: key, bounds or rights.
pub const REMOTE_ACCESS: u32 = 4;
/// Syndrome: the responder could not place the data for a reason of its own.
pub const REMOTE_OPERATION: u32 = 5;

/// Atomic: compare and swap.
pub const COMPARE_AND_SWAP: u64 = 1;
/// Atomic: fetch and add.
pub const FETCH_AND_ADD: u64 = 2;
/// Atomic: write of 8 bytes.
pub const ATOMIC_WRITE: u64 = 3;

/// A buffer of the requester, in the payload of [`SEND_PULL`]: address, length, key, 16 bytes in all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Source {
    /// Address by which the key names it.
    pub address: u64,
    /// Bytes.
    pub length: u32,
    /// The requester's local key.
    pub key: u32,
}

impl Source {
    /// Bytes of one in a payload.
    pub const LENGTH: usize = 16;

    /// As bytes.
    pub fn emit(&self) -> [u8; Source::LENGTH] {
        let mut bytes = [0; Source::LENGTH];
        bytes[..8].copy_from_slice(&self.address.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.length.to_le_bytes());
        bytes[12..].copy_from_slice(&self.key.to_le_bytes());
        bytes
    }

    /// From bytes.
    pub fn parse(bytes: &[u8; Source::LENGTH]) -> Source {
        let [
            a0,
            a1,
            a2,
            a3,
            a4,
            a5,
            a6,
            a7,
            l0,
            l1,
            l2,
            l3,
            k0,
            k1,
            k2,
            k3,
        ] = *bytes;
        Source {
            address: u64::from_le_bytes([a0, a1, a2, a3, a4, a5, a6, a7]),
            length: u32::from_le_bytes([l0, l1, l2, l3]),
            key: u32::from_le_bytes([k0, k1, k2, k3]),
        }
    }
}

/// Nanoseconds that an RNR timer code stands for (architecture specification, table 45).
pub fn rnr_nanoseconds(code: u8) -> u64 {
    const HUNDREDTHS_OF_MS: [u64; 32] = [
        65536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024,
        1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152,
    ];
    HUNDREDTHS_OF_MS[usize::from(code & 31)] * 10_000
}

/// Nanoseconds that a local acknowledgement timeout code stands for: 4.096 us x 2^code; None for 0, which waits for
/// ever.
pub fn timeout_nanoseconds(code: u8) -> Option<u64> {
    (code != 0).then(|| 4096 << (code & 31))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_survives_its_bytes() {
        let source = Source {
            address: 0x0123_4567_89ab_cdef,
            length: 77,
            key: 0x501,
        };
        assert_eq!(Source::parse(&source.emit()), source);
    }

    #[test]
    fn timers_are_those_of_the_specification() {
        assert_eq!(rnr_nanoseconds(0), 655_360_000);
        assert_eq!(rnr_nanoseconds(1), 10_000);
        assert_eq!(rnr_nanoseconds(12), 640_000);
        assert_eq!(rnr_nanoseconds(31), 491_520_000);
        assert_eq!(timeout_nanoseconds(0), None);
        assert_eq!(timeout_nanoseconds(14), Some(67_108_864));
    }
}
