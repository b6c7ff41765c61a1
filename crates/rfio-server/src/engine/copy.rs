//! Copies between open files without transferring data to the client. The file system does it if it
//! can, and may share blocks.

use std::os::fd::{AsFd, BorrowedFd};

use rustix::io::Errno;
use verbena_rfio_protocol::Reply;
use verbena_rfio_protocol::reply::Copied;
use verbena_rfio_protocol::request::Copy;

use super::write::write_fully;
use super::{Engine, Failure, Outcome, plain};

impl Engine {
    /// Copies a range. One request covers no more bytes than a read, since it costs no less.
    pub(super) fn copy(&self, copy: &Copy) -> Outcome {
        let length = (copy.length as usize).min(self.service.limits.payload);
        let ends = |offset: u64| {
            let end = offset.checked_add(length as u64);
            end.filter(|&end| i64::try_from(end).is_ok())
        };
        if ends(copy.offset).is_none() || ends(copy.at).is_none() {
            return Err(Errno::INVAL.into());
        }
        let from = self.handles.find_stored(copy.from)?;
        let to = self.handles.find_writable(copy.to)?;
        let copied = match by_the_system(from.as_fd(), copy.offset, to.as_fd(), copy.at, length) {
            Err(Errno::XDEV | Errno::NOSYS | Errno::OPNOTSUPP) => {
                let block = self.service.limits.block;
                by_hand(
                    from.as_fd(),
                    copy.offset,
                    to.as_fd(),
                    copy.at,
                    length,
                    block,
                )?
            }
            other => other?,
        };
        plain(Reply::Copied(Copied {
            length: copied as u32,
        }))
    }
}

/// Calls copy_file_range(2) until everything is copied or the file ends. An error after a partial
/// copy is reported when the rest is requested.
fn by_the_system(
    from: BorrowedFd<'_>,
    mut offset: u64,
    to: BorrowedFd<'_>,
    mut at: u64,
    length: usize,
) -> Result<usize, Errno> {
    let mut copied = 0;
    while copied < length {
        let left = length - copied;
        match rustix::fs::copy_file_range(from, Some(&mut offset), to, Some(&mut at), left) {
            Ok(0) => break,
            Ok(more) => copied += more,
            Err(Errno::INTR) => {}
            Err(errno) if copied == 0 => return Err(errno),
            Err(_) => break,
        }
    }
    Ok(copied)
}

/// Copies by reading and writing, a block at a time.
fn by_hand(
    from: BorrowedFd<'_>,
    offset: u64,
    to: BorrowedFd<'_>,
    at: u64,
    length: usize,
    block: usize,
) -> Result<usize, Failure> {
    let mut buffer = vec![0; block.min(length)];
    let mut copied = 0;
    while copied < length {
        let most = buffer.len().min(length - copied);
        match rustix::io::pread(from, &mut buffer[..most], offset + copied as u64) {
            Ok(0) => break,
            Ok(more) => {
                write_fully(to, at + copied as u64, &buffer[..more])?;
                copied += more;
            }
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(copied)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::fs::File;
    use verbena_rfio_common::scratch::Scratch;

    type CopyFunction<'a> = &'a dyn Fn(BorrowedFd<'_>, u64, BorrowedFd<'_>, u64, usize) -> usize;

    fn outcome(
        way: CopyFunction<'_>,
        source: &[u8],
        sink: &[u8],
        span: (u64, u64, usize),
    ) -> (usize, Vec<u8>) {
        let scratch = Scratch::new();
        std::fs::write(scratch.path("from"), source).unwrap();
        std::fs::write(scratch.path("to"), sink).unwrap();
        let from = File::open(scratch.path("from")).unwrap();
        let to = File::options()
            .write(true)
            .open(scratch.path("to"))
            .unwrap();
        let (offset, at, length) = span;
        let copied = way(from.as_fd(), offset, to.as_fd(), at, length);
        (copied, std::fs::read(scratch.path("to")).unwrap())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// Both methods match copying between slices, wherever the files end.
        #[test]
        fn both_copy_methods_equal_slice_copies(
            source in proptest::collection::vec(any::<u8>(), 0..3000),
            sink in proptest::collection::vec(any::<u8>(), 0..3000),
            offset in 0usize..4000, at in 0usize..4000, length in 0usize..4000,
            block in 1usize..700,
        ) {
            let from = offset.min(source.len());
            let piece = &source[from..(offset + length).min(source.len()).max(from)];
            let mut expected = sink.clone();
            if !piece.is_empty() {
                expected.resize(expected.len().max(at + piece.len()), 0);
                expected[at..at + piece.len()].copy_from_slice(piece);
            }
            let span = (offset as u64, at as u64, length);
            let system = |from: BorrowedFd<'_>, offset, to: BorrowedFd<'_>, at, length| {
                by_the_system(from, offset, to, at, length).unwrap()
            };
            let hand = |from: BorrowedFd<'_>, offset, to: BorrowedFd<'_>, at, length| {
                by_hand(from, offset, to, at, length, block).unwrap()
            };
            for way in [&system as CopyFunction<'_>, &hand] {
                let (copied, found) = outcome(way, &source, &sink, span);
                prop_assert_eq!(copied, piece.len());
                prop_assert_eq!(&found, &expected);
            }
        }
    }
}
