//! The order in which requests of a session are carried out, from version 3 on.
//!
//! # Rules
//!
//! - Two requests on the same open file, or two by name, behave as if the earlier one had ended
//!   before the later one began, if one of them changes something. The later one waits.
//! - All others are unordered: reading operations run concurrently, open files wait neither for
//!   each other nor for names, and small files stored under different paths do not wait for each
//!   other.
//! - A client that needs a stricter order waits for the reply.

use crate::request::{OnHandle, Request};
use crate::types::{Handle, Path};

/// The object of a request, and whether the request changes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Order {
    subject: Subject,
    changes: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Subject {
    /// Nothing that other requests can observe.
    Nothing,
    /// An open file.
    File(Handle),
    /// Two open files: the one that is read, and the one that is written.
    Files(Handle, Handle),
    /// One small file, by name.
    Stored(Path),
    /// The name space.
    Names,
    /// The session itself.
    Session,
}

impl Order {
    /// Returns the order of a request.
    pub fn of(request: &Request) -> Self {
        let subject = match request {
            Request::Ping(_) | Request::Cancel(_) => Subject::Nothing,
            Request::Hello(_)
            | Request::Prove(_)
            | Request::Redeem(_)
            | Request::Present(_)
            | Request::Connect(_) => Subject::Session,
            Request::Close(OnHandle { handle })
            | Request::Examine(OnHandle { handle })
            | Request::Synchronise(OnHandle { handle }) => Subject::File(*handle),
            Request::Read(read) => Subject::File(read.handle),
            Request::ReadVector(vector) => Subject::File(vector.handle),
            Request::Write(write) => Subject::File(write.handle),
            Request::ChangeModeOf(change) => Subject::File(change.handle),
            Request::ChangeOwnerOf(change) => Subject::File(change.handle),
            Request::Truncate(truncate) => Subject::File(truncate.handle),
            Request::SetTimes(times) => Subject::File(times.handle),
            Request::Lock(lock) => Subject::File(lock.handle),
            Request::Checksum(checksum) => Subject::File(checksum.handle),
            Request::Extents(extents) => Subject::File(extents.handle),
            Request::Copy(copy) => Subject::Files(copy.from, copy.to),
            Request::Store(store) => Subject::Stored(store.path.clone()),
            Request::Open(_)
            | Request::Status(_)
            | Request::LinkStatus(_)
            | Request::Access(_)
            | Request::MakeDirectory(_)
            | Request::RemoveDirectory(_)
            | Request::Unlink(_)
            | Request::Rename(_)
            | Request::Replace(_)
            | Request::MakeLink(_)
            | Request::MakeHardLink(_)
            | Request::ReadLink(_)
            | Request::ChangeMode(_)
            | Request::ChangeOwner(_)
            | Request::ChangeTimes(_)
            | Request::Space(_)
            | Request::List(_)
            | Request::Fetch(_)
            | Request::SynchroniseDirectory(_)
            | Request::Extended(_)
            | Request::SetExtended(_) => Subject::Names,
        };
        Self {
            subject,
            // Closing affects later requests, and must not affect earlier ones.
            changes: request.changes() || matches!(request, Request::Close(_)),
        }
    }

    /// Returns the order of a request that reads an open file.
    pub fn looking_at(handle: Handle) -> Self {
        Self {
            subject: Subject::File(handle),
            changes: false,
        }
    }

    /// Returns the order of a request that changes an open file.
    pub fn changing(handle: Handle) -> Self {
        Self {
            subject: Subject::File(handle),
            changes: true,
        }
    }

