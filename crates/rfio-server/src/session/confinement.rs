//! Checks requests of a session that was authenticated by a ticket: it may open the ticket's file,
//! once, with the ticket's access, and read or write it.
//!
//! The issuer has checked the user, so names, permissions and owners stay under its control.
//! Requests not listed here are refused.

use verbena_rfio_protocol::reply::Refusal;
use verbena_rfio_protocol::request::OpenFlags;
use verbena_rfio_protocol::ticket::Claims;
use verbena_rfio_protocol::types::Path;
use verbena_rfio_protocol::{Request, Status};

use crate::engine::subject;

/// The bounds of a session.
#[derive(Debug)]
pub struct Confinement {
    path: Path,
    access: u32,
    /// Whether the file has been opened: its name may refer to another one later.
    is_used: bool,
}

impl Confinement {
    /// Returns the bounds that a ticket sets.
    pub fn new(claims: &Claims) -> Self {
        Self {
            path: claims.path.clone(),
            access: claims.access,
            is_used: false,
        }
    }

    /// Returns the file's path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Checks that a request is within the bounds.
    ///
    /// # Errors
    /// EACCES if it is not.
    pub fn admit(&mut self, request: &Request) -> Result<(), Refusal> {
        let denied = |reason: String| Err(Refusal::new(Status::errno(libc::EACCES), reason));
        match request {
            Request::Open(open) if open.path != self.path => denied(format!(
                "cannot open {}: the ticket is valid for another file, {}",
                open.path, self.path
            )),
            Request::Open(open) if open.flags & !(self.access | OpenFlags::NO_FOLLOW) != 0 => {
                denied(format!(
                    "cannot open {}: the ticket is {}",
                    open.path,
                    match self.access & OpenFlags::WRITE {
                        0 => "for reading only",
                        _ if self.access & OpenFlags::READ == 0 => "for writing only",
                        _ => "for reading and writing an existing file only",
                    }
                ))
            }
            Request::Open(open) if self.is_used => denied(format!(
                "cannot open {}: the ticket has already opened its file; request another one",
                open.path
            )),
            Request::Open(_) => {
                self.is_used = true;
                Ok(())
            }
            Request::Connect(_)
            | Request::Ping(_)
            | Request::Cancel(_)
            | Request::Close(_)
            | Request::Read(_)
            | Request::ReadVector(_)
            | Request::Write(_)
            | Request::Examine(_)
            | Request::Truncate(_)
            | Request::Synchronise(_)
            | Request::Checksum(_)
            | Request::Extents(_) => Ok(()),
            other => denied(format!(
                "cannot {}{}: a session opened by a ticket does not allow it",
                other.action(),
                subject(other)
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use verbena_rfio_protocol::request::{OnHandle, OnPath, Open, TwoPaths};
    use verbena_rfio_protocol::types::{Handle, Text};

    fn path(text: &str) -> Path {
        Path::new(text).unwrap()
    }

    fn confinement(access: u32) -> Confinement {
        Confinement::new(&Claims {
            issuer: Text::new("xrootd"),
            user: Text::new("ann"),
            path: path("/a"),
            access,
            issued: 0,
            expires: 1,
            nonce: [0; 16],
        })
    }

    fn open(name: &str, flags: u32) -> Request {
        Request::Open(Open {
            path: path(name),
            flags,
            mode: 0o666,
        })
    }

    const READ: u32 = OpenFlags::READ;
    const WRITE: u32 = OpenFlags::WRITE;

    #[test]
    fn only_the_ticket_file_opens_with_the_ticket_access() {
        for (access, name, flags, admitted) in [
            (READ, "/a", READ, true),
            (READ, "/a", READ | OpenFlags::NO_FOLLOW, true),
            (READ, "/a", WRITE, false),
            (READ, "/a", READ | WRITE, false),
            (READ, "/a", READ | OpenFlags::TRUNCATE, false),
            (READ, "/b", READ, false),
            (READ, "/a/", READ, false),
            (READ, "/./a", READ, false),
            (WRITE, "/a", READ, false),
            (WRITE, "/a", WRITE, true),
            (READ | WRITE, "/a", WRITE, true),
            (READ | WRITE, "/a", READ | WRITE, true),
            (WRITE, "/a", WRITE | OpenFlags::CREATE, false),
            (WRITE, "/a", WRITE | OpenFlags::APPEND, false),
            (WRITE, "/a", WRITE | OpenFlags::SOLE_WRITER, false),
        ] {
            let verdict = confinement(access).admit(&open(name, flags));
            assert_eq!(
                verdict.is_ok(),
                admitted,
                "{access} {name} {flags}: {verdict:?}"
            );
        }
    }

    #[test]
    fn the_ticket_file_opens_once() {
        let mut session = confinement(READ);
        assert!(session.admit(&open("/b", READ)).is_err());
        assert!(session.admit(&open("/a", READ)).is_ok());
        let again = session.admit(&open("/a", READ)).unwrap_err();
        assert!(again.reason.as_str().contains("already"), "{again}");
    }

    #[test]
    fn requests_by_name_and_attribute_changes_are_refused() {
        let mut session = confinement(READ | WRITE);
        let on = OnPath { path: path("/a") };
        let two = TwoPaths {
            from: path("/a"),
            to: path("/b"),
        };
        for request in [
            Request::Unlink(on.clone()),
            Request::Status(on.clone()),
            Request::Space(on),
            Request::Rename(two.clone()),
            Request::MakeHardLink(two.clone()),
            Request::Replace(two),
        ] {
            assert!(session.admit(&request).is_err(), "{}", request.name());
        }
        let handle = Handle(1);
        assert!(
            session
                .admit(&Request::Examine(OnHandle { handle }))
                .is_ok()
        );
    }
}
