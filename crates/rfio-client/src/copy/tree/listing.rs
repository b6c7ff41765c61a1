//! Listings of a server's directories.

use verbena_rfio_protocol::reply::Listing;
use verbena_rfio_protocol::request::List;
use verbena_rfio_protocol::types::{Entry, Path};
use verbena_rfio_protocol::{Reply, Request};

use crate::bounds::{self, ListingBounds};
use crate::error::Error;

/// Lists a directory of a server through `call`.
///
/// # Errors
/// Returns the errors of `call`, and an error if the reply is unexpected or exceeds the client's
/// bounds.
pub fn list(
    mut call: impl FnMut(Request) -> Result<Reply, Error>,
    path: &Path,
) -> Result<Vec<Entry>, Error> {
    let (mut entries, mut cookie) = (Vec::new(), 0);
    let mut bounds = ListingBounds::default();
    loop {
        let mut page = page_of(call(list_request(path, cookie))?)?;
        bounds.take(&page.entries, page.cookie != 0)?;
        entries.append(&mut page.entries);
        if page.cookie == 0 {
            return Ok(entries);
        }
        cookie = page.cookie;
    }
}

/// Builds the request for the part of a directory that begins at a cookie.
pub(super) fn list_request(path: &Path, cookie: u64) -> Request {
    Request::List(List {
        path: path.clone(),
        cookie,
        count: 4096,
    })
}

/// Returns the part of a directory in a reply.
pub(super) fn page_of(reply: Reply) -> Result<Listing, Error> {
    match reply {
        Reply::Listing(listing) => {
            bounds::page_ends(listing.entries.len(), listing.cookie != 0)?;
            Ok(listing)
        }
        other => Err(Error::unexpected(&other)),
    }
}
