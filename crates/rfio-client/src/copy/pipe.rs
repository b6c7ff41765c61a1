//! Copies from or to a byte stream: a pipe, a terminal, a device.

use std::io::{self, Read, Write};
use std::sync::{Condvar, Mutex, MutexGuard};

use super::failure::{CopyError, ErrorSubject};
use super::pipeline::{FinalAttributes, Sink, Source};
use super::progress::Progress;
use super::resume::{CHUNK, WorkRanges, segments};
use super::retry::FailureSeries;
use super::settings::{ConnectionStart, CopySettings};
use crate::error::Error;

/// Writes data in order to a destination that is not a regular file. `open` opens the source, and
/// reopens it after a lost connection. Written data cannot be written again, so the source must
/// still be in the same state then.
///
/// # Errors
/// Returns [`Error::Changed`] if it is not, else the errors of the source, the connection, or the
/// stream.
pub fn to_stream<'a>(
    open: &dyn Fn() -> Result<Box<dyn Source + 'a>, CopyError>,
    sink: &mut (dyn Write + Send),
    settings: &CopySettings,
    progress: &Progress,
) -> Result<(), CopyError> {
    let mut source = open()?;
    let state = source.state();
    let size = source.facts().size.min(settings.most.unwrap_or(u64::MAX));
    progress.expect(size);
    let mut written = 0;
    let mut failures = FailureSeries::default();
    let mut start = settings.start;
    while let Err(error) = read_from(
        &*source,
        size,
        &mut written,
        sink,
        (settings, start),
        progress,
    ) {
        start = ConnectionStart::Slow;
        let name = source.name();
        failures.after(error, settings, progress)?;
        loop {
            match open() {
                Ok(again) => {
                    source = again;
                    break;
                }
                Err(error) => failures.after(error, settings, progress)?,
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

/// Serialises the output of parallel readers by offset.
struct OrderedOutput<'a> {
    state: Mutex<State<'a>>,
    changed: Condvar,
}

struct State<'a> {
    sink: &'a mut (dyn Write + Send),
    written: &'a mut u64,
    /// The first reader's error.
    failed: Option<Error>,
}

impl<'a> OrderedOutput<'a> {
    fn lock(&self) -> MutexGuard<'_, State<'a>> {
        self.state
            .lock()
            .unwrap_or_else(|poison| poison.into_inner())
    }

    /// Waits until everything before `offset` is written, then writes `bytes`.
    fn put(&self, offset: u64, bytes: &[u8]) -> Result<(), Error> {
        let mut state = self.lock();
        while state.failed.is_none() && *state.written < offset {
            state = self
                .changed
                .wait(state)
                .unwrap_or_else(|poison| poison.into_inner());
        }
        if let Some(failed) = &state.failed {
            return Err(failed.duplicate());
        }
        let put = state.sink.write_all(bytes);
        put.map_err(|error| Error::Local("write".into(), error))?;
        *state.written += bytes.len() as u64;
        drop(state);
        self.changed.notify_all();
        Ok(())
    }

    /// Ends the wait of all other readers with an error.
    fn fail(&self, error: &Error) {
        self.lock().failed.get_or_insert_with(|| error.duplicate());
        self.changed.notify_all();
    }
}

/// Writes the data after the first `written` bytes.
fn read_from(
    source: &dyn Source,
    size: u64,
    written: &mut u64,
    sink: &mut (dyn Write + Send),
    (settings, start): (&CopySettings, ConnectionStart),
    progress: &Progress,
) -> Result<(), CopyError> {
    let begun = *written;
    let in_order = OrderedOutput {
        state: Mutex::new(State {
            sink,
            written,
            failed: None,
        }),
        changed: Condvar::new(),
    };
    let mut parts: Vec<_> = segments(size, CHUNK).collect();
    parts.retain(|&(_, to)| to > begun);
    if parts.is_empty() {
        // An empty file needs one part as well, so that the source is read and checked.
        parts.push((size, size));
    }
    for (from, to) in parts {
        let work = match WorkRanges::whole((from.max(begun), to)) {
            work if start == ConnectionStart::Slow => work.with_slow_start(source.block()),
            work => work,
        };
        // Not inside the callback, which runs while the connection is locked.
        let reads_in_parallel = source.reads_in_parallel();
        let moved = settings
            .session_count
            .share(work.total(), |session_number, first_moved| {
                let mut put = |offset, bytes: &[u8]| {
                    in_order.put(offset, bytes)?;
                    let length = bytes.len() as u64;
                    progress.moved(length);
                    settings.limit_rate(length);
                    if reads_in_parallel {
                        first_moved(length);
                    }
                    Ok(())
                };
                let read = match settings
                    .session_count
                    .opened(session_number, source.reader(session_number))
                {
                    Ok(Some(mut reader)) => reader.read(&work, &mut put),
                    Ok(None) => Ok(()),
                    Err(error) => Err(error),
                };
                read.inspect_err(|error| in_order.fail(error))
            });
        let failed = in_order.lock().failed.take();
        failed.map_or(moved, Err).about(source.name())?;
    }
    source.unchanged().about(source.name())
}

/// Copies from a source whose length is unknown until its end. The file gets the permission bits
/// `mode`.
///
/// # Errors
/// Returns the errors of the source and of the sink.
pub fn from_stream(
    source: &mut dyn Read,
    sink: &dyn Sink,
    mode: u32,
    settings: &CopySettings,
    progress: &Progress,
) -> Result<(), CopyError> {
    let mut source = source.take(settings.most.unwrap_or(u64::MAX));
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
        settings.limit_rate(filled as u64);
    }
    writer.finish().about(sink.name())?;
    drop(writer);
    sink.resize(offset).about(sink.name())?;
    let final_attributes = FinalAttributes {
        mode,
        modified: None,
        extended: &[],
        stable: settings.stable,
    };
    sink.complete(&final_attributes).about(sink.name())?;
    progress.file();
    Ok(())
}

/// Reads until the buffer is full or the stream ends.
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

#[cfg(test)]
mod tests {
    use super::super::facts::FileFacts;
    use super::super::pipeline::{Extents, Put, Reader};
    use super::*;
    use std::time::Duration;

    /// A file whose chunks are filled with their numbers.
    struct Numbered {
        facts: FileFacts,
        /// The reader that fails.
        failing: Option<usize>,
    }

    impl Numbered {
        fn of(chunks: u64, failing: Option<usize>) -> Self {
            let mut facts = FileFacts::of_a_stream(0o600);
            facts.size = chunks * u64::from(CHUNK);
            Self { facts, failing }
        }
    }

    impl Source for Numbered {
        fn name(&self) -> String {
            "numbered".into()
        }
        fn facts(&self) -> &FileFacts {
            &self.facts
        }
        fn block(&self) -> u32 {
            CHUNK
        }
        fn data(&self, _: (u64, u64)) -> Result<Extents, Error> {
            Ok(Extents::default())
        }
        fn checksums(&self, _: u32, _: (u64, u64)) -> Result<Vec<u32>, Error> {
            Ok(Vec::new())
        }
        fn reader(&self, session_number: usize) -> Result<Box<dyn Reader + '_>, Error> {
            Ok(Box::new(NumberedReader(self, session_number)))
        }
        fn reads_in_parallel(&self) -> bool {
            true
        }
        fn state(&self) -> u64 {
            0
        }
        fn unchanged(&self) -> Result<(), Error> {
            Ok(())
        }
    }

    struct NumberedReader<'a>(&'a Numbered, usize);

    impl Reader for NumberedReader<'_> {
        fn read(&mut self, work: &WorkRanges, put: Put<'_>) -> Result<(), Error> {
            // Two reads are in flight, as with RDMA.
            let mut due = std::collections::VecDeque::new();
            loop {
                while due.len() < 2
                    && let Some(range) = work.take()
                {
                    due.push_back(range);
                }
                if self.0.failing == Some(self.1) {
                    return Err(Error::Dropped("of this session"));
                }
                let Some((offset, length)) = due.pop_front() else {
                    return Ok(());
                };
                let number = (offset / u64::from(CHUNK)) as u8;
                put(offset, &vec![number; length as usize])?;
            }
        }
    }

    fn settings(session_count: usize) -> CopySettings {
        CopySettings::of_tests(session_count, Duration::ZERO)
    }

    #[test]
    fn parallel_readers_write_in_order() {
        for session_count in [1, 2, 4] {
            let mut taken = Vec::new();
            let open = || Ok(Box::new(Numbered::of(40, None)) as Box<dyn Source>);
            let progress = Progress::default();
            to_stream(&open, &mut taken, &settings(session_count), &progress).unwrap();
            assert_eq!(taken.len(), 40 * CHUNK as usize);
            let chunks = taken.chunks(CHUNK as usize).enumerate();
            for (number, chunk) in chunks {
                assert!(chunk.iter().all(|&byte| byte == number as u8), "{number}");
            }
        }
    }

    #[test]
    fn failed_reader_ends_the_others() {
        for failing in 0..4 {
            let mut taken = Vec::new();
            let open = || Ok(Box::new(Numbered::of(40, Some(failing))) as Box<dyn Source>);
            let progress = Progress::default();
            let copied = to_stream(&open, &mut taken, &settings(4), &progress);
            let error = copied.unwrap_err().error;
            assert!(
                matches!(error, Error::Dropped("of this session")),
                "{error}"
            );
            // The data written is a prefix without a gap.
            let chunks = taken.chunks(CHUNK as usize).enumerate();
            for (number, chunk) in chunks {
                assert!(chunk.iter().all(|&byte| byte == number as u8), "{number}");
            }
        }
    }
}
