//! Copies one file between any two endpoints.
//!
//! [`Source`] and [`Sink`] hide whether an endpoint is local or remote. The guarantees of a copy
//! are implemented once, here: the ranges to move, verification, detection of source changes,
//! preservation of holes, and the rename only at the end.

use std::sync::atomic::{AtomicBool, Ordering};

use super::facts::FileFacts;
use super::failure::{CopyError, ErrorSubject};
use super::progress::Progress;
use super::resume::{CHUNK, SLOW_START_BLOCKS, WorkRanges, segment_end, segments};
use super::settings::{ConnectionStart, CopySettings, Durability, EarlierAttempt, Verification};
use crate::error::Error;

/// An open file to copy from, in one state; [`Source::unchanged`] tells whether it stayed in it.
pub trait Source: Sync {
    /// Returns its name, for messages.
    fn name(&self) -> String;
    /// Returns its attributes at the time it was opened.
    fn facts(&self) -> &FileFacts;
    /// Returns the largest block size in bytes for checksums.
    fn block(&self) -> u32;
    /// Returns the parts of a segment that hold data, in order, and the offset up to which they are
    /// known: below the segment's end if there are more parts than are kept in memory.
    fn data(&self, segment: (u64, u64)) -> Result<Extents, Error>;
    /// Returns the checksums of the blocks of a segment that begins at a block boundary; fewer if
    /// the file ends earlier.
    fn checksums(&self, block: u32, segment: (u64, u64)) -> Result<Vec<u32>, Error>;
    /// Returns a reader, which works in parallel with the others.
    fn reader(&self, session_number: usize) -> Result<Box<dyn Reader + '_>, Error>;
    /// Returns whether parallel readers speed up a copy that writes in order.
    fn reads_in_parallel(&self) -> bool {
        false
    }
    /// Returns a number for its state, which identifies it when it is opened again.
    fn state(&self) -> u64;
    /// Fails if the file has changed since it was opened.
    fn unchanged(&self) -> Result<(), Error>;
}

/// The data extents of a file.
#[derive(Debug, Default)]
pub struct Extents {
    /// First byte and length of each extent, in order.
    pub data: Vec<(u64, u64)>,
    /// Offset up to which they are known; all ones if only a hole follows.
    pub until: u64,
}

/// Callback that receives an offset and data as they arrive.
pub type Put<'a> = &'a mut dyn FnMut(u64, &[u8]) -> Result<(), Error>;

