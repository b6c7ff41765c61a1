//! A tree on this host.

use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{Mode, Stat, Timestamps};
use verbena_rfio_common::tmpfile;
use verbena_rfio_protocol::checksum;

use super::super::directory::{Directory, is_plain_name, split};
use super::super::facts::FileFacts;
use super::super::failure::{display_path, local_error};
use super::super::local::{
    FileState, LocalSink, LocalSource, extended_of, nanoseconds, read_fully_at,
    set_final_attributes, timespec,
};
use super::super::pipeline::{FinalAttributes, Sink, Source};
use super::super::resume::block_checksums;
use super::super::settings::{
    CopySettings, Durability, EarlierAttempt, ExtraAttributes, Verification,
};
use super::entry::{EntryKind, Link, TreeEntry, kept_bits};
use super::interface::{
    BatchResult, FetchedFile, Fetcher, Page, SMALL, SmallFile, SourceTree, Storer, TargetTree,
};
use crate::error::Error;

/// A tree on this host.
pub struct LocalTree<'a> {
    root: Directory,
    path: PathBuf,
    settings: &'a CopySettings,
}

impl<'a> LocalTree<'a> {
    /// Opens the tree in a directory that the user named.
    ///
    /// # Errors
    /// Returns the errors of open(2).
    pub fn named(path: &Path, settings: &'a CopySettings) -> std::io::Result<Self> {
        Ok(Self {
            root: Directory::named(path)?,
            path: path.to_owned(),
            settings,
        })
    }

    /// Opens the tree in a directory that is created if missing; returns whether it was created. A
    /// symbolic link at `path` is not followed.
    ///
    /// # Errors
    /// Returns the errors of mkdirat(2) and openat2(2).
    pub fn made(path: &Path, settings: &'a CopySettings) -> std::io::Result<(Self, bool)> {
        let tree = |root| Self {
            root,
            path: path.to_owned(),
            settings,
        };
        // `.`, `..` and `/` exist.
        if path.file_name().is_none() {
            return Ok((tree(Directory::named(path)?), false));
        }
        let (above, name) = Directory::above(path)?;
        let made = above.make(&name, 0o777)?;
        Ok((tree(above.below(&name)?), made))
    }

    fn show(&self, at: &[u8]) -> String {
        use std::os::unix::ffi::OsStrExt;
        let path = match at.is_empty() {
            true => self.path.clone(),
            false => self.path.join(std::ffi::OsStr::from_bytes(at)),
        };
        display_path(&path)
    }

    fn finish_directory(
        &self,
        at: &[u8],
        facts: &FileFacts,
        stable: Durability,
    ) -> Result<(), Error> {
        let directory = local(self.root.below(at))?;
        // A set-group-ID bit that the directory has is kept, whether it comes from the source or
        // was inherited from the parent.
        let inherited = local(directory.about())?.st_mode & libc::S_ISGID;
        let mode = Mode::from_raw_mode(kept_bits(libc::S_IFDIR | facts.mode) | inherited);
        rustix::fs::fchmod(directory.as_fd(), mode).map_err(|errno| local_error(errno.into()))?;
        let time = timespec(facts.modified);
        let times = Timestamps {
            last_access: time,
            last_modification: time,
        };
        rustix::fs::futimens(directory.as_fd(), &times)
            .map_err(|errno| local_error(errno.into()))?;
        match stable {
            Durability::First => local(directory.synchronise()),
            Durability::Later => Ok(()),
        }
    }

    fn make_link(&self, link: &Link) -> Result<(), Error> {
        local(self.root.make_link(&link.at, &link.text))?;
        local(self.root.set_link_time(&link.at, timespec(link.modified)))
    }

    fn sink_in(
        &self,
        parent: Arc<Directory>,
        name: &[u8],
        at: &[u8],
        earlier: EarlierAttempt,
    ) -> std::io::Result<LocalSink> {
        LocalSink::open(parent, name, self.show(at), earlier)
    }
}

/// Converts stat(2) data into an entry of a tree.
pub fn item(name: &[u8], stat: &Stat) -> TreeEntry {
    TreeEntry {
        name: name.to_vec(),
        kind: EntryKind::of_mode(stat.st_mode),
        facts: FileFacts {
            size: stat.st_size.max(0) as u64,
            mode: kept_bits(stat.st_mode),
            modified: nanoseconds(stat.st_mtime, stat.st_mtime_nsec as i64),
            allocated: (stat.st_blocks.max(0) as u64).saturating_mul(512),
            extended: Vec::new(),
        },
        identity: (stat.st_dev, stat.st_ino),
        changed: nanoseconds(stat.st_ctime, stat.st_ctime_nsec as i64),
        // 32 bits on some machines.
        #[allow(clippy::useless_conversion)]
        links: stat.st_nlink.into(),
    }
}

