//! Reads: one range, or a vector of them.
//!
//! Large pieces go through the cache; small ones that are not cached are read past it, since filling a block for a few
//! bytes costs more than it saves. When the cache has no slot to spare, a read is answered short: the client asks again
//! for the rest, and the server's memory stays what it was configured to be.
//!
//! # What may be found again
//!
//! A block is cached under its file's version, so the version must tell its bytes from any other. It does when the file had
//! settled and nobody could write to it when the block was read: whoever opens it later and writes or stores through a
//! mapping stamps it anew. Where the kernel does not say who can write, a block is found again for a short while only;
//! while a file is open for writing, or its times are of the present tick, never.
//!
//! A file that changes while it is read gives what it has, as any file system does, with the version that it has then: a
//! client that needs one state of it compares versions.

use std::cell::OnceCell;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::io::{Errno, ReadWriteFlags};
use verbena_rfio_protocol::checksum::pieces;
use verbena_rfio_protocol::reply::{Checksums, ReadDone, ReadVectorDone};
use verbena_rfio_protocol::request::{Checksum, OpenFlags, Read, ReadVector};
use verbena_rfio_protocol::types::Attributes;
use verbena_rfio_protocol::{Reply, Status};

use super::attributes::{attributes, file_version};
use super::handles::{Body, OpenFile};
use super::{Engine, Failure, MEAGRE, Outcome, Patience, Segment, plain};
use crate::checksum;
use crate::server::cache::{FileVersion, Key};
use crate::server::metrics::count;
use crate::server::service::Service;
use crate::writers::{self, Writers};

/// How long a block is found again if the kernel does not say who can write to its file.
const BRIEFLY: Duration = Duration::from_secs(2);

/// How often a read starts again because the file changed under it.
const ATTEMPTS: usize = 4;

/// Checksums of one reply.
const MOST_CHECKSUMS: usize = 1024;

/// Something to read from, as it was at one moment.
struct Source<'a> {
    service: &'a Service,
    body: &'a Body,
    attributes: Attributes,
    demand: Demand,
    /// Under which version blocks that are not cached yet are kept; found out when one is needed.
    kept_as: OnceCell<FileVersion>,
}

/// What a read asks of its source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Demand {
    /// All bytes of the one version that it had.
    OneVersion,
    /// What it has.
    AsItIs,
}

/// What came of a piece.
enum Piece {
    /// The bytes; fewer than asked for only if the source is taken as it is, and ends there.
    Data(Segment),
    /// The cache has no slot.
    NoSlot,
    /// The file is no longer what it was.
    Changed,
}

/// A version under which nothing is ever found again.
fn unfindable() -> FileVersion {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    FileVersion {
        device: u64::MAX,
        inode: NEXT.fetch_add(1, Ordering::Relaxed),
        version: 0,
    }
}

/// A version that is another one after a while.
fn brief(file: FileVersion) -> FileVersion {
    static BEGUN: OnceLock<Instant> = OnceLock::new();
    let since = BEGUN.get_or_init(Instant::now).elapsed();
    let period = since.as_nanos() / BRIEFLY.as_nanos();
    FileVersion {
        version: file.version.rotate_left(32) ^ (period as u64 + 1),
        ..file
    }
}

impl<'a> Source<'a> {
    fn new(service: &'a Service, file: &'a OpenFile, demand: Demand) -> Result<Self, Failure> {
        if !file.flags.has(OpenFlags::READ) {
            return Err(Errno::BADF.into());
        }
        let attributes = current(&file.body)?;
        // What may change without a trace has no version that could be insisted on.
        let demand = match attributes.settled {
            true => demand,
            false => Demand::AsItIs,
        };
        Ok(Self {
            service,
            body: &file.body,
            attributes,
            demand,
            kept_as: OnceCell::new(),
        })
    }

    /// The version under which a block is found if it was cached when nobody could write to the file.
    fn settled_version(&self) -> Option<FileVersion> {
        (self.demand == Demand::OneVersion).then(|| file_version(&self.attributes))
    }

