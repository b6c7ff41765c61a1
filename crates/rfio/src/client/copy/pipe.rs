//! Copies whose one end is a stream of bytes: a pipe, a terminal, a device.

use std::io::{self, Read, Write};

use super::failure::{About, CopyError};
use super::pipeline::{Ending, Sink, Source};
use super::progress::Progress;
use super::resume::{Work, segments};
use super::retry::Trouble;
use super::{CHUNK, Manner, Start};
use crate::client::error::Error;

/// Data in order, to something that is not a file. `open` opens the source, and opens it again
/// where the connection is lost: what was written cannot be written again, so it must be what it
/// was then.
pub fn to_stream<'a>(
    open: &dyn Fn() -> Result<Box<dyn Source + 'a>, CopyError>,
    sink: &mut dyn Write,
    manner: &Manner,
    progress: &Progress,
) -> Result<(), CopyError> {
    let mut source = open()?;
    let state = source.state();
    let size = source.facts().size.min(manner.most.unwrap_or(u64::MAX));
    progress.expect(size);
    let mut written = 0;
    let mut trouble = Trouble::default();
    let mut start = manner.start;
    while let Err(error) = read_from(
        &*source,
        size,
        &mut written,
        sink,
        (manner, start),
        progress,
    ) {
        start = Start::Slow;
        let name = source.name();
        trouble.after(error, manner, progress)?;
        loop {
            match open() {
                Ok(again) => {
                    source = again;
                    break;
                }
                Err(error) => trouble.after(error, manner, progress)?,
            }
        }
        if source.state() != state {
            return Err(Error::Changed).about(name);
        }
    }
    sink.flush().about("standard output")?;
    progress.file();
    Ok(())
}

/// Writes what is not `written` yet.
fn read_from(
    source: &dyn Source,
    size: u64,
    written: &mut u64,
    sink: &mut dyn Write,
    (manner, start): (&Manner, Start),
    progress: &Progress,
) -> Result<(), CopyError> {
    let mut reader = source.reader(0).about(source.name())?;
    let begun = *written;
    let mut put = |_, bytes: &[u8]| {
        sink.write_all(bytes)
            .map_err(|error| Error::Local("write".into(), error))?;
        *written += bytes.len() as u64;
        progress.moved(bytes.len() as u64);
        manner.keep_pace(bytes.len() as u64);
        Ok(())
    };
    for (from, to) in segments(size, CHUNK).filter(|&(_, to)| to > begun) {
        let work = match Work::whole((from.max(begun), to)) {
            work if start == Start::Slow => work.beginning_with_blocks(source.block()),
            work => work,
        };
        let read = reader.read(&work, &mut put);
        read.about(source.name())?;
    }
    if begun == size {
        // An empty file has come this way, too.
        let read = reader.read(&Work::whole((size, size)), &mut put);
        read.about(source.name())?;
    }
    drop(reader);
    source.unchanged().about(source.name())
}

/// From something whose length only its end tells. `mode` is what the file gets.
pub fn from_stream(
    source: &mut dyn Read,
    sink: &dyn Sink,
    mode: u32,
    manner: &Manner,
    progress: &Progress,
) -> Result<(), CopyError> {
    let mut source = source.take(manner.most.unwrap_or(u64::MAX));
    let mut offset = 0;
    let mut writer = sink.writer(0).about(sink.name())?;
    let mut buffer = vec![0; CHUNK as usize];
    loop {
        let filled = fill(&mut source, &mut buffer).about("standard input")?;
        if filled == 0 {
            break;
        }
        writer.write(offset, &buffer[..filled]).about(sink.name())?;
        offset += filled as u64;
        progress.expect(filled as u64);
        progress.moved(filled as u64);
        manner.keep_pace(filled as u64);
    }
    writer.finish().about(sink.name())?;
    drop(writer);
    sink.resize(offset).about(sink.name())?;
    let ending = Ending {
        mode,
        modified: None,
        extended: &[],
        stable: manner.stable,
    };
    sink.complete(&ending).about(sink.name())?;
    progress.file();
    Ok(())
}

/// Reads until the buffer is full or nothing more comes.
fn fill(source: &mut dyn Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match source.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(more) => filled += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}
