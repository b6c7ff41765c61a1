//! What a client may ask.
//!
//! A client may send many before it reads the first reply. In version 2 they are carried out in the order in which they
//! were sent, and answered in that order; in version 3 as [`crate::order`] says, each when it is done.

use crate::codec::{Field, Malformed, Reader, Writer};
use crate::message::{catalogue, message};
use crate::ticket::Claims;
use crate::types::{Endpoint, Extended, Handle, Path, Range, Text, Token, Window};

message! {
    /// The greeting: the first frame of every session.
    Hello {
        /// Lowest version that the client speaks.
        lowest: u16,
        /// Highest version that the client speaks.
        highest: u16,
        /// Methods that the client can use, see [`crate::handshake::Methods`].
        methods: u32,
        /// Who the client says it is; believed only after the proof.
        user: Text,
        /// Fresh random bytes.
        nonce: [u8; 32],
    }
}
message! {
    /// The client's half of the shared-secret handshake.
    Prove {
        /// See [`crate::handshake`].
        proof: [u8; 32],
    }
}
message! {
    /// The client's half of the handshake by a ticket, whose key is the secret of the proof.
    Redeem {
        /// What the ticket says.
        claims: Claims,
        /// See [`crate::handshake`].
        proof: [u8; 32],
    }
}
message! {
    /// The client's half of the handshake by a token.
    Present {
        /// The token.
        token: Token,
    }
}
message! {
    /// Asks for a data queue pair.
    Connect {
        /// The client's end.
        endpoint: Endpoint,
    }
}
message! {
    /// Nothing; answered at once.
    Ping {}
}
message! {
    /// Takes a request back (version 3). What has not begun is not begun, what only looks is not answered with data; either
    /// is refused with ECANCELED then. What changes something and has begun is carried out and answered as ever. The reply
    /// to this request itself says that it was seen.
    Cancel {
        /// The number of the request that is taken back; one that is not under way is no error.
        id: u64,
    }
}
message! {
    /// Opens a file.
    Open {
        /// Where.
        path: Path,
        /// Bits of [`OpenFlags`].
        flags: u32,
        /// Permission bits of a file that is created.
        mode: u32,
    }
}
message! {
    /// Names an open file and nothing else.
    OnHandle {
        /// The file.
        handle: Handle,
    }
}
message! {
    /// Reads one range.
    Read {
        /// The file.
        handle: Handle,
        /// What to read.
        range: Range,
        /// Whether the reply carries checksums.
        checksums: bool,
        /// Where the data go; without it they follow the reply.
        window: Option<Window>,
    }
}
message! {
    /// Reads many ranges with one request.
    ReadVector {
        /// The file.
        handle: Handle,
        /// What to read; the data are packed in this order.
        ranges: Vec<Range>,
        /// Whether the reply carries a checksum per range.
        checksums: bool,
        /// Where the data go; without it they follow the reply.
        window: Option<Window>,
    }
}
message! {
    /// Writes one range.
    Write {
        /// The file.
        handle: Handle,
        /// Where in the file, and how much.
        range: Range,
        /// CRC32C of each block of the data, cut where the file's blocks end; empty for none.
        checksums: Vec<u32>,
        /// Where the server fetches the data; without it they follow the request.
        window: Option<Window>,
    }
}
message! {
    /// Changes permission bits of an open file.
    ChangeModeOf {
        /// The file.
        handle: Handle,
        /// New permission bits.
        mode: u32,
    }
}
message! {
    /// Changes the owner of an open file.
    ChangeOwnerOf {
        /// The file.
        handle: Handle,
        /// New owner; all ones leaves it.
        owner: u32,
        /// New group; all ones leaves it.
        group: u32,
    }
}
message! {
    /// Sets a file's length.
    Truncate {
        /// The file.
        handle: Handle,
        /// New length.
        size: u64,
    }
}
message! {
    /// Sets a file's times.
    SetTimes {
        /// The file.
        handle: Handle,
        /// Last access, nanoseconds since 1970.
        accessed: i64,
        /// Last change.
        modified: i64,
    }
}
message! {
    /// Locks, unlocks or tests part of a file. Never waits: a client that wants to wait asks again.
    Lock {
        /// The file.
        handle: Handle,
        /// See [`LockAction`].
        action: u8,
        /// First byte.
        offset: u64,
        /// Bytes; zero is to the end.
        length: u64,
    }
}
message! {
    /// Asks for checksums of blocks instead of the data.
    Checksum {
        /// The file.
        handle: Handle,
        /// First byte, a multiple of `block`.
        offset: u64,
        /// Bytes per checksum.
        block: u32,
        /// At most so many blocks; the reply is shorter at the end of the file.
        count: u32,
    }
}
message! {
    /// Copies part of an open file to another one, where they are (version 3).
    Copy {
        /// The file that is read.
        from: Handle,
        /// First byte there.
        offset: u64,
        /// The file that is written.
        to: Handle,
        /// First byte there.
        at: u64,
        /// Bytes; the reply may be about fewer.
        length: u32,
    }
}
message! {
    /// Names a path and nothing else.
    OnPath {
        /// The path.
        path: Path,
    }
}
message! {
    /// Asks whether a path may be used.
    Access {
        /// The path.
        path: Path,
        /// As for access(2): 4 read, 2 write, 1 execute, 0 exists.
        mode: u32,
    }
}
message! {
    /// A path and permission bits.
    PathMode {
        /// The path.
        path: Path,
        /// Permission bits.
        mode: u32,
    }
}
message! {
    /// Changes an owner.
    ChangeOwner {
        /// The path.
        path: Path,
        /// New owner; all ones leaves it.
        owner: u32,
        /// New group; all ones leaves it.
        group: u32,
    }
}
message! {
    /// Two paths: from and to for a rename; target and name for a symbolic link.
    TwoPaths {
        /// The first.
        from: Path,
        /// The second.
        to: Path,
    }
}
message! {
    /// Lists part of a directory.
    List {
        /// The directory.
        path: Path,
        /// Zero at first, then what the last reply said.
        cookie: u64,
        /// At most so many entries.
        count: u32,
    }
}
message! {
    /// Opens, reads and closes a small file in one request.
    Fetch {
        /// The file.
        path: Path,
        /// A file that is longer is not read.
        most: u32,
    }
}
message! {
    /// Creates a small file whole, in one request: it appears under its name complete or not at all.
    Store {
        /// The file.
        path: Path,
        /// Permission bits.
        mode: u32,
        /// Last change, nanoseconds since 1970; the smallest value leaves it to the server.
        modified: i64,
        /// CRC32C of the data that follow.
        checksum: u32,
        /// Bits of [`StoreCare`].
        care: u32,
    }
}
message! {
    /// Asks which parts of a file hold data.
    Extents {
        /// The file.
        handle: Handle,
        /// From this byte on.
        offset: u64,
        /// At most so many extents.
        count: u32,
    }
}
message! {
    /// Sets times by name; a final symbolic link is not followed.
    PathTimes {
        /// The path.
        path: Path,
        /// Last access, nanoseconds since 1970.
        accessed: i64,
        /// Last change.
        modified: i64,
    }
}
message! {
    /// Gives a file extended attributes.
    SetExtended {
        /// The path; a final symbolic link is not followed.
        path: Path,
        /// What is set; other attributes stay.
        entries: Vec<Extended>,
    }
}