    fn kept_as(&self) -> FileVersion {
        *self.kept_as.get_or_init(|| {
            let Some(version) = self.settled_version() else {
                return unfindable();
            };
            let writers = match self.body {
                Body::File(file) => writers::of(file.as_fd()),
                Body::Unfilled(_) => Writers::None,
            };
            match writers {
                Writers::None => version,
                Writers::Some => unfindable(),
                Writers::Unknown => brief(version),
            }
        })
    }

    /// The file's version for the reply: what the data are of, or, if that is not known, what it is now.
    fn version(&self) -> Result<u64, Failure> {
        match self.demand {
            Demand::OneVersion => Ok(self.attributes.version),
            Demand::AsItIs => Ok(current(self.body)?.version),
        }
    }

    /// Whether the data are what was asked for.
    fn is_served(&self) -> Result<bool, Failure> {
        Ok(self.demand == Demand::AsItIs || current(self.body)?.version == self.attributes.version)
    }

    /// Bytes of a range that the file has.
    fn available(&self, offset: u64, length: u64) -> u64 {
        self.attributes.size.saturating_sub(offset).min(length)
    }

    /// `length` bytes at `offset`, which lie in one block and in the file.
    fn piece(&self, offset: u64, length: usize, patience: Patience) -> Result<Piece, Failure> {
        let cache = &self.service.cache;
        let block = cache.block() as u64;
        let number = match self.body {
            Body::File(_) => offset / block,
            // Every block of it is the same.
            Body::Unfilled(_) => 0,
        };
        let within = (offset % block) as usize..(offset % block) as usize + length;
        let key = |file| Key {
            file,
            block: number,
        };
        let found = self
            .settled_version()
            .and_then(|version| cache.lookup(&key(version)));
        let pinned = match found {
            Some(pinned) => {
                count(&self.service.metrics.cache_hits, 1);
                pinned
            }
            None if length < (cache.block() / 8).min(MEAGRE / 2) => {
                return self.past_the_cache(offset, length, patience);
            }
            None if patience == Patience::None => return Err(Failure::WouldBlock),
            None => {
                count(&self.service.metrics.cache_fills, 1);
                let key = key(self.kept_as());
                match cache.fetch(&key, |bytes| self.fill(number * block, bytes))? {
                    Some(pinned) => pinned,
                    None => return Ok(Piece::NoSlot),
                }
            }
        };
        let have = pinned.bytes().len();
        let within = match (self.demand, have < within.end) {
            (Demand::OneVersion, true) => return Ok(Piece::Changed),
            (Demand::AsItIs, true) => within.start.min(have)..have,
            (_, false) => within,
        };
        Ok(Piece::Data(Segment::Block(pinned, within)))
    }

    fn fill(&self, offset: u64, bytes: &mut [u8]) -> std::io::Result<usize> {
        match self.body {
            Body::File(file) => read_fully(file.as_fd(), offset, bytes),
            Body::Unfilled(_) => {
                bytes.fill(0);
                Ok(bytes.len())
            }
        }
    }

    fn past_the_cache(
        &self,
        offset: u64,
        length: usize,
        patience: Patience,
    ) -> Result<Piece, Failure> {
        count(&self.service.metrics.cache_bypasses, 1);
        let mut bytes = vec![0; length];
        let read = match (self.body, patience) {
            (Body::Unfilled(_), _) => length,
            (Body::File(file), Patience::None) => {
                read_if_in_memory(file.as_fd(), offset, &mut bytes)?
            }
            (Body::File(file), Patience::Unlimited) => {
                read_fully(file.as_fd(), offset, &mut bytes)?
            }
        };
        match (self.demand, read < length) {
            (Demand::OneVersion, true) => Ok(Piece::Changed),
            _ => {
                bytes.truncate(read);
                Ok(Piece::Data(Segment::Owned(bytes)))
            }
        }
    }
}

/// Attributes now.
fn current(body: &Body) -> Result<Attributes, Failure> {
    match body {
        Body::File(file) => Ok(attributes(&rustix::fs::fstat(file)?)),
        Body::Unfilled(size) => Ok(unfilled_attributes(*size)),
    }
}

/// The attributes of the file without storage.
pub(super) fn unfilled_attributes(size: u64) -> Attributes {
    Attributes {
        device: u64::MAX,
        inode: u64::MAX,
        mode: 0o100_444,
        links: 1,
        owner: 0,
        group: 0,
        size,
        blocks: 0,
        accessed: 0,
        modified: 0,
        changed: 0,
        version: size,
        settled: true,
    }
}

