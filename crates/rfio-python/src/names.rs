//! What is done by name.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use pyo3::prelude::*;
use verbena_rfio::client::bounds::ListingBounds;
use verbena_rfio_protocol::request::{List, OnPath, PathMode, PathTimes, TwoPaths};
use verbena_rfio_protocol::types::Path;
use verbena_rfio_protocol::{IN_ORDER, REPLACE, Reply, Request};

use super::attributes::Attributes;
use super::connections::{ask, to};
use super::failure::{About, about_both, system};
use super::place::Place;

/// Entries of a directory that one request asks for.
const PAGE: u32 = 4096;

/// Asks for one thing about a path.
fn on(py: Python<'_>, url: OsString, request: impl FnOnce(Path) -> Request) -> PyResult<Reply> {
    let place = Place::new(url.clone()).about(&url)?;
    let request = request(place.path.clone());
    ask(py, &place, &request)?.about(&place.url)
}

/// Returns the attributes of a path; a final symbolic link is followed unless `follow` is false.
#[pyfunction]
#[pyo3(signature = (url, follow=true))]
pub fn examine(py: Python<'_>, url: OsString, follow: bool) -> PyResult<Attributes> {
    let request = |path| match follow {
        true => Request::Status(OnPath { path }),
        false => Request::LinkStatus(OnPath { path }),
    };
    match on(py, url.clone(), request)? {
        Reply::Status(about) | Reply::LinkStatus(about) => Ok(about.attributes.into()),
        _ => Err(system("reply", libc::EPROTO)).about(&url),
    }
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

/// The names in a directory and what they are, with one request for some thousands of them; links are not followed.
#[pyfunction]
pub fn entries(py: Python<'_>, url: OsString) -> PyResult<Vec<(OsString, Attributes)>> {
    let place = Place::new(url.clone()).about(&url)?;
    let (mut found, mut cookie) = (Vec::new(), 0);
    let mut bounds = ListingBounds::default();
    loop {
        let request = Request::List(List {
            path: place.path.clone(),
            cookie,
            count: PAGE,
        });
        let Reply::Listing(listing) = ask(py, &place, &request)?.about(&url)? else {
            return Err(system("reply", libc::EPROTO)).about(&url);
        };
        let taken = bounds.take(&listing.entries, listing.cookie != 0);
        taken.about(&url)?;
        found.extend(listing.entries.into_iter().map(|entry| {
            let name = OsStr::from_bytes(entry.name.as_bytes()).to_owned();
            (name, entry.attributes.into())
        }));
        if listing.cookie == 0 {
            return Ok(found);
        }
        cookie = listing.cookie;
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

/// Sends a request about two paths of one server. EOPNOTSUPP: its protocol version is below
/// `version`.
fn on_both(
    py: Python<'_>,
    (old, new): (OsString, OsString),
    version: u16,
    request: impl FnOnce(TwoPaths) -> Request,
) -> PyResult<()> {
    let from = Place::new(old.clone()).about(&old)?;
    let there = Place::new(new.clone()).about(&new)?;
    let fails = |error| Err(about_both(&error, &old, &new));
    if from.address != there.address {
        return fails(system("rename", libc::EXDEV));
    }
    if to(py, &from)?.version() < version {
        return fails(system("older server", libc::EOPNOTSUPP));
    }
    let request = request(TwoPaths {
        from: from.path.clone(),
        to: there.path,
    });
    ask(py, &from, &request)?.map(drop).or_else(fails)
}

/// Renames on one server.
#[pyfunction]
pub fn rename(py: Python<'_>, old: OsString, new: OsString) -> PyResult<()> {
    on_both(py, (old, new), IN_ORDER, Request::Rename)
}

/// Renames onto a file, of which owner, permissions, ACL and user attributes are kept. EOPNOTSUPP:
/// the server is too old.
#[pyfunction]
pub fn replace(py: Python<'_>, old: OsString, new: OsString) -> PyResult<()> {
    on_both(py, (old, new), REPLACE, Request::Replace)
}

/// Gives a file a second name, which must be free.
#[pyfunction]
pub fn make_hard_link(py: Python<'_>, old: OsString, new: OsString) -> PyResult<()> {
    on_both(py, (old, new), IN_ORDER, Request::MakeHardLink)
}