catalogue! {
    /// A request. The numbers are the operations of the specification.
    Request {
        /// The greeting.
        1 Hello(Hello),
        /// The proof of the shared secret.
        2 Prove(Prove),
        /// A data queue pair.
        3 Connect(Connect),
        /// Is anybody there?
        4 Ping(Ping),
        /// Takes a request back.
        5 Cancel(Cancel),
        /// The proof that one has a ticket.
        6 Redeem(Redeem),
        /// Opens.
        10 Open(Open),
        /// Closes.
        11 Close(OnHandle),
        /// Reads.
        12 Read(Read),
        /// Reads a vector.
        13 ReadVector(ReadVector),
        /// Writes.
        14 Write(Write),
        /// Attributes of an open file.
        15 Examine(OnHandle),
        /// Permission bits of an open file.
        16 ChangeModeOf(ChangeModeOf),
        /// Owner of an open file.
        17 ChangeOwnerOf(ChangeOwnerOf),
        /// Length.
        18 Truncate(Truncate),
        /// To stable storage.
        19 Synchronise(OnHandle),
        /// Locks.
        20 Lock(Lock),
        /// Checksums of blocks.
        21 Checksum(Checksum),
        /// Times.
        22 SetTimes(SetTimes),
        /// Where the data are, and where holes.
        23 Extents(Extents),
        /// Copies between open files.
        24 Copy(Copy),
        /// Attributes, following a symbolic link.
        30 Status(OnPath),
        /// Attributes of the link itself.
        31 LinkStatus(OnPath),
        /// Permission check.
        32 Access(Access),
        /// Makes a directory.
        33 MakeDirectory(PathMode),
        /// Removes an empty directory.
        34 RemoveDirectory(OnPath),
        /// Removes a file.
        35 Unlink(OnPath),
        /// Renames.
        36 Rename(TwoPaths),
        /// Makes a symbolic link.
        37 MakeLink(TwoPaths),
        /// Reads a symbolic link.
        38 ReadLink(OnPath),
        /// Permission bits.
        39 ChangeMode(PathMode),
        /// Owner.
        40 ChangeOwner(ChangeOwner),
        /// Space on the file system.
        41 Space(OnPath),
        /// A directory's entries.
        42 List(List),
        /// A small file, whole.
        43 Fetch(Fetch),
        /// A small file, whole, to the server.
        44 Store(Store),
        /// A directory's names to stable storage.
        45 SynchroniseDirectory(OnPath),
        /// Times, by name.
        46 ChangeTimes(PathTimes),
        /// A second name for a file.
        47 MakeHardLink(TwoPaths),
        /// Extended attributes.
        48 Extended(OnPath),
        /// Sets extended attributes.
        49 SetExtended(SetExtended),
        /// Renames onto a file, whose attributes are kept (version 4).
        50 Replace(TwoPaths),
        /// The token that lets the client in.
        60 Present(Present),
    }
}

