//! Copies whose one end is a stream of bytes: a pipe, a terminal, a device.

use std::io::{self, Read, Write};

use super::failure::{About, CopyError};
use super::pipeline::{Ending, Sink, Source};
use super::progress::Progress;
use super::resume::{Work, segments};
use super::{CHUNK, Manner};
use crate::client::error::Error;

/// Data in order, to something that is not a file.
pub fn to_stream(
    source: &dyn Source,
    sink: &mut dyn Write,
    manner: &Manner,
    progress: &Progress,
) -> Result<(), CopyError> {
    let size = source.facts().size.min(manner.most.unwrap_or(u64::MAX));
    progress.expect(size);
    let mut put = |_, bytes: &[u8]| {
        sink.write_all(bytes)
            .map_err(|error| Error::Local("write".into(), error))?;
        progress.moved(bytes.len() as u64);
        manner.keep_pace(bytes.len() as u64);
        Ok(())
    };
    let mut reader = source.reader(0).about(source.name())?;
    for segment in segments(size, CHUNK) {
        let read = reader.read(&Work::whole(segment), &mut put);
        read.about(source.name())?;
    }
    drop(reader);
    source.unchanged().about(source.name())?;
    sink.flush().about("standard output")?;
    progress.file();
    Ok(())
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
