//! The remote endpoint of a copy: an open file on a server, or a partial file that is renamed at
//! the end.

use std::sync::Arc;
use std::time::{Duration, Instant};

use verbena_rfio_protocol::checksum;
use verbena_rfio_protocol::request::{
    self, ChangeModeOf, OnPath, OpenFlags, Request, SetExtended, SetTimes, TwoPaths,
};
use verbena_rfio_protocol::types::{Attributes, Bytes, Extended, Path};
use verbena_rfio_protocol::{Reply, Status};

use super::directory::split;
use super::facts::{ExtendedAttributes, FileFacts};
use super::local::{MOST_WAIT_FOR_SOURCE, partial_name};
use super::pipeline::{Extents, FinalAttributes, Put, Reader, Sink, Source, Writer};
use super::progress::{Progress, Transport};
use super::resume::WorkRanges;
use super::settings::{Durability, EarlierAttempt, ExtraAttributes};
use crate::address::Address;
use crate::bounds::EXTENTS;
use crate::connection::{MultiplexedConnection, PipelinedReads, PipelinedWrites, SharedFile};
use crate::error::Error;
use crate::options::{Fabric, Options};
use crate::session_pool::{PooledSession, SessionPool};

/// A server, and how to connect to it.
#[derive(Debug, Clone)]
pub struct RemoteServer<'a> {
    /// The server's address.
    pub address: &'a Address,
    /// Connection options.
    pub options: &'a Options,
    /// Receives the routes that the data took.
    pub progress: &'a Progress,
}

impl RemoteServer<'_> {
    /// Opens a session.
    ///
    /// # Errors
    /// Returns the errors of connecting.
    pub fn session(&self) -> Result<Arc<MultiplexedConnection>, Error> {
        let session = MultiplexedConnection::for_copies(self.address, self.options)?;
        self.progress.reached(self.address);
        // Required RDMA that is missing is known before a partial file is created.
        if self.options.fabric == Fabric::Verbs {
            session.check_rdma()?;
        }
        Ok(session)
    }

    /// Opens a file in a new session.
    ///
    /// # Errors
    /// Returns the server's errors, and those of connecting.
    pub fn open(&self, path: &Path, flags: u32, mode: u32) -> Result<SharedFile, Error> {
        SharedFile::open(self.session()?, path, flags, mode)
    }

    /// Opens a file once more, in a further session whose data path is connected, so that a
    /// refusal of either is known before the session takes part in the work.
    ///
    /// # Errors
    /// Returns the server's errors, and those of connecting.
    pub fn open_further_session(&self, path: &Path, flags: u32) -> Result<SharedFile, Error> {
        let file = self.open(path, flags, 0)?;
        file.connection().choose_data_path()?;
        Ok(file)
    }

    /// Takes a session from a pool, to which it returns after use.
    ///
    /// # Errors
    /// Returns the errors of connecting.
    pub fn take(&self, sessions: &Arc<SessionPool>) -> Result<PooledSession, Error> {
        let session = sessions.take(self.address, self.options)?;
        self.progress.reached(self.address);
        // Before a tree is begun.
        if self.options.fabric == Fabric::Verbs {
            session.check_rdma()?;
        }
        Ok(session)
    }
}

/// A file on a server to read.
pub struct RemoteSource<'a> {
    there: RemoteServer<'a>,
    path: Path,
    own: SharedFile,
    version: u64,
    facts: FileFacts,
}

impl<'a> RemoteSource<'a> {
    /// Opens a file and waits until any further change of it is certain to change its version.
    ///
    /// # Errors
    /// Returns [`Error::Changed`] if the file is being written for too long, else the server's
    /// errors and those of connecting.
    pub fn open(
        there: RemoteServer<'a>,
        path: &Path,
        extras: ExtraAttributes,
    ) -> Result<Self, Error> {
        let file = there.open(path, OpenFlags::READ, 0)?;
        let about = wait_until_unambiguous(&file)?;
        let extended = match extras {
            ExtraAttributes::Extended => {
                extended_in(file.call(Request::Extended(OnPath { path: path.clone() }))?)?
            }
            ExtraAttributes::None => Vec::new(),
        };
        let facts = FileFacts {
            size: about.size,
            mode: about.mode & 0o777,
            modified: about.modified,
            allocated: about.blocks.saturating_mul(512),
            extended,
        };
        Ok(Self {
            there,
            path: path.clone(),
            own: file,
            version: about.version,
            facts,
        })
    }
}

