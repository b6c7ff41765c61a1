//! Requests of a client.
//!
//! A client may send many before it reads the first reply. In version 2 they are carried out and
//! answered in the order of sending; from version 3 on as [`crate::order`] permits, and each is
//! answered when done.

use crate::codec::{Field, Malformed, Reader, Writer};
use crate::message::{catalogue, message};
use crate::ticket::Claims;
use crate::types::{Endpoint, Extended, Handle, Path, Range, Text, Token, Window};

message! {
    /// The first frame of every session.
    Hello {
        /// Lowest version that the client supports.
        lowest: u16,
        /// Highest version that the client supports.
        highest: u16,
        /// Methods that the client supports, see [`crate::handshake::Methods`].
        methods: u32,
        /// The user that the client claims to be; unverified until the proof.
        user: Text,
        /// Fresh random bytes.
        nonce: [u8; 32],
    }
}
message! {
    /// The client's proof of the shared secret.
    Prove {
        /// See [`crate::handshake`].
        proof: [u8; 32],
    }
}
message! {
    /// The client's proof of a ticket, whose key is the secret.
    Redeem {
        /// The ticket's claims.
        claims: Claims,
        /// See [`crate::handshake`].
        proof: [u8; 32],
    }
}
message! {
    /// The client's token.
    Present {
        /// The token.
        token: Token,
    }
}
message! {
    /// Requests a data queue pair.
    Connect {
        /// The client's side.
        endpoint: Endpoint,
    }
}
message! {
    /// Does nothing; answered at once.
    Ping {}
}
message! {
    /// Cancels a request (version 3). A request that has not begun is not carried out, and a
    /// reading one returns no data; both are answered with ECANCELED. A changing one that has begun
    /// is carried out and answered as usual. The reply to this request only confirms its receipt.
    Cancel {
        /// The ID of the request to cancel; an unknown ID is no error.
        id: u64,
    }
}
message! {
    /// Opens a file.
    Open {
        /// The path.
        path: Path,
        /// Bits of [`OpenFlags`].
        flags: u32,
        /// Permission bits of a file that is created.
        mode: u32,
    }
}
message! {
    /// An open file, without other arguments.
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
        /// The range.
        range: Range,
        /// Whether the reply has checksums.
        checksums: bool,
        /// The client's memory for the data; without it the data follows the reply.
        window: Option<Window>,
    }
}
message! {
    /// Reads many ranges with one request.
    ReadVector {
        /// The file.
        handle: Handle,
        /// The ranges; the data is packed in this order.
        ranges: Vec<Range>,
        /// Whether the reply has one checksum per range.
        checksums: bool,
        /// The client's memory for the data; without it the data follows the reply.
        window: Option<Window>,
    }
}
message! {
    /// Writes one range.
    Write {
        /// The file.
        handle: Handle,
        /// The range.
        range: Range,
        /// CRC32C of each block of the data, divided at the file's block boundaries; empty for
        /// none.
        checksums: Vec<u32>,
        /// The client's memory with the data; without it the data follows the request.
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
        /// New owner; all ones keeps it.
        owner: u32,
        /// New group; all ones keeps it.
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
        /// Last modification.
        modified: i64,
    }
}
message! {
    /// Locks, unlocks or tests part of a file. Never waits: a client that wants to wait repeats the
    /// request.
    Lock {
        /// The file.
        handle: Handle,
        /// See [`LockAction`].
        action: u8,
        /// First byte.
        offset: u64,
        /// Bytes; zero means to the end of the file.
        length: u64,
    }
}
message! {
    /// Requests checksums of blocks instead of the data.
    Checksum {
        /// The file.
        handle: Handle,
        /// First byte, a multiple of `block`.
        offset: u64,
        /// Bytes per checksum.
        block: u32,
        /// Maximum number of blocks; the reply has fewer at the end of the file.
        count: u32,
    }
}
message! {
    /// Copies part of an open file to another one on the server (version 3).
    Copy {
        /// The file that is read.
        from: Handle,
        /// First byte there.
        offset: u64,
        /// The file that is written.
        to: Handle,
        /// First byte there.
        at: u64,
        /// Bytes; fewer may be copied.
        length: u32,
    }
}
message! {
    /// A path, without other arguments.
    OnPath {
        /// The path.
        path: Path,
    }
}
message! {
    /// Checks access to a path.
    Access {
        /// The path.
        path: Path,
        /// As for access(2): 4 read, 2 write, 1 execute, 0 existence.
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
    /// Changes the owner of a path.
    ChangeOwner {
        /// The path.
        path: Path,
        /// New owner; all ones keeps it.
        owner: u32,
        /// New group; all ones keeps it.
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
        /// Zero at first, then the cookie of the previous reply.
        cookie: u64,
        /// Maximum number of entries.
        count: u32,
    }
}
message! {
    /// Opens, reads and closes a small file in one request.
    Fetch {
        /// The file.
        path: Path,
        /// Maximum length in bytes; a longer file is not read.
        most: u32,
    }
}
message! {
    /// Creates a small file in one request, atomically: its name appears with the complete data or
    /// not at all.
    Store {
        /// The file.
        path: Path,
        /// Permission bits.
        mode: u32,
        /// Last modification, nanoseconds since 1970; the smallest value leaves it to the server.
        modified: i64,
        /// CRC32C of the data that follows.
        checksum: u32,
        /// Bits of [`StoreCare`].
        care: u32,
    }
}
message! {
    /// Requests the extents of a file that contain data.
    Extents {
        /// The file.
        handle: Handle,
        /// First byte.
        offset: u64,
        /// Maximum number of extents.
        count: u32,
    }
}
message! {
    /// Sets the times of a path; a final symbolic link is not followed.
    PathTimes {
        /// The path.
        path: Path,
        /// Last access, nanoseconds since 1970.
        accessed: i64,
        /// Last modification.
        modified: i64,
    }
}
message! {
    /// Sets extended attributes.
    SetExtended {
        /// The path; a final symbolic link is not followed.
        path: Path,
        /// The attributes to set; others stay.
        entries: Vec<Extended>,
    }
}

catalogue! {
    /// A request. The numbers are the operations of the specification.
    Request {
        /// Starts the handshake.
        1 Hello(Hello),
        /// Proves the shared secret.
        2 Prove(Prove),
        /// Requests a data queue pair.
        3 Connect(Connect),
        /// Checks the connection.
        4 Ping(Ping),
        /// Cancels a request.
        5 Cancel(Cancel),
        /// Proves possession of a ticket.
        6 Redeem(Redeem),
        /// Opens a file.
        10 Open(Open),
        /// Closes a file.
        11 Close(OnHandle),
        /// Reads a range.
        12 Read(Read),
        /// Reads a vector.
        13 ReadVector(ReadVector),
        /// Writes a range.
        14 Write(Write),
        /// Returns the attributes of an open file.
        15 Examine(OnHandle),
        /// Changes the permission bits of an open file.
        16 ChangeModeOf(ChangeModeOf),
        /// Changes the owner of an open file.
        17 ChangeOwnerOf(ChangeOwnerOf),
        /// Sets the length.
        18 Truncate(Truncate),
        /// Flushes a file to stable storage.
        19 Synchronise(OnHandle),
        /// Locks a range.
        20 Lock(Lock),
        /// Returns checksums of blocks.
        21 Checksum(Checksum),
        /// Sets the times of an open file.
        22 SetTimes(SetTimes),
        /// Returns the extents with data.
        23 Extents(Extents),
        /// Copies between open files.
        24 Copy(Copy),
        /// Returns attributes, following a symbolic link.
        30 Status(OnPath),
        /// Returns attributes of the link itself.
        31 LinkStatus(OnPath),
        /// Checks access.
        32 Access(Access),
        /// Creates a directory.
        33 MakeDirectory(PathMode),
        /// Removes an empty directory.
        34 RemoveDirectory(OnPath),
        /// Removes a file.
        35 Unlink(OnPath),
        /// Renames.
        36 Rename(TwoPaths),
        /// Creates a symbolic link.
        37 MakeLink(TwoPaths),
        /// Reads a symbolic link.
        38 ReadLink(OnPath),
        /// Changes permission bits.
        39 ChangeMode(PathMode),
        /// Changes the owner.
        40 ChangeOwner(ChangeOwner),
        /// Returns the space on the file system.
        41 Space(OnPath),
        /// Returns a directory's entries.
        42 List(List),
        /// Reads a small file.
        43 Fetch(Fetch),
        /// Creates a small file.
        44 Store(Store),
        /// Flushes a directory to stable storage.
        45 SynchroniseDirectory(OnPath),
        /// Sets the times of a path.
        46 ChangeTimes(PathTimes),
        /// Creates a hard link.
        47 MakeHardLink(TwoPaths),
        /// Returns extended attributes.
        48 Extended(OnPath),
        /// Sets extended attributes.
        49 SetExtended(SetExtended),
        /// Renames onto an existing file, whose attributes are kept (version 4).
        50 Replace(TwoPaths),
        /// Presents a token.
        60 Present(Present),
    }
}

impl Request {
    /// Encodes the body.
    pub fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::new();
        self.put_fields(&mut writer);
        writer.into_bytes()
    }

    /// Decodes the body of an operation's request.
    ///
    /// # Errors
    /// [`Malformed`] if the body is no request of this operation.
    pub fn decode(operation: u16, body: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(body);
        let request = Self::take_fields(operation, &mut reader)?;
        reader.finish()?;
        Ok(request)
    }

    /// Returns the request's action in words, for messages to users; its path, if it has one,
    /// follows.
    pub fn action(&self) -> &'static str {
        match self {
            Self::Hello(_) => "begin the session",
            Self::Prove(_) | Self::Redeem(_) | Self::Present(_) => "authenticate",
            Self::Connect(_) => "connect by RDMA",
            Self::Ping(_) => "check the connection",
            Self::Cancel(_) => "cancel a request",
            Self::Open(_) => "open",
            Self::Close(_) => "close the file",
            Self::Read(_) | Self::ReadVector(_) => "read the file",
            Self::Write(_) => "write to the file",
            Self::Examine(_) => "read the attributes of the file",
            Self::ChangeModeOf(_) => "change the mode of the file",
            Self::ChangeOwnerOf(_) => "change the owner of the file",
            Self::Truncate(_) => "set the length of the file",
            Self::Synchronise(_) => "flush the file to stable storage",
            Self::Lock(_) => "lock the file",
            Self::Checksum(_) => "compute checksums of the file",
            Self::SetTimes(_) => "set the times of the file",
            Self::Extents(_) => "find the extents of the file",
            Self::Copy(_) => "copy between open files",
            Self::Status(_) | Self::LinkStatus(_) => "read the attributes of",
            Self::Access(_) => "check the access to",
            Self::MakeDirectory(_) => "create directory",
            Self::RemoveDirectory(_) => "remove directory",
            Self::Unlink(_) => "remove",
            Self::Rename(_) | Self::Replace(_) => "rename",
            Self::MakeLink(_) => "create a symbolic link to",
            Self::ReadLink(_) => "read symbolic link",
            Self::ChangeMode(_) => "change the mode of",
            Self::ChangeOwner(_) => "change the owner of",
            Self::Space(_) => "examine the file system of",
            Self::List(_) => "list directory",
            Self::Fetch(_) => "read",
            Self::Store(_) => "write",
            Self::SynchroniseDirectory(_) => "flush directory",
            Self::ChangeTimes(_) => "set the times of",
            Self::MakeHardLink(_) => "create a hard link to",
            Self::Extended(_) => "read the extended attributes of",
            Self::SetExtended(_) => "set extended attributes of",
        }
    }

    /// Returns whether the request may change a file or directory.
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
            // Any other request counts as a change.
            _ => true,
        }
    }

    /// Returns whether the request has no effect on the server's state, so that it may be dropped
    /// after it was carried out.
    pub fn is_read_only(&self) -> bool {
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

    /// Returns the maximum bytes of data in the reply's payload.
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

    /// Returns whether the request may have data as its payload.
    pub fn brings_data(&self) -> bool {
        match self {
            Self::Write(write) => write.window.is_none(),
            Self::Store(_) => true,
            _ => false,
        }
    }

    /// Returns whether the reply has checksums of the data.
    pub fn wants_checksums(&self) -> bool {
        match self {
            Self::Read(read) => read.checksums,
            Self::ReadVector(vector) => vector.checksums,
            _ => false,
        }
    }

    /// Returns the window of the client's memory in the request, if any.
    pub fn window(&self) -> Option<&Window> {
        match self {
            Self::Read(Read { window, .. })
            | Self::ReadVector(ReadVector { window, .. })
            | Self::Write(Write { window, .. }) => window.as_ref(),
            _ => None,
        }
    }
}

