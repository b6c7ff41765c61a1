//! A consistent source of read data, served in pieces of at most one block: from the cache, past
//! it, or in one batch from storage.
//!
//! Large pieces go through the cache. Small uncached ones are read past it, since filling a block
//! for a few bytes costs more than it saves.
//!
//! # Cache keys
//!
//! A block is cached under its file's version, so the version must distinguish its bytes from any
//! others. It does if the file's timestamps had settled and no process could write to the file when
//! the block was read: a process that opens it later and writes, or stores through a mapping,
//! changes the timestamps. If the kernel cannot report writers, a block can be found again for a
//! short time only. While a file is open for writing, or its timestamps are of the current tick,
//! its blocks are never found again.

use std::cell::OnceCell;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::fs::fstat;
use rustix::io::{Errno, ReadWriteFlags};
use verbena_rfio_common::writers::{self, Writers};
use verbena_rfio_protocol::request::OpenFlags;
use verbena_rfio_protocol::types::Attributes;

use super::attributes::{attributes, file_version};
use super::handles::{FileStorage, OpenFile};
use super::{Failure, IoMode, READ_PAST_CACHE, Segment};
use crate::cache::{BlockKey, FileVersion, Pinned};
use crate::metrics::count;
use crate::service::Service;
use crate::storage::{Part, read_fully};

/// How long a cached block can be found again if the kernel cannot report the file's writers.
const UNCERTAIN_LIFETIME: Duration = Duration::from_secs(2);

/// A file to read from, as it was at one moment.
pub(super) struct Source<'a> {
    service: &'a Service,
    body: &'a FileStorage,
    attributes: Attributes,
    demand: Consistency,
    /// Version under which newly read blocks are cached; determined when first needed.
    cache_version: OnceCell<FileVersion>,
    /// Whether the file is on tmpfs; determined once for all pieces.
    of_memory: OnceCell<bool>,
}

/// The consistency that a read requires.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Consistency {
    /// All bytes of the version that the file had.
    OneVersion,
    /// The file's current contents.
    AsItIs,
}

/// A byte range wanted from a source; it lies in one block, and within the file.
#[derive(Debug, Clone, Copy)]
pub(super) struct WantedRange {
    /// Offset in the file, in bytes.
    pub offset: u64,
    /// Length in bytes.
    pub length: usize,
}

/// Result for one piece.
pub(super) enum RangeResult {
    /// The bytes; fewer than requested only with [`Consistency::AsItIs`] at the end of the file.
    Data(Segment),
    /// The cache has no slot.
    NoSlot,
    /// The file has changed.
    Changed,
}

/// Returns a version under which nothing is ever found again.
fn unique_version() -> FileVersion {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    FileVersion {
        device: u64::MAX,
        inode: NEXT.fetch_add(1, Ordering::Relaxed),
        version: 0,
    }
}

/// Returns a version that is replaced by another after [`UNCERTAIN_LIFETIME`].
fn expiring_version(file: FileVersion) -> FileVersion {
    static BEGUN: OnceLock<Instant> = OnceLock::new();
    let since = BEGUN.get_or_init(Instant::now).elapsed();
    let period = since.as_nanos() / UNCERTAIN_LIFETIME.as_nanos();
    FileVersion {
        version: file.version.rotate_left(32) ^ (period as u64 + 1),
        ..file
    }
}

impl<'a> Source<'a> {
    pub(super) fn new(
        service: &'a Service,
        file: &'a OpenFile,
        demand: Consistency,
    ) -> Result<Self, Failure> {
        if !file.flags.has(OpenFlags::READ) {
            return Err(Errno::BADF.into());
        }
        let attributes = current(&file.body)?;
        // A file that can change without a trace has no version to insist on.
        let demand = match attributes.settled {
            true => demand,
            false => Consistency::AsItIs,
        };
        Ok(Self {
            service,
            body: &file.body,
            attributes,
            demand,
            cache_version: OnceCell::new(),
            of_memory: OnceCell::new(),
        })
    }

    /// Returns the version under which a block is found if it was cached while no process could
    /// write to the file.
    fn stable_version(&self) -> Option<FileVersion> {
        (self.demand == Consistency::OneVersion).then(|| file_version(&self.attributes))
    }

    fn cache_version(&self) -> FileVersion {
        *self.cache_version.get_or_init(|| {
            let Some(version) = self.stable_version() else {
                return unique_version();
            };
            let writers = match self.body {
                FileStorage::File(file) => writers::of(file.as_fd()),
                FileStorage::Unfilled(_) => Writers::None,
            };
            match writers {
                Writers::None => version,
                Writers::Some => unique_version(),
                Writers::Unknown => expiring_version(version),
            }
        })
    }

