//! A name in a directory, to be created, changed or removed.

use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use super::permit::denied;
use super::{Permit, Root};
use crate::rights::{Need, Operations};

/// An open parent directory, and a name in it.
#[derive(Debug)]
pub struct DirectoryEntry {
    /// The parent.
    pub parent: OwnedFd,
    /// The name.
    pub name: OsString,
    /// The exported directory that contains it, if it was found by a requested path.
    pub root: Option<Arc<Root>>,
    /// The real path, if rights are checked.
    pub(super) path: Option<Vec<u8>>,
}

impl DirectoryEntry {
    /// Returns a name in a directory that was not found by a requested path.
    pub fn of(parent: OwnedFd, name: OsString) -> Self {
        Self {
            parent,
            name,
            root: None,
            path: None,
        }
    }

    /// Checks that a change by this name is where clients look for it.
    ///
    /// # Errors
    /// ESTALE if it is not.
    pub fn confirm(&self) -> io::Result<()> {
        match &self.root {
            Some(root) => root.must_be_at_its_path(),
            None => Ok(()),
        }
    }

    /// Checks that the file may get another name, in addition or instead.
    ///
    /// # Errors
    /// EACCES if the user's rights do not permit it.
    pub fn may_become(&self, to: &Self, permit: &Permit<'_>, takes: NameChange) -> io::Result<()> {
        let (Some((rights, user)), Some(from), Some(to)) = (&permit.rights, &self.path, &to.path)
        else {
            return Ok(());
        };
        let is_same_directory = parent_of(from) == parent_of(to);
        let needs = match takes {
            NameChange::Away if !is_same_directory => Operations::DELETE,
            // The new name gives access to the data as well.
            NameChange::Shared => Operations::READ.and(Operations::WRITE),
            NameChange::Away => Operations::WRITE,
        };
        match rights.allow(user, from, Need::All(needs)) && rights.may_move(user, from, to) {
            true => Ok(()),
            false => Err(denied()),
        }
    }
}

/// Effect of a new name on the old one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NameChange {
    /// The old name is removed.
    Away,
    /// The old name stays.
    Shared,
}

fn parent_of(path: &[u8]) -> &[u8] {
    let slash = path.iter().rposition(|&byte| byte == b'/');
    &path[..slash.unwrap_or(0)]
}
