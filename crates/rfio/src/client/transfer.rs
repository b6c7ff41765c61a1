//! Single reads and writes on a session: by RDMA where the session has a data path and they are worth it, else with the
//! request or the reply. Either way checked block by block.

use verbena_rfio_protocol::Reply;
use verbena_rfio_protocol::checksum::pieces;
use verbena_rfio_protocol::reply::ReadDone;
use verbena_rfio_protocol::request::{Read, ReadVector, Request, Write};
use verbena_rfio_protocol::types::{Handle, Range, Window};

use super::data::DataPath;
use super::error::Error;
use super::options::Checksums;
use super::session::{Session, unexpected};
use crate::checksum;

/// Smallest transfer for which a window is opened: below, the data go with the frame that goes anyway.
pub(super) const WORTH_A_WINDOW: usize = 16 << 10;

/// A read that is under way.
#[derive(Debug, Clone, Copy)]
#[must_use]
pub struct Ticket {
    request: u64,
    /// Where in the file.
    pub offset: u64,
    /// Bytes that were asked for.
    pub length: u32,
    part: usize,
    has_window: bool,
}

/// The checksums of data at an offset, one per block.
pub fn checksums_of(offset: u64, data: &[u8], block: u32) -> Vec<u32> {
    pieces(offset, data.len() as u64, block)
        .map(|(start, piece)| {
            checksum::crc32c(&data[start as usize..start as usize + piece as usize])
        })
        .collect()
}

/// Compares data with the checksums that came with them.
pub fn check(offset: u64, data: &[u8], expected: &[u32], block: u32) -> Result<(), Error> {
    let found = checksums_of(offset, data, block);
    if found.len() != expected.len() {
        return Err(Error::Protocol(format!(
            "{} checksums for {} blocks",
            expected.len(),
            found.len()
        )));
    }
    for ((start, _), (&expected, &found)) in
        pieces(offset, data.len() as u64, block).zip(expected.iter().zip(&found))
    {
        if expected != found {
            return Err(Error::Damaged {
                offset: offset + start,
                expected,
                found,
            });
        }
    }
    Ok(())
}

fn landing(session: &mut Session, part: usize, length: usize) -> Result<Option<Window>, Error> {
    if length < WORTH_A_WINDOW {
        return Ok(None);
    }
    let checksums = session.checksums();
    let Some(data) = session.data_path()? else {
        return Ok(None);
    };
    if checksums == Checksums::Off {
        data.expect_notice()?;
    }
    data.open_landing(part, length).map(Some)
}

/// Puts a read on its way. No two that are under way may have the same part of the landing area.
pub fn send_read(
    session: &mut Session,
    handle: Handle,
    offset: u64,
    length: u32,
    part: usize,
) -> Result<Ticket, Error> {
    let window = landing(session, part, length as usize)?;
    let has_window = window.is_some();
    let checksums = session.checksums() == Checksums::On;
    let range = Range { offset, length };
    let request = session.send(
        &Request::Read(Read {
            handle,
            range,
            checksums,
            window,
        }),
        &[],
    )?;
    Ok(Ticket {
        request,
        offset,
        length,
        part,
        has_window,
    })
}

/// Where the data of a reply are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// At the front of the buffer that was given.
    Given,
    /// In this part of the landing area, which nobody else reaches any more.
    Landing(usize),
}

/// Takes the reply to a read. Its data are not checked yet: [`settle`] or [`content`] does that.
pub fn take_read(
    session: &mut Session,
    ticket: Ticket,
    bytes: &mut [u8],
) -> Result<(ReadDone, Place), Error> {
    let asked = ticket.length as usize;
    let received = session.receive(&mut bytes[..asked]);
    let part = ticket.has_window.then_some(ticket.part);
    let (reply, streamed) = over(session, part, received)?;
    let Reply::ReadDone(done) = reply else {
        return Err(unexpected(&reply));
    };
    let length = done.length as usize;
    if length > asked || (length == 0 && !done.end && asked > 0) {
        return Err(Error::Protocol(format!(
            "{length} bytes were read where {asked} were asked for"
        )));
    }
    let place = land(session, ticket.request, part, streamed, length)?;
    Ok((done, place))
}