    /// Returns the file's version for the reply: the version that the data belong to or, if that is
    /// unknown, the current one.
    pub(super) fn version(&self) -> Result<u64, Failure> {
        match self.demand {
            Consistency::OneVersion => Ok(self.attributes.version),
            Consistency::AsItIs => Ok(current(self.body)?.version),
        }
    }

    /// Returns whether the data satisfy the demand.
    pub(super) fn is_served(&self) -> Result<bool, Failure> {
        Ok(self.demand == Consistency::AsItIs
            || current(self.body)?.version == self.attributes.version)
    }

    /// Returns the size of the file in bytes.
    pub(super) fn size(&self) -> u64 {
        self.attributes.size
    }

    /// Returns how many bytes of a range lie within the file.
    pub(super) fn available(&self, offset: u64, length: u64) -> u64 {
        self.attributes.size.saturating_sub(offset).min(length)
    }

    /// Returns the result of each piece, in order. On a worker, pieces that must come from storage
    /// are read in one batch.
    pub(super) fn pieces(
        &self,
        wanted: &[WantedRange],
        io_mode: IoMode,
    ) -> Result<Vec<RangeResult>, Failure> {
        let mut found: Vec<_> = wanted.iter().map(|piece| self.cached(piece)).collect();
        let missing: Vec<usize> = (0..wanted.len()).filter(|&n| found[n].is_none()).collect();
        let together = self.service.storage.reads_together() && missing.len() > 1;
        if let FileStorage::File(file) = self.body
            && together
            && io_mode == IoMode::MayBlock
        {
            self.read_together(file.as_fd(), wanted, &missing, &mut found);
        }
        found
            .into_iter()
            .zip(wanted)
            .map(|(found, piece)| match found {
                Some(piece) => Ok(piece),
                None => self.uncached(piece, io_mode),
            })
            .collect()
    }

    /// Returns the piece, read past the cache, which needs the least memory.
    pub(super) fn past_the_cache(
        &self,
        wanted: &WantedRange,
        io_mode: IoMode,
    ) -> Result<RangeResult, Failure> {
        count(&self.service.metrics.cache_bypasses, 1);
        let mut bytes = vec![0; wanted.length];
        let read = match (self.body, io_mode) {
            (FileStorage::Unfilled(_), _) => wanted.length,
            (FileStorage::File(file), IoMode::CacheOnly) => {
                read_if_in_memory(file.as_fd(), wanted.offset, &mut bytes, &self.of_memory)?
            }
            (FileStorage::File(file), IoMode::MayBlock) => {
                read_fully(file.as_fd(), wanted.offset, &mut bytes)?
            }
        };
        Ok(self.owned(bytes, read))
    }

    /// Returns the piece if its block is cached.
    fn cached(&self, wanted: &WantedRange) -> Option<RangeResult> {
        let key = self.key(self.stable_version()?, wanted);
        let pinned = self.service.cache.lookup(&key)?;
        count(&self.service.metrics.cache_hits, 1);
        Some(self.part_of(pinned, wanted))
    }

    /// Returns a piece that was not in the cache.
    fn uncached(&self, wanted: &WantedRange, io_mode: IoMode) -> Result<RangeResult, Failure> {
        let cache = &self.service.cache;
        if self.is_past_the_cache(wanted) {
            return self.past_the_cache(wanted, io_mode);
        }
        if io_mode == IoMode::CacheOnly {
            return Err(Failure::WouldBlock);
        }
        let key = self.key(self.cache_version(), wanted);
        let pinned = cache.fetch(&key, |bytes| {
            count(&self.service.metrics.cache_fills, 1);
            self.fill(key.block * cache.block() as u64, bytes)
        })?;
        Ok(match pinned {
            Some(pinned) => self.part_of(pinned, wanted),
            None => RangeResult::NoSlot,
        })
    }

    /// Reads missing pieces of a file in one batch: some past the cache, others as blocks into it.
    /// Pieces that this does not deliver are read individually later, and that result counts.
    fn read_together(
        &self,
        file: BorrowedFd<'_>,
        wanted: &[WantedRange],
        missing: &[usize],
        found: &mut [Option<RangeResult>],
    ) {
        let (past, mut blocks): (Vec<usize>, Vec<usize>) = missing
            .iter()
            .partition(|&&number| self.is_past_the_cache(&wanted[number]));

        let mut buffers: Vec<_> = past.iter().map(|&n| vec![0; wanted[n].length]).collect();
        let parts = past.iter().zip(&mut buffers).map(|(&n, bytes)| Part {
            offset: wanted[n].offset,
            bytes,
        });
        let read = self.read_from_storage(file, parts.collect());
        for ((number, bytes), read) in past.into_iter().zip(buffers).zip(read) {
            if let Ok(read) = read {
                count(&self.service.metrics.cache_bypasses, 1);
                found[number] = Some(self.owned(bytes, read));
            }
        }

        let cache = &self.service.cache;
        // Limited to the share of the cache that one use may take, so that data read once do not
        // look like data read repeatedly.
        blocks.truncate(cache.slots() / 32);
        if blocks.len() < 2 {
            return;
        }
        let cache_version = self.cache_version();
        let keys: Vec<_> = blocks
            .iter()
            .map(|&number| self.key(cache_version, &wanted[number]))
            .collect();
        let pinned = cache.fetch_together(&keys, |memory| {
            count(&self.service.metrics.cache_fills, memory.len() as u64);
            let parts = memory.into_iter().map(|(number, bytes)| Part {
                offset: keys[number].block * cache.block() as u64,
                bytes,
            });
            self.read_from_storage(file, parts.collect())
        });
        for (number, pinned) in blocks.into_iter().zip(pinned) {
            found[number] = pinned.map(|block| self.part_of(block, &wanted[number]));
        }
    }