impl Request {
    /// The body's bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::new();
        self.put_fields(&mut writer);
        writer.into_bytes()
    }

    /// The request of an operation with this body.
    pub fn decode(operation: u16, body: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(body);
        let request = Self::take_fields(operation, &mut reader)?;
        reader.finish()?;
        Ok(request)
    }

    /// Whether the request asks for a change of a file or a directory.
    pub fn changes(&self) -> bool {
        match self {
            Self::Open(open) => OpenFlags::checked(open.flags).is_none_or(OpenFlags::changes),
            Self::Hello(_)
            | Self::Prove(_)
            | Self::Redeem(_)
            | Self::Present(_)
            | Self::Connect(_)
            | Self::Ping(_)
            | Self::Cancel(_)
            | Self::Close(_)
            | Self::Read(_)
            | Self::ReadVector(_)
            | Self::Examine(_)
            | Self::Synchronise(_)
            | Self::Checksum(_)
            | Self::Status(_)
            | Self::LinkStatus(_)
            | Self::Access(_)
            | Self::ReadLink(_)
            | Self::Space(_)
            | Self::List(_)
            | Self::Extents(_)
            | Self::Extended(_)
            | Self::SynchroniseDirectory(_)
            | Self::Fetch(_) => false,
            // What is not known to be harmless is a change.
            _ => true,
        }
    }

    /// Whether the request leaves everything as it is, so that one that was carried out and is not answered was never there.
    pub fn only_looks(&self) -> bool {
        matches!(
            self,
            Self::Ping(_)
                | Self::Read(_)
                | Self::ReadVector(_)
                | Self::Examine(_)
                | Self::Checksum(_)
                | Self::Extents(_)
                | Self::Status(_)
                | Self::LinkStatus(_)
                | Self::Access(_)
                | Self::ReadLink(_)
                | Self::Space(_)
                | Self::List(_)
                | Self::Extended(_)
                | Self::Fetch(_)
        )
    }

    /// The most data that may come with the reply, as its payload.
    pub fn most_data(&self) -> usize {
        match self {
            Self::Read(read) => read.range.length as usize,
            Self::ReadVector(vector) => {
                let lengths = vector.ranges.iter().map(|range| range.length as usize);
                lengths.fold(0, usize::saturating_add)
            }
            Self::Fetch(fetch) => fetch.most as usize,
            _ => 0,
        }
    }

    /// Whether data may come with the request, as its payload.
    pub fn brings_data(&self) -> bool {
        match self {
            Self::Write(write) => write.window.is_none(),
            Self::Store(_) => true,
            _ => false,
        }
    }

    /// Whether the reply carries checksums of the data.
    pub fn wants_checksums(&self) -> bool {
        match self {
            Self::Read(read) => read.checksums,
            Self::ReadVector(vector) => vector.checksums,
            _ => false,
        }
    }

    /// The window of the client's memory that the request offers, if it offers one.
    pub fn window(&self) -> Option<&Window> {
        match self {
            Self::Read(Read { window, .. })
            | Self::ReadVector(ReadVector { window, .. })
            | Self::Write(Write { window, .. }) => window.as_ref(),
            _ => None,
        }
    }
}

/// What a Store does beyond writing the data, a bit each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StoreCare(pub u32);

