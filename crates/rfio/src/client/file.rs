//! An open file on a server: reads and writes at offsets, checked block by block.

use std::sync::{Arc, Mutex, MutexGuard};

use verbena_rfio_protocol::request::{OnHandle, Open, Request, SetTimes, Truncate};
use verbena_rfio_protocol::types::{Attributes, Handle, Path, Range};
use verbena_rfio_protocol::{Reply, Status};

use super::error::Error;
use super::lineage;
use super::pull::read_fully;
use super::push::write_fully;
use super::session::{Session, unexpected};
use super::transfer::read_vector;
use super::whole_checksum;

/// A session that several files and threads share, a call at a time.
pub type SharedSession = Arc<Mutex<Session>>;

/// An open file.
#[derive(Debug)]
pub struct RemoteFile {
    session: SharedSession,
    handle: Handle,
    attributes: Attributes,
    open: bool,
    /// The process that opened it.
    process: u64,
}

/// Takes the session; a panic of another thread leaves it marked broken at worst.
pub fn lock(session: &SharedSession) -> MutexGuard<'_, Session> {
    session.lock().unwrap_or_else(|poison| poison.into_inner())
}

impl RemoteFile {
    /// Opens a file; `flags` as in [`verbena_rfio_protocol::request::OpenFlags`].
    pub fn open(
        session: &SharedSession,
        path: &Path,
        flags: u32,
        mode: u32,
    ) -> Result<Self, Error> {
        let request = Request::Open(Open {
            path: path.clone(),
            flags,
            mode,
        });
        match lock(session).call(&request)? {
            Reply::Opened(opened) => Ok(Self {
                session: Arc::clone(session),
                handle: opened.handle,
                attributes: opened.attributes,
                open: true,
                process: lineage::mark(),
            }),
            other => Err(unexpected(&other)),
        }
    }

    /// What the file was when it was opened.
    pub fn attributes(&self) -> &Attributes {
        &self.attributes
    }

    /// The session.
    pub fn session(&self) -> &SharedSession {
        &self.session
    }

    /// The server's number for the file.
    pub fn handle(&self) -> Handle {
        self.handle
    }

    /// What the file is now.
    pub fn examine(&self) -> Result<Attributes, Error> {
        match lock(&self.session).call(&Request::Examine(OnHandle {
            handle: self.handle,
        }))? {
            Reply::Examined(about) => Ok(about.attributes),
            other => Err(unexpected(&other)),
        }
    }

    /// Reads at an offset until `bytes` is full or the file ends.
    pub fn read_at(&self, offset: u64, bytes: &mut [u8]) -> Result<usize, Error> {
        read_fully(&mut lock(&self.session), self.handle, offset, bytes)
    }

    /// Reads many ranges with as few requests as the server allows; the data of each.
    pub fn read_vector(&self, ranges: &[Range]) -> Result<Vec<Vec<u8>>, Error> {
        let mut packed = Vec::new();
        let lengths = self.read_packed(ranges, &mut packed)?;
        let mut rest = &packed[..];
        Ok(lengths
            .iter()
            .map(|&length| {
                let (now, later) = rest.split_at(length as usize);
                rest = later;
                now.to_vec()
            })
            .collect())
    }

    /// The same, packed in the order of the ranges into `packed`, whose memory is used again; the length of each.
    pub fn read_packed(&self, ranges: &[Range], packed: &mut Vec<u8>) -> Result<Vec<u32>, Error> {
        let mut session = lock(&self.session);
        let (most, most_ranges) = (
            session.terms().most_payload as usize,
            session.terms().most_ranges as usize,
        );
        let mut lengths = Vec::with_capacity(ranges.len());
        let mut rest = ranges;
        // Most lists are one request; the parts of a longer one are put together.
        let mut whole: Option<Vec<u8>> = None;
        while let Some(first) = rest.first() {
            // A range longer than a request may carry is read by itself, as several.
            if first.length as usize > most {
                let parts = whole.get_or_insert_default();
                let before = parts.len();
                parts.resize(before + first.length as usize, 0);
                let read = read_fully(
                    &mut session,
                    self.handle,
                    first.offset,
                    &mut parts[before..],
                )?;
                parts.truncate(before + read);
                lengths.push(read as u32);
                rest = &rest[1..];
                continue;
            }
            let (mut sum, mut count) = (0usize, 0);
            for range in rest.iter().take(most_ranges) {
                sum += range.length as usize;
                if sum > most {
                    break;
                }
                count += 1;
            }
            let (now, later) = rest.split_at(count);
            lengths.append(&mut read_vector(&mut session, self.handle, now, packed)?);
            if whole.is_some() || !later.is_empty() {
                whole.get_or_insert_default().extend_from_slice(packed);
            }
            rest = later;
        }
        if let Some(whole) = whole {
            *packed = whole;
        } else if ranges.is_empty() {
            packed.clear();
        }
        Ok(lengths)
    }

    /// The CRC32C of the whole file. The server computes it, from the file: no data travel.
    pub fn checksum(&self) -> Result<u32, Error> {
        let mut session = lock(&self.session);
        let block = session.terms().block;
        whole_checksum::of(self.handle, block, |request| session.call(&request))
    }

    /// Writes everything at an offset.
    pub fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<(), Error> {
        write_fully(&mut lock(&self.session), self.handle, offset, bytes)
    }

    /// Sets the length.
    pub fn truncate(&self, size: u64) -> Result<(), Error> {
        self.call(&Request::Truncate(Truncate {
            handle: self.handle,
            size,
        }))
    }

    /// Puts what was written on stable storage.
    pub fn synchronise(&self) -> Result<(), Error> {
        self.call(&Request::Synchronise(OnHandle {
            handle: self.handle,
        }))
    }

    /// Sets the times.
    pub fn set_times(&self, accessed: i64, modified: i64) -> Result<(), Error> {
        self.call(&Request::SetTimes(SetTimes {
            handle: self.handle,
            accessed,
            modified,
        }))
    }

    /// Any request that says nothing but "done".
    pub fn call(&self, request: &Request) -> Result<(), Error> {
        lock(&self.session).call(request).map(|_| ())
    }

    /// Closes, and says if that failed.
    pub fn close(mut self) -> Result<(), Error> {
        self.open = false;
        self.call(&Request::Close(OnHandle {
            handle: self.handle,
        }))
    }
}

impl Drop for RemoteFile {
    fn drop(&mut self) {
        // In a forked process a thread that is not there may hold the session.
        if self.process != lineage::mark() {
            return;
        }
        let mut session = lock(&self.session);
        // With requests under way the session is about to go, and the server closes its files.
        if self.open && !session.is_broken() && session.pending() == 0 {
            let _ = session.call(&Request::Close(OnHandle {
                handle: self.handle,
            }));
        }
    }
}

/// Whether an error says that something is not there.
pub fn is_missing(error: &Error) -> bool {
    error.status() == Status::errno(libc::ENOENT)
}