/// Brings the data of a read to the front of `bytes` and checks them there.
pub fn settle(
    session: &mut Session,
    offset: u64,
    done: &ReadDone,
    place: Place,
    bytes: &mut [u8],
) -> Result<(), Error> {
    let bytes = &mut bytes[..done.length as usize];
    let verdict = verdict(session, offset, done);
    match place {
        Place::Given => verdict(bytes),
        Place::Landing(part) => landing_area(session)?.copy_out(part, bytes, verdict),
    }
}

/// The data of a read where they came, checked; `aside` is where they came with the reply, or room for them.
pub fn content<'a>(
    session: &'a mut Session,
    offset: u64,
    done: &ReadDone,
    place: Place,
    aside: &'a mut [u8],
) -> Result<&'a [u8], Error> {
    let length = done.length as usize;
    let verdict = verdict(session, offset, done);
    match place {
        Place::Given => verdict(&aside[..length]).map(|()| &aside[..length]),
        Place::Landing(part) => landing_area(session)?.content(part, length, aside, verdict),
    }
}

/// Whether data are those of a reply, as far as the session checks that.
fn verdict<'a>(
    session: &Session,
    offset: u64,
    done: &'a ReadDone,
) -> impl Fn(&[u8]) -> Result<(), Error> + use<'a> {
    let (checksums, block) = (session.checksums(), session.terms().block);
    move |data| match checksums {
        Checksums::On => check(offset, data, &done.checksums, block),
        Checksums::Off => Ok(()),
    }
}

fn landing_area(session: &mut Session) -> Result<&mut DataPath, Error> {
    session
        .data_path()?
        .ok_or_else(|| Error::Fabric("the data path is gone".into()))
}

/// A request that was refused, or whose data came with the reply, needs its window no more.
fn over(
    session: &mut Session,
    part: Option<usize>,
    received: Result<(Reply, usize), Error>,
) -> Result<(Reply, usize), Error> {
    let needless = !matches!(received, Ok((_, 0)));
    if let (true, Some(part), false) = (needless, part, session.is_broken())
        && let Some(data) = session.data_path()?
    {
        data.close_landing(part)?;
    }
    received
}

/// Completes what a reply announced: either it all came with the reply, or it is in the landing area.
fn land(
    session: &mut Session,
    request: u64,
    part: Option<usize>,
    streamed: usize,
    length: usize,
) -> Result<Place, Error> {
    let checksums = session.checksums();
    let Some(data) = session.data_path()? else {
        return match streamed == length {
            true => Ok(Place::Given),
            false => Err(incomplete(streamed, length)),
        };
    };
    match (streamed, part) {
        (streamed, part) if streamed == length => {
            // An empty answer used no window.
            if let Some(part) = part {
                data.close_landing(part)?;
            }
            Ok(Place::Given)
        }
        (0, Some(part)) => {
            // With checksums there is no notice: they say whether the data are there.
            if checksums == Checksums::Off {
                data.landed(request)?;
            }
            data.close_landing(part)?;
            Ok(Place::Landing(part))
        }
        (streamed, _) => Err(incomplete(streamed, length)),
    }
}

fn incomplete(streamed: usize, length: usize) -> Error {
    Error::Protocol(format!("{streamed} bytes came, {length} were announced"))
}

/// A write that is under way.
#[derive(Debug, Clone, Copy)]
#[must_use]
pub struct WriteTicket {
    /// The part of the offering area that it lends.
    part: Option<usize>,
}

