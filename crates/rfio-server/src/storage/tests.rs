//! Compares both methods of reading with each other and with the file.

use std::fs::File;
use std::io::Write;
use std::os::fd::AsFd;

use proptest::prelude::*;

use super::{Part, Storage, StorageMethod};

/// Creates a file of these bytes, with a hole after them.
fn file(bytes: &[u8], hole: u64) -> File {
    let mut file = tempfile();
    file.write_all(bytes).unwrap();
    file.set_len(bytes.len() as u64 + hole).unwrap();
    file
}

fn tempfile() -> File {
    let flags = rustix::fs::OFlags::TMPFILE | rustix::fs::OFlags::RDWR;
    let mode = rustix::fs::Mode::RUSR;
    File::from(rustix::fs::open(std::env::temp_dir(), flags, mode).unwrap())
}

/// Reads these parts; returns their lengths, or the error numbers, and the bytes.
fn outcome(
    storage: &Storage,
    file: &File,
    wanted: &[(u64, usize)],
) -> Vec<(Result<usize, i32>, Vec<u8>)> {
    let mut buffers: Vec<_> = wanted
        .iter()
        .map(|&(_, length)| vec![0xee; length])
        .collect();
    let mut parts: Vec<_> = wanted
        .iter()
        .zip(&mut buffers)
        .map(|(&(offset, _), bytes)| Part { offset, bytes })
        .collect();
    let read = storage.read(file.as_fd(), &mut parts);
    let read = read
        .into_iter()
        .map(|read| read.map_err(|error| error.raw_os_error().unwrap()));
    read.zip(buffers).collect()
}

/// Returns io_uring storage if this machine supports it.
fn together() -> Option<Storage> {
    let storage = Storage::open(StorageMethod::Auto).unwrap();
    storage.reads_together().then_some(storage)
}

proptest! {
    /// Any parts of any file (overlapping, empty, beyond its end, more than a ring has entries) get
    /// the file's bytes, and no other byte is modified.
    #[test]
    fn a_read_gets_the_bytes_of_the_file(
        bytes in proptest::collection::vec(any::<u8>(), 0..5000),
        hole in 0u64..9000,
        wanted in proptest::collection::vec((0u64..15_000, 0usize..3000), 0..200),
    ) {
        let file = file(&bytes, hole);
        let mut whole = bytes.clone();
        whole.resize(bytes.len() + hole as usize, 0);
        for storage in [Some(Storage::InTurn(None)), together()].into_iter().flatten() {
            for (&(offset, length), (read, got)) in wanted.iter()
                .zip(outcome(&storage, &file, &wanted)) {
                let from = whole.len().min(offset as usize);
                let there = &whole[from..whole.len().min(from + length)];
                prop_assert_eq!(read, Ok(there.len()));
                prop_assert_eq!(&got[..there.len()], there);
                prop_assert!(got[there.len()..].iter().all(|&byte| byte == 0xee));
            }
        }
    }
}

#[test]
fn errors_equal_those_of_pread() {
    let directory = File::open("/").unwrap();
    let wanted = [(0, 10), (5, 0), (7, 7)];
    let in_turn = outcome(&Storage::InTurn(None), &directory, &wanted);
    assert_eq!(in_turn[0].0, Err(libc::EISDIR));
    let Some(together) = together() else { return };
    assert_eq!(outcome(&together, &directory, &wanted), in_turn);
    // A part beyond the largest file offset.
    let file = file(b"abc", 0);
    let wanted = [(u64::MAX, 3), (u64::MAX - 5, 3), (0, 3)];
    assert_eq!(
        outcome(&together, &file, &wanted),
        outcome(&Storage::InTurn(None), &file, &wanted)
    );
}

#[test]
fn the_threads_option_is_honoured() {
    let storage = Storage::open(StorageMethod::Threads).unwrap();
    assert!(!storage.reads_together());
    assert!(matches!(storage, Storage::InTurn(None)));
}
