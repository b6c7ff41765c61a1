//! What has the name of a single file's copy already.

use verbena_rfio_protocol::request::OnPath;
use verbena_rfio_protocol::{Reply, Request};

use super::super::Manner;
use super::super::choice::Existing;
use super::super::failure::{About, CopyError, here};
use super::super::pipeline::Facts;
use super::{local, remote};
use crate::client::address::Location;
use crate::client::error::Error;
use crate::client::session::{Session, unexpected};

/// Whether what has the destination's name stays as it is.
pub fn stays(to: &Location, source: &Facts, manner: &Manner) -> Result<bool, CopyError> {
    if manner.existing == Existing::Replace {
        return Ok(false);
    }
    let there = match to {
        Location::Local(path) => match rustix::fs::lstat(path) {
            Ok(stat) => Some(local::item(b"", &stat).facts),
            Err(rustix::io::Errno::NOENT) => None,
            Err(errno) => return Err(here(errno.into())).about(path.display()),
        },
        Location::Remote(address, path) => {
            let name = || format!("{address}{path}");
            let mut session = Session::connect(address, &manner.options).about(name())?;
            let request = Request::LinkStatus(OnPath { path: path.clone() });
            match session.call(&request) {
                Ok(Reply::LinkStatus(about)) => Some(remote::item(b"", &about.attributes).facts),
                Ok(other) => return Err(unexpected(&other)).about(name()),
                Err(error) if error.errno() == Some(libc::ENOENT) => None,
                Err(error) => return Err::<_, Error>(error).about(name()),
            }
        }
    };
    Ok(there.is_some_and(|there| manner.existing.stays(&there, source)))
}