    fn read_from_storage(
        &self,
        file: BorrowedFd<'_>,
        mut parts: Vec<Part<'_>>,
    ) -> Vec<std::io::Result<usize>> {
        if parts.len() > 1 {
            count(&self.service.metrics.reads_together, parts.len() as u64);
        }
        self.service.storage.read(file, &mut parts)
    }

    /// Returns whether filling a block would cost more than it saves.
    fn is_past_the_cache(&self, wanted: &WantedRange) -> bool {
        wanted.length < (self.service.cache.block() / 8).min(READ_PAST_CACHE / 2)
    }

    fn key(&self, file: FileVersion, wanted: &WantedRange) -> BlockKey {
        let block = match self.body {
            FileStorage::File(_) => wanted.offset / self.service.cache.block() as u64,
            // All its blocks are equal.
            FileStorage::Unfilled(_) => 0,
        };
        BlockKey { file, block }
    }

    /// Returns the wanted part of a block.
    fn part_of(&self, block: Pinned, wanted: &WantedRange) -> RangeResult {
        let start = (wanted.offset % self.service.cache.block() as u64) as usize;
        let (end, have) = (start + wanted.length, block.bytes().len());
        match (self.demand, have < end) {
            (Consistency::OneVersion, true) => RangeResult::Changed,
            (Consistency::AsItIs, true) => {
                RangeResult::Data(Segment::Block(block, start.min(have)..have))
            }
            (_, false) => RangeResult::Data(Segment::Block(block, start..end)),
        }
    }

    /// Returns the first `read` bytes.
    fn owned(&self, mut bytes: Vec<u8>, read: usize) -> RangeResult {
        match (self.demand, read < bytes.len()) {
            (Consistency::OneVersion, true) => RangeResult::Changed,
            _ => {
                bytes.truncate(read);
                RangeResult::Data(Segment::Owned(bytes))
            }
        }
    }

    pub(super) fn fill(&self, offset: u64, bytes: &mut [u8]) -> std::io::Result<usize> {
        match self.body {
            FileStorage::File(file) => read_fully(file.as_fd(), offset, bytes),
            FileStorage::Unfilled(_) => {
                bytes.fill(0);
                Ok(bytes.len())
            }
        }
    }
}

/// Returns the current attributes.
fn current(body: &FileStorage) -> Result<Attributes, Failure> {
    match body {
        FileStorage::File(file) => Ok(attributes(&fstat(file)?)),
        FileStorage::Unfilled(size) => Ok(unfilled_attributes(*size)),
    }
}

/// Returns the attributes of the file without storage.
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

/// Reads the bytes if they are all in memory: preadv2(2) with `RWF_NOWAIT`. The tmpfs of older
/// kernels refuses the flag, but its files are always in memory; `of_memory` keeps whether the file
/// is such a one, once the flag was refused.
pub(super) fn read_if_in_memory(
    file: BorrowedFd<'_>,
    offset: u64,
    bytes: &mut [u8],
    of_memory: &OnceCell<bool>,
) -> Result<usize, Failure> {
    if of_memory.get() == Some(&true) {
        return Ok(read_fully(file, offset, bytes)?);
    }
    let length = bytes.len();
    let mut buffers = [std::io::IoSliceMut::new(bytes)];
    match rustix::io::preadv2(file, &mut buffers, offset, ReadWriteFlags::NOWAIT) {
        Ok(read) if read == length => Ok(read),
        Err(Errno::OPNOTSUPP) if *of_memory.get_or_init(|| is_of_memory(file)) => {
            Ok(read_fully(file, offset, bytes)?)
        }
        Ok(_) | Err(Errno::AGAIN | Errno::OPNOTSUPP | Errno::INTR) => Err(Failure::WouldBlock),
        Err(errno) => Err(errno.into()),
    }
}

/// Returns whether a file is on tmpfs.
fn is_of_memory(file: BorrowedFd<'_>) -> bool {
    rustix::fs::fstatfs(file)
        .is_ok_and(|system| i128::from(system.f_type) == i128::from(libc::TMPFS_MAGIC))
}