/// pread(2) until the buffer is full or the file ends.
pub(super) fn read_fully(
    file: BorrowedFd<'_>,
    offset: u64,
    bytes: &mut [u8],
) -> std::io::Result<usize> {
    let mut read = 0;
    while read < bytes.len() {
        match rustix::io::pread(file, &mut bytes[read..], offset + read as u64) {
            Ok(0) => break,
            Ok(more) => read += more,
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(read)
}

/// preadv2(2) with `RWF_NOWAIT`: the bytes if the page cache has them all.
fn read_if_in_memory(
    file: BorrowedFd<'_>,
    offset: u64,
    bytes: &mut [u8],
) -> Result<usize, Failure> {
    let length = bytes.len();
    let mut buffers = [std::io::IoSliceMut::new(bytes)];
    match rustix::io::preadv2(file, &mut buffers, offset, ReadWriteFlags::NOWAIT) {
        Ok(read) if read == length => Ok(read),
        Ok(_) | Err(Errno::AGAIN | Errno::OPNOTSUPP | Errno::INTR) => Err(Failure::WouldBlock),
        Err(errno) => Err(errno.into()),
    }
}

/// What the attempts at a read demand: one version a few times, then what there is.
fn demands() -> impl Iterator<Item = Demand> {
    std::iter::repeat_n(Demand::OneVersion, ATTEMPTS).chain([Demand::AsItIs])
}

/// Only a source that is taken as it is comes last, and that is always served.
const UNSERVED: Failure = Failure::Refused(Status::INTERNAL, "the file could not be read at all");

impl Engine {
    pub(super) fn read(&self, read: &Read, patience: Patience) -> Outcome {
        let (offset, length) = (read.range.offset, read.range.length as usize);
        if read.range.end().is_none() {
            return Err(Errno::INVAL.into());
        }
        if length > self.service.limits.payload {
            return Err(Failure::Refused(
                Status::errno(libc::EINVAL),
                "longer than the welcome allows",
            ));
        }
        let file = self.handles.find(read.handle)?;
        for demand in demands() {
            let source = Source::new(&self.service, &file, demand)?;
            let available = source.available(offset, length as u64);
            let Some(data) = self.collect(&source, offset, available, patience)? else {
                continue;
            };
            let length: usize = data.iter().map(|segment| segment.bytes().len()).sum();
            let checksums = if read.checksums {
                data.iter().map(Segment::checksum).collect()
            } else {
                Vec::new()
            };
            // A file that lost its end while it was read as it is ends where nothing more came.
            let lost = length == 0 && available > 0;
            let end = lost || offset + length as u64 >= source.attributes.size;
            let version = source.version()?;
            return Ok((
                Reply::ReadDone(ReadDone {
                    length: length as u32,
                    end,
                    version,
                    checksums,
                }),
                data,
            ));
        }
        Err(UNSERVED)
    }

    /// The pieces of a range, as many as the cache has slots for; `None` if the file changed meanwhile.
    fn collect(
        &self,
        source: &Source<'_>,
        offset: u64,
        length: u64,
        patience: Patience,
    ) -> Result<Option<Vec<Segment>>, Failure> {
        let block = self.service.cache.block() as u32;
        let mut data = Vec::new();
        for (start, piece) in pieces(offset, length, block) {
            match source.piece(offset + start, piece as usize, patience)? {
                Piece::Data(segment) => {
                    let short = segment.bytes().len() < piece as usize;
                    data.extend((!segment.bytes().is_empty()).then_some(segment));
                    if short {
                        break;
                    }
                }
                Piece::Changed => return Ok(None),
                Piece::NoSlot if data.is_empty() => {
                    let meagre = (piece as usize).min(MEAGRE);
                    match source.past_the_cache(offset + start, meagre, patience)? {
                        Piece::Data(segment) => data.push(segment),
                        _ => return Ok(None),
                    }
                    break;
                }
                Piece::NoSlot => break,
            }
        }
        Ok(source.is_served()?.then_some(data))
    }

    pub(super) fn read_vector(&self, vector: &ReadVector, patience: Patience) -> Outcome {
        let limits = &self.service.limits;
        let mut sum = 0usize;
        for range in &vector.ranges {
            range.end().ok_or(Failure::from(Errno::INVAL))?;
            sum = sum.saturating_add(range.length as usize);
        }
        if sum > limits.payload || vector.ranges.len() > limits.ranges {
            return Err(Failure::Refused(
                Status::errno(libc::EINVAL),
                "more than the welcome allows",
            ));
        }
        let file = self.handles.find(vector.handle)?;
        for demand in demands() {
            let source = Source::new(&self.service, &file, demand)?;
            let Some((lengths, checksums, data)) = self.gather(&source, vector, patience)? else {
                continue;
            };
            let version = source.version()?;
            return Ok((
                Reply::ReadVectorDone(ReadVectorDone {
                    version,
                    lengths,
                    checksums,
                }),
                data,
            ));
        }
        Err(UNSERVED)
    }

    /// All ranges, in order. With a window, parts of cached blocks go from where they lie, as far as one request may hold
    /// blocks; in the control connection, whose reader may be slow, and beyond that, they are packed.
    #[allow(clippy::type_complexity)]
    fn gather(
        &self,
        source: &Source<'_>,
        vector: &ReadVector,
        patience: Patience,
    ) -> Result<Option<(Vec<u32>, Vec<u32>, Vec<Segment>)>, Failure> {
        let block = self.service.cache.block() as u32;
        let mut data: Vec<Segment> = Vec::new();
        let mut lengths = Vec::with_capacity(vector.ranges.len());
        let mut checksums = Vec::new();
        let most_held = match vector.window {
            Some(_) => self.service.cache.slots() / 4,
            None => 0,
        };
        for range in &vector.ranges {
            let available = source.available(range.offset, range.length.into());
            let (mut checksum, mut length) = (0, 0);
            for (start, piece) in pieces(range.offset, available, block) {
                let at = range.offset + start;
                let found = match source.piece(at, piece as usize, patience)? {
                    Piece::NoSlot => source.past_the_cache(at, piece as usize, patience)?,
                    other => other,
                };
                let Piece::Data(segment) = found else {
                    return Ok(None);
                };
                if vector.checksums {
                    checksum = checksum::append(checksum, segment.bytes());
                }
                length += segment.bytes().len();
                let short = segment.bytes().len() < piece as usize;
                let segment = match data.len() < most_held {
                    true => segment,
                    false => Segment::Owned(segment.bytes().to_vec()),
                };
                let separate = match data.last_mut() {
                    Some(last) => last.join(segment),
                    None => Some(segment),
                };
                data.extend(separate);
                if short {
                    break;
                }
            }
            lengths.push(length as u32);
            if vector.checksums {
                checksums.push(checksum);
            }
        }
        Ok(source.is_served()?.then_some((lengths, checksums, data)))
    }

    /// Checksums of blocks, for a client that wants to know which of its own blocks are right, or whether what it wrote is
    /// there. They are of the file and never of the cache. One reply is for no more bytes than a read, for it costs no less.
    pub(super) fn checksum(&self, request: &Checksum) -> Outcome {
        let limits = &self.service.limits;
        let block = request.block as usize;
        if block == 0
            || block > limits.block
            || !request.offset.is_multiple_of(request.block.into())
        {
            return Err(Failure::Refused(
                Status::errno(libc::EINVAL),
                "not in units of the welcome's block",
            ));
        }
        let most = (limits.payload / block).clamp(1, MOST_CHECKSUMS);
        let file = self.handles.find(request.handle)?;
        let source = Source::new(&self.service, &file, Demand::AsItIs)?;
        let mut checksums = Vec::new();
        let mut offset = request.offset;
        let mut buffer = vec![0; block];
        while checksums.len() < most.min(request.count as usize) {
            let length = source.available(offset, block as u64) as usize;
            if length == 0 {
                break;
            }
            let read = source.fill(offset, &mut buffer[..length])?;
            checksums.push(checksum::crc32c(&buffer[..read]));
            offset += length as u64;
        }
        plain(Reply::Checksums(Checksums {
            version: source.version()?,
            checksums,
        }))
    }
}
