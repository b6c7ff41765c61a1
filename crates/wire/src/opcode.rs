//! Opcodes: a transport service and an operation, and the headers of each (specification 9.2.1 and
//! table "OpCode field"; XRC: annex A14; FLUSH and ATOMIC WRITE: annex A19; CNP: annex A17).

use core::fmt;

/// The service of a queue pair: the top three bits of an opcode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Service {
    /// Reliable connection.
    Rc = 0x00,
    /// Unreliable connection.
    Uc = 0x20,
    /// Unreliable datagram.
    Ud = 0x60,
    /// Congestion notification, which belongs to no queue pair's service.
    Congestion = 0x80,
    /// Extended reliable connection.
    Xrc = 0xa0,
}

/// The operation of a request or response packet: the low five bits of an opcode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
#[allow(missing_docs)] // The names are the specification's.
pub enum Operation {
    SendFirst = 0x00,
    SendMiddle = 0x01,
    SendLast = 0x02,
    SendLastImmediate = 0x03,
    SendOnly = 0x04,
    SendOnlyImmediate = 0x05,
    WriteFirst = 0x06,
    WriteMiddle = 0x07,
    WriteLast = 0x08,
    WriteLastImmediate = 0x09,
    WriteOnly = 0x0a,
    WriteOnlyImmediate = 0x0b,
    ReadRequest = 0x0c,
    ReadResponseFirst = 0x0d,
    ReadResponseMiddle = 0x0e,
    ReadResponseLast = 0x0f,
    ReadResponseOnly = 0x10,
    Acknowledge = 0x11,
    AtomicAcknowledge = 0x12,
    CompareSwap = 0x13,
    FetchAdd = 0x14,
    SendLastInvalidate = 0x16,
    SendOnlyInvalidate = 0x17,
    Flush = 0x1c,
    AtomicWrite = 0x1d,
    /// Only with [`Service::Congestion`], whose single operation it is; the full opcode is 0x81.
    CongestionNotification = 0x81,
}

/// The position of a packet in its message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Place {
    /// The first of several packets. Its payload is exactly the MTU.
    First,
    /// Between first and last. Its payload is exactly the MTU.
    Middle,
    /// The last of several packets. Its payload is 1 byte to the MTU.
    Last,
    /// The whole message. Its payload is 0 bytes to the MTU.
    Only,
}

impl Place {
    /// Returns the position of a part that begins or ends its message, or both.
    #[inline]
    pub const fn new(begins: bool, ends: bool) -> Self {
        match (begins, ends) {
            (true, true) => Self::Only,
            (true, false) => Self::First,
            (false, true) => Self::Last,
            (false, false) => Self::Middle,
        }
    }

    /// Returns whether it is the first part.
    #[inline]
    pub const fn begins(self) -> bool {
        matches!(self, Self::First | Self::Only)
    }

    /// Returns whether it is the last part.
    #[inline]
    pub const fn ends(self) -> bool {
        matches!(self, Self::Last | Self::Only)
    }
}

/// The kind of a packet, regardless of its position in the message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // The names are the specification's.
pub enum Kind {
    Send,
    Write,
    Read,
    Atomic,
    Flush,
    AtomicWrite,
    ReadResponse,
    Acknowledge,
    AtomicAcknowledge,
    CongestionNotification,
}

/// An extension header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Header {
    /// XRC extended transport header.
    Xrceth,
    /// Datagram extended transport header.
    Deth,
    /// FLUSH extended transport header.
    Feth,
    /// RDMA extended transport header.
    Reth,
    /// Atomic extended transport header.
    AtomicEth,
    /// ACK extended transport header.
    Aeth,
    /// Atomic ACK extended transport header.
    AtomicAckEth,
    /// Immediate data.
    Immediate,
    /// Invalidate extended transport header.
    Ieth,
}

