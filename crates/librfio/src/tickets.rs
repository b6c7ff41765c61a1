//! Tickets: issued by a server that authorizes users, redeemed at a server that transfers the data.

use std::ffi::{c_char, c_int};
use std::path::Path as File;
use std::time::Duration;

use verbena_rfio_auth::secrets::Secrets;
use verbena_rfio_auth::ticket::{Ticket, TicketGrant};
use verbena_rfio_client::{Error, Location};
use verbena_rfio_protocol::request::OpenFlags;
use verbena_rfio_protocol::types::Path;

use crate::core::file::OpenFile;
use crate::core::table;
use crate::ffi;

fn issue(secrets: &str, grant: TicketGrant<'_>) -> Result<String, Error> {
    let secrets = Secrets::load(File::new(secrets)).map_err(|bad| Error::Setup(bad.to_string()))?;
    let secret = secrets.of(grant.issuer).ok_or_else(|| {
        let issuer = grant.issuer;
        Error::Setup(format!("the file of secrets has no line {issuer}:SECRET"))
    })?;
    let ticket = Ticket::issue(secret, grant).map_err(|bad| Error::Setup(bad.to_string()))?;
    Ok(ticket.to_string())
}

fn access_of(flags: c_int) -> Result<u32, Error> {
    match flags {
        libc::O_RDONLY => Ok(OpenFlags::READ),
        libc::O_WRONLY => Ok(OpenFlags::WRITE),
        libc::O_RDWR => Ok(OpenFlags::READ | OpenFlags::WRITE),
        _ => Err(ffi::invalid("flags")),
    }
}

/// Issues a ticket.
///
/// # Safety
/// See the crate's safety contract.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rfio_issue_ticket(
    secrets: *const c_char,
    issuer: *const c_char,
    user: *const c_char,
    path: *const c_char,
    flags: c_int,
    seconds: c_int,
    ticket: *mut c_char,
    room: usize,
) -> c_int {
    let issued = || {
        // SAFETY: the crate's contract promises valid pointers.
        let texts = unsafe {
            (
                ffi::text(secrets)?,
                ffi::text(issuer)?,
                ffi::text(user)?,
                ffi::text(path)?,
            )
        };
        let (secrets, issuer, user, path) = texts;
        let seconds = u64::try_from(seconds).map_err(|_| ffi::invalid("seconds"))?;
        let grant = TicketGrant {
            issuer,
            user,
            path: Path::new(path).ok_or_else(|| ffi::invalid("path"))?,
            access: access_of(flags)?,
            life: Duration::from_secs(seconds),
        };
        let text = issue(secrets, grant)?;
        // SAFETY: the crate's contract promises valid pointers.
        let into = unsafe { ffi::buffer_mut(ticket.cast(), room) };
        let place = into.and_then(|into| into.get_mut(..=text.len()));
        let place = place.ok_or_else(|| ffi::invalid("room for the ticket"))?;
        place[..text.len()].copy_from_slice(text.as_bytes());
        place[text.len()] = 0;
        Ok(())
    };
    ffi::status(issued())
}

fn redeem(server: &str, ticket: &str) -> Result<c_int, Error> {
    let place = Location::parse(server).map_err(|bad| Error::Setup(bad.to_string()))?;
    let Location::Remote(address, _) = place else {
        return Err(ffi::invalid("server"));
    };
    let ticket = ticket
        .parse::<Ticket>()
        .map_err(|bad| Error::Setup(bad.to_string()))?;
    table::insert(OpenFile::redeem(&address, ticket, table::reading())?)
}

/// Opens the file of a ticket.
///
/// # Safety
/// See the crate's safety contract.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rfio_redeem_ticket(server: *const c_char, ticket: *const c_char) -> c_int {
    // SAFETY: the crate's contract promises valid pointers.
    let texts = unsafe { ffi::text(server).and_then(|server| Ok((server, ffi::text(ticket)?))) };
    let opened = texts.and_then(|(server, ticket)| redeem(server, ticket));
    ffi::number(opened.map(i64::from)) as c_int
}
