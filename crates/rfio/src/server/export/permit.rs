//! What a request may do by path.

use std::io;
use std::sync::Arc;

use rustix::io::Errno;
use verbena_rfio_protocol::types::Path;

use super::told;
use crate::server::rights::{Need, Rights, Subject, components};

/// The refusal of what no right covers.
pub(super) fn denied() -> io::Error {
    told(Errno::ACCESS, "this user has no right to do that here")
}

/// What a request may do by path: all that the kernel allows, or what the rights of its user cover.
#[derive(Debug)]
pub struct Permit<'a> {
    pub(super) rights: Option<(Arc<Rights>, &'a Subject)>,
    need: Need,
}

impl<'a> Permit<'a> {
    /// A request of a user who needs this.
    pub fn new(rights: Option<Arc<Rights>>, user: &'a Subject, need: Need) -> Self {
        let rights = rights.map(|rights| (rights, user));
        Self { rights, need }
    }

    /// Everything.
    pub const FREE: Permit<'static> = Permit {
        rights: None,
        need: Need::Look,
    };

    /// Fails unless the rights cover what has this real path.
    pub fn check(&self, path: &[u8]) -> io::Result<()> {
        match &self.rights {
            Some((rights, user)) if !rights.allow(user, path, self.need) => Err(denied()),
            _ => Ok(()),
        }
    }

    /// The result, where a failure tells nothing of what the user may not look at.
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

/// The path as it is written, without `..`.
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