impl Header {
    /// Returns its length in bytes.
    pub const fn length(self) -> usize {
        match self {
            Self::Xrceth | Self::Feth | Self::Aeth | Self::Immediate | Self::Ieth => 4,
            Self::Deth | Self::AtomicAckEth => 8,
            Self::Reth => 16,
            Self::AtomicEth => 28,
        }
    }

    /// Returns a mask of the bits that are ignored on receipt.
    pub const fn reserved(self) -> &'static [u8] {
        match self {
            Self::Xrceth => &[0xff, 0, 0, 0],
            Self::Deth => &[0, 0, 0, 0, 0xff, 0, 0, 0],
            Self::Feth => &[0xff, 0xff, 0xff, 0xc0],
            Self::Aeth | Self::Immediate | Self::Ieth => &[0; 4],
            Self::AtomicAckEth => &[0; 8],
            Self::Reth => &[0; 16],
            Self::AtomicEth => &[0; 28],
        }
    }

    /// Returns its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Xrceth => "XRCETH",
            Self::Deth => "DETH",
            Self::Feth => "FETH",
            Self::Reth => "RETH",
            Self::AtomicEth => "AtomicETH",
            Self::Aeth => "AETH",
            Self::AtomicAckEth => "AtomicAckETH",
            Self::Immediate => "ImmDt",
            Self::Ieth => "IETH",
        }
    }
}

impl fmt::Display for Header {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The payload that a packet may carry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Payload {
    /// A part of a message: its length depends on [`Place`] and on the queue pair's MTU.
    Message,
    /// None.
    Nothing,
    /// Exactly this many bytes.
    Exactly(usize),
}

/// A row of the table: operation, name, kind, position, headers (except those of the service) and
/// payload.
struct Row(
    Operation,
    &'static str,
    Kind,
    Place,
    &'static [Header],
    Payload,
);

#[rustfmt::skip]
const TABLE: [Row; 26] = {
    use Header::{Aeth, AtomicAckEth, AtomicEth, Feth, Ieth, Immediate, Reth};
    use Kind as K;
    use Operation as O;
    use Payload::{Exactly, Message, Nothing};
    use Place::{First, Last, Middle, Only};
    [
        Row(O::SendFirst, "SEND First", K::Send, First, &[], Message),
        Row(O::SendMiddle, "SEND Middle", K::Send, Middle, &[], Message),
        Row(O::SendLast, "SEND Last", K::Send, Last, &[], Message),
        Row(O::SendLastImmediate, "SEND Last with Immediate", K::Send, Last, &[Immediate], Message),
        Row(O::SendOnly, "SEND Only", K::Send, Only, &[], Message),
        Row(O::SendOnlyImmediate, "SEND Only with Immediate", K::Send, Only, &[Immediate], Message),
        Row(O::WriteFirst, "RDMA WRITE First", K::Write, First, &[Reth], Message),
        Row(O::WriteMiddle, "RDMA WRITE Middle", K::Write, Middle, &[], Message),
        Row(O::WriteLast, "RDMA WRITE Last", K::Write, Last, &[], Message),
        Row(O::WriteLastImmediate, "RDMA WRITE Last with Immediate", K::Write, Last, &[Immediate],
            Message),
        Row(O::WriteOnly, "RDMA WRITE Only", K::Write, Only, &[Reth], Message),
        Row(O::WriteOnlyImmediate, "RDMA WRITE Only with Immediate", K::Write, Only,
            &[Reth, Immediate], Message),
        Row(O::ReadRequest, "RDMA READ Request", K::Read, Only, &[Reth], Nothing),
        Row(O::ReadResponseFirst, "RDMA READ Response First", K::ReadResponse, First, &[Aeth],
            Message),
        Row(O::ReadResponseMiddle, "RDMA READ Response Middle", K::ReadResponse, Middle, &[],
            Message),
        Row(O::ReadResponseLast, "RDMA READ Response Last", K::ReadResponse, Last, &[Aeth],
            Message),
        Row(O::ReadResponseOnly, "RDMA READ Response Only", K::ReadResponse, Only, &[Aeth],
            Message),
        Row(O::Acknowledge, "Acknowledge", K::Acknowledge, Only, &[Aeth], Nothing),
        Row(O::AtomicAcknowledge, "ATOMIC Acknowledge", K::AtomicAcknowledge, Only,
            &[Aeth, AtomicAckEth], Nothing),
        Row(O::CompareSwap, "CmpSwap", K::Atomic, Only, &[AtomicEth], Nothing),
        Row(O::FetchAdd, "FetchAdd", K::Atomic, Only, &[AtomicEth], Nothing),
        Row(O::SendLastInvalidate, "SEND Last with Invalidate", K::Send, Last, &[Ieth], Message),
        Row(O::SendOnlyInvalidate, "SEND Only with Invalidate", K::Send, Only, &[Ieth], Message),
        Row(O::Flush, "FLUSH", K::Flush, Only, &[Feth, Reth], Nothing),
        Row(O::AtomicWrite, "ATOMIC WRITE", K::AtomicWrite, Only, &[Reth], Exactly(8)),
        Row(O::CongestionNotification, "CNP", K::CongestionNotification, Only, &[], Exactly(16)),
    ]
};

impl Operation {
    /// Iterates over all operations, in the order of their codes.
    pub fn all() -> impl Iterator<Item = Self> {
        TABLE.iter().map(|row| row.0)
    }

