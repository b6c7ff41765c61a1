//! One copy of one file, whatever its two ends are.
//!
//! A [`Source`] and a [`Sink`] know this host or a service; what a copy promises is written once, here: what is moved, that
//! it is verified, that the source stayed what it was, that holes stay holes, and only then its name.

use std::sync::atomic::{AtomicBool, Ordering};

use super::failure::{About, CopyError};
use super::progress::Progress;
use super::resume::{SLOWLY, Work, segment_end, segments};
use super::{CHUNK, Earlier, Manner, Stable, Start, Verification};
use crate::client::error::Error;

/// Extended attributes: names with their name space, and values.
pub type ExtendedAttributes = Vec<(Vec<u8>, Vec<u8>)>;

/// What a copy needs to know of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// Bytes.
    pub size: u64,
    /// Permission bits.
    pub mode: u32,
    /// Last change, nanoseconds since 1970.
    pub modified: i64,
    /// Bytes that are allocated: fewer than the size where there are holes.
    pub allocated: u64,
    /// Extended attributes, if they are copied.
    pub extended: ExtendedAttributes,
}

impl Facts {
    /// Those of what is read once and has no length yet: no file is newer.
    pub fn of_a_stream(mode: u32) -> Self {
        Self {
            size: 0,
            mode,
            modified: i64::MAX,
            allocated: 0,
            extended: Vec::new(),
        }
    }

    /// Whether the file has holes that are worth keeping.
    pub fn is_sparse(&self) -> bool {
        self.allocated.saturating_add(4096) <= self.size
    }
}

/// An open file that is copied from. It is of one state, and [`Source::unchanged`] says whether it stayed in it.
pub trait Source: Sync {
    /// Its name, for people.
    fn name(&self) -> String;
    /// What it was when it was opened.
    fn facts(&self) -> &Facts;
    /// Largest block for which it gives checksums.
    fn block(&self) -> u32;
    /// Parts of a segment that hold data, in order, and where the answer ends: before the segment's
    /// end if there are more parts than are held at a time.
    fn data(&self, segment: (u64, u64)) -> Result<Extents, Error>;
    /// Checksums of the blocks of a segment that begins with a block; fewer where the file ends.
    fn checksums(&self, block: u32, segment: (u64, u64)) -> Result<Vec<u32>, Error>;
    /// A way to read, beside the others that are under way.
    fn reader(&self, lane: usize) -> Result<Box<dyn Reader + '_>, Error>;
    /// Returns whether parallel readers speed up a copy that writes in order.
    fn reads_beside(&self) -> bool {
        false
    }
    /// A number for its state, by which it is known when it is opened again.
    fn state(&self) -> u64;
    /// Fails if the file is not what it was when it was opened.
    fn unchanged(&self) -> Result<(), Error>;
}

/// Where a file holds data.
#[derive(Debug, Default)]
pub struct Extents {
    /// First byte and length of each, in order.
    pub data: Vec<(u64, u64)>,
    /// The byte up to which they are known; all ones if nothing but a hole follows.
    pub until: u64,
}

/// What takes data as they come.
pub type Put<'a> = &'a mut dyn FnMut(u64, &[u8]) -> Result<(), Error>;