impl SourceTree for LocalTree<'_> {
    fn name(&self, at: &[u8]) -> String {
        self.show(at)
    }

    fn root(&self) -> Result<TreeEntry, Error> {
        Ok(item(b"", &local(self.root.about())?))
    }

    fn directory(&self, at: &[u8]) -> Result<TreeEntry, Error> {
        let directory = local(self.root.below(at))?;
        Ok(item(b"", &local(directory.about())?))
    }

    fn list(&self, at: &[u8], _: u64) -> Result<Page, Error> {
        let found = local(self.root.list(at))?;
        let items = found.iter().map(|(name, stat)| item(name, stat));
        Ok((items.collect(), 0))
    }

    fn together(&self) -> usize {
        1
    }

    fn list_first(&self, directories: &[Vec<u8>]) -> BatchResult<Page> {
        Ok(directories.iter().map(|at| self.list(at, 0)).collect())
    }

    fn read_links(&self, links: &[Vec<u8>]) -> BatchResult<Vec<u8>> {
        let read = |at: &Vec<u8>| local(self.root.read_link(at));
        Ok(links.iter().map(read).collect())
    }

    fn open(&self, at: &[u8]) -> Result<Box<dyn Source + '_>, Error> {
        let file = local(self.root.open_file(at))?;
        let source = LocalSource::new(file, self.show(at), self.settings.extras)?;
        Ok(Box::new(source))
    }

    fn fetcher(&self) -> Result<Box<dyn Fetcher + '_>, Error> {
        Ok(Box::new(LocalFetcher {
            tree: self,
            asked: None,
        }))
    }
}

impl TargetTree for LocalTree<'_> {
    fn make_directories(&self, directories: &[(Vec<u8>, u32)]) -> BatchResult<bool> {
        let make = |(at, mode): &(Vec<u8>, u32)| local(self.root.make(at, *mode));
        Ok(directories.iter().map(make).collect())
    }

    fn finish_directories(
        &self,
        directories: &[(Vec<u8>, FileFacts)],
        stable: Durability,
    ) -> BatchResult<()> {
        let finish = |(at, facts): &(Vec<u8>, FileFacts)| self.finish_directory(at, facts, stable);
        Ok(directories.iter().map(finish).collect())
    }

    fn make_links(&self, links: &[Link]) -> BatchResult<()> {
        Ok(links.iter().map(|link| self.make_link(link)).collect())
    }

    fn make_hard_links(&self, links: &[(Vec<u8>, Vec<u8>)]) -> BatchResult<()> {
        let make =
            |(existing, at): &(Vec<u8>, Vec<u8>)| local(self.root.make_hard_link(existing, at));
        Ok(links.iter().map(make).collect())
    }

    fn create(&self, at: &[u8], earlier: EarlierAttempt) -> Result<Box<dyn Sink + '_>, Error> {
        let (parent, name) = local(self.root.parent_of(at))?;
        let sink = self.sink_in(Arc::new(parent), name, at, earlier);
        Ok(Box::new(local(sink)?))
    }

    fn most_whole(&self) -> u64 {
        SMALL
    }

    fn storer(&self) -> Result<Box<dyn Storer + '_>, Error> {
        Ok(Box::new(LocalStorer {
            tree: self,
            last: None,
            by_link: self.settings.earlier == EarlierAttempt::Discard,
            outcome: None,
        }))
    }

    fn synchronise_file(&self, at: &[u8]) -> Result<(), Error> {
        local(self.root.open_file(at).and_then(|file| file.sync_all()))
    }

    fn synchronise_above(&self) -> Result<(), Error> {
        local(self.root.synchronise())?;
        match self.path.file_name() {
            None => Ok(()),
            Some(_) => {
                let above = Directory::above(&self.path).and_then(|(above, _)| above.synchronise());
                local(above)
            }
        }
    }
}

struct LocalFetcher<'a> {
    tree: &'a LocalTree<'a>,
    asked: Option<Vec<u8>>,
}

impl LocalFetcher<'_> {
    fn fetch(&self, at: &[u8]) -> Result<FetchedFile, Error> {
        let file = local(self.tree.root.open_file(at))?;
        let about = local(file.metadata())?;
        let stat = FileState::of(&about);
        // A file whose next change may not show in its times, or that has grown too large, is
        // copied with more care by the pipeline.
        if about.len() > SMALL || !stat.is_unambiguous(&file) {
            return Ok(FetchedFile::ForThePipeline);
        }
        let mut bytes = vec![0; about.len() as usize];
        let read = local(read_fully_at(&file, 0, &mut bytes))?;
        if read < bytes.len() || stat.check(&file).is_err() {
            return Ok(FetchedFile::ForThePipeline);
        }
        use std::os::unix::fs::PermissionsExt;
        Ok(FetchedFile::SmallFile(SmallFile {
            checksum: checksum::crc32c(&bytes),
            bytes,
            mode: about.permissions().mode() & 0o777,
            modified: stat.modified(),
            extended: match self.tree.settings.extras {
                ExtraAttributes::Extended => local(extended_of(&file))?,
                ExtraAttributes::None => Vec::new(),
            },
        }))
    }
}

