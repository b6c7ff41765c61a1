//! What is done by name.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use pyo3::prelude::*;
use verbena_rfio_protocol::request::{List, OnPath, PathMode, TwoPaths};
use verbena_rfio_protocol::types::Path;
use verbena_rfio_protocol::{Reply, Request};

use super::attributes::Attributes;
use super::connections::ask;
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

/// What a path is; links are followed.
#[pyfunction]
pub fn examine(py: Python<'_>, url: OsString) -> PyResult<Attributes> {
    match on(py, url.clone(), |path| Request::Status(OnPath { path }))? {
        Reply::Status(about) => Ok(about.attributes.into()),
        _ => Err(system("reply", libc::EPROTO)).about(&url),
    }
}

/// The names in a directory and what they are, with one request for some thousands of them; links are not followed.
#[pyfunction]
pub fn entries(py: Python<'_>, url: OsString) -> PyResult<Vec<(OsString, Attributes)>> {
    let place = Place::new(url.clone()).about(&url)?;
    let (mut found, mut cookie) = (Vec::new(), 0);
    loop {
        let request = Request::List(List {
            path: place.path.clone(),
            cookie,
            count: PAGE,
        });
        let Reply::Listing(listing) = ask(py, &place, &request)?.about(&url)? else {
            return Err(system("reply", libc::EPROTO)).about(&url);
        };
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

/// Renames on one server.
#[pyfunction]
pub fn rename(py: Python<'_>, old: OsString, new: OsString) -> PyResult<()> {
    let from = Place::new(old.clone()).about(&old)?;
    let to = Place::new(new.clone()).about(&new)?;
    if from.address != to.address {
        return Err(about_both(&system("rename", libc::EXDEV), &old, &new));
    }
    let request = Request::Rename(TwoPaths {
        from: from.path.clone(),
        to: to.path,
    });
    let renamed = ask(py, &from, &request)?;
    renamed
        .map(drop)
        .map_err(|error| about_both(&error, &old, &new))
}
