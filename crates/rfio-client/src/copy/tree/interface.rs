//! The interface of the walk to the trees that it reads and writes, local or remote.

use super::super::facts::{ExtendedAttributes, FileFacts};
use super::super::failure::CopyError;
use super::super::pipeline::{Sink, Source};
use super::super::settings::{Durability, EarlierAttempt};
use super::entry::{Link, TreeEntry};
use crate::error::Error;

/// Size limit in bytes of files that are transferred whole.
pub(super) const SMALL: u64 = 256 << 10;

/// Callback for errors after which the copy of a tree continues.
pub type OnError<'a> = &'a (dyn Fn(CopyError) + Sync);

/// Results of a batch, in the order of its elements, or the error that prevented the whole batch.
pub(super) type BatchResult<T> = Result<Vec<Result<T, Error>>, Error>;

/// Part of a directory and the cookie of the next part; a cookie of 0 means the beginning or the
/// end.
pub(super) type Page = (Vec<TreeEntry>, u64);

/// A tree to read. Paths are relative to its root, which is the empty path.
pub(super) trait SourceTree: Sync {
    fn name(&self, at: &[u8]) -> String;
    fn root(&self) -> Result<TreeEntry, Error>;
    /// Returns the entry of a directory in the tree.
    fn directory(&self, at: &[u8]) -> Result<TreeEntry, Error>;
    /// Lists the part of a directory that begins at a cookie.
    fn list(&self, at: &[u8], cookie: u64) -> Result<Page, Error>;
    /// Returns the number of directories whose first parts should be requested together.
    fn together(&self) -> usize;
    /// Lists the first parts of directories.
    fn list_first(&self, directories: &[Vec<u8>]) -> BatchResult<Page>;
    fn read_links(&self, links: &[Vec<u8>]) -> BatchResult<Vec<u8>>;
    fn open(&self, at: &[u8]) -> Result<Box<dyn Source + '_>, Error>;
    fn fetcher(&self) -> Result<Box<dyn Fetcher + '_>, Error>;
}

/// A tree to write.
pub(super) trait TargetTree: SourceTree {
    /// Creates directories with these permission bits unless they exist; returns whether each was
    /// created.
    fn make_directories(&self, directories: &[(Vec<u8>, u32)]) -> BatchResult<bool>;
    /// Sets the permission bits and times of directories, in this order, and puts their names on
    /// stable storage if requested.
    fn finish_directories(
        &self,
        directories: &[(Vec<u8>, FileFacts)],
        stable: Durability,
    ) -> BatchResult<()>;
    /// Creates symbolic links with the times of the original links.
    fn make_links(&self, links: &[Link]) -> BatchResult<()>;
    /// Creates hard links; each pair holds the existing name and the new one.
    fn make_hard_links(&self, links: &[(Vec<u8>, Vec<u8>)]) -> BatchResult<()>;
    fn create(&self, at: &[u8], earlier: EarlierAttempt) -> Result<Box<dyn Sink + '_>, Error>;
    /// Returns the size limit in bytes of files that it accepts whole.
    fn most_whole(&self) -> u64;
    fn storer(&self) -> Result<Box<dyn Storer + '_>, Error>;
    /// Puts an existing file on stable storage.
    fn synchronise_file(&self, at: &[u8]) -> Result<(), Error>;
    /// Puts the names in the tree's root, and the name of the root itself, on stable storage.
    fn synchronise_above(&self) -> Result<(), Error>;
}

/// A small file with its attributes.
#[derive(Debug)]
pub struct SmallFile {
    /// The data.
    pub bytes: Vec<u8>,
    /// CRC32C of the data at the origin.
    pub checksum: u32,
    /// Permission bits.
    pub mode: u32,
    /// Last change, in nanoseconds since 1970.
    pub modified: i64,
    /// Extended attributes, if they are copied.
    pub extended: ExtendedAttributes,
}

/// Result of a request for a small file.
#[derive(Debug)]
pub enum FetchedFile {
    /// The whole file, in a consistent state.
    SmallFile(SmallFile),
    /// It grew or is being written; the pipeline can wait for it.
    ForThePipeline,
}

/// Fetches small files in the order of the requests.
pub trait Fetcher: Send {
    /// Returns whether another file may be requested before the oldest is taken.
    fn has_room(&self) -> bool;
    /// Requests a file whose size was `size` bytes when it was found.
    fn ask(&mut self, at: &[u8], size: u64) -> Result<(), Error>;
    /// Takes the oldest requested file.
    fn take(&mut self) -> Result<FetchedFile, Error>;
}

/// Stores small files.
pub trait Storer: Send {
    /// Returns whether another file may be put before the result of the oldest is taken.
    fn has_room(&self) -> bool;
    /// Starts to store a file.
    fn put(&mut self, at: &[u8], whole: SmallFile) -> Result<(), Error>;
    /// Takes the result of the oldest file that was put.
    fn take(&mut self) -> Result<(), Error>;
}