    const fn index(self) -> usize {
        match self as u8 {
            code @ 0x00..=0x14 => code as usize,
            code @ 0x16..=0x17 => code as usize - 1,
            code @ 0x1c..=0x1d => code as usize - 5,
            _ => TABLE.len() - 1,
        }
    }

    const fn row(self) -> &'static Row {
        &TABLE[self.index()]
    }

    /// Returns its kind.
    pub const fn kind(self) -> Kind {
        self.row().2
    }

    /// Returns its position in the message.
    pub const fn place(self) -> Place {
        self.row().3
    }

    /// Returns its payload.
    pub const fn payload(self) -> Payload {
        self.row().5
    }

    /// Returns whether a requester sends it, rather than a responder.
    pub const fn is_request(self) -> bool {
        matches!(
            self.kind(),
            Kind::Send | Kind::Write | Kind::Read | Kind::Atomic | Kind::Flush | Kind::AtomicWrite
        )
    }

    const fn is_of(self, service: Service) -> bool {
        match service {
            Service::Rc | Service::Xrc => !matches!(self, Self::CongestionNotification),
            Service::Uc => (self as u8) <= Self::WriteOnlyImmediate as u8,
            Service::Ud => matches!(self, Self::SendOnly | Self::SendOnlyImmediate),
            Service::Congestion => matches!(self, Self::CongestionNotification),
        }
    }
}

/// A service and one of its operations.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Opcode {
    service: Service,
    operation: Operation,
}

impl Opcode {
    /// Congestion notification.
    pub const CNP: Self = Self {
        service: Service::Congestion,
        operation: Operation::CongestionNotification,
    };

    /// Returns the opcode, if the service has the operation.
    pub const fn new(service: Service, operation: Operation) -> Option<Self> {
        if operation.is_of(service) {
            Some(Self { service, operation })
        } else {
            None
        }
    }

    /// Returns the opcode with this code; `None` for reserved and vendor-specific ones and those of
    /// reliable datagrams, which are not implemented.
    pub fn from_code(code: u8) -> Option<Self> {
        let service = match code & 0xe0 {
            0x00 => Service::Rc,
            0x20 => Service::Uc,
            0x60 => Service::Ud,
            0x80 => return (code == Self::CNP.code()).then_some(Self::CNP),
            0xa0 => Service::Xrc,
            _ => return None,
        };
        let index = match code & 0x1f {
            low @ 0x00..=0x14 => low,
            low @ 0x16..=0x17 => low - 1,
            low @ 0x1c..=0x1d => low - 5,
            _ => return None,
        };
        Self::new(service, TABLE[usize::from(index)].0)
    }

