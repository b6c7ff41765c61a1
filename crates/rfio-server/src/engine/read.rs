//! Reads of one range, or of a vector of ranges.
//!
//! If the cache has no free slot, a read is answered short and the client requests the rest again;
//! the server's memory stays within its configured size.
//!
//! A file that changes while it is read returns its contents at that moment, as on any file system,
//! with its version at that moment: a client that needs one consistent state compares versions.

use rustix::io::Errno;
use verbena_rfio_protocol::checksum::{self, pieces};
use verbena_rfio_protocol::reply::{Checksums, ReadDone, ReadVectorDone};
use verbena_rfio_protocol::request::{Checksum, Read, ReadVector};
use verbena_rfio_protocol::{Reply, Status};

use super::source::{Consistency, RangeResult, Source, WantedRange};
use super::{Engine, Failure, IoMode, Outcome, READ_PAST_CACHE, Segment, plain};

/// Number of restarts of a read because the file changed.
const ATTEMPTS: usize = 4;

/// Maximum number of checksums in one reply.
const MOST_CHECKSUMS: usize = 1024;

/// Returns the demands of successive attempts: one version a few times, then the current contents.
fn demands() -> impl Iterator<Item = Consistency> {
    std::iter::repeat_n(Consistency::OneVersion, ATTEMPTS).chain([Consistency::AsItIs])
}

/// Number of pieces of a vector read at once, which bounds the memory besides the answer's own.
const BATCH: usize = 64;

/// The last attempt takes the file as it is, which always succeeds.
const UNSERVED: Failure = Failure::Refused(Status::INTERNAL, "the file could not be read");

/// Size of a buffer that small pieces of a vector are packed into, in bytes: large enough to
/// justify a system call, and small enough that the allocator does not map and unmap each buffer.
const PACKED: usize = 64 << 10;

/// Copies a piece to the end of the data; `left` is the number of bytes that remain, including the
/// piece.
fn pack(data: &mut Vec<Segment>, bytes: &[u8], left: usize) {
    match data.last_mut() {
        Some(Segment::Owned(packed)) if packed.len() + bytes.len() <= packed.capacity() => {
            packed.extend_from_slice(bytes);
        }
        _ => {
            let mut packed = Vec::with_capacity(PACKED.min(left).max(bytes.len()));
            packed.extend_from_slice(bytes);
            data.push(Segment::Owned(packed));
        }
    }
}

