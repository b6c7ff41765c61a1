//! Replies of a server: a status, and on success the fields of the operation.

use crate::codec::{Field, Malformed, Reader, Writer};
use crate::message::{catalogue, message};
use crate::shown;
use crate::status::Status;
use crate::types::{Attributes, Endpoint, Entry, Extended, Extent, Handle, Path, Text};

message! {
    /// The reply to the first handshake message.
    Welcome {
        /// The common version.
        version: u16,
        /// The requested method, one bit of [`crate::handshake::Methods`].
        method: u32,
        /// Fresh random bytes.
        nonce: [u8; 32],
    }
}
message! {
    /// The session is established, with these limits.
    Accepted {
        /// The server's proof of the shared secret; zero for other methods.
        proof: [u8; 32],
        /// The user that the server takes the client for.
        user: Text,
        /// Largest payload, and largest read through a window, in bytes.
        most_payload: u32,
        /// Maximum number of ranges of a vector.
        most_ranges: u32,
        /// Bytes of a block, the unit of checksums.
        block: u32,
        /// Maximum number of requests in progress.
        most_requests: u32,
        /// Whether [`crate::request::Connect`] is offered.
        fabric: bool,
        /// Whether changes are permitted.
        writable: bool,
    }
}
message! {
    /// The server's side of the data queue pair, and the token that the client must send over it
    /// first.
    Connected {
        /// The server's side.
        endpoint: Endpoint,
        /// Valid once, on this queue pair, for a short time.
        token: [u8; 32],
    }
}
message! {
    /// Done.
    Done {}
}
message! {
    /// A file is open.
    Opened {
        /// Its handle.
        handle: Handle,
        /// Its attributes.
        attributes: Attributes,
    }
}
message! {
    /// Data was read.
    ReadDone {
        /// Bytes; fewer than requested at the end of the file, or if the server is short of memory.
        length: u32,
        /// Whether the file ends here.
        end: bool,
        /// The file's version, as in its attributes.
        version: u64,
        /// CRC32C of each block of the data, divided at the file's block boundaries.
        checksums: Vec<u32>,
    }
}
message! {
    /// A vector was read.
    ReadVectorDone {
        /// The file's version.
        version: u64,
        /// Bytes of each range; fewer than requested only at the end of the file.
        lengths: Vec<u32>,
        /// CRC32C of each range.
        checksums: Vec<u32>,
    }
}
message! {
    /// Data was written.
    Written {
        /// Bytes.
        length: u32,
    }
}
message! {
    /// Part of a file was copied.
    Copied {
        /// Bytes; zero only at the end of the file that is read.
        length: u32,
    }
}
message! {
    /// A file's attributes.
    About {
        /// The attributes.
        attributes: Attributes,
    }
}
message! {
    /// Checksums of blocks.
    Checksums {
        /// The file's version.
        version: u64,
        /// One per block; the last block may be shorter.
        checksums: Vec<u32>,
    }
}
message! {
    /// The target of a symbolic link.
    Target {
        /// The link's text.
        path: Path,
    }
}
message! {
    /// Space on a file system.
    Capacity {
        /// Bytes per block.
        block: u64,
        /// Total blocks.
        blocks: u64,
        /// Free blocks.
        free: u64,
        /// Total inodes.
        inodes: u64,
        /// Free inodes.
        free_inodes: u64,
    }
}
message! {
    /// Part of a directory.
    Listing {
        /// The entries.
        entries: Vec<Entry>,
        /// The cookie for the next request; zero after the last part.
        cookie: u64,
    }
}
message! {
    /// A small file; its data follows.
    Fetched {
        /// Its attributes.
        attributes: Attributes,
        /// Whether the data follows; false if the file is longer than requested.
        whole: bool,
        /// CRC32C of the data.
        checksum: u32,
    }
}

message! {
    /// Extents of a file that contain data, in order.
    Data {
        /// The extents.
        extents: Vec<Extent>,
        /// The offset for the next request; zero if no data follows.
        next: u64,
    }
}
message! {
    /// A file's extended attributes in the `user.` name space.
    ExtendedAttributes {
        /// All of them.
        entries: Vec<Extended>,
    }
}

