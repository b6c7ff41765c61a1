//! Checks of an existing file at the destination of a copy.

use verbena_rfio_protocol::request::OnPath;
use verbena_rfio_protocol::{Reply, Request};

use super::super::Manner;
use super::super::choice::Existing;
use super::super::failure::{About, CopyError, here, shown_path};
use super::super::pipeline::Facts;
use super::{local, remote};
use crate::address::Location;
use crate::error::Error;
use crate::session::unexpected;

/// Returns whether an existing file at the destination is left as it is.
///
/// # Errors
/// Returns the errors of examining the destination, except that it does not exist.
pub fn stays(to: &Location, source: &Facts, manner: &Manner) -> Result<bool, CopyError> {
    if manner.existing == Existing::Replace {
        return Ok(false);
    }
    let there = facts(to, manner)?;
    Ok(there.is_some_and(|there| manner.existing.stays(&there, source)))
}

/// Returns whether the destination does not exist.
///
/// # Errors
/// Returns the errors of examining the destination, except that it does not exist.
pub fn is_free(to: &Location, manner: &Manner) -> Result<bool, CopyError> {
    facts(to, manner).map(|there| there.is_none())
}

fn facts(to: &Location, manner: &Manner) -> Result<Option<Facts>, CopyError> {
    match to {
        Location::Local(path) => match rustix::fs::lstat(path) {
            Ok(stat) => Ok(Some(local::item(b"", &stat).facts)),
            Err(rustix::io::Errno::NOENT) => Ok(None),
            Err(errno) => Err(here(errno.into())).about(shown_path(path)),
        },
        Location::Remote(address, path) => {
            let name = || format!("{address}{path}");
            let session = manner.sessions.take(address, &manner.options);
            let session = session.about(name())?;
            let request = Request::LinkStatus(OnPath { path: path.clone() });
            match session.call(request) {
                Ok(Reply::LinkStatus(about)) => {
                    Ok(Some(remote::item(b"", &about.attributes).facts))
                }
                Ok(other) => Err(unexpected(&other)).about(name()),
                Err(error) if error.errno() == Some(libc::ENOENT) => Ok(None),
                Err(error) => Err::<_, Error>(error).about(name()),
            }
        }
    }
}