/// Options of a Store, one bit each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StoreCare(pub u32);

impl StoreCare {
    /// The data is on stable storage before the file gets its name.
    pub const STABLE: u32 = 1;
    /// The data is read back and compared before the file gets its name.
    pub const READ_BACK: u32 = 2;
    const KNOWN: u32 = 3;

    /// Returns the options, or `None` if a bit is undefined.
    pub fn checked(bits: u32) -> Option<Self> {
        (bits & !Self::KNOWN == 0).then_some(Self(bits))
    }

    /// Returns whether every bit of `bits` is set.
    pub fn has(self, bits: u32) -> bool {
        self.0 & bits == bits
    }
}

/// Open flags. The numbers are the protocol's, not the platform's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OpenFlags(pub u32);

impl OpenFlags {
    /// Open for reading.
    pub const READ: u32 = 1;
    /// Open for writing.
    pub const WRITE: u32 = 2;
    /// Create the file if it does not exist.
    pub const CREATE: u32 = 4;
    /// Fail if the file exists.
    pub const EXCLUSIVE: u32 = 8;
    /// Truncate the file.
    pub const TRUNCATE: u32 = 16;
    /// Write at the end.
    pub const APPEND: u32 = 32;
    /// Exclude other opens with this flag; EBUSY if there is one.
    pub const SOLE_WRITER: u32 = 64;
    /// Do not follow a final symbolic link.
    pub const NO_FOLLOW: u32 = 128;
    const KNOWN: u32 = 255;

