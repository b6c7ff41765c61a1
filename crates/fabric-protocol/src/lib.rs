//! Messages between a program and the process that keeps a fabric, over a socket of type
//! SOCK_SEQPACKET. The first message of a connection is a [`Hello`]; the answer is an errno, 0 for
//! success.
//!
//! - Device files: each message from the program is a write, each message to it is the result of a
//!   read. The program's end is the shim (`crates/shim/src/management.rs`).
//! - Adapters: the hello comes with a file of [`traffic`]. Each message to the program is a
//!   [`NodeState`], which the program acknowledges with its version; the next one follows only
//!   then. [`Datagram`]s go both ways.
//! - A message with a descriptor is a [`Call`], which is answered over that descriptor.
//!
//! [`interface`] has the entries by which the connection manager finds IP interfaces; they need no
//! fabric.

pub mod datagram;
pub mod interface;
pub mod rate;
mod state;
pub mod traffic;

pub use datagram::Datagram;
pub use state::{NodeState, P_KEYS, PortState};

/// First word of each message but writes.
pub const MAGIC: u32 = 0x5645_5243;
/// Name of the socket in the directory of a node.
pub const SOCKET: &str = "socket";
/// Bytes of a hello.
pub const HELLO: usize = 16;
/// Bytes of a fault.
pub const FAULT: usize = 12;
/// Bytes of a call, without the data.
pub const CALL: usize = 8;

/// Purpose of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// `/dev/infiniband/umad<N>`.
    Datagrams,
    /// `/dev/infiniband/issm<N>`.
    Manager,
    /// Updates the files of sysfs; the answer comes when they are up to date.
    Refresh,
    /// Keeps the fabric while the connection lasts.
    User,
    /// The adapter of a process: receives the state of the node's ports.
    Adapter,
    /// Faults of a node's ports: each message is a [`FaultMessage`], which an errno answers.
    Fault,
}

/// The first message: magic, purpose, flags, index of the device file, index of the node; each a
/// word but purpose and flags, which have 16 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hello {
    /// Purpose.
    pub purpose: Purpose,
    /// Whether the program does not wait.
    pub is_nonblocking: bool,
    /// Index of the device file.
    pub index: u32,
    /// Index of the node.
    pub node: u32,
}

const PURPOSES: [Purpose; 6] = [
    Purpose::Datagrams,
    Purpose::Manager,
    Purpose::Refresh,
    Purpose::User,
    Purpose::Adapter,
    Purpose::Fault,
];

impl Hello {
    /// Returns the message.
    pub fn bytes(self) -> [u8; HELLO] {
        let mut all = [0; HELLO];
        all[..4].copy_from_slice(&MAGIC.to_ne_bytes());
        all[4..6].copy_from_slice(&(self.purpose as u16).to_ne_bytes());
        all[6..8].copy_from_slice(&u16::from(self.is_nonblocking).to_ne_bytes());
        all[8..12].copy_from_slice(&self.index.to_ne_bytes());
        all[12..].copy_from_slice(&self.node.to_ne_bytes());
        all
    }

    /// Reads the message; `None` if it is none.
    pub fn of(bytes: &[u8]) -> Option<Hello> {
        let bytes: &[u8; HELLO] = bytes.try_into().ok()?;
        let word = |at: usize| u32::from_ne_bytes([0, 1, 2, 3].map(|byte| bytes[at + byte]));
        let half = |at: usize| u16::from_ne_bytes([bytes[at], bytes[at + 1]]);
        (word(0) == MAGIC).then_some(())?;
        Some(Hello {
            purpose: *PURPOSES.get(usize::from(half(4)))?,
            is_nonblocking: half(6) & 1 != 0,
            index: word(8),
            node: word(12),
        })
    }
}

/// A fault at a port: magic, port, kind, number; the port and the kind have 16 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FaultMessage {
    /// Number of the port.
    pub port: u8,
    /// Kind of the fault.
    pub kind: u16,
    /// Number of errors or repetitions.
    pub number: u32,
}

impl FaultMessage {
    /// Returns the message.
    pub fn bytes(self) -> [u8; FAULT] {
        let mut all = [0; FAULT];
        all[..4].copy_from_slice(&MAGIC.to_ne_bytes());
        all[4..6].copy_from_slice(&u16::from(self.port).to_ne_bytes());
        all[6..8].copy_from_slice(&self.kind.to_ne_bytes());
        all[8..].copy_from_slice(&self.number.to_ne_bytes());
        all
    }

