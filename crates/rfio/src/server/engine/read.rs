//! Reads: one range, or a vector of them.
//!
//! Large pieces go through the cache; small ones that are not cached are read past it, since filling a block for a few
//! bytes costs more than it saves. When the cache has no slot to spare, a read is answered short: the client asks again
//! for the rest, and the server's memory stays what it was configured to be.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicU64, Ordering};

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

/// How often a read starts again because the file changed under it.
const ATTEMPTS: usize = 4;

/// Something to read from, as it was at one moment.
struct Source<'a> {
    service: &'a Service,
    body: &'a Body,
    attributes: Attributes,
    key: FileVersion,
}

/// What came of a piece.
enum Piece {
    Data(Segment),
    /// The cache has no slot.
    NoSlot,
    /// The file is no longer what it was.
    Changed,
}

impl<'a> Source<'a> {
    fn new(service: &'a Service, file: &'a OpenFile) -> Result<Self, Failure> {
        if !file.flags.has(OpenFlags::READ) {
            return Err(Errno::BADF.into());
        }
        let attributes = current(&file.body)?;
        let mut key = file_version(&attributes);
        if matches!(file.body, Body::File(_)) && !attributes.settled {
            // A change in the same tick of the clock would not show: such blocks must never be found again.
            static UNSETTLED: AtomicU64 = AtomicU64::new(0);
            key.device = u64::MAX;
            key.inode = UNSETTLED.fetch_add(1, Ordering::Relaxed);
        }
        Ok(Self {
            service,
            body: &file.body,
            attributes,
            key,
        })
    }

    fn is_unchanged(&self) -> Result<bool, Failure> {
        Ok(current(self.body)?.version == self.attributes.version)
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
        let key = Key {
            file: self.key,
            block: number,
        };
        let within = (offset % block) as usize..(offset % block) as usize + length;
        let pinned = match cache.lookup(&key) {
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
                match cache.fetch(&key, |bytes| self.fill(number * block, bytes))? {
                    Some(pinned) => pinned,
                    None => return Ok(Piece::NoSlot),
                }
            }
        };
        if pinned.bytes().len() < within.end {
            return Ok(Piece::Changed);
        }
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
        if read < length {
            Ok(Piece::Changed)
        } else {
            Ok(Piece::Data(Segment::Owned(bytes)))
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

const CHANGING: Failure = Failure::Refused(
    Status(libc::ESTALE as u32),
    "the file changes faster than it can be read",
);

impl Engine {
    pub(super) fn read(&mut self, read: &Read, patience: Patience) -> Outcome {
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
        for _ in 0..ATTEMPTS {
            let source = Source::new(&self.service, file)?;
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
            let end = offset + length as u64 >= source.attributes.size;
            let version = source.attributes.version;
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
        Err(CHANGING)
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
                Piece::Data(segment) => data.push(segment),
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
        Ok(source.is_unchanged()?.then_some(data))
    }

    pub(super) fn read_vector(&mut self, vector: &ReadVector, patience: Patience) -> Outcome {
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
        for _ in 0..ATTEMPTS {
            let source = Source::new(&self.service, file)?;
            let Some((lengths, checksums, data)) = self.gather(&source, vector, patience)? else {
                continue;
            };
            let version = source.attributes.version;
            return Ok((
                Reply::ReadVectorDone(ReadVectorDone {
                    version,
                    lengths,
                    checksums,
                }),
                data,
            ));
        }
        Err(CHANGING)
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
            let mut checksum = 0;
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
                let segment = match data.len() < most_held {
                    true => segment,
                    false => Segment::Owned(segment.bytes().to_vec()),
                };
                let separate = match data.last_mut() {
                    Some(last) => last.join(segment),
                    None => Some(segment),
                };
                data.extend(separate);
            }
            lengths.push(available as u32);
            if vector.checksums {
                checksums.push(checksum);
            }
        }
        Ok(source.is_unchanged()?.then_some((lengths, checksums, data)))
    }

    /// Checksums of blocks, for a client that wants to know which of its own blocks are right.
    pub(super) fn checksum(&mut self, request: &Checksum) -> Outcome {
        const MOST: u32 = 1024;
        let cache_block = self.service.cache.block();
        let block = request.block as usize;
        if block == 0 || block > cache_block || !request.offset.is_multiple_of(request.block.into())
        {
            return Err(Failure::Refused(
                Status::errno(libc::EINVAL),
                "not in units of the welcome's block",
            ));
        }
        let file = self.handles.find(request.handle)?;
        let source = Source::new(&self.service, file)?;
        let mut checksums = Vec::new();
        let mut offset = request.offset;
        let mut buffer = Vec::new();
        while checksums.len() < request.count.min(MOST) as usize {
            let length = source.available(offset, block as u64) as usize;
            if length == 0 {
                break;
            }
            let checksum = match (length == block && block == cache_block)
                .then(|| source.piece(offset, length, Patience::Unlimited))
                .transpose()?
            {
                Some(Piece::Data(segment)) => segment.checksum(),
                _ => {
                    buffer.resize(length, 0);
                    let read = source.fill(offset, &mut buffer)?;
                    checksum::crc32c(&buffer[..read])
                }
            };
            checksums.push(checksum);
            offset += length as u64;
        }
        plain(Reply::Checksums(Checksums {
            version: source.attributes.version,
            checksums,
        }))
    }
}
