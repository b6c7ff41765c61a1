//! Management datagrams of adapters: of the queue pairs of programs that send to queue pair 1 of a
//! port and receive the answers, and of the connection manager, which uses queue pair 1 itself.

/// Bytes of a management datagram.
pub const DATA: usize = 256;
/// Bytes of a message.
pub const LENGTH: usize = HEADER + DATA;
const HEADER: usize = 24;
/// First word of a message; no version of a node's state is as large.
const MAGIC: u64 = 0xda7a_6a4d_5645_5243;

/// A datagram. Both ways, the words are those of the adapter's end and its peer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Datagram {
    /// Port of the adapter.
    pub port: u8,
    /// Service level.
    pub service_level: u8,
    /// LID of the peer.
    pub lid: u16,
    /// Queue pair of the adapter.
    pub queue_pair: u32,
    /// Queue pair of the peer.
    pub peer: u32,
    /// Partition key of the sender.
    pub p_key: u16,
    /// The datagram.
    pub data: [u8; DATA],
}

impl Datagram {
    /// Returns the message.
    pub fn bytes(&self) -> [u8; LENGTH] {
        let mut all = [0; LENGTH];
        all[..8].copy_from_slice(&MAGIC.to_ne_bytes());
        all[8..10].copy_from_slice(&[self.port, self.service_level]);
        all[10..12].copy_from_slice(&self.lid.to_ne_bytes());
        all[12..16].copy_from_slice(&self.queue_pair.to_ne_bytes());
        all[16..20].copy_from_slice(&self.peer.to_ne_bytes());
        all[20..22].copy_from_slice(&self.p_key.to_ne_bytes());
        all[HEADER..].copy_from_slice(&self.data);
        all
    }

    /// Reads the message; `None` if it is none.
    pub fn of(bytes: &[u8]) -> Option<Datagram> {
        let bytes: &[u8; LENGTH] = bytes.try_into().ok()?;
        let (header, data) = bytes.split_first_chunk::<HEADER>()?;
        let word = |at: usize| u32::from_ne_bytes([0, 1, 2, 3].map(|byte| header[at + byte]));
        (header[..8] == MAGIC.to_ne_bytes()).then_some(())?;
        Some(Datagram {
            port: header[8],
            service_level: header[9],
            lid: u16::from_ne_bytes([header[10], header[11]]),
            queue_pair: word(12),
            peer: word(16),
            p_key: u16::from_ne_bytes([header[20], header[21]]),
            data: data.try_into().ok()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_datagram_is_read_back(
            port: u8, lid: u16, queue_pair: u32, peer: u32, p_key: u16, byte: u8,
        ) {
            let datagram = Datagram {
                port,
                service_level: byte & 15,
                lid,
                queue_pair,
                peer,
                p_key,
                data: [byte; DATA],
            };
            let bytes = datagram.bytes();
            prop_assert_eq!(Datagram::of(&bytes), Some(datagram));
            prop_assert_eq!(Datagram::of(&bytes[1..]), None);
            prop_assert_eq!(Datagram::of(&[byte; LENGTH]), None);
        }
    }
}
