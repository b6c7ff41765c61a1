//! Checks requests of a session that was authenticated by a token against the token's scopes.
//!
//! Paths are checked by their text. That is safe because a path with `..` is rejected, and because
//! such a session cannot create a symbolic link that leads out of its directory. Links created by
//! other users are followed, within the export.

use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use verbena_rfio_auth::token::VerifiedToken;
use verbena_rfio_auth::token::scope::{Components, ScopeRight, components};
use verbena_rfio_protocol::reply::Refusal;
use verbena_rfio_protocol::request::{Open, OpenFlags};
use verbena_rfio_protocol::types::{Handle, Path};
use verbena_rfio_protocol::{Request, Status};

use crate::engine::{ExistingName, subject};

/// The bounds of a session.
#[derive(Debug)]
pub struct Scopes {
    token: VerifiedToken,
}

impl Scopes {
    /// Returns the bounds that a token sets.
    pub fn new(token: VerifiedToken) -> Self {
        Self { token }
    }

    /// Returns details for the audit log.
    pub fn details(&self) -> Value {
        json!({ "token": { "issuer": self.token.issuer, "subject": self.token.subject } })
    }

    /// Checks that a request is within the bounds; returns whether it may replace an existing name.
    /// `is_writable` returns whether a file was opened for writing, which was checked then.
    ///
    /// An Open that may only create a file is changed to an exclusive one.
    ///
    /// # Errors
    /// EACCES if the request is out of bounds.
    pub fn admit(
        &self,
        request: &mut Request,
        is_writable: impl Fn(Handle) -> bool,
    ) -> Result<ExistingName, Refusal> {
        let action = request.action();
        match request {
            // Opening was checked; the kernel refuses writes to a file open for reading.
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
            | Request::Lock(_)
            | Request::Checksum(_)
            | Request::Copy(_)
            | Request::Extents(_) => return Ok(ExistingName::Replaced),
            // These also change a file that is open for reading.
            Request::ChangeModeOf(change) => return by_handle(action, is_writable(change.handle)),
            Request::ChangeOwnerOf(change) => return by_handle(action, is_writable(change.handle)),
            Request::SetTimes(times) => return by_handle(action, is_writable(times.handle)),
            _ => {}
        }
        if self.has_expired() {
            let reason = format!(
                "cannot {action}{}: the token has expired; connect again with a new one",
                subject(request)
            );
            return Err(denied(reason));
        }
        match request {
            Request::Open(open) => self.admit_open(open),
            Request::Status(on)
            | Request::LinkStatus(on)
            | Request::Space(on)
            | Request::SynchroniseDirectory(on) => self.admit_look(action, &on.path),
            Request::Access(access) => self.admit_look(action, &access.path),
            Request::ReadLink(on) | Request::Extended(on) => self.read(action, &on.path),
            Request::List(list) => self.read(action, &list.path),
            Request::Fetch(fetch) => self.read(action, &fetch.path),
            Request::Store(store) => self.make(action, &store.path),
            Request::MakeDirectory(make) => self.make(action, &make.path),
            Request::MakeLink(link) => {
                let text = link.from.as_bytes();
                if text.starts_with(b"/") || components(text).is_none() {
                    let reason = format!(
                        "cannot {action} {}: in a session opened by a token, links must be \
                         relative and without '..'",
                        link.to
                    );
                    return Err(denied(reason));
                }
                self.make(action, &link.to)
            }
            Request::Rename(two) | Request::Replace(two) => {
                self.make(action, &two.from)?;
                self.make(action, &two.to)
            }
            // A second name carries the rights of its location.
            Request::MakeHardLink(two) => {
                self.change(action, &two.from)?;
                self.change(action, &two.to)
            }
            Request::Unlink(on) | Request::RemoveDirectory(on) => self.change(action, &on.path),
            Request::ChangeMode(change) => self.change(action, &change.path),
            Request::ChangeOwner(change) => self.change(action, &change.path),
            Request::ChangeTimes(times) => self.change(action, &times.path),
            Request::SetExtended(set) => self.change(action, &set.path),
            other => Err(denied(format!(
                "cannot {action}{}: a session opened by a token does not allow it",
                subject(other)
            ))),
        }
    }

    fn has_expired(&self) -> bool {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        now.is_ok_and(|now| now.as_secs() > self.token.expires)
    }