    /// Reads the message; `None` if it is none.
    pub fn of(bytes: &[u8]) -> Option<FaultMessage> {
        let bytes: &[u8; FAULT] = bytes.try_into().ok()?;
        let word = |at: usize| u32::from_ne_bytes([0, 1, 2, 3].map(|byte| bytes[at + byte]));
        let half = |at: usize| u16::from_ne_bytes([bytes[at], bytes[at + 1]]);
        (word(0) == MAGIC).then_some(())?;
        Some(FaultMessage {
            port: u8::try_from(half(4)).ok()?,
            kind: half(6),
            number: word(8),
        })
    }
}

/// A call that is answered: magic, number of the call, then its data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Call<'a> {
    /// ioctl with this request and argument. The answer is an errno and the new argument.
    Control(u32, &'a [u8]),
    /// A write whose errno the program awaits.
    Write(&'a [u8]),
    /// The port that packets from an adapter reach. The answer is an errno and the number of its
    /// network ([`PortState::network`]).
    Reach(Destination),
}

/// The number of [`Call::Write`] in place of an ioctl's request.
pub const WRITE: u32 = 0;
/// The number of [`Call::Reach`].
pub const REACH: u32 = 1;

/// The destination of packets: port that they leave by, and LID.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Destination {
    /// Port of the adapter.
    pub port: u8,
    /// LID.
    pub lid: u16,
}

impl Destination {
    /// Returns the message of the call.
    pub fn call(self) -> [u8; CALL + 4] {
        let mut all = [0; CALL + 4];
        all[..4].copy_from_slice(&MAGIC.to_ne_bytes());
        all[4..8].copy_from_slice(&REACH.to_ne_bytes());
        all[8..].copy_from_slice(&self.word().to_ne_bytes());
        all
    }

    /// Returns the destination as a word.
    pub fn word(self) -> u32 {
        u32::from(self.port) << 16 | u32::from(self.lid)
    }

    /// Returns the destination of a word.
    pub fn of(word: u32) -> Destination {
        Destination {
            port: (word >> 16) as u8,
            lid: word as u16,
        }
    }
}

impl<'a> Call<'a> {
    /// Reads the message; `None` if it is none.
    pub fn of(bytes: &'a [u8]) -> Option<Call<'a>> {
        let (magic, rest) = bytes.split_first_chunk()?;
        let (request, data) = rest.split_first_chunk()?;
        (u32::from_ne_bytes(*magic) == MAGIC).then_some(())?;
        Some(match u32::from_ne_bytes(*request) {
            WRITE => Call::Write(data),
            REACH => Call::Reach(Destination::of(u32::from_ne_bytes(data.try_into().ok()?))),
            request => Call::Control(request, data),
        })
    }
}

/// Requests of ioctl(2) (include/uapi/rdma/ib_user_mad.h).
pub mod control {
    /// Registers an agent; 28 bytes.
    pub const REGISTER_AGENT: u32 = 0xc01c_1b01;
    /// Ends an agent; 4 bytes.
    pub const UNREGISTER_AGENT: u32 = 0x4004_1b02;
    /// Makes headers have an index of a partition key.
    pub const ENABLE_PKEY: u32 = 0x1b03;
    /// Registers an agent; 40 bytes.
    pub const REGISTER_AGENT2: u32 = 0xc028_1b04;
}

/// Numbers of errno(3), on Linux.
pub mod errno {
    /// No such device.
    pub const ENODEV: i32 = 19;
    /// Invalid argument.
    pub const EINVAL: i32 = 22;
    /// Out of memory, or of agents.
    pub const ENOMEM: i32 = 12;
    /// Try again.
    pub const EAGAIN: i32 = 11;
    /// No answer in time.
    pub const ETIMEDOUT: i32 = 110;
    /// No such request.
    pub const ENOTTY: i32 = 25;
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_hello_is_read_back() {
        for purpose in PURPOSES {
            let hello = Hello {
                purpose,
                is_nonblocking: true,
                index: 3,
                node: 70_000,
            };
            assert_eq!(Hello::of(&hello.bytes()), Some(hello));
        }
    }

    #[test]
    fn a_destination_is_read_back() {
        let destination = Destination {
            port: 254,
            lid: 0xbfff,
        };
        let call = destination.call();
        assert_eq!(Call::of(&call), Some(Call::Reach(destination)));
        assert_eq!(Call::of(&call[..10]), None);
    }

    proptest! {
        #[test]
        fn a_fault_is_read_back(port: u8, kind: u16, number: u32) {
            let fault = FaultMessage { port, kind, number };
            prop_assert_eq!(FaultMessage::of(&fault.bytes()), Some(fault));
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            let _ = (Hello::of(&bytes), Call::of(&bytes), NodeState::of(&bytes));
            let _ = (FaultMessage::of(&bytes), Datagram::of(&bytes));
        }
    }
}
