//! Checks of an existing file at the destination of a copy.

use verbena_rfio_protocol::request::OnPath;
use verbena_rfio_protocol::{Reply, Request};

use super::super::facts::FileFacts;
use super::super::failure::{CopyError, ErrorSubject, display_path, local_error};
use super::super::filter::ExistingFiles;
use super::super::settings::CopySettings;
use super::{local, remote};
use crate::address::Location;
use crate::error::Error;

/// Returns whether an existing file at the destination is left as it is.
///
/// # Errors
/// Returns the errors of examining the destination, except that it does not exist.
pub fn stays(
    to: &Location,
    source: &FileFacts,
    settings: &CopySettings,
) -> Result<bool, CopyError> {
    if settings.existing == ExistingFiles::Replace {
        return Ok(false);
    }
    let there = facts(to, settings)?;
    Ok(there.is_some_and(|there| settings.existing.stays(&there, source)))
}

/// Returns whether the destination does not exist.
///
/// # Errors
/// Returns the errors of examining the destination, except that it does not exist.
pub fn is_missing(to: &Location, settings: &CopySettings) -> Result<bool, CopyError> {
    facts(to, settings).map(|there| there.is_none())
}

fn facts(to: &Location, settings: &CopySettings) -> Result<Option<FileFacts>, CopyError> {
    match to {
        Location::Local(path) => match rustix::fs::lstat(path) {
            Ok(stat) => Ok(Some(local::item(b"", &stat).facts)),
            Err(rustix::io::Errno::NOENT) => Ok(None),
            Err(errno) => Err(local_error(errno.into())).about(display_path(path)),
        },
        Location::Remote(address, path) => {
            let name = || address.location(path);
            let session = settings.sessions.take(address, &settings.options);
            let session = session.about(name())?;
            let request = Request::LinkStatus(OnPath { path: path.clone() });
            match session.call(request) {
                Ok(Reply::LinkStatus(about)) => {
                    Ok(Some(remote::item(b"", &about.attributes).facts))
                }
                Ok(other) => Err(Error::unexpected(&other)).about(name()),
                Err(error) if error.errno() == Some(libc::ENOENT) => Ok(None),
                Err(error) => Err::<_, Error>(error).about(name()),
            }
        }
    }
}