    /// Returns whether a request must wait for the end of an earlier one.
    pub fn must_follow(&self, earlier: &Order) -> bool {
        let one_changes = self.changes || earlier.changes;
        match (&self.subject, &earlier.subject) {
            (Subject::Nothing, _) | (_, Subject::Nothing) => false,
            (Subject::Session, _) | (_, Subject::Session) => true,
            (Subject::File(mine), Subject::File(other)) => mine == other && one_changes,
            (Subject::File(file), Subject::Files(from, to)) => {
                file == to || (file == from && self.changes)
            }
            (Subject::Files(from, to), Subject::File(file)) => {
                file == to || (file == from && earlier.changes)
            }
            (Subject::Files(from, to), Subject::Files(other_from, other_to)) => {
                to == other_to || to == other_from || from == other_to
            }
            (Subject::File(_) | Subject::Files(..), _)
            | (_, Subject::File(_) | Subject::Files(..)) => false,
            (Subject::Stored(mine), Subject::Stored(other)) => mine == other,
            (Subject::Names | Subject::Stored(_), Subject::Names | Subject::Stored(_)) => {
                one_changes
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::{Copy, OnPath, Ping, Read, Store, TwoPaths, Write};
    use crate::types::Range;
    use crate::types::arbitrary::Any;
    use proptest::prelude::*;

    fn read(handle: u64) -> Request {
        Request::Read(Read {
            handle: Handle(handle),
            range: Range {
                offset: 0,
                length: 1,
            },
            checksums: false,
            window: None,
        })
    }

    fn write(handle: u64) -> Request {
        Request::Write(Write {
            handle: Handle(handle),
            range: Range {
                offset: 0,
                length: 1,
            },
            checksums: Vec::new(),
            window: None,
        })
    }

    fn close(handle: u64) -> Request {
        Request::Close(OnHandle {
            handle: Handle(handle),
        })
    }

    fn synchronise(handle: u64) -> Request {
        Request::Synchronise(OnHandle {
            handle: Handle(handle),
        })
    }

    fn path(text: &str) -> Path {
        Path::new(text).expect("a path")
    }

    fn store(text: &str) -> Request {
        Request::Store(Store {
            path: path(text),
            mode: 0,
            modified: 0,
            checksum: 0,
            care: 0,
        })
    }

    fn status(text: &str) -> Request {
        Request::Status(OnPath { path: path(text) })
    }

    fn rename() -> Request {
        Request::Rename(TwoPaths {
            from: path("/a"),
            to: path("/b"),
        })
    }

    fn copy(from: u64, to: u64) -> Request {
        Request::Copy(Copy {
            from: Handle(from),
            offset: 0,
            to: Handle(to),
            at: 0,
            length: 1,
        })
    }

    #[test]
    fn ordering_rules_hold_for_examples() {
        let ping = Request::Ping(Ping {});
        for (earlier, later, waits) in [
            (read(1), read(1), false),
            (read(1), write(1), true),
            (write(1), read(1), true),
            (write(1), write(1), true),
            (write(1), write(2), false),
            (write(1), synchronise(1), true),
            (synchronise(1), read(1), false),
            (synchronise(1), write(1), true),
            (read(1), close(1), true),
            (close(1), read(1), true),
            (close(1), read(2), false),
            (store("/a"), store("/b"), false),
            (store("/a"), store("/a"), true),
            (store("/a"), status("/a"), true),
            (status("/a"), store("/b"), true),
            (status("/a"), status("/a"), false),
            (rename(), store("/a"), true),
            (rename(), write(1), false),
            (copy(1, 2), read(1), false),
            (copy(1, 2), write(1), true),
            (copy(1, 2), read(2), true),
            (copy(1, 2), copy(1, 3), false),
            (copy(1, 2), copy(2, 3), true),
            (copy(1, 2), copy(3, 2), true),
            (copy(1, 2), copy(3, 1), true),
            (copy(1, 2), write(3), false),
            (write(1), rename(), false),
            (write(1), ping.clone(), false),
            (rename(), ping, false),
        ] {
            let found = Order::of(&later).must_follow(&Order::of(&earlier));
            assert_eq!(found, waits, "{later:?} after {earlier:?}");
        }
    }

    proptest! {
        /// Whether one of two requests waits for the other does not depend on their order.
        #[test]
        fn ordering_is_symmetric(one in Request::any(), other in Request::any()) {
            let (one, other) = (Order::of(&one), Order::of(&other));
            prop_assert_eq!(one.must_follow(&other), other.must_follow(&one));
        }
    }
}