    /// Returns the flags, or `None` if one is undefined or both directions are missing.
    pub fn checked(bits: u32) -> Option<Self> {
        (bits & !Self::KNOWN == 0 && bits & (Self::READ | Self::WRITE) != 0).then_some(Self(bits))
    }

    /// Returns whether every bit of `bits` is set.
    pub fn has(self, bits: u32) -> bool {
        self.0 & bits == bits
    }

    /// Returns whether the open may change anything.
    pub fn changes(self) -> bool {
        self.0 & (Self::WRITE | Self::CREATE | Self::TRUNCATE | Self::APPEND) != 0
    }
}

/// The action of a lock request; numbered as in lockf(3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockAction {
    /// Unlocks.
    Unlock,
    /// Locks, or fails if it is locked.
    TryLock,
    /// Tests whether it is locked.
    Test,
}

impl LockAction {
    /// Returns the action with a number.
    pub fn from_wire(action: u8) -> Option<Self> {
        match action {
            0 => Some(Self::Unlock),
            2 => Some(Self::TryLock),
            3 => Some(Self::Test),
            _ => None,
        }
    }

    /// Returns the number.
    pub fn to_wire(self) -> u8 {
        match self {
            Self::Unlock => 0,
            Self::TryLock => 2,
            Self::Test => 3,
        }
    }
}

/// A list's element must not be of zero size.
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
        fn accepted_requests_reencode_to_the_same_bytes(
            operation in 0u16..61, body in proptest::collection::vec(any::<u8>(), 0..200)) {
            if let Ok(request) = Request::decode(operation, &body) {
                prop_assert_eq!(request.encode(), body);
            }
        }

        #[test]
        fn a_truncated_request_is_refused(request in Request::any(), cut in 1usize..16) {
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
    fn operation_codes_are_unique_and_below_the_reply_bit() {
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