impl StoreCare {
    /// The data are on stable storage before the file gets its name.
    pub const STABLE: u32 = 1;
    /// The data are read back and compared before the file gets its name.
    pub const READ_BACK: u32 = 2;
    const KNOWN: u32 = 3;

    /// The bits, unless one is undefined.
    pub fn checked(bits: u32) -> Option<Self> {
        (bits & !Self::KNOWN == 0).then_some(Self(bits))
    }

    /// Whether every bit of `bits` is set.
    pub fn has(self, bits: u32) -> bool {
        self.0 & bits == bits
    }
}

/// How a file is opened. The numbers are the protocol's, not the platform's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OpenFlags(pub u32);

impl OpenFlags {
    /// For reading.
    pub const READ: u32 = 1;
    /// For writing.
    pub const WRITE: u32 = 2;
    /// Made if missing.
    pub const CREATE: u32 = 4;
    /// Must not exist.
    pub const EXCLUSIVE: u32 = 8;
    /// Emptied.
    pub const TRUNCATE: u32 = 16;
    /// Writes go to the end.
    pub const APPEND: u32 = 32;
    /// Nobody else may have it open with this flag; answered EBUSY otherwise.
    pub const SOLE_WRITER: u32 = 64;
    /// A final symbolic link is not followed.
    pub const NO_FOLLOW: u32 = 128;
    const KNOWN: u32 = 255;

    /// The flags, unless one is undefined or neither direction is asked for.
    pub fn checked(bits: u32) -> Option<Self> {
        (bits & !Self::KNOWN == 0 && bits & (Self::READ | Self::WRITE) != 0).then_some(Self(bits))
    }

    /// Whether every bit of `bits` is set.
    pub fn has(self, bits: u32) -> bool {
        self.0 & bits == bits
    }

    /// Whether the open may change anything.
    pub fn changes(self) -> bool {
        self.0 & (Self::WRITE | Self::CREATE | Self::TRUNCATE | Self::APPEND) != 0
    }
}

/// What a lock request does; the numbers of lockf(3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockAction {
    /// Releases.
    Unlock,
    /// Locks, or says that it is locked.
    TryLock,
    /// Says whether it is locked.
    Test,
}

impl LockAction {
    /// The action of a number.
    pub fn from_wire(action: u8) -> Option<Self> {
        match action {
            0 => Some(Self::Unlock),
            2 => Some(Self::TryLock),
            3 => Some(Self::Test),
            _ => None,
        }
    }

    /// The number.
    pub fn to_wire(self) -> u8 {
        match self {
            Self::Unlock => 0,
            Self::TryLock => 2,
            Self::Test => 3,
        }
    }
}

/// The smallest field type of a request is never zero-sized where a list could hold it.
const _: () = assert!(<Range as Field>::SMALLEST == 12);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::arbitrary::Any;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn decode_inverts_encode(request in Request::any()) {
            let body = request.encode();
            prop_assert_eq!(Request::decode(request.operation(), &body), Ok(request));
        }

        #[test]
        fn whatever_is_accepted_encodes_to_the_same_bytes(operation in 0u16..61, body in proptest::collection::vec(any::<u8>(), 0..200)) {
            if let Ok(request) = Request::decode(operation, &body) {
                prop_assert_eq!(request.encode(), body);
            }
        }

        #[test]
        fn a_cut_request_is_refused(request in Request::any(), cut in 1usize..16) {
            let body = request.encode();
            prop_assume!(cut <= body.len());
            prop_assert!(Request::decode(request.operation(), &body[..body.len() - cut]).is_err());
        }
    }

    #[test]
    fn the_vector_count_cannot_overflow() {
        // handle, then a count whose product with the element's size wraps in 32 bits.
        let mut body = vec![0; 8];
        body.extend_from_slice(&0x1555_5556u32.to_be_bytes());
        body.extend_from_slice(&[0; 64]);
        assert!(matches!(
            Request::decode(13, &body),
            Err(Malformed::TooMany { .. })
        ));
    }

    #[test]
    fn operations_are_unique_and_leave_the_reply_bit() {
        let mut operations = Request::OPERATIONS.to_vec();
        operations.sort_unstable();
        operations.dedup();
        assert_eq!(operations.len(), Request::OPERATIONS.len());
        assert!(operations.iter().all(|&operation| operation & 0x8000 == 0));
    }

    #[test]
    fn undefined_open_flags_are_refused() {
        assert!(OpenFlags::checked(OpenFlags::READ | 0x100).is_none());
        assert!(OpenFlags::checked(OpenFlags::CREATE).is_none());
    }
}