/// One of the parallel readers of a source.
pub trait Reader: Send {
    /// Reads until no work is left.
    fn read(&mut self, work: &WorkRanges, put: Put<'_>) -> Result<(), Error>;
}

/// A file to copy to, without its final name yet.
pub trait Sink: Sync {
    /// Returns its final name, for messages.
    fn name(&self) -> String;
    /// Returns the number of bytes left by an earlier attempt.
    fn length(&self) -> Result<u64, Error>;
    /// Returns the largest block size in bytes for checksums.
    fn block(&self) -> u32;
    /// Returns the checksums of the blocks of a segment that begins at a block boundary; fewer if
    /// the file ends earlier.
    fn checksums(&self, block: u32, segment: (u64, u64)) -> Result<Vec<u32>, Error>;
    /// Returns a writer, which works in parallel with the others.
    fn writer(&self, session_number: usize) -> Result<Box<dyn Writer + '_>, Error>;
    /// Sets its length: truncates excess data, or extends the file with a hole.
    fn resize(&self, length: u64) -> Result<(), Error>;
    /// Removes it because its contents are useless.
    fn discard(&self) -> Result<(), Error>;
    /// Sets the file's attributes and gives it its final name.
    fn complete(&self, final_attributes: &FinalAttributes<'_>) -> Result<(), Error>;
}

/// One of the parallel writers of a sink.
pub trait Writer: Send {
    /// Writes at an offset; may return before the write is complete.
    fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<(), Error>;
    /// Waits until all writes are complete.
    fn finish(&mut self) -> Result<(), Error>;
}

/// The final attributes of a file.
#[derive(Debug, Clone, Copy)]
pub struct FinalAttributes<'a> {
    /// Permission bits.
    pub mode: u32,
    /// Last change in nanoseconds since 1970, if it is kept.
    pub modified: Option<i64>,
    /// Extended attributes.
    pub extended: &'a [(Vec<u8>, Vec<u8>)],
    /// Whether data and name must be on stable storage before [`Sink::complete`] returns.
    pub stable: Durability,
}

/// Copies a file.
///
/// # Errors
/// Returns the errors of either file, [`Error::Changed`] if the source changed, and
/// [`Error::Damaged`] if verification fails.
pub fn copy(
    source: &dyn Source,
    sink: &dyn Sink,
    settings: &CopySettings,
    progress: &Progress,
) -> Result<(), CopyError> {
    let facts = source.facts();
    let size = facts.size.min(settings.most.unwrap_or(u64::MAX));
    progress.expect(size);
    let block = source.block().min(sink.block());
    let earlier = match settings.earlier {
        EarlierAttempt::Discard => 0,
        EarlierAttempt::Continue => sink.length().about(sink.name())?.min(size),
    };
    let mut at = 0;
    loop {
        let (work, until) = plan(source, sink, block, (at, size), earlier)?;
        progress.kept(until - at - work.total());
        let work = match settings.start {
            ConnectionStart::Full => work,
            ConnectionStart::Slow => work.with_slow_start(block),
        };
        move_all(source, sink, &work, settings, progress)?;
        at = until;
        if at >= size {
            break;
        }
    }
    sink.resize(size).about(sink.name())?;
    if settings.verification == Verification::Written {
        verify(source, sink, block, size)?;
    }
    source.unchanged().about(source.name())?;
    let final_attributes = FinalAttributes {
        mode: facts.mode,
        modified: Some(facts.modified),
        extended: &facts.extended,
        stable: settings.stable,
    };
    sink.complete(&final_attributes).about(sink.name())?;
    progress.file();
    Ok(())
}

/// Moves the data, in as many parallel sessions as are worthwhile.
fn move_all(
    source: &dyn Source,
    sink: &dyn Sink,
    work: &WorkRanges,
    settings: &CopySettings,
    progress: &Progress,
) -> Result<(), CopyError> {
    let at_sink = AtomicBool::new(false);
    let moved = settings
        .session_count
        .share(work.total(), |session_number, first_moved| {
            let mark = |error| {
                at_sink.store(true, Ordering::Relaxed);
                error
            };
            let Some(mut reader) = settings
                .session_count
                .opened(session_number, source.reader(session_number))?
            else {
                return Ok(());
            };
            let writer = settings
                .session_count
                .opened(session_number, sink.writer(session_number));
            let Some(mut writer) = writer.map_err(mark)? else {
                return Ok(());
            };
            // Number of writes, and bytes of those whose arrival is not confirmed.
            let (mut puts, mut unknown) = (0, 0);
            let mut put = |offset: u64, bytes: &[u8]| {
                writer.write(offset, bytes).map_err(mark)?;
                let length = bytes.len() as u64;
                progress.sent(length);
                (puts, unknown) = (puts + 1, unknown + length);
                if settings.start == ConnectionStart::Full || puts > SLOW_START_BLOCKS {
                    progress.arrived(std::mem::take(&mut unknown));
                } else if (puts + 1).is_power_of_two() {
                    // One block is confirmed before the next two are sent, then four, then eight.
                    writer.finish().map_err(mark)?;
                    progress.arrived(std::mem::take(&mut unknown));
                }
                settings.limit_rate(length);
                first_moved(length);
                Ok(())
            };
            reader.read(work, &mut put)?;
            writer.finish().map_err(mark)?;
            progress.arrived(unknown);
            Ok(())
        });
    match at_sink.load(Ordering::Relaxed) {
        true => moved.about(sink.name()),
        false => moved.about(source.name()),
    }
}

/// Plans the next segment of the remaining part; returns the work and the segment's end.
fn plan(
    source: &dyn Source,
    sink: &dyn Sink,
    block: u32,
    (from, size): (u64, u64),
    earlier: u64,
) -> Result<(WorkRanges, u64), CopyError> {
    let mut to = segment_end(from, size, block);
    let data = match source.facts().is_sparse() {
        false => vec![(from, to - from)],
        true => {
            let found = source.data((from, to)).about(source.name())?;
            let whole_blocks = found.until / u64::from(block) * u64::from(block);
            let last = found.data.last();
            let behind = last.map_or(from, |&(start, length)| start.saturating_add(length));
            if found.until >= to {
                // A hole up to the end of the file belongs to the segment as well, unless an
                // earlier attempt's data is compared there.
                if found.until == u64::MAX && behind <= to && earlier <= from {
                    to = size;
                }
                found.data
            } else if whole_blocks > from {
                to = whole_blocks;
                found.data
            } else {
                // One block has more extents than are kept in memory: the block is treated as data.
                to = from.saturating_add(block.into()).min(to);
                vec![(from, to - from)]
            }
        }
    };
    if earlier <= from {
        return Ok((
            WorkRanges::of((from, to), CHUNK.into(), &data, 0, |_| false),
            to,
        ));
    }
    let compared = earlier.next_multiple_of(block.into()).min(to);
    let theirs = source.checksums(block, (from, compared));
    let theirs = theirs.about(source.name())?;
    let ours = sink.checksums(block, (from, to.min(earlier)));
    let ours = ours.about(sink.name())?;
    let first = from / u64::from(block);
    let is_right = |number: u64| {
        // The last block of a truncated partial file is shorter than the source's.
        let whole = (number + 1) * u64::from(block) <= earlier || earlier == size;
        let index = (number - first) as usize;
        whole && ours.get(index).is_some() && ours.get(index) == theirs.get(index)
    };
    let work = WorkRanges::of((from, to), block.into(), &data, earlier, is_right);
    Ok((work, to))
}

/// Reads both files back, each on its host, and compares checksums.
fn verify(source: &dyn Source, sink: &dyn Sink, block: u32, size: u64) -> Result<(), CopyError> {
    for (from, to) in segments(size, block) {
        let (expected, found) = std::thread::scope(|scope| {
            let expected = scope.spawn(|| source.checksums(block, (from, to)));
            let found = sink.checksums(block, (from, to));
            let panicked = |_| Err(Error::Setup("a verifying thread panicked".into()));
            (expected.join().unwrap_or_else(panicked), found)
        });
        let expected = expected.about(source.name())?;
        let found = found.about(sink.name())?;
        let blocks = expected.len().max(found.len());
        if let Some(index) = (0..blocks).find(|&at| expected.get(at) != found.get(at)) {
            return Err(Error::Damaged {
                offset: from + index as u64 * u64::from(block),
                expected: expected.get(index).copied().unwrap_or_default(),
                found: found.get(index).copied().unwrap_or_default(),
            })
            .about(sink.name());
        }
    }
    Ok(())
}