/// Puts a write on its way. No two that are under way may have the same part of the offering area.
pub fn send_write(
    session: &mut Session,
    handle: Handle,
    offset: u64,
    bytes: &[u8],
    part: usize,
) -> Result<WriteTicket, Error> {
    let checksums = match session.checksums() {
        Checksums::On => checksums_of(offset, bytes, session.terms().block),
        Checksums::Off => Vec::new(),
    };
    let window = match bytes.len() {
        ..WORTH_A_WINDOW => None,
        _ => session
            .data_path()?
            .map(|data| data.offer(part, bytes))
            .transpose()?,
    };
    let ticket = WriteTicket {
        part: window.is_some().then_some(part),
    };
    let data = if window.is_some() { &[] } else { bytes };
    let range = Range {
        offset,
        length: bytes.len() as u32,
    };
    session.send(
        &Request::Write(Write {
            handle,
            range,
            checksums,
            window,
        }),
        data,
    )?;
    Ok(ticket)
}

/// Takes the reply to a write.
pub fn take_written(session: &mut Session, ticket: WriteTicket) -> Result<(), Error> {
    let received = session.receive(&mut []);
    if let (Some(part), false) = (ticket.part, session.is_broken())
        && let Some(data) = session.data_path()?
    {
        data.close_offering(part)?;
    }
    match received?.0 {
        Reply::Written(_) => Ok(()),
        other => Err(unexpected(&other)),
    }
}

/// Reads a vector with one request: the data, packed in the order of the ranges, replace what is in `packed`, and their
/// lengths come back. Nothing else may be under way.
pub fn read_vector(
    session: &mut Session,
    handle: Handle,
    ranges: &[Range],
    packed: &mut Vec<u8>,
) -> Result<Vec<u32>, Error> {
    let checksums = session.checksums() == Checksums::On;
    let asked: usize = ranges.iter().map(|range| range.length as usize).sum();
    let window = landing(session, 0, asked)?;
    let part = window.is_some().then_some(0);
    // Grown without zeroing what a later vector reuses.
    packed.resize(asked, 0);
    let request = session.send(
        &Request::ReadVector(ReadVector {
            handle,
            ranges: ranges.to_vec(),
            checksums,
            window,
        }),
        &[],
    )?;
    let received = session.receive(packed);
    let (reply, streamed) = over(session, part, received)?;
    let Reply::ReadVectorDone(done) = reply else {
        return Err(unexpected(&reply));
    };
    let fits = done.lengths.len() == ranges.len()
        && done
            .lengths
            .iter()
            .zip(ranges)
            .all(|(&length, range)| length <= range.length);
    if !fits || (checksums && done.checksums.len() != ranges.len()) {
        return Err(Error::Protocol(
            "the lengths of a vector do not fit the request".into(),
        ));
    }
    let length = done.lengths.iter().map(|&length| length as usize).sum();
    let verdict = |packed: &[u8]| match checksums {
        true => check_ranges(ranges, &done.lengths, &done.checksums, packed),
        false => Ok(()),
    };
    match land(session, request, part, streamed, length)? {
        Place::Given => verdict(&packed[..length])?,
        Place::Landing(part) => {
            landing_area(session)?.copy_out(part, &mut packed[..length], verdict)?;
        }
    }
    packed.truncate(length);
    Ok(done.lengths)
}

pub(super) fn check_ranges(
    ranges: &[Range],
    lengths: &[u32],
    checksums: &[u32],
    packed: &[u8],
) -> Result<(), Error> {
    let mut rest = packed;
    for ((range, &length), &expected) in ranges.iter().zip(lengths).zip(checksums) {
        let (now, later) = rest.split_at(length as usize);
        let found = checksum::crc32c(now);
        if expected != found {
            return Err(Error::Damaged {
                offset: range.offset,
                expected,
                found,
            });
        }
        rest = later;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_damaged_block_is_named_by_its_place_in_the_file() {
        let mut data = vec![5u8; 40];
        let checksums = checksums_of(100, &data, 16);
        assert!(check(100, &data, &checksums, 16).is_ok());
        data[20] ^= 1;
        let error = check(100, &data, &checksums, 16).unwrap_err();
        assert!(
            matches!(error, Error::Damaged { offset: 112, .. }),
            "{error}"
        );
        assert!(matches!(
            check(100, &data, &checksums[1..], 16),
            Err(Error::Protocol(_))
        ));
    }
}
