//! Path MTU: payload bytes of a full packet.

/// A path MTU, one of five.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mtu {
    /// 256 bytes.
    B256 = 1,
    /// 512 bytes.
    B512 = 2,
    /// 1,024 bytes.
    B1024 = 3,
    /// 2,048 bytes.
    B2048 = 4,
    /// 4,096 bytes.
    B4096 = 5,
}

impl Mtu {
    /// All MTUs, smallest first.
    pub const ALL: [Self; 5] = [
        Self::B256,
        Self::B512,
        Self::B1024,
        Self::B2048,
        Self::B4096,
    ];

    /// Returns the payload in bytes.
    pub const fn bytes(self) -> u32 {
        128 << self as u32
    }

    /// Returns the code used by verbs and connection management: 1 to 5.
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// Returns the MTU with this code.
    pub const fn from_code(code: u8) -> Option<Self> {
        match code {
            1 => Some(Self::B256),
            2 => Some(Self::B512),
            3 => Some(Self::B1024),
            4 => Some(Self::B2048),
            5 => Some(Self::B4096),
            _ => None,
        }
    }

    /// Returns the largest MTU whose packets fit into `link` bytes from the IP header on, computed
    /// like Linux: minus GRH or IPv6 header (40), UDP (8), BTH (12), XRCETH (4), AtomicETH (28) and
    /// ICRC (4).
    pub fn of_link(link: u32) -> Option<Self> {
        const HEADERS: u32 = 40 + 8 + 12 + 4 + 28 + 4;
        let room = link.checked_sub(HEADERS)?;
        Self::ALL.into_iter().rev().find(|mtu| mtu.bytes() <= room)
    }

    /// Returns the number of packets of a message of `length` bytes. An empty message takes one.
    pub const fn packets(self, length: u32) -> u32 {
        if length == 0 {
            1
        } else {
            length.div_ceil(self.bytes())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mtu_codes_give_their_bytes() {
        for (code, bytes) in [(1, 256), (2, 512), (3, 1024), (4, 2048), (5, 4096)] {
            assert_eq!(Mtu::from_code(code).map(Mtu::bytes), Some(bytes));
            assert_eq!(Mtu::from_code(code).map(Mtu::code), Some(code));
        }
        assert_eq!(Mtu::from_code(0), None);
        assert_eq!(Mtu::from_code(6), None);
    }

    #[test]
    fn the_mtu_of_a_link_is_that_of_linux() {
        let table = [
            (351, None),
            (352, Some(Mtu::B256)),
            (1500, Some(Mtu::B1024)),
            (2143, Some(Mtu::B1024)),
            (2144, Some(Mtu::B2048)),
            (4191, Some(Mtu::B2048)),
            (4192, Some(Mtu::B4096)),
            (9000, Some(Mtu::B4096)),
        ];
        for (link, mtu) in table {
            assert_eq!(Mtu::of_link(link), mtu, "{link}");
        }
    }

    #[test]
    fn messages_take_at_least_one_packet() {
        let table = [
            (0, 1),
            (1, 1),
            (1024, 1),
            (1025, 2),
            (2048, 2),
            (u32::MAX, 1 << 22),
        ];
        for (length, packets) in table {
            assert_eq!(Mtu::B1024.packets(length), packets, "{length}");
        }
    }
}
