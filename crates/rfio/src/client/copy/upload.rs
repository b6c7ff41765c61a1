//! From here to a service, and from one service to another.

use std::fs::File;
use std::io::Read;
use std::path::Path as LocalPath;

use verbena_rfio_protocol::request::{OpenFlags, Request, TwoPaths};
use verbena_rfio_protocol::types::Path;

use super::local::{About, CopyError, Identity, open_source, partial_name, read_fully_at};
use super::progress::Progress;
use super::resume::{Work, remote_checksums, right_blocks, share};
use super::{CHUNK, Earlier, Manner, Stable, Verification, connect};
use crate::client::address::Address;
use crate::client::error::Error;
use crate::client::file::{RemoteFile, SharedSession, lock};
use crate::client::pull::Pull;
use crate::client::push::Push;

/// A partial file on a server.
struct Partial {
    session: SharedSession,
    file: RemoteFile,
    path: Path,
    destination: Path,
}

impl Partial {
    fn open(
        address: &Address,
        destination: &Path,
        manner: &Manner,
        mode: u32,
    ) -> Result<Self, Error> {
        let session = connect(address, &manner.options)?;
        let bytes = destination.as_bytes();
        let slash = bytes
            .iter()
            .rposition(|&byte| byte == b'/')
            .map_or(0, |slash| slash + 1);
        let name = [&bytes[..slash], &partial_name(&bytes[slash..])].concat();
        let path = Path::new(name).ok_or_else(|| Error::Setup("path too long".into()))?;
        let mut flags = OpenFlags::READ
            | OpenFlags::WRITE
            | OpenFlags::CREATE
            | OpenFlags::SOLE_WRITER
            | OpenFlags::NO_FOLLOW;
        if manner.earlier == Earlier::Discard {
            flags |= OpenFlags::TRUNCATE;
        }
        let file = RemoteFile::open(&session, &path, flags, mode)?;
        Ok(Self {
            session,
            file,
            path,
            destination: destination.clone(),
        })
    }

    fn complete(self, length: u64, modified: Option<i64>, stable: Stable) -> Result<(), Error> {
        self.file.truncate(length)?;
        if let Some(modified) = modified {
            self.file.set_times(modified, modified)?;
        }
        if stable == Stable::First {
            self.file.synchronise()?;
        }
        // Renamed while it is still open, so that nobody else becomes its writer in between.
        let rename = Request::Rename(TwoPaths {
            from: self.path.clone(),
            to: self.destination.clone(),
        });
        lock(&self.session).call(&rename)?;
        self.file.close()
    }

    /// More sessions that write to the same partial file; the first one stays the owner of the right to.
    fn helpers(
        &self,
        address: &Address,
        manner: &Manner,
        work: &Work,
    ) -> Result<Vec<(SharedSession, RemoteFile)>, Error> {
        (1..work.sessions(manner))
            .map(|_| {
                let session = connect(address, &manner.options)?;
                let flags = OpenFlags::WRITE | OpenFlags::NO_FOLLOW;
                let file = RemoteFile::open(&session, &self.path, flags, 0)?;
                Ok((session, file))
            })
            .collect()
    }

    /// The blocks that differ from what `read` gives.
    fn what_is_missing(
        &self,
        size: u64,
        read: impl FnMut(u64, &mut [u8]) -> Result<usize, Error>,
    ) -> Result<Work, Error> {
        let (block, expected) = {
            let mut session = lock(&self.session);
            let have = size.min(
                self.file
                    .attributes()
                    .size
                    .max(self.written_size(&mut session)?),
            );
            (
                session.terms().block,
                remote_checksums(&mut session, self.file.handle(), have)?,
            )
        };
        let right = right_blocks(size, block, &expected, read)?;
        Ok(Work::missing(size, block.into(), |number| {
            right.get(number as usize).copied().unwrap_or(false)
        }))
    }