/// Waits until any further change of the file is certain to change its version, for at most
/// [`MOST_WAIT_FOR_SOURCE`]; returns its attributes.
fn wait_until_unambiguous(file: &SharedFile) -> Result<Attributes, Error> {
    let begun = Instant::now();
    let mut about = file.attributes().clone();
    while !about.settled {
        if begun.elapsed() > MOST_WAIT_FOR_SOURCE {
            return Err(Error::Changed);
        }
        std::thread::sleep(Duration::from_millis(5));
        about = file.examine()?;
    }
    match i64::try_from(about.size) {
        Ok(_) => Ok(about),
        Err(_) => Err(Error::Protocol(format!(
            "a file has {} bytes, more than the maximum",
            about.size
        ))),
    }
}

/// Returns the extended attributes in a reply.
pub(crate) fn extended_in(reply: Reply) -> Result<ExtendedAttributes, Error> {
    match reply {
        Reply::Extended(found) => Ok(found
            .entries
            .into_iter()
            .map(|entry| {
                (
                    entry.name.as_bytes().to_vec(),
                    entry.value.as_slice().to_vec(),
                )
            })
            .collect()),
        other => Err(Error::unexpected(&other)),
    }
}

/// Sets extended attributes of a file.
pub(crate) fn set_extended(
    session: &Arc<MultiplexedConnection>,
    path: &Path,
    entries: &[(Vec<u8>, Vec<u8>)],
) -> Result<(), Error> {
    // One request each: together they may exceed a request's size.
    for (name, value) in entries {
        let entry = Extended {
            name: Path::new(&name[..]).ok_or_else(|| Error::Setup("name too long".into()))?,
            value: Bytes::new(&value[..]).ok_or_else(|| Error::Setup("value too long".into()))?,
        };
        session.call(Request::SetExtended(SetExtended {
            path: path.clone(),
            entries: vec![entry],
        }))?;
    }
    Ok(())
}

impl Source for RemoteSource<'_> {
    fn name(&self) -> String {
        self.there.address.location(&self.path)
    }

    fn facts(&self) -> &FileFacts {
        &self.facts
    }

    fn block(&self) -> u32 {
        self.own.connection().server_limits().block
    }

    fn data(&self, segment: (u64, u64)) -> Result<Extents, Error> {
        extents(&self.own, segment)
    }

    fn checksums(&self, block: u32, segment: (u64, u64)) -> Result<Vec<u32>, Error> {
        remote_checksums(&self.own, block, segment)
    }

    fn reader(&self, session_number: usize) -> Result<Box<dyn Reader + '_>, Error> {
        let further = match session_number {
            0 => None,
            _ => Some(
                self.there
                    .open_further_session(&self.path, OpenFlags::READ)?,
            ),
        };
        Ok(Box::new(RemoteReader {
            source: self,
            further,
        }))
    }

    /// Over TCP, a reader that waits for its turn stops its connection, so parallel readers gain
    /// nothing.
    fn reads_in_parallel(&self) -> bool {
        // The first read reports the same failure.
        self.own.connection().choose_data_path().unwrap_or(false)
    }

    fn state(&self) -> u64 {
        self.version
    }

    /// The version covers size and times.
    fn unchanged(&self) -> Result<(), Error> {
        match self.own.examine()?.version == self.version {
            true => Ok(()),
            false => Err(Error::Changed),
        }
    }
}

struct RemoteReader<'a> {
    source: &'a RemoteSource<'a>,
    further: Option<SharedFile>,
}

impl Reader for RemoteReader<'_> {
    fn read(&mut self, work: &WorkRanges, put: Put<'_>) -> Result<(), Error> {
        let file = self.further.as_ref().unwrap_or(&self.source.own);
        let read = read_ranges(file, self.source.version, work, put);
        let progress = self.source.there.progress;
        progress.record_transport(Transport::of(file.connection()));
        read
    }
}

/// Reads the ranges in `work`, with several requests in flight.
fn read_ranges(
    file: &SharedFile,
    version: u64,
    work: &WorkRanges,
    put: Put<'_>,
) -> Result<(), Error> {
    let most = file.connection().max_request_bytes() as u32;
    let mut reads = PipelinedReads::of(file, Some(version));
    let mut rest = None;
    loop {
        while reads.has_room()
            && let Some((offset, length)) = rest.take().or_else(|| work.take())
        {
            // The server's limit may be less than a chunk.
            let now = u32::min(length, most);
            reads.start(offset, now)?;
            rest = (length > now).then(|| (offset + u64::from(now), length - now));
        }
        let looked =
            reads.finish_oldest(|offset, asked, data| match data.len() < asked as usize {
                true => Err(Error::Changed),
                false => put(offset, data),
            })?;
        match looked {
            Some(looked) => looked?,
            None => return Ok(()),
        }
    }
}

