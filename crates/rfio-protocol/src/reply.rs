//! What a server answers: a status, and on success the fields that belong to the operation.

use crate::codec::{Field, Malformed, Reader, Writer};
use crate::message::{catalogue, message};
use crate::shown;
use crate::status::Status;
use crate::types::{Attributes, Endpoint, Entry, Extended, Extent, Handle, Path, Text};

message! {
    /// The answer to a greeting.
    Welcome {
        /// The version that both speak.
        version: u16,
        /// The method that the server wants, one bit of [`crate::handshake::Methods`].
        method: u32,
        /// Fresh random bytes.
        nonce: [u8; 32],
    }
}
message! {
    /// The session stands: what it may do.
    Accepted {
        /// The server's half of the shared-secret handshake; zero for other methods.
        proof: [u8; 32],
        /// Who the server takes the client to be.
        user: Text,
        /// Largest payload, and largest read through a window.
        most_payload: u32,
        /// Most ranges of a vector.
        most_ranges: u32,
        /// Bytes of a block: where checksums are cut.
        block: u32,
        /// Requests that may be on their way at once.
        most_requests: u32,
        /// Whether [`crate::request::Connect`] is offered.
        fabric: bool,
        /// Whether anything may be changed.
        writable: bool,
    }
}
message! {
    /// The server's end of the data queue pair, and the token that the client must send over it first.
    Connected {
        /// The server's end.
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
        /// Its number.
        handle: Handle,
        /// What it is.
        attributes: Attributes,
    }
}
message! {
    /// Data were read.
    ReadDone {
        /// Bytes; fewer than asked for at the end of the file, or when the server has little memory.
        length: u32,
        /// Whether the file ends here.
        end: bool,
        /// The file's version, as in its attributes.
        version: u64,
        /// CRC32C of each block of the data, cut where the file's blocks end.
        checksums: Vec<u32>,
    }
}
message! {
    /// A vector was read.
    ReadVectorDone {
        /// The file's version.
        version: u64,
        /// Bytes of each range; fewer than asked for only at the end of the file.
        lengths: Vec<u32>,
        /// CRC32C of each range.
        checksums: Vec<u32>,
    }
}
message! {
    /// Data were written.
    Written {
        /// Bytes.
        length: u32,
    }
}
message! {
    /// Part of a file was copied.
    Copied {
        /// Bytes; zero only where the file that is read ends.
        length: u32,
    }
}
message! {
    /// What a file is.
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
        /// One per block, the last perhaps of a shorter block.
        checksums: Vec<u32>,
    }
}
message! {
    /// Where a symbolic link points.
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
        /// Blocks in all.
        blocks: u64,
        /// Blocks that are free.
        free: u64,
        /// Inodes in all.
        inodes: u64,
        /// Inodes that are free.
        free_inodes: u64,
    }
}
message! {
    /// Part of a directory.
    Listing {
        /// The entries.
        entries: Vec<Entry>,
        /// For the next request; zero when this was the last part.
        cookie: u64,
    }
}
message! {
    /// A small file; its data follow.
    Fetched {
        /// What it is.
        attributes: Attributes,
        /// Whether the data follow; without them the file is longer than was asked for.
        whole: bool,
        /// CRC32C of the data.
        checksum: u32,
    }
}

message! {
    /// Parts of a file that hold data, in order.
    Data {
        /// The parts.
        extents: Vec<Extent>,
        /// Where to ask on; zero when no data follow.
        next: u64,
    }
}
message! {
    /// A file's extended attributes of the `user.` name space.
    ExtendedAttributes {
        /// All of them.
        entries: Vec<Extended>,
    }
}

catalogue! {
    /// The successful answer, by the request's operation.
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

/// Why a request was not carried out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The number.
    pub status: Status,
    /// What was wrong, for people.
    pub reason: Text,
}

impl Refusal {
    /// A refusal with its reason.
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
        // The reason is the peer's.
        let reason = shown::line(self.reason.as_str());
        if reason.is_empty() {
            write!(f, "{}", self.status)
        } else {
            write!(f, "{reason}: {}", self.status)
        }
    }
}

/// The body of a reply: the status, then the fields or the reason.
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

/// The outcome that a reply's body states.
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
        fn refusals_survive(status in 1u32.., reason in Text::any()) {
            let outcome = Err(Refusal { status: Status(status), reason });
            prop_assert_eq!(decode(12, &encode(&outcome)), Ok(outcome));
        }

        #[test]
        fn whatever_is_accepted_encodes_to_the_same_bytes(operation in 0u16..61, body in proptest::collection::vec(any::<u8>(), 0..200), ok: bool) {
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
    fn every_request_has_its_reply() {
        assert_eq!(Reply::OPERATIONS, crate::Request::OPERATIONS);
    }
}