    /// Returns the code in the BTH.
    pub const fn code(self) -> u8 {
        self.service as u8 | self.operation as u8
    }

    /// Returns the service.
    pub const fn service(self) -> Service {
        self.service
    }

    /// Returns the operation.
    pub const fn operation(self) -> Operation {
        self.operation
    }

    /// Iterates over all valid opcodes.
    pub fn all() -> impl Iterator<Item = Self> {
        (0..=u8::MAX).filter_map(Self::from_code)
    }

    /// Iterates over the headers between BTH and payload, in wire order.
    pub fn headers(self) -> impl Iterator<Item = Header> + Clone {
        // Headers of the service precede those of the operation. Responses have no XRCETH: they go
        // to a queue pair, not to a shared receive queue.
        let of_service = match self.service {
            Service::Xrc if self.operation.is_request() => Some(Header::Xrceth),
            Service::Ud => Some(Header::Deth),
            Service::Rc | Service::Uc | Service::Xrc | Service::Congestion => None,
        };
        of_service
            .into_iter()
            .chain(self.operation.row().4.iter().copied())
    }
}

impl fmt::Display for Opcode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let service = match self.service {
            Service::Rc => "RC ",
            Service::Uc => "UC ",
            Service::Ud => "UD ",
            Service::Xrc => "XRC ",
            Service::Congestion => "",
        };
        write!(f, "{service}{}", self.operation.row().1)
    }
}

impl fmt::Debug for Opcode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;
    use std::vec::Vec;

    #[test]
    fn every_row_is_at_the_index_of_its_operation() {
        for (index, row) in TABLE.iter().enumerate() {
            assert_eq!(row.0.index(), index, "{}", row.1);
        }
    }

    #[test]
    fn codes_and_opcodes_round_trip() {
        let all: Vec<_> = Opcode::all().collect();
        // 25 operations of RC and XRC, 12 of UC, 2 of UD, and the CNP.
        assert_eq!(all.len(), 25 + 25 + 12 + 2 + 1);
        assert_eq!(
            all.iter()
                .map(|opcode| opcode.code())
                .collect::<HashSet<_>>()
                .len(),
            all.len()
        );
        for opcode in all {
            assert_eq!(Opcode::from_code(opcode.code()), Some(opcode));
            assert_eq!(
                Opcode::new(opcode.service(), opcode.operation()),
                Some(opcode)
            );
        }
    }

    #[test]
    fn undefined_codes_are_refused() {
        for code in [
            0x15, 0x18, 0x1b, 0x1e, 0x1f, 0x2c, 0x31, 0x40, 0x44, 0x60, 0x6a, 0x80, 0x82, 0xe0,
        ] {
            assert_eq!(Opcode::from_code(code), None, "{code:#x}");
        }
    }

    #[test]
    fn headers_follow_the_table_of_the_specification() {
        use Header::*;
        let table: [(u8, &[Header]); 12] = [
            (0x00, &[]),
            (0x0b, &[Reth, Immediate]),
            (0x0e, &[]),
            (0x12, &[Aeth, AtomicAckEth]),
            (0x13, &[AtomicEth]),
            (0x17, &[Ieth]),
            (0x1c, &[Feth, Reth]),
            (0x65, &[Deth, Immediate]),
            (0xa4, &[Xrceth]),
            (0xaa, &[Xrceth, Reth]),
            (0xb1, &[Aeth]),
            (0x81, &[]),
        ];
        for (code, headers) in table {
            let opcode = Opcode::from_code(code).unwrap();
            assert_eq!(opcode.headers().collect::<Vec<_>>(), headers, "{opcode}");
        }
    }
}
