//! Single reads and writes on a session: by RDMA where the session has a data path and they are worth it, else with the
//! request or the reply. Either way checked block by block.

use verbena_rfio_protocol::Reply;
use verbena_rfio_protocol::checksum::pieces;
use verbena_rfio_protocol::reply::ReadDone;
use verbena_rfio_protocol::request::{Read, ReadVector, Request, Write};
use verbena_rfio_protocol::types::{Handle, Range, Window};

use super::error::Error;
use super::options::Checksums;
use super::session::{Session, unexpected};

/// Smallest transfer for which a window is opened: below, the data go with the frame that goes anyway.
const WORTH_A_WINDOW: usize = 16 << 10;

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
            crc32c::crc32c(&data[start as usize..start as usize + piece as usize])
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
    session
        .data_path()?
        .map(|data| data.open_landing(part, length))
        .transpose()
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

/// Takes the reply to a read, its data to the front of `bytes`, and checks them.
pub fn take_read(
    session: &mut Session,
    ticket: Ticket,
    bytes: &mut [u8],
) -> Result<ReadDone, Error> {
    let asked = ticket.length as usize;
    let (reply, streamed) = session.receive(&mut bytes[..asked])?;
    let Reply::ReadDone(done) = reply else {
        return Err(unexpected(&reply));
    };
    let length = done.length as usize;
    if length > asked || (length == 0 && !done.end && asked > 0) {
        return Err(Error::Protocol(format!(
            "{length} bytes were read where {asked} were asked for"
        )));
    }
    land(
        session,
        ticket.request,
        ticket.has_window.then_some(ticket.part),
        streamed,
        &mut bytes[..length],
    )?;
    if session.checksums() == Checksums::On {
        check(
            ticket.offset,
            &bytes[..length],
            &done.checksums,
            session.terms().block,
        )?;
    }
    Ok(done)
}

/// Completes what a reply announced: either it all came with the reply, or it is in the landing area.
fn land(
    session: &mut Session,
    request: u64,
    part: Option<usize>,
    streamed: usize,
    bytes: &mut [u8],
) -> Result<(), Error> {
    match (streamed, part) {
        (streamed, _) if streamed == bytes.len() => Ok(()),
        (0, Some(part)) => match session.data_path()? {
            Some(data) => data.landed(request, part, bytes),
            None => Err(Error::Fabric("the data path is gone".into())),
        },
        (streamed, _) => Err(Error::Protocol(format!(
            "{streamed} bytes came, {} were announced",
            bytes.len()
        ))),
    }
}

/// Puts a write on its way. No two that are under way may have the same part of the offering area.
pub fn send_write(
    session: &mut Session,
    handle: Handle,
    offset: u64,
    bytes: &[u8],
    part: usize,
) -> Result<(), Error> {
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
    let data = if window.is_some() { &[] } else { bytes };
    let range = Range {
        offset,
        length: bytes.len() as u32,
    };
    session
        .send(
            &Request::Write(Write {
                handle,
                range,
                checksums,
                window,
            }),
            data,
        )
        .map(|_| ())
}

/// Takes the reply to a write.
pub fn take_written(session: &mut Session) -> Result<(), Error> {
    match session.receive(&mut [])? {
        (Reply::Written(_), _) => Ok(()),
        (other, _) => Err(unexpected(&other)),
    }
}

/// Reads a vector with one request. Nothing else may be under way.
pub fn read_vector(
    session: &mut Session,
    handle: Handle,
    ranges: &[Range],
) -> Result<Vec<Vec<u8>>, Error> {
    let checksums = session.checksums() == Checksums::On;
    let asked: usize = ranges.iter().map(|range| range.length as usize).sum();
    let window = landing(session, 0, asked)?;
    let part = window.is_some().then_some(0);
    let mut data = vec![0; asked];
    let request = session.send(
        &Request::ReadVector(ReadVector {
            handle,
            ranges: ranges.to_vec(),
            checksums,
            window,
        }),
        &[],
    )?;
    let (reply, streamed) = session.receive(&mut data)?;
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
    land(session, request, part, streamed, &mut data[..length])?;
    let mut rest = &data[..length];
    let mut results = Vec::with_capacity(ranges.len());
    for (index, (&length, range)) in done.lengths.iter().zip(ranges).enumerate() {
        let (now, later) = rest.split_at(length as usize);
        if checksums {
            let (expected, found) = (done.checksums[index], crc32c::crc32c(now));
            if expected != found {
                return Err(Error::Damaged {
                    offset: range.offset,
                    expected,
                    found,
                });
            }
        }
        results.push(now.to_vec());
        rest = later;
    }
    Ok(results)
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