impl Fetcher for LocalFetcher<'_> {
    fn has_room(&self) -> bool {
        self.asked.is_none()
    }

    fn ask(&mut self, at: &[u8], _size: u64) -> Result<(), Error> {
        self.asked = Some(at.to_vec());
        Ok(())
    }

    fn take(&mut self) -> Result<FetchedFile, Error> {
        let at = self.asked.take().unwrap_or_default();
        self.fetch(&at)
    }
}

struct LocalStorer<'a> {
    tree: &'a LocalTree<'a>,
    /// Directory of the previous file, by its path; the next file is mostly in the same one.
    last: Option<(Vec<u8>, Arc<Directory>)>,
    /// Whether files are written as unnamed files and linked when complete. Not when an earlier
    /// attempt is continued, whose partial files have to be removed.
    by_link: bool,
    outcome: Option<Result<(), Error>>,
}

impl LocalStorer<'_> {
    /// Returns the directory of a file, and the file's name in it.
    fn place<'a>(&mut self, at: &'a [u8]) -> std::io::Result<(Arc<Directory>, &'a [u8])> {
        let (above, name) = split(at);
        if let Some((path, parent)) = &self.last
            && path == above
            && is_plain_name(name)
        {
            return Ok((Arc::clone(parent), name));
        }
        let (parent, name) = self.tree.root.parent_of(at)?;
        let parent = Arc::new(parent);
        self.last = Some((above.to_vec(), Arc::clone(&parent)));
        Ok((parent, name))
    }

    fn store(&mut self, at: &[u8], whole: &SmallFile) -> Result<(), Error> {
        let (directory, name) = local(self.place(at))?;
        if self.by_link {
            // Where one name is taken, most of the following names will be.
            self.by_link = self.link(&directory, name, whole)?;
            if self.by_link {
                return Ok(());
            }
        }
        let sink = local(
            self.tree
                .sink_in(directory, name, at, self.tree.settings.earlier),
        )?;
        let written = (|| {
            sink.writer(0)?.write(0, &whole.bytes)?;
            if self.tree.settings.earlier == EarlierAttempt::Continue {
                // A partial file of an earlier attempt may be longer.
                sink.resize(whole.bytes.len() as u64)?;
            }
            self.verify(whole, |block, segment| sink.checksums(block, segment))?;
            sink.complete(&self.final_attributes(whole))
        })();
        // The file is sent again as a whole, so a part of it is useless.
        written.inspect_err(|_| drop(sink.discard()))
    }

    /// Writes an unnamed file and links it when it is complete. Returns false if the name is taken
    /// or the file system has no unnamed files.
    fn link(&self, directory: &Directory, name: &[u8], whole: &SmallFile) -> Result<bool, Error> {
        let Some(file) = local(tmpfile::make(directory).map_err(Into::into))? else {
            return Ok(false);
        };
        let file = &File::from(file);
        local(file.write_all_at(&whole.bytes, 0))?;
        self.verify(whole, |block, segment| {
            block_checksums(block, segment, |offset, bytes| {
                local(read_fully_at(file, offset, bytes))
            })
        })?;
        local(set_final_attributes(file, &self.final_attributes(whole)))?;
        let linked = local(tmpfile::link(file, directory, name).map_err(Into::into))?;
        if linked && self.tree.settings.stable == Durability::First {
            local(directory.synchronise())?;
        }
        Ok(linked)
    }

    /// Reads back the written data and compares checksums, if requested.
    fn verify(
        &self,
        whole: &SmallFile,
        checksums: impl FnOnce(u32, (u64, u64)) -> Result<Vec<u32>, Error>,
    ) -> Result<(), Error> {
        if self.tree.settings.verification != Verification::Written {
            return Ok(());
        }
        let found = checksums(SMALL as u32, (0, SMALL))?;
        let found = found.first().copied().unwrap_or_default();
        match found == whole.checksum {
            true => Ok(()),
            false => Err(Error::Damaged {
                offset: 0,
                expected: whole.checksum,
                found,
            }),
        }
    }

    fn final_attributes<'a>(&self, whole: &'a SmallFile) -> FinalAttributes<'a> {
        FinalAttributes {
            mode: whole.mode,
            modified: Some(whole.modified),
            extended: &whole.extended,
            stable: self.tree.settings.stable,
        }
    }
}

impl Storer for LocalStorer<'_> {
    fn has_room(&self) -> bool {
        self.outcome.is_none()
    }

    fn put(&mut self, at: &[u8], whole: SmallFile) -> Result<(), Error> {
        self.outcome = Some(self.store(at, &whole));
        Ok(())
    }

    fn take(&mut self) -> Result<(), Error> {
        self.outcome.take().unwrap_or(Ok(()))
    }
}

/// Converts an error of a local operation.
fn local<T>(result: std::io::Result<T>) -> Result<T, Error> {
    result.map_err(local_error)
}