    /// A new or truncated file may be read back, since its content comes from the client.
    fn admit_open(&self, open: &mut Open) -> Result<ExistingName, Refusal> {
        let action = "open";
        let has = |bits: u32| open.flags & bits != 0;
        let writes = has(OpenFlags::WRITE | OpenFlags::TRUNCATE | OpenFlags::APPEND);
        if !writes && !has(OpenFlags::CREATE) {
            return self.read(action, &open.path);
        }
        let path = self.path(action, &open.path)?;
        let scopes = &self.token.scopes;
        if scopes.has(ScopeRight::Modify, &path) {
            let flags = OpenFlags(open.flags);
            let is_new = flags.has(OpenFlags::CREATE | OpenFlags::EXCLUSIVE)
                || flags.has(OpenFlags::WRITE | OpenFlags::TRUNCATE);
            if has(OpenFlags::READ) && !is_new && !scopes.has(ScopeRight::Read, &path) {
                return Err(self.lacks(action, &open.path, "read"));
            }
            return Ok(ExistingName::Replaced);
        }
        if scopes.has(ScopeRight::Create, &path) && has(OpenFlags::CREATE) {
            open.flags |= OpenFlags::EXCLUSIVE;
            return Ok(ExistingName::Kept);
        }
        Err(self.lacks(action, &open.path, "modify"))
    }

    fn admit_look(&self, action: &str, path: &Path) -> Result<ExistingName, Refusal> {
        match self.token.scopes.covers(&self.path(action, path)?) {
            true => Ok(ExistingName::Replaced),
            false => Err(self.lacks(action, path, "read")),
        }
    }

    fn read(&self, action: &str, path: &Path) -> Result<ExistingName, Refusal> {
        match self
            .token
            .scopes
            .has(ScopeRight::Read, &self.path(action, path)?)
        {
            true => Ok(ExistingName::Replaced),
            false => Err(self.lacks(action, path, "read")),
        }
    }

    fn make(&self, action: &str, path: &Path) -> Result<ExistingName, Refusal> {
        let parts = self.path(action, path)?;
        if self.token.scopes.has(ScopeRight::Modify, &parts) {
            return Ok(ExistingName::Replaced);
        }
        match self.token.scopes.has(ScopeRight::Create, &parts) {
            true => Ok(ExistingName::Kept),
            false => Err(self.lacks(action, path, "create")),
        }
    }

    fn change(&self, action: &str, path: &Path) -> Result<ExistingName, Refusal> {
        match self
            .token
            .scopes
            .has(ScopeRight::Modify, &self.path(action, path)?)
        {
            true => Ok(ExistingName::Replaced),
            false => Err(self.lacks(action, path, "modify")),
        }
    }

    fn path(&self, action: &str, path: &Path) -> Result<Components, Refusal> {
        components(path.as_bytes()).ok_or_else(|| {
            let reason = format!(
                "cannot {action} {path}: a session opened by a token allows no path with \
                                  '..'"
            );
            denied(reason)
        })
    }

    fn lacks(&self, action: &str, path: &Path, right: &str) -> Refusal {
        denied(format!(
            "cannot {action} {path}: the token lacks the scope storage.{right} for this path"
        ))
    }

    /// Returns whether anything may be changed at all.
    pub fn may_change(&self) -> bool {
        self.token.scopes.may_change()
    }

    /// Returns the user.
    pub fn user(&self) -> &str {
        &self.token.user
    }

    /// Returns the groups that the token names.
    pub fn groups(&self) -> &[String] {
        &self.token.groups
    }
}

fn by_handle(action: &str, is_writable: bool) -> Result<ExistingName, Refusal> {
    match is_writable {
        true => Ok(ExistingName::Replaced),
        false => Err(denied(format!(
            "cannot {action}: in a session opened by a token, the file must be open for writing"
        ))),
    }
}

fn denied(reason: String) -> Refusal {
    Refusal::new(Status::errno(libc::EACCES), reason)
}

#[cfg(test)]
mod tests {
    use verbena_rfio_auth::token::scope::Scopes as Claimed;
    use verbena_rfio_protocol::request::{OnPath, PathMode, SetTimes, TwoPaths};

    use super::*;

    fn session(claim: &str) -> Scopes {
        Scopes::new(VerifiedToken {
            user: "ann@wlcg".into(),
            subject: "ann".into(),
            issuer: "wlcg".into(),
            groups: Vec::new(),
            scopes: Claimed::parse(claim, &Vec::new()).unwrap(),
            expires: u64::MAX,
        })
    }

    fn path(text: &str) -> Path {
        Path::new(text).unwrap()
    }

    fn open(name: &str, flags: u32) -> Request {
        Request::Open(Open {
            path: path(name),
            flags,
            mode: 0o644,
        })
    }

    fn two(from: &str, to: &str) -> TwoPaths {
        TwoPaths {
            from: path(from),
            to: path(to),
        }
    }

    fn admit(session: &Scopes, mut request: Request) -> Result<(ExistingName, Request), Refusal> {
        let existing = session.admit(&mut request, |_| false)?;
        Ok((existing, request))
    }

    const READ: u32 = OpenFlags::READ;
    const WRITE: u32 = OpenFlags::WRITE;
    const CREATE: u32 = OpenFlags::CREATE;
    const TRUNCATE: u32 = OpenFlags::TRUNCATE;