    fn written_size(&self, session: &mut crate::client::session::Session) -> Result<u64, Error> {
        use verbena_rfio_protocol::Reply;
        use verbena_rfio_protocol::request::OnHandle;
        match session.call(&Request::Examine(OnHandle {
            handle: self.file.handle(),
        }))? {
            Reply::Examined(about) => Ok(about.attributes.size),
            other => Err(crate::client::session::unexpected(&other)),
        }
    }
}

/// From a file.
pub fn from_file(
    local: &LocalPath,
    address: &Address,
    path: &Path,
    manner: &Manner,
    progress: &Progress,
) -> Result<(), CopyError> {
    let name = || format!("{address}{path}");
    let (source, identity, mode) = open_source(local).about(local.display())?;
    if !source.metadata().about(local.display())?.is_file() {
        return from_pipe_with_mode(&mut &source, address, path, manner, progress, mode);
    }
    let size = identity.size.min(manner.most.unwrap_or(u64::MAX));
    let partial = Partial::open(address, path, manner, mode).about(name())?;
    progress.expect(size);
    let read = |offset: u64, bytes: &mut [u8]| {
        read_fully_at(&source, offset, bytes)
            .map_err(|error| Error::Local(local.display().to_string(), error))
    };
    let work = match manner.earlier {
        Earlier::Discard => Work::whole(size),
        Earlier::Continue => partial.what_is_missing(size, read).about(name())?,
    };
    progress.kept(size - work.total());
    let fill = |offset: u64, bytes: &mut [u8]| {
        if read(offset, bytes)? < bytes.len() {
            Err(Error::Changed)
        } else {
            Ok(())
        }
    };
    let helpers = partial.helpers(address, manner, &work).about(name())?;
    let own = [(&partial.session, &partial.file)];
    let others = helpers.iter().map(|(session, file)| (session, file));
    share(own.into_iter().chain(others), |session, file| {
        push(session, file, &work, progress, fill)
    })
    .about(name())?;
    drop(helpers);
    verify(&partial, size, manner, read).about(name())?;
    unchanged(&source, identity).about(local.display())?;
    partial
        .complete(size, Some(identity.modified()), manner.stable)
        .about(name())?;
    progress.file();
    Ok(())
}

fn verify(
    partial: &Partial,
    size: u64,
    manner: &Manner,
    read: impl FnMut(u64, &mut [u8]) -> Result<usize, Error>,
) -> Result<(), Error> {
    if manner.verification == Verification::Written
        && let Some((offset, _)) = partial.what_is_missing(size, read)?.take()
    {
        return Err(Error::Damaged {
            offset,
            expected: 0,
            found: 0,
        });
    }
    Ok(())
}

fn unchanged(source: &File, identity: Identity) -> Result<(), Error> {
    let now = Identity::of(source).map_err(|error| Error::Local("source".into(), error))?;
    if now == identity {
        Ok(())
    } else {
        Err(Error::Changed)
    }
}

/// From a pipe, whose length only its end tells.
pub fn from_pipe(
    source: &mut dyn Read,
    address: &Address,
    path: &Path,
    manner: &Manner,
    progress: &Progress,
) -> Result<(), CopyError> {
    from_pipe_with_mode(source, address, path, manner, progress, 0o644)
}

fn from_pipe_with_mode(
    source: &mut dyn Read,
    address: &Address,
    path: &Path,
    manner: &Manner,
    progress: &Progress,
    mode: u32,
) -> Result<(), CopyError> {
    let name = || format!("{address}{path}");
    // What came through a pipe cannot come again, so nothing of an earlier attempt is of use.
    let manner = Manner {
        earlier: Earlier::Discard,
        ..manner.clone()
    };
    let partial = Partial::open(address, path, &manner, mode).about(name())?;
    let mut source = source.take(manner.most.unwrap_or(u64::MAX));
    let mut offset = 0;
    {
        let mut session = lock(&partial.session);
        let mut push = Push::new(&mut session, partial.file.handle());
        let mut buffer = vec![0; push.most().min(CHUNK) as usize];
        loop {
            let mut filled = 0;
            while filled < buffer.len() {
                match source.read(&mut buffer[filled..]) {
                    Ok(0) => break,
                    Ok(more) => filled += more,
                    Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                    Err(error) => return Err(error).about("standard input"),
                }
            }
            if filled == 0 {
                break;
            }
            push.start(offset, &buffer[..filled]).about(name())?;
            offset += filled as u64;
            progress.expect(filled as u64);
            progress.moved(filled as u64);
        }
        push.finish().about(name())?;
    }
    partial
        .complete(offset, None, manner.stable)
        .about(name())?;
    progress.file();
    Ok(())
}