/// One of several that read a source.
pub trait Reader: Send {
    /// Reads until no work is left.
    fn read(&mut self, work: &Work, put: Put<'_>) -> Result<(), Error>;
}

/// A file that is copied to: it has no name yet.
pub trait Sink: Sync {
    /// Its name-to-be, for people.
    fn name(&self) -> String;
    /// Bytes that are there from an earlier attempt.
    fn length(&self) -> Result<u64, Error>;
    /// Largest block for which it gives checksums.
    fn block(&self) -> u32;
    /// Checksums of the blocks of a segment that begins with a block; fewer where the file ends.
    fn checksums(&self, block: u32, segment: (u64, u64)) -> Result<Vec<u32>, Error>;
    /// A way to write, beside the others that are under way.
    fn writer(&self, lane: usize) -> Result<Box<dyn Writer + '_>, Error>;
    /// Sets its length: cuts off what is too much, and makes a hole of what is missing at the end.
    fn resize(&self, length: u64) -> Result<(), Error>;
    /// Removes it: what is in it is of no use any more.
    fn discard(&self) -> Result<(), Error>;
    /// Gives the file its attributes and name.
    fn complete(&self, ending: &Ending<'_>) -> Result<(), Error>;
}

/// One of several that write a sink.
pub trait Writer: Send {
    /// Writes at an offset; may return before it is done.
    fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<(), Error>;
    /// Waits until everything so far is written.
    fn finish(&mut self) -> Result<(), Error>;
}

/// How a file ends up.
#[derive(Debug, Clone, Copy)]
pub struct Ending<'a> {
    /// Permission bits.
    pub mode: u32,
    /// Last change, if it is kept.
    pub modified: Option<i64>,
    /// Extended attributes.
    pub extended: &'a [(Vec<u8>, Vec<u8>)],
    /// Whether data and name are on stable storage when this is done.
    pub stable: Stable,
}

/// Copies a file.
pub fn copy(
    source: &dyn Source,
    sink: &dyn Sink,
    manner: &Manner,
    progress: &Progress,
) -> Result<(), CopyError> {
    let facts = source.facts();
    let size = facts.size.min(manner.most.unwrap_or(u64::MAX));
    progress.expect(size);
    let block = source.block().min(sink.block());
    let earlier = match manner.earlier {
        Earlier::Discard => 0,
        Earlier::Continue => sink.length().about(sink.name())?.min(size),
    };
    let mut at = 0;
    loop {
        let (work, until) = plan(source, sink, block, (at, size), earlier)?;
        progress.kept(until - at - work.total());
        let work = match manner.start {
            Start::Full => work,
            Start::Slow => work.beginning_with_blocks(block),
        };
        move_all(source, sink, &work, manner, progress)?;
        at = until;
        if at >= size {
            break;
        }
    }
    sink.resize(size).about(sink.name())?;
    if manner.verification == Verification::Written {
        verify(source, sink, block, size)?;
    }
    source.unchanged().about(source.name())?;
    let ending = Ending {
        mode: facts.mode,
        modified: Some(facts.modified),
        extended: &facts.extended,
        stable: manner.stable,
    };
    sink.complete(&ending).about(sink.name())?;
    progress.file();
    Ok(())
}

/// Does the work, in as many lanes as it is worth.
fn move_all(
    source: &dyn Source,
    sink: &dyn Sink,
    work: &Work,
    manner: &Manner,
    progress: &Progress,
) -> Result<(), CopyError> {
    let at_sink = AtomicBool::new(false);
    let moved = manner.lanes.share(work.total(), |lane, first_moved| {
        let mark = |error| {
            at_sink.store(true, Ordering::Relaxed);
            error
        };
        let Some(mut reader) = manner.lanes.opened(lane, source.reader(lane))? else {
            return Ok(());
        };
        let writer = manner.lanes.opened(lane, sink.writer(lane));
        let Some(mut writer) = writer.map_err(mark)? else {
            return Ok(());
        };
        // Puts, and bytes of them that may not have arrived.
        let (mut puts, mut unknown) = (0, 0);
        let mut put = |offset: u64, bytes: &[u8]| {
            writer.write(offset, bytes).map_err(mark)?;
            let length = bytes.len() as u64;
            progress.sent(length);
            (puts, unknown) = (puts + 1, unknown + length);
            if manner.start == Start::Full || puts > SLOWLY {
                progress.arrived(std::mem::take(&mut unknown));
            } else if (puts + 1).is_power_of_two() {
                // One block is known to be there before the next two leave, then four, then eight.
                writer.finish().map_err(mark)?;
                progress.arrived(std::mem::take(&mut unknown));
            }
            manner.keep_pace(length);
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

/// What is to be moved of the next segment of what is left, and where that ends.
fn plan(
    source: &dyn Source,
    sink: &dyn Sink,
    block: u32,
    (from, size): (u64, u64),
    earlier: u64,
) -> Result<(Work, u64), CopyError> {
    let mut to = segment_end(from, size, block);
    let data = match source.facts().is_sparse() {
        false => vec![(from, to - from)],
        true => {
            let found = source.data((from, to)).about(source.name())?;
            let whole_blocks = found.until / u64::from(block) * u64::from(block);
            let last = found.data.last();
            let behind = last.map_or(from, |&(start, length)| start.saturating_add(length));
            if found.until >= to {
                // What is a hole to the file's end belongs to the segment as well, unless it is
                // compared.
                if found.until == u64::MAX && behind <= to && earlier <= from {
                    to = size;
                }
                found.data
            } else if whole_blocks > from {
                to = whole_blocks;
                found.data
            } else {
                // More parts in a block than are held: the block is one.
                to = from.saturating_add(block.into()).min(to);
                vec![(from, to - from)]
            }
        }
    };
    if earlier <= from {
        return Ok((Work::of((from, to), CHUNK.into(), &data, 0, |_| false), to));
    }
    let compared = earlier.next_multiple_of(block.into()).min(to);
    let theirs = source.checksums(block, (from, compared));
    let theirs = theirs.about(source.name())?;
    let ours = sink.checksums(block, (from, to.min(earlier)));
    let ours = ours.about(sink.name())?;
    let first = from / u64::from(block);
    let is_right = |number: u64| {
        // The last block of a part that was cut off is shorter than the source's.
        let whole = (number + 1) * u64::from(block) <= earlier || earlier == size;
        let index = (number - first) as usize;
        whole && ours.get(index).is_some() && ours.get(index) == theirs.get(index)
    };
    let work = Work::of((from, to), block.into(), &data, earlier, is_right);
    Ok((work, to))
}

/// Reads both ends back, each where it is, and compares.
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