impl Engine {
    pub(super) fn read(&self, read: &Read, io_mode: IoMode) -> Outcome {
        let (offset, length) = (read.range.offset, read.range.length as usize);
        if read.range.end().is_none() {
            return Err(Errno::INVAL.into());
        }
        if length > self.service.limits.payload {
            return Err(Failure::Refused(
                Status::errno(libc::EINVAL),
                "longer than the session allows",
            ));
        }
        let file = self.handles.find(read.handle)?;
        for demand in demands() {
            let source = Source::new(&self.service, &file, demand)?;
            let available = source.available(offset, length as u64);
            let Some(data) = self.collect(&source, offset, available, io_mode)? else {
                continue;
            };
            let length: usize = data.iter().map(|segment| segment.bytes().len()).sum();
            let checksums = if read.checksums {
                data.iter().map(Segment::checksum).collect()
            } else {
                Vec::new()
            };
            // A file truncated while it was read as it is ends where no more data came.
            let lost = length == 0 && available > 0;
            let end = lost || offset + length as u64 >= source.size();
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

    /// Returns the pieces of a range, as many as the cache has slots for; `None` if the file
    /// changed meanwhile.
    fn collect(
        &self,
        source: &Source<'_>,
        offset: u64,
        length: u64,
        io_mode: IoMode,
    ) -> Result<Option<Vec<Segment>>, Failure> {
        let block = self.service.cache.block() as u32;
        let wanted = pieces(offset, length, block).map(|(start, length)| WantedRange {
            offset: offset + start,
            length: length as usize,
        });
        let wanted: Vec<_> = wanted.collect();
        let mut data = Vec::new();
        for (wanted, piece) in wanted.iter().zip(source.pieces(&wanted, io_mode)?) {
            match piece {
                RangeResult::Data(segment) => {
                    let short = segment.bytes().len() < wanted.length;
                    data.extend((!segment.bytes().is_empty()).then_some(segment));
                    if short {
                        break;
                    }
                }
                RangeResult::Changed => return Ok(None),
                RangeResult::NoSlot if data.is_empty() => {
                    let shortened = WantedRange {
                        length: wanted.length.min(READ_PAST_CACHE),
                        ..*wanted
                    };
                    match source.past_the_cache(&shortened, io_mode)? {
                        RangeResult::Data(segment) => data.push(segment),
                        _ => return Ok(None),
                    }
                    break;
                }
                RangeResult::NoSlot => break,
            }
        }
        Ok(source.is_served()?.then_some(data))
    }

    pub(super) fn read_vector(&self, vector: &ReadVector, io_mode: IoMode) -> Outcome {
        let limits = &self.service.limits;
        let mut sum = 0usize;
        for range in &vector.ranges {
            range.end().ok_or(Failure::from(Errno::INVAL))?;
            sum = sum.saturating_add(range.length as usize);
        }
        if sum > limits.payload || vector.ranges.len() > limits.ranges {
            return Err(Failure::Refused(
                Status::errno(libc::EINVAL),
                "more than the session allows",
            ));
        }
        let file = self.handles.find(vector.handle)?;
        for demand in demands() {
            let source = Source::new(&self.service, &file, demand)?;
            let Some((lengths, checksums, data)) = self.gather(&source, vector, io_mode)? else {
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

    /// Reads all ranges, in order. With a window, parts of cached blocks are sent in place, up to
    /// the number of blocks that one request may hold. Beyond that, and in the control connection,
    /// whose reader may be slow, they are copied into packed buffers.
    #[allow(clippy::type_complexity)]
    fn gather(
        &self,
        source: &Source<'_>,
        vector: &ReadVector,
        io_mode: IoMode,
    ) -> Result<Option<(Vec<u32>, Vec<u32>, Vec<Segment>)>, Failure> {
        let count = vector.ranges.len();
        let mut data: Vec<Segment> = Vec::new();
        let (mut lengths, mut checksums) = (vec![0; count], vec![0; count]);
        let most_held = match vector.window {
            Some(_) => self.service.cache.slots() / 4,
            None => 0,
        };
        // A range that ended early gets no further data.
        let mut ended = vec![false; count];
        let wanted = self.wanted(source, vector);
        let mut left: usize = wanted.iter().map(|(_, wanted)| wanted.length).sum();
        for batch in wanted.chunks(BATCH) {
            let (numbers, batch): (Vec<usize>, Vec<WantedRange>) = batch.iter().copied().unzip();
            let found = source.pieces(&batch, io_mode)?;
            for ((number, wanted), piece) in numbers.into_iter().zip(&batch).zip(found) {
                left -= wanted.length;
                if ended[number] {
                    continue;
                }
                let found = match piece {
                    RangeResult::NoSlot => source.past_the_cache(wanted, io_mode)?,
                    other => other,
                };
                let RangeResult::Data(segment) = found else {
                    return Ok(None);
                };
                if vector.checksums {
                    checksums[number] = checksum::append(checksums[number], segment.bytes());
                }
                lengths[number] += segment.bytes().len() as u32;
                ended[number] = segment.bytes().len() < wanted.length;
                if data.len() >= most_held {
                    pack(&mut data, segment.bytes(), left + wanted.length);
                    continue;
                }
                let separate = match data.last_mut() {
                    Some(last) => last.join(segment),
                    None => Some(segment),
                };
                data.extend(separate);
            }
        }
        if !vector.checksums {
            checksums.clear();
        }
        Ok(source.is_served()?.then_some((lengths, checksums, data)))
    }

    /// Returns the pieces of all ranges, each with its range's index.
    fn wanted(&self, source: &Source<'_>, vector: &ReadVector) -> Vec<(usize, WantedRange)> {
        let block = self.service.cache.block() as u32;
        let ranges = vector.ranges.iter().enumerate();
        let pieces = ranges.flat_map(|(number, range)| {
            let available = source.available(range.offset, range.length.into());
            pieces(range.offset, available, block).map(move |(start, length)| {
                let wanted = WantedRange {
                    offset: range.offset + start,
                    length: length as usize,
                };
                (number, wanted)
            })
        });
        pieces.collect()
    }

    /// Returns checksums of blocks, for a client that checks its own blocks or the data that it
    /// wrote. They are computed from the file and never from the cache. One reply covers no more
    /// bytes than a read, since it costs no less.
    pub(super) fn checksum(&self, request: &Checksum) -> Outcome {
        let limits = &self.service.limits;
        let block = request.block as usize;
        if block == 0
            || block > limits.block
            || !request.offset.is_multiple_of(request.block.into())
        {
            return Err(Failure::Refused(
                Status::errno(libc::EINVAL),
                "not in units of the session's block",
            ));
        }
        let most = (limits.payload / block).clamp(1, MOST_CHECKSUMS);
        let file = self.handles.find(request.handle)?;
        let source = Source::new(&self.service, &file, Consistency::AsItIs)?;
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