catalogue! {
    /// A successful reply, by the request's operation.
    Reply {
        /// To Hello.
        1 Welcome(Welcome),
        /// To Prove, and to Hello where no proof is needed.
        2 Accepted(Accepted),
        /// To Connect.
        3 Connected(Connected),
        /// To Ping.
        4 Pong(Done),
        /// To Cancel.
        5 Cancelled(Done),
        /// To Redeem.
        6 Redeemed(Accepted),
        /// To Open.
        10 Opened(Opened),
        /// To Close.
        11 Closed(Done),
        /// To Read.
        12 ReadDone(ReadDone),
        /// To ReadVector.
        13 ReadVectorDone(ReadVectorDone),
        /// To Write.
        14 Written(Written),
        /// To Examine.
        15 Examined(About),
        /// To ChangeModeOf.
        16 ModeOfChanged(Done),
        /// To ChangeOwnerOf.
        17 OwnerOfChanged(Done),
        /// To Truncate.
        18 Truncated(Done),
        /// To Synchronise.
        19 Synchronised(Done),
        /// To Lock.
        20 Locked(Done),
        /// To Checksum.
        21 Checksums(Checksums),
        /// To SetTimes.
        22 TimesSet(Done),
        /// To Extents.
        23 Data(Data),
        /// To Copy.
        24 Copied(Copied),
        /// To Status.
        30 Status(About),
        /// To LinkStatus.
        31 LinkStatus(About),
        /// To Access.
        32 Accessible(Done),
        /// To MakeDirectory.
        33 DirectoryMade(Done),
        /// To RemoveDirectory.
        34 DirectoryRemoved(Done),
        /// To Unlink.
        35 Unlinked(Done),
        /// To Rename.
        36 Renamed(Done),
        /// To MakeLink.
        37 LinkMade(Done),
        /// To ReadLink.
        38 Target(Target),
        /// To ChangeMode.
        39 ModeChanged(Done),
        /// To ChangeOwner.
        40 OwnerChanged(Done),
        /// To Space.
        41 Capacity(Capacity),
        /// To List.
        42 Listing(Listing),
        /// To Fetch.
        43 Fetched(Fetched),
        /// To Store.
        44 Stored(About),
        /// To SynchroniseDirectory.
        45 DirectorySynchronised(Done),
        /// To ChangeTimes.
        46 TimesChanged(Done),
        /// To MakeHardLink.
        47 HardLinkMade(Done),
        /// To Extended.
        48 Extended(ExtendedAttributes),
        /// To SetExtended.
        49 ExtendedSet(Done),
        /// To Replace.
        50 Replaced(Done),
        /// To Present.
        60 Presented(Accepted),
    }
}

/// A failed request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The status.
    pub status: Status,
    /// The reason, as text for users.
    pub reason: Text,
}

impl Refusal {
    /// Returns a refusal with its reason.
    pub fn new(status: Status, reason: impl Into<String>) -> Self {
        debug_assert!(!status.is_ok());
        Self {
            status,
            reason: Text::new(reason),
        }
    }
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The reason comes from the peer.
        let reason = shown::line(self.reason.as_str());
        if reason.is_empty() {
            write!(f, "{}", self.status)
        } else {
            write!(f, "{reason}: {}", self.status)
        }
    }
}

/// Encodes a reply: the status, then the fields or the reason.
pub fn encode(outcome: &Result<Reply, Refusal>) -> Vec<u8> {
    let mut writer = Writer::new();
    match outcome {
        Ok(reply) => {
            Status::OK.0.put(&mut writer);
            reply.put_fields(&mut writer);
        }
        Err(refusal) => {
            refusal.status.0.put(&mut writer);
            refusal.reason.put(&mut writer);
        }
    }
    writer.into_bytes()
}

/// Decodes a reply.
///
/// # Errors
/// [`Malformed`] if the body is no reply of this operation.
pub fn decode(operation: u16, body: &[u8]) -> Result<Result<Reply, Refusal>, Malformed> {
    let mut reader = Reader::new(body);
    let status = Status(u32::take(&mut reader)?);
    let outcome = if status.is_ok() {
        Ok(Reply::take_fields(operation, &mut reader)?)
    } else {
        Err(Refusal {
            status,
            reason: Text::take(&mut reader)?,
        })
    };
    reader.finish()?;
    Ok(outcome)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::arbitrary::Any;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn decode_inverts_encode(reply in Reply::any()) {
            let operation = reply.operation();
            let outcome = Ok(reply);
            prop_assert_eq!(decode(operation, &encode(&outcome)), Ok(outcome));
        }

        #[test]
        fn refusals_round_trip(status in 1u32.., reason in Text::any()) {
            let outcome = Err(Refusal { status: Status(status), reason });
            prop_assert_eq!(decode(12, &encode(&outcome)), Ok(outcome));
        }

        #[test]
        fn accepted_replies_reencode_to_the_same_bytes(
            operation in 0u16..61, body in proptest::collection::vec(any::<u8>(), 0..200),
            ok: bool) {
            let mut body = body;
            if ok && body.len() >= 4 {
                body[..4].fill(0);
            }
            if let Ok(outcome) = decode(operation, &body) {
                prop_assert_eq!(encode(&outcome), body);
            }
        }
    }

    #[test]
    fn every_request_has_a_reply() {
        assert_eq!(Reply::OPERATIONS, crate::Request::OPERATIONS);
    }
}
