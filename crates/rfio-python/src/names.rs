//! Operations on paths.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use pyo3::prelude::*;
use verbena_rfio_client::Error;
use verbena_rfio_client::bounds::ListingBounds;
use verbena_rfio_protocol::request::{List, OnPath, PathMode, PathTimes, TwoPaths};
use verbena_rfio_protocol::types::Path;
use verbena_rfio_protocol::{Reply, Request};

use super::attributes::Attributes;
use super::connections::ask;
use super::failure::{ErrorContext, about_both, system};
use super::remote_path::RemotePath;

/// Maximum number of directory entries per request.
const PAGE: u32 = 4096;

/// Names in a directory, with their attributes.
type Entries = Vec<(OsString, Attributes)>;

/// Sends one request about a path.
fn on(py: Python<'_>, url: OsString, request: impl FnOnce(Path) -> Request) -> PyResult<Reply> {
    let place = RemotePath::new(url.clone()).about(&url)?;
    let request = request(place.path.clone());
    ask(py, &place, &request)?.about(&place.url)
}

/// Returns the request for a path's attributes.
pub fn status_of(path: Path, follow: bool) -> Request {
    match follow {
        true => Request::Status(OnPath { path }),
        false => Request::LinkStatus(OnPath { path }),
    }
}

/// Returns the attributes in a reply.
///
/// # Errors
/// EPROTO: the reply is another one.
pub fn attributes_of(reply: Reply) -> Result<Attributes, Error> {
    match reply {
        Reply::Status(about) | Reply::LinkStatus(about) => Ok(about.attributes.into()),
        _ => Err(system("reply", libc::EPROTO)),
    }
}

/// Returns the request for a directory's entries from a cookie on.
pub fn listing_of(path: Path, cookie: u64) -> Request {
    let count = PAGE;
    Request::List(List {
        path,
        cookie,
        count,
    })
}

/// Returns the entries in a reply and the next cookie, 0 at the end.
///
/// # Errors
/// The whole listing exceeds `bounds`; EPROTO: the reply is another one.
pub fn listed(reply: Reply, bounds: &mut ListingBounds) -> Result<(Entries, u64), Error> {
    let Reply::Listing(listing) = reply else {
        return Err(system("reply", libc::EPROTO));
    };
    bounds.take(&listing.entries, listing.cookie != 0)?;
    let entries = listing.entries.into_iter().map(|entry| {
        let name = OsStr::from_bytes(entry.name.as_bytes()).to_owned();
        (name, entry.attributes.into())
    });
    Ok((entries.collect(), listing.cookie))
}

/// Returns the attributes of a path; a final symbolic link is followed unless `follow` is false.
#[pyfunction]
#[pyo3(signature = (url, follow=true))]
pub fn examine(py: Python<'_>, url: OsString, follow: bool) -> PyResult<Attributes> {
    let reply = on(py, url.clone(), |path| status_of(path, follow))?;
    attributes_of(reply).about(&url)
}

/// Returns the text of a symbolic link.
#[pyfunction]
pub fn read_link(py: Python<'_>, url: OsString) -> PyResult<OsString> {
    match on(py, url.clone(), |path| Request::ReadLink(OnPath { path }))? {
        Reply::Target(target) => Ok(OsStr::from_bytes(target.path.as_bytes()).to_owned()),
        _ => Err(system("reply", libc::EPROTO)).about(&url),
    }
}

/// Makes a symbolic link with this text.
#[pyfunction]
pub fn make_link(py: Python<'_>, text: OsString, url: OsString) -> PyResult<()> {
    let from = Path::new(text.as_bytes())
        .ok_or_else(|| system("link's text", libc::EINVAL))
        .about(&url)?;
    on(py, url, |to| Request::MakeLink(TwoPaths { from, to })).map(drop)
}

/// Sets permission bits; a final symbolic link is followed.
#[pyfunction]
pub fn change_mode(py: Python<'_>, url: OsString, mode: u32) -> PyResult<()> {
    on(py, url, |path| Request::ChangeMode(PathMode { path, mode })).map(drop)
}

/// Sets the times of last access and change, in nanoseconds since 1970; a final symbolic link is
/// not followed.
#[pyfunction]
pub fn set_times(py: Python<'_>, url: OsString, accessed: i64, modified: i64) -> PyResult<()> {
    let times = |path| PathTimes {
        path,
        accessed,
        modified,
    };
    on(py, url, |path| Request::ChangeTimes(times(path))).map(drop)
}

/// The entries of a directory with their types, some thousands per request; links are not followed.
#[pyfunction]
pub fn entries(py: Python<'_>, url: OsString) -> PyResult<Entries> {
    let place = RemotePath::new(url.clone()).about(&url)?;
    let (mut found, mut cookie) = (Vec::new(), 0);
    let mut bounds = ListingBounds::default();
    loop {
        let request = listing_of(place.path.clone(), cookie);
        let reply = ask(py, &place, &request)?.about(&url)?;
        let (entries, next) = listed(reply, &mut bounds).about(&url)?;
        found.extend(entries);
        if next == 0 {
            return Ok(found);
        }
        cookie = next;
    }
}

/// Makes a directory.
#[pyfunction]
#[pyo3(signature = (url, mode=0o777))]
pub fn make_directory(py: Python<'_>, url: OsString, mode: u32) -> PyResult<()> {
    on(py, url, |path| {
        Request::MakeDirectory(PathMode { path, mode })
    })
    .map(drop)
}

/// Removes an empty directory.
#[pyfunction]
pub fn remove_directory(py: Python<'_>, url: OsString) -> PyResult<()> {
    on(py, url, |path| Request::RemoveDirectory(OnPath { path })).map(drop)
}

/// Removes a file.
#[pyfunction]
pub fn unlink(py: Python<'_>, url: OsString) -> PyResult<()> {
    on(py, url, |path| Request::Unlink(OnPath { path })).map(drop)
}

/// Renames on one server.
#[pyfunction]
pub fn rename(py: Python<'_>, old: OsString, new: OsString) -> PyResult<()> {
    let from = RemotePath::new(old.clone()).about(&old)?;
    let to = RemotePath::new(new.clone()).about(&new)?;
    let request = both(&from, to).map(Request::Rename);
    let done = match request {
        Ok(request) => ask(py, &from, &request)?.map(drop),
        Err(error) => Err(error),
    };
    done.map_err(|error| about_both(&error, &old, &new))
}

/// Returns two paths on one server.
///
/// # Errors
/// EXDEV: the servers differ.
pub fn both(from: &RemotePath, to: RemotePath) -> Result<TwoPaths, Error> {
    match from.address == to.address {
        true => Ok(TwoPaths {
            from: from.path.clone(),
            to: to.path,
        }),
        false => Err(system("rename", libc::EXDEV)),
    }
}
