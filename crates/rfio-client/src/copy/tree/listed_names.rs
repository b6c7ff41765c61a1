//! Validation of the names in one directory as a server lists them: each is valid and unique, and
//! their number is bounded.

use std::collections::HashSet;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;

use verbena_rfio_protocol::shown;

use super::super::directory::is_plain_name;
use crate::bounds::{MOST_INVALID, NAME, NAMES};
use crate::error::Error;

/// The names accepted so far. For each, only two hashes are kept; the server does not know their
/// keys.
#[derive(Default)]
pub struct ListedNames {
    hashers: (RandomState, RandomState),
    seen: HashSet<(u64, u64)>,
    unsound: usize,
}

impl ListedNames {
    /// Accepts a name.
    ///
    /// # Errors
    /// Returns a protocol error for a name that leads elsewhere, is too long, or was listed before:
    /// an attack or a bug.
    pub fn take(&mut self, name: &[u8]) -> Result<(), Error> {
        let hashes = (self.hashers.0.hash_one(name), self.hashers.1.hash_one(name));
        let what = if !is_plain_name(name) {
            "an invalid name"
        } else if name.len() > NAME {
            "too long a name"
        } else if !self.seen.insert(hashes) {
            "a name twice"
        } else {
            return Ok(());
        };
        self.unsound += 1;
        let name = shown::bytes(&name[..name.len().min(NAME)]);
        Err(Error::Protocol(format!("it lists {what}: '{name}'")))
    }

    /// Checks that the rest of the directory is worth listing.
    ///
    /// # Errors
    /// Returns [`Error::TooMuch`] after too many invalid names.
    pub fn may_go_on(&self) -> Result<(), Error> {
        match self.unsound < MOST_INVALID {
            true => Ok(()),
            false => Err(Error::TooMuch(format!(
                "{MOST_INVALID} invalid names; the rest of the directory is not copied"
            ))),
        }
    }

    /// Checks the number of names.
    ///
    /// # Errors
    /// Returns [`Error::TooMuch`] if there are too many.
    pub fn are_few(&self) -> Result<(), Error> {
        match self.seen.len() <= NAMES {
            true => Ok(()),
            false => Err(Error::TooMuch(format!(
                "more than {NAMES} names in one directory; the rest of it is not copied"
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_make_no_sense_are_refused_and_counted() {
        let mut names = ListedNames::default();
        assert!(names.take(b"a").is_ok() && names.take(b"b").is_ok());
        let long = [b'x'; NAME + 1];
        let bad: [&[u8]; 7] = [b"a", b"", b".", b"..", b"a/b", b"a\0b", &long];
        for name in bad {
            assert!(names.take(name).is_err(), "{name:?}");
        }
        assert!(names.may_go_on().is_ok() && names.are_few().is_ok());
        for _ in 0..MOST_INVALID {
            assert!(names.take(b"a").is_err());
        }
        assert!(names.may_go_on().is_err());
    }
}
