//! Operations that have times of their own.

use std::fmt;

/// An operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
    /// RDMA write.
    Write,
    /// RDMA write with immediate data.
    WriteImmediate,
    /// Message of a connected queue pair.
    Send,
    /// Datagram.
    Datagram,
    /// RDMA read.
    Read,
    /// Atomic operation.
    Atomic,
}

impl Operation {
    /// All.
    pub const ALL: [Operation; 6] = [
        Operation::Write,
        Operation::WriteImmediate,
        Operation::Send,
        Operation::Datagram,
        Operation::Read,
        Operation::Atomic,
    ];

    /// Returns its name in files.
    pub fn name(self) -> &'static str {
        match self {
            Operation::Write => "write",
            Operation::WriteImmediate => "write-immediate",
            Operation::Send => "send",
            Operation::Datagram => "datagram",
            Operation::Read => "read",
            Operation::Atomic => "atomic",
        }
    }

    /// Returns the operation whose times it has in a table that lacks its own.
    pub(crate) fn similar(self) -> Operation {
        match self {
            Operation::Write | Operation::WriteImmediate | Operation::Send => Operation::Write,
            Operation::Datagram => Operation::Send,
            Operation::Read => Operation::Write,
            Operation::Atomic => Operation::Read,
        }
    }
}

/// Location of the payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Placement {
    /// In memory, read by the adapter.
    Reference,
    /// In the request (IBV_SEND_INLINE).
    Inline,
}

impl Placement {
    /// Both.
    pub const ALL: [Placement; 2] = [Placement::Reference, Placement::Inline];

    /// Returns its name in files.
    pub fn name(self) -> &'static str {
        match self {
            Placement::Reference => "reference",
            Placement::Inline => "inline",
        }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(self.name())
    }
}