/// From one service to another, through here.
pub fn from_remote(
    from: &Address,
    source: &Path,
    to: &Address,
    path: &Path,
    manner: &Manner,
    progress: &Progress,
) -> Result<(), CopyError> {
    let (from_name, to_name) = (|| format!("{from}{source}"), || format!("{to}{path}"));
    let session = connect(from, &manner.options).about(from_name())?;
    let file = RemoteFile::open(&session, source, OpenFlags::READ, 0).about(from_name())?;
    let about = file.attributes().clone();
    let size = about.size.min(manner.most.unwrap_or(u64::MAX));
    let partial = Partial::open(to, path, manner, about.mode & 0o777).about(to_name())?;
    progress.expect(size);
    let work = match manner.earlier {
        Earlier::Discard => Work::whole(size),
        Earlier::Continue => {
            // Both ends compute checksums; no data travel. Both must cut blocks alike.
            let block = lock(&session).terms().block;
            if block != lock(&partial.session).terms().block {
                Work::whole(size)
            } else {
                let theirs =
                    remote_checksums(&mut lock(&session), file.handle(), size).about(from_name())?;
                let have = partial.file.attributes().size.min(size);
                let ours =
                    remote_checksums(&mut lock(&partial.session), partial.file.handle(), have)
                        .about(to_name())?;
                let whole = |number: u64| (number + 1) * u64::from(block) <= have || have == size;
                Work::missing(size, block.into(), |number| {
                    let index = number as usize;
                    whole(number)
                        && ours.get(index).is_some()
                        && ours.get(index) == theirs.get(index)
                })
            }
        }
    };
    progress.kept(size - work.total());
    let mut source_session = lock(&session);
    let mut pull = Pull::new(&mut source_session, file.handle(), Some(about.version));
    let mut buffer = vec![0; CHUNK.max(pull.most()) as usize];
    {
        let mut sink_session = lock(&partial.session);
        let mut push = Push::new(&mut sink_session, partial.file.handle());
        let mut rest = None;
        loop {
            while pull.has_room()
                && let Some((offset, length)) = rest.take().or_else(|| work.take())
            {
                let now = length.min(pull.most());
                pull.start(offset, now).about(from_name())?;
                rest = (length > now).then(|| (offset + u64::from(now), length - now));
            }
            let Some(pulled) = pull.finish_oldest(&mut buffer).about(from_name())? else {
                break;
            };
            let most = push.most() as usize;
            for (index, bytes) in buffer[..pulled.length].chunks(most).enumerate() {
                push.start(pulled.offset + (index * most) as u64, bytes)
                    .about(to_name())?;
            }
            progress.moved(pulled.length as u64);
        }
        push.finish().about(to_name())?;
    }
    partial
        .complete(size, Some(about.modified), manner.stable)
        .about(to_name())?;
    progress.file();
    Ok(())
}

/// Moves work until none is left.
fn push(
    session: &SharedSession,
    file: &RemoteFile,
    work: &Work,
    progress: &Progress,
    fill: impl Fn(u64, &mut [u8]) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut session = lock(session);
    let mut push = Push::new(&mut session, file.handle());
    let mut buffer = vec![0; push.most().min(CHUNK) as usize];
    while let Some((start, length)) = work.take() {
        let mut done = 0;
        while done < length {
            let bytes = &mut buffer[..];
            let now = bytes.len().min((length - done) as usize);
            fill(start + u64::from(done), &mut bytes[..now])?;
            push.start(start + u64::from(done), &bytes[..now])?;
            done += now as u32;
            progress.moved(now as u64);
        }
    }
    push.finish()
}
