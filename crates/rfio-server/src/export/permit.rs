//! The rights of a request by path.

use std::io;
use std::sync::Arc;

use rustix::io::Errno;
use verbena_rfio_protocol::types::Path;

use super::with_message;
use crate::rights::{Need, Rights, Subject, components};

/// Returns the error for a lack of rights.
pub(super) fn denied() -> io::Error {
    with_message(Errno::ACCESS, "this user has no right to do this here")
}

/// The permit of a request by path: unlimited, or limited to the rights of its user.
#[derive(Debug)]
pub struct Permit<'a> {
    pub(super) rights: Option<(Arc<Rights>, &'a Subject)>,
    need: Need,
}

impl<'a> Permit<'a> {
    /// Returns the permit of a user's request that needs these rights.
    pub fn new(rights: Option<Arc<Rights>>, user: &'a Subject, need: Need) -> Self {
        let rights = rights.map(|rights| (rights, user));
        Self { rights, need }
    }

    /// An unlimited permit.
    pub const FREE: Permit<'static> = Permit {
        rights: None,
        need: Need::Look,
    };

    /// Checks that the rights cover a real path.
    ///
    /// # Errors
    /// EACCES if they do not.
    pub fn check(&self, path: &[u8]) -> io::Result<()> {
        match &self.rights {
            Some((rights, user)) if !rights.allow(user, path, self.need) => Err(denied()),
            _ => Ok(()),
        }
    }

    /// Returns the result, but replaces an error that would reveal something about a path that the
    /// user may not access.
    pub(super) fn conceal<T>(&self, path: &Path, result: io::Result<T>) -> io::Result<T> {
        match (&self.rights, result) {
            (Some(_), Err(error)) => {
                self.check(&lexical(path))?;
                Err(error)
            }
            (_, result) => result,
        }
    }
}

/// Resolves `..` in the path textually.
fn lexical(path: &Path) -> Vec<u8> {
    let mut parts: Vec<&[u8]> = Vec::new();
    for part in components(path.as_bytes()) {
        match part {
            b".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    parts.join(&b'/')
}