/// Returns the data extents of a segment of a remote file.
fn extents(file: &SharedFile, (from, to): (u64, u64)) -> Result<Extents, Error> {
    let (mut data, mut until): (Vec<(u64, u64)>, u64) = (Vec::new(), from);
    while until < to && data.len() < EXTENTS {
        let request = Request::Extents(request::Extents {
            handle: file.handle(),
            offset: until,
            count: 4096,
        });
        let found = match file.call(request)? {
            Reply::Data(found) => found,
            other => return Err(Error::unexpected(&other)),
        };
        for extent in &found.extents {
            let end = extent.offset.checked_add(extent.length);
            let Some(end) = end.filter(|&end| extent.offset >= until && end > until) else {
                return Err(Error::Protocol("extents are out of order".into()));
            };
            data.push((extent.offset, extent.length));
            until = end;
        }
        match (found.next, found.extents.is_empty()) {
            (0, _) => {
                until = u64::MAX;
                break;
            }
            (next, false) if next >= until => until = next,
            _ => return Err(Error::Protocol("the list of extents does not end".into())),
        }
    }
    Ok(Extents { data, until })
}

/// Returns the checksums of the blocks of a segment of a remote file, up to the end of the segment
/// or of the file. The segment begins at a block boundary.
fn remote_checksums(
    file: &SharedFile,
    block: u32,
    (from, to): (u64, u64),
) -> Result<Vec<u32>, Error> {
    // The server's last block ends with the file. A shorter last block of the segment is computed
    // here.
    let length = file.examine()?.size;
    let tail = if length > to {
        to % u64::from(block)
    } else {
        0
    };
    let bytes = (to.min(length) - tail.min(length)).saturating_sub(from);
    let count = bytes.div_ceil(u64::from(block)) as usize;
    let mut all = Vec::new();
    while all.len() < count {
        let offset = from + all.len() as u64 * u64::from(block);
        let part = file.checksums(offset, block, (count - all.len()) as u64)?;
        // The file has become shorter.
        if part.checksums.is_empty() {
            break;
        }
        all.extend(part.checksums);
    }
    if tail > 0 {
        let (read, bytes) = file.read(to - tail, vec![0; tail as usize])?;
        all.push(checksum::crc32c(&bytes[..read]));
    }
    Ok(all)
}

/// Returns the path of the partial file of a destination.
pub(crate) fn partial_path(destination: &Path) -> Result<Path, Error> {
    let (parent, name) = split(destination.as_bytes());
    let slash: &[u8] = if destination.as_bytes().contains(&b'/') {
        b"/"
    } else {
        b""
    };
    Path::new([parent, slash, &partial_name(name)].concat())
        .ok_or_else(|| Error::Setup("path too long".into()))
}

/// A partial file on a server.
pub struct RemoteSink<'a> {
    there: RemoteServer<'a>,
    own: SharedFile,
    path: Path,
    destination: Path,
}

impl<'a> RemoteSink<'a> {
    /// Opens the partial file of a destination, or creates it.
    ///
    /// # Errors
    /// Returns the server's errors ("busy" if another copy writes the file), and those of
    /// connecting.
    pub fn open(
        there: RemoteServer<'a>,
        destination: &Path,
        earlier: EarlierAttempt,
    ) -> Result<Self, Error> {
        let session = there.session()?;
        Self::open_in(session, there, destination, earlier)
    }

    /// Opens the partial file in a shared session, or creates it.
    ///
    /// # Errors
    /// Returns the server's errors ("busy" if another copy writes the file), and those of the
    /// connection.
    pub fn open_in(
        session: Arc<MultiplexedConnection>,
        there: RemoteServer<'a>,
        destination: &Path,
        earlier: EarlierAttempt,
    ) -> Result<Self, Error> {
        let path = partial_path(destination)?;
        let mut flags = OpenFlags::READ
            | OpenFlags::WRITE
            | OpenFlags::CREATE
            | OpenFlags::SOLE_WRITER
            | OpenFlags::NO_FOLLOW;
        if earlier == EarlierAttempt::Discard {
            flags |= OpenFlags::TRUNCATE;
        }
        // No other user may read an incomplete file; its permission bits are set at the end.
        let opened = SharedFile::open(Arc::clone(&session), &path, flags, 0o600);
        let own = opened.map_err(|error| match error.errno() {
            Some(libc::ENOENT | libc::ENOTDIR) => {
                explain_parent(&session, there.address, destination).unwrap_or(error)
            }
            _ => error,
        })?;
        Ok(Self {
            there,
            own,
            path,
            destination: destination.clone(),
        })
    }
}

