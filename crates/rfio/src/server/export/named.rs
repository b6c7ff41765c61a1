//! One name in a directory, which is made, changed or removed.

use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use super::permit::denied;
use super::{Permit, Root};
use crate::server::rights::{Need, Operations};

/// A parent directory, open, and one name in it.
#[derive(Debug)]
pub struct Named {
    /// The parent.
    pub parent: OwnedFd,
    /// The name.
    pub name: OsString,
    /// The exported directory that it is in, if it was found by a path of a request.
    pub root: Option<Arc<Root>>,
    /// The real path, where rights are judged by it.
    pub(super) path: Option<Vec<u8>>,
}

impl Named {
    /// A name in a directory that no client has named.
    pub fn of(parent: OwnedFd, name: OsString) -> Self {
        Self {
            parent,
            name,
            root: None,
            path: None,
        }
    }

    /// Fails if what was done by this name is not where clients look for it.
    pub fn confirm(&self) -> io::Result<()> {
        match &self.root {
            Some(root) => root.must_be_at_its_path(),
            None => Ok(()),
        }
    }

    /// Fails unless what has this name may have another one as well, or instead.
    pub fn may_become(&self, to: &Self, permit: &Permit<'_>, takes: Takes) -> io::Result<()> {
        let (Some((rights, user)), Some(from), Some(to)) = (&permit.rights, &self.path, &to.path)
        else {
            return Ok(());
        };
        let is_same_directory = parent_of(from) == parent_of(to);
        let needs = match takes {
            Takes::Away if !is_same_directory => Operations::DELETE,
            // The data are the new name's as well.
            Takes::Shared => Operations::READ.and(Operations::WRITE),
            Takes::Away => Operations::WRITE,
        };
        match rights.allow(user, from, Need::All(needs)) && rights.may_move(user, from, to) {
            true => Ok(()),
            false => Err(denied()),
        }
    }
}

/// What becomes of the old name of something that gets a new one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Takes {
    /// It is gone.
    Away,
    /// It stays.
    Shared,
}

fn parent_of(path: &[u8]) -> &[u8] {
    let slash = path.iter().rposition(|&byte| byte == b'/');
    &path[..slash.unwrap_or(0)]
}
