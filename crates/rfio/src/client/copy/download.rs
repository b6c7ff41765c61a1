//! From a service to here.

use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path as LocalPath;

use verbena_rfio_protocol::request::OpenFlags;
use verbena_rfio_protocol::types::Path;

use super::local::{About, CopyError, Partial, is_special, read_fully_at};
use super::progress::Progress;
use super::resume::{Work, remote_checksums, right_blocks, share};
use super::{CHUNK, Earlier, Manner, Verification, connect};
use crate::client::address::Address;
use crate::client::error::Error;
use crate::client::file::{RemoteFile, SharedSession, lock};
use crate::client::pull::Pull;

/// Data in order, to something that is not a file.
pub fn to_pipe(
    address: &Address,
    path: &Path,
    sink: &mut dyn Write,
    manner: &Manner,
    progress: &Progress,
) -> Result<(), CopyError> {
    let name = || format!("{address}{path}");
    let session = connect(address, &manner.options).about(name())?;
    let file = RemoteFile::open(&session, path, OpenFlags::READ, 0).about(name())?;
    let size = file.attributes().size.min(manner.most.unwrap_or(u64::MAX));
    progress.expect(size);
    let work = Work::whole(size);
    let write = |_, bytes: &[u8]| {
        sink.write_all(bytes)
            .map_err(|error| Error::Local("write".into(), error))
    };
    pull(&session, &file, &work, progress, write).about(name())?;
    sink.flush().about("standard output")?;
    progress.file();
    Ok(())
}

/// To a file.
pub fn to_file(
    address: &Address,
    path: &Path,
    local: &LocalPath,
    manner: &Manner,
    progress: &Progress,
) -> Result<(), CopyError> {
    if is_special(local) {
        let mut sink = std::fs::OpenOptions::new()
            .write(true)
            .open(local)
            .about(local.display())?;
        return to_pipe(address, path, &mut sink, manner, progress);
    }
    let name = || format!("{address}{path}");
    let session = connect(address, &manner.options).about(name())?;
    let file = RemoteFile::open(&session, path, OpenFlags::READ, 0).about(name())?;
    let source = file.attributes().clone();
    let size = source.size.min(manner.most.unwrap_or(u64::MAX));
    let partial = Partial::open(local, manner.earlier, source.mode).about(local.display())?;
    progress.expect(size);
    let work = match manner.earlier {
        Earlier::Discard => Work::whole(size),
        Earlier::Continue => what_is_missing(&session, &file, &partial, size).about(name())?,
    };
    progress.kept(size - work.total());

    let sessions = extra_sessions(address, path, manner, &work).about(name())?;
    let store = |offset: u64, bytes: &[u8]| {
        partial
            .file()
            .write_all_at(bytes, offset)
            .map_err(|error| Error::Local(local.display().to_string(), error))
    };
    let own = [(&session, &file)];
    let others = sessions.iter().map(|(session, file)| (session, file));
    share(own.into_iter().chain(others), |session, file| {
        pull(session, file, &work, progress, store)
    })
    .about(name())?;

    if manner.verification == Verification::Written {
        let missing = what_is_missing(&session, &file, &partial, size).about(name())?;
        if let Some((offset, _)) = missing.take() {
            let error = Error::Damaged {
                offset,
                expected: 0,
                found: 0,
            };
            return Err(CopyError {
                subject: local.display().to_string(),
                error,
            });
        }
    }
    // The last word on whether the source stayed what it was: the version covers size and times.
    if file.examine().about(name())?.version != source.version {
        return Err(CopyError {
            subject: name(),
            error: Error::Changed,
        });
    }
    partial
        .complete(size, Some(source.modified), manner.stable)
        .about(local.display())?;
    progress.file();
    Ok(())
}

/// More sessions to the same file, which must be of the same version.
fn extra_sessions(
    address: &Address,
    path: &Path,
    manner: &Manner,
    work: &Work,
) -> Result<Vec<(SharedSession, RemoteFile)>, Error> {
    (1..work.sessions(manner))
        .map(|_| {
            let session = connect(address, &manner.options)?;
            let file = RemoteFile::open(&session, path, OpenFlags::READ, 0)?;
            Ok((session, file))
        })
        .collect()
}

/// The blocks of a partial file that differ from the source's.
fn what_is_missing(
    session: &SharedSession,
    file: &RemoteFile,
    partial: &Partial,
    size: u64,
) -> Result<Work, Error> {
    let local = |error| Error::Local("partial file".into(), error);
    let mut session = lock(session);
    let block = session.terms().block;
    let have = partial.length().map_err(local)?.min(size);
    let expected = remote_checksums(&mut session, file.handle(), have)?;
    let right = right_blocks(size, block, &expected, |offset, bytes| {
        read_fully_at(partial.file(), offset, bytes).map_err(local)
    })?;
    Ok(Work::missing(size, block.into(), |number| {
        right.get(number as usize).copied().unwrap_or(false)
    }))
}

/// Moves work until none is left.
fn pull(
    session: &SharedSession,
    file: &RemoteFile,
    work: &Work,
    progress: &Progress,
    mut store: impl FnMut(u64, &[u8]) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut session = lock(session);
    let mut pull = Pull::new(&mut session, file.handle(), Some(file.attributes().version));
    let mut aside = vec![0; CHUNK.max(pull.most()) as usize];
    let mut rest = None;
    loop {
        while pull.has_room()
            && let Some((offset, length)) = rest.take().or_else(|| work.take())
        {
            // The server may allow less at a time than a chunk.
            let now = length.min(pull.most());
            pull.start(offset, now)?;
            rest = (length > now).then(|| (offset + u64::from(now), length - now));
        }
        let Some((pulled, data)) = pull.finish_in_place(&mut aside)? else {
            return Ok(());
        };
        store(pulled.offset, data)?;
        progress.moved(pulled.length as u64);
    }
}