/// Returns an error that names the directory of a destination, unless there is such a directory.
fn explain_parent(
    session: &Arc<MultiplexedConnection>,
    address: &Address,
    destination: &Path,
) -> Option<Error> {
    // The parent of a name in the root, which exists, is empty.
    let parent =
        Path::new(split(destination.as_bytes()).0).filter(|path| *path != Path::default())?;
    let request = Request::Status(OnPath {
        path: parent.clone(),
    });
    let (errno, message) = match session.call(request) {
        Err(error) if error.errno() == Some(libc::ENOENT) => {
            let remedy = format!("'rfmkdir -p {}'", address.location(&parent));
            let message = format!("no directory {parent} on the server; create it with {remedy}");
            (libc::ENOENT, message)
        }
        Ok(Reply::Status(about)) if about.attributes.mode & libc::S_IFMT != libc::S_IFDIR => {
            let message = format!("{parent} on the server is not a directory");
            (libc::ENOTDIR, message)
        }
        _ => return None,
    };
    Some(Error::Explained(Status::errno(errno), message))
}

impl Sink for RemoteSink<'_> {
    fn name(&self) -> String {
        self.there.address.location(&self.destination)
    }

    fn length(&self) -> Result<u64, Error> {
        Ok(self.own.examine()?.size)
    }

    fn block(&self) -> u32 {
        self.own.connection().server_limits().block
    }

    fn checksums(&self, block: u32, segment: (u64, u64)) -> Result<Vec<u32>, Error> {
        remote_checksums(&self.own, block, segment)
    }

    fn writer(&self, session_number: usize) -> Result<Box<dyn Writer + '_>, Error> {
        let flags = OpenFlags::WRITE | OpenFlags::NO_FOLLOW;
        let further = match session_number {
            0 => None,
            _ => Some(self.there.open_further_session(&self.path, flags)?),
        };
        Ok(Box::new(RemoteWriter {
            sink: self,
            further,
            writes: PipelinedWrites::default(),
        }))
    }

    fn resize(&self, length: u64) -> Result<(), Error> {
        self.own.truncate(length)
    }

    fn discard(&self) -> Result<(), Error> {
        let request = Request::Unlink(OnPath {
            path: self.path.clone(),
        });
        // The connection may have been lost meanwhile, but the file still exists.
        let removed = match self.own.connection().is_broken() {
            true => self.there.session()?.call(request),
            false => self.own.call(request),
        };
        // A missing file is no error: an earlier attempt may have removed it and lost the reply.
        match removed {
            Err(error) if error.errno() != Some(libc::ENOENT) => Err(error),
            _ => Ok(()),
        }
    }

    fn complete(&self, final_attributes: &FinalAttributes<'_>) -> Result<(), Error> {
        let file = &self.own;
        if !final_attributes.extended.is_empty() {
            set_extended(file.connection(), &self.path, final_attributes.extended)?;
        }
        file.call(Request::ChangeModeOf(ChangeModeOf {
            handle: file.handle(),
            mode: final_attributes.mode & 0o777,
        }))?;
        if let Some(modified) = final_attributes.modified {
            file.call(Request::SetTimes(SetTimes {
                handle: file.handle(),
                accessed: modified,
                modified,
            }))?;
        }
        if final_attributes.stable == Durability::First {
            file.synchronise()?;
        }
        // Renamed while still open, so that no other copy becomes its writer in between.
        file.call(Request::Rename(TwoPaths {
            from: self.path.clone(),
            to: self.destination.clone(),
        }))?;
        if final_attributes.stable == Durability::First {
            let (parent, _) = split(self.destination.as_bytes());
            let path = Path::new(parent).ok_or_else(|| Error::Setup("path too long".into()))?;
            synchronise_directory(file.connection(), &path)?;
        }
        Ok(())
    }
}

/// Puts a directory's names on stable storage. This fails with EISDIR for the directory above
/// several exports, which is none.
pub(crate) fn synchronise_directory(
    session: &Arc<MultiplexedConnection>,
    path: &Path,
) -> Result<(), Error> {
    let request = Request::SynchroniseDirectory(OnPath { path: path.clone() });
    session.call(request).map(|_| ())
}

struct RemoteWriter<'a> {
    sink: &'a RemoteSink<'a>,
    further: Option<SharedFile>,
    writes: PipelinedWrites,
}

impl Writer for RemoteWriter<'_> {
    fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<(), Error> {
        let file = self.further.as_ref().unwrap_or(&self.sink.own);
        self.writes.start(file, offset, bytes)
    }

    fn finish(&mut self) -> Result<(), Error> {
        self.writes.finish()?;
        let file = self.further.as_ref().unwrap_or(&self.sink.own);
        self.sink
            .there
            .progress
            .record_transport(Transport::of(file.connection()));
        Ok(())
    }
}