    #[test]
    fn files_open_as_the_scopes_allow() {
        for (claim, name, flags, admitted) in [
            ("storage.read:/data", "/data/f", READ, true),
            ("storage.read:/data", "/data", READ, true),
            ("storage.read:/data", "/data2", READ, false),
            ("storage.read:/data", "/data/../x", READ, false),
            ("storage.read:/data", "/data/..", READ, false),
            ("storage.read:/data", "/data/f", WRITE, false),
            ("storage.read:/data", "/data/f", READ | CREATE, false),
            ("storage.read:/data", "/data/f", READ | TRUNCATE, false),
            ("storage.create:/data", "/data/f", WRITE, false),
            ("storage.create:/data", "/data/f", READ, false),
            (
                "storage.create:/data",
                "/data/f",
                READ | WRITE | CREATE,
                true,
            ),
            ("storage.modify:/data", "/data/f", WRITE, true),
            ("storage.modify:/data", "/data/f", READ, false),
            ("storage.modify:/data", "/data/f", READ | WRITE, false),
            (
                "storage.modify:/data",
                "/data/f",
                READ | WRITE | CREATE | TRUNCATE,
                true,
            ),
            ("storage.modify:/data", "/data/f", READ | TRUNCATE, false),
            (
                "storage.modify:/data",
                "/data/f",
                READ | WRITE | OpenFlags::EXCLUSIVE,
                false,
            ),
            ("read:/data write:/data", "/data/f", READ | WRITE, true),
        ] {
            let verdict = admit(&session(claim), open(name, flags));
            assert_eq!(
                verdict.is_ok(),
                admitted,
                "{claim} {name} {flags}: {verdict:?}"
            );
        }
    }

    #[test]
    fn the_create_scope_opens_only_new_files() {
        let session = session("storage.create:/data");
        let (existing, opened) = admit(&session, open("/data/f", WRITE | CREATE)).unwrap();
        let expected = WRITE | CREATE | OpenFlags::EXCLUSIVE;
        assert_eq!(
            (existing, opened),
            (ExistingName::Kept, open("/data/f", expected))
        );
        let rename = Request::Rename(two("/data/a", "/data/b"));
        assert_eq!(admit(&session, rename).unwrap().0, ExistingName::Kept);
    }

    #[test]
    fn names_change_only_within_the_scopes() {
        let session = session("storage.read:/r storage.modify:/m storage.create:/c");
        let on = |name: &str| OnPath { path: path(name) };
        for (request, admitted) in [
            (Request::Unlink(on("/m/f")), true),
            (Request::Unlink(on("/c/f")), false),
            (Request::Unlink(on("/r/f")), false),
            (Request::Unlink(on("/m/../r/f")), false),
            (Request::Status(on("/c/f")), true),
            (Request::Status(on("/x")), false),
            (Request::Rename(two("/m/f", "/r/f")), false),
            (Request::Rename(two("/r/f", "/m/f")), false),
            (Request::MakeHardLink(two("/r/f", "/m/f")), false),
            (Request::MakeHardLink(two("/c/f", "/m/f")), false),
            (Request::MakeHardLink(two("/m/f", "/m/g")), true),
            (Request::MakeLink(two("../r/f", "/m/l")), false),
            (Request::MakeLink(two("/r/f", "/m/l")), false),
            (Request::MakeLink(two("a/b", "/m/l")), true),
            (
                Request::MakeDirectory(PathMode {
                    path: path("/c/d"),
                    mode: 0,
                }),
                true,
            ),
            (
                Request::MakeDirectory(PathMode {
                    path: path("/r/d"),
                    mode: 0,
                }),
                false,
            ),
            (
                Request::ChangeMode(PathMode {
                    path: path("/c/d"),
                    mode: 0,
                }),
                false,
            ),
        ] {
            let verdict = admit(&session, request.clone());
            assert_eq!(verdict.is_ok(), admitted, "{request:?}: {verdict:?}");
        }
    }

    #[test]
    fn a_read_only_handle_cannot_change_attributes() {
        let session = session("storage.read:/r storage.modify:/m");
        let times = |handle| {
            Request::SetTimes(SetTimes {
                handle: Handle(handle),
                accessed: 0,
                modified: 0,
            })
        };
        let writable = |handle: Handle| handle == Handle(2);
        assert!(session.admit(&mut times(1), writable).is_err());
        assert!(session.admit(&mut times(2), writable).is_ok());
    }

    #[test]
    fn an_expired_token_opens_no_files() {
        let mut session = session("storage.read:/");
        session.token.expires = 1;
        assert!(admit(&session, open("/f", READ)).is_err());
        let ping = Request::Ping(verbena_rfio_protocol::request::Ping {});
        assert!(admit(&session, ping).is_ok());
    }
}
