//! The data file: a table of counters that all processes of a run map and increment.
//!
//! A header of 64 bytes is followed by [`CELLS`] cells of 64 bytes. All numbers are in the
//! machine's byte order. An outcome's cell is at its hash modulo the number of cells, or at one of
//! the next [`PROBES`] places. A process claims a free cell by setting its hash, writes the key,
//! then marks it as complete; counters only grow. So a process may be killed at any instruction:
//! at most the outcome that it was about to count for the first time is lost.
//!
//! | header | bytes |
//! |---|---|
//! | [`MAGIC`] | 0 to 7 |
//! | outcomes that were not counted because the table was full | 8 to 15 |
//! | processes | 16 to 23 |
//!
//! | cell | bytes |
//! |---|---|
//! | hash of the key and the stripe, 0: free | 0 to 7 |
//! | count | 8 to 15 |
//! | 1 if the key is complete | 16 to 19 |
//! | kind, first, second number of the key | 20 to 31 |
//! | name of the key | 32 to 63 |

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

use crate::outcome::{Key, LONGEST_NAME};
use crate::seen::Seen;

/// The environment variable with the path of the data file.
pub const VARIABLE: &str = "VERBENA_COVERAGE";
/// The first bytes: name and version of the format.
pub const MAGIC: [u8; 8] = *b"VBCOVER1";
/// Size of the header, in bytes.
pub const HEADER: usize = 64;
/// Size of a cell, in bytes.
pub const CELL: usize = 64;
/// Number of cells.
pub const CELLS: usize = 4096;
/// Size of the file, in bytes.
pub const SIZE: usize = HEADER + CELLS * CELL;
/// Number of cells in which an outcome may be.
pub const PROBES: usize = 64;
/// Number of cells over which the counts of an outcome are spread, so that threads do not compete
/// for one.
pub const STRIPES: u32 = 8;
/// Offset of the number of outcomes that were not counted.
pub const LOST: usize = 8;
/// Offset of the number of processes.
pub const PROCESSES: usize = 16;

/// The reason why a data file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// A system call failed.
    #[error("cannot {doing} the coverage data file {path}: {source}")]
    System {
        /// The attempted action, as a verb.
        doing: &'static str,
        /// The file.
        path: String,
        /// The system's error.
        source: io::Error,
    },

    /// It does not begin with the format's name.
    #[error(
        "{0} is no coverage data file of this version of Verbena; remove it, or name another file"
    )]
    Foreign(String),

    /// Its contents are invalid.
    #[error(
        "the coverage data file {path} is damaged: {reason}; remove it and run the tests again"
    )]
    Damaged {
        /// The file.
        path: String,
        /// The first invalid part.
        reason: String,
    },
}

fn system(doing: &'static str, path: &Path) -> impl Fn(io::Error) -> Failure {
    move |source| Failure::System {
        doing,
        path: path.display().to_string(),
        source,
    }
}

/// Creates an empty data file, in place of an existing data file or an empty file.
///
/// Its blocks are allocated, so that no process is killed by a write to a full disk.
///
/// # Errors
///
/// Fails if the file cannot be written.
pub fn create(path: &Path) -> Result<(), Failure> {
    write(path, &Seen::default())
}

/// Creates an empty data file unless the path exists; an existing file must be valid.
///
/// # Errors
///
/// Fails if the file cannot be written, or is no valid data file.
pub fn create_or_keep(path: &Path) -> Result<(), Failure> {
    let scratch = scratch(path);
    write_new(&scratch, &Seen::default()).map_err(system("create", path))?;
    // Unlike rename(2), link(2) fails if another process has created the file meanwhile.
    let linked = fs::hard_link(&scratch, path);
    let _ = fs::remove_file(&scratch);
    match linked {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => read(path).map(drop),
        Err(error) => Err(system("create", path)(error)),
        Ok(()) => Ok(()),
    }
}

/// Writes counts to a new data file, in place of an existing data file or an empty file.
///
/// # Errors
///
/// Fails if the file cannot be written, or the path is that of another file.
pub fn write(path: &Path, seen: &Seen) -> Result<(), Failure> {
    if let Ok(found) = fs::metadata(path)
        && !(found.is_file() && (found.len() == 0 || begins_with_magic(path)?))
    {
        return Err(Failure::Foreign(path.display().to_string()));
    }
    let scratch = scratch(path);
    write_new(&scratch, seen).map_err(system("write", path))?;
    // Processes that still map an older file keep it.
    fs::rename(&scratch, path).map_err(|error| {
        let _ = fs::remove_file(&scratch);
        system("write", path)(error)
    })
}

fn scratch(path: &Path) -> std::path::PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".{name}.{}", std::process::id()))
}

/// Writes a file that does not exist, or nothing: on a full disk no part of it stays.
fn write_new(path: &Path, seen: &Seen) -> io::Result<()> {
    // Left by a killed process with this process ID.
    let _ = fs::remove_file(path);
    // Never through a symbolic link that another user may have made.
    let mut file = OpenOptions::new().write(true).create_new(true).open(path)?;
    file.write_all(&encode(seen)).inspect_err(|_| {
        let _ = fs::remove_file(path);
    })
}

/// Returns the contents of a data file with these counts.
fn encode(seen: &Seen) -> Vec<u8> {
    let mut bytes = vec![0; SIZE];
    bytes[..8].copy_from_slice(&MAGIC);
    let mut lost = seen.lost;
    for (key, count) in seen.keys() {
        let hash = key.hash(0);
        let free = places(hash).find(|at| bytes[*at..*at + 8] == [0; 8]);
        let Some(at) = free else {
            lost = lost.saturating_add(count);
            continue;
        };
        let cell = &mut bytes[at..at + CELL];
        cell[..8].copy_from_slice(&hash.to_ne_bytes());
        cell[8..16].copy_from_slice(&count.to_ne_bytes());
        cell[16..20].copy_from_slice(&1u32.to_ne_bytes());
        cell[20..24].copy_from_slice(&key.kind.to_ne_bytes());
        cell[24..28].copy_from_slice(&key.first.to_ne_bytes());
        cell[28..32].copy_from_slice(&key.second.to_ne_bytes());
        cell[32..].copy_from_slice(&key.name);
    }
    bytes[LOST..LOST + 8].copy_from_slice(&lost.to_ne_bytes());
    bytes[PROCESSES..PROCESSES + 8].copy_from_slice(&seen.processes.to_ne_bytes());
    bytes
}

/// Returns the offsets of the cells in which a key with this hash may be, in order.
pub fn places(hash: u64) -> impl Iterator<Item = usize> {
    let first = (hash % CELLS as u64) as usize;
    (0..PROBES).map(move |step| HEADER + (first + step) % CELLS * CELL)
}

/// Reads a data file, which processes may be incrementing.
///
/// # Errors
///
/// Fails if the file cannot be read or is no valid data file.
pub fn read(path: &Path) -> Result<Seen, Failure> {
    let name = || path.display().to_string();
    let found = fs::metadata(path).map_err(system("read", path))?;
    // Before it is read: a wrong file may be large or endless.
    if !found.is_file() {
        return Err(Failure::Foreign(name()));
    }
    if found.len() != SIZE as u64 {
        return Err(match begins_with_magic(path)? {
            true => Failure::Damaged {
                path: name(),
                reason: format!("it has {} bytes instead of {SIZE}", found.len()),
            },
            false => Failure::Foreign(name()),
        });
    }
    let bytes = fs::read(path).map_err(system("read", path))?;
    decode(&bytes).map_err(|reason| match bytes.starts_with(&MAGIC) {
        true => Failure::Damaged {
            path: name(),
            reason,
        },
        false => Failure::Foreign(name()),
    })
}

/// Returns whether a regular file is a data file of this version, perhaps a damaged one.
fn begins_with_magic(path: &Path) -> Result<bool, Failure> {
    let mut start = [0; 8];
    let read = fs::File::open(path).and_then(|mut file| io::Read::read(&mut file, &mut start));
    read.map_err(system("read", path))?;
    Ok(start == MAGIC)
}

/// Parses the contents of a data file.
///
/// # Errors
///
/// Returns a description of the first invalid part.
pub fn decode(bytes: &[u8]) -> Result<Seen, String> {
    if bytes.len() != SIZE || !bytes.starts_with(&MAGIC) {
        return Err("its header is invalid".into());
    }
    let word = |at: usize| u64::from_ne_bytes(field(bytes, at));
    let mut seen = Seen {
        lost: word(LOST),
        processes: word(PROCESSES),
        ..Seen::default()
    };
    for (number, cell) in bytes[HEADER..].as_chunks::<CELL>().0.iter().enumerate() {
        let half = |at: usize| u32::from_ne_bytes(field(cell, at));
        let hash = u64::from_ne_bytes(field(cell, 0));
        match (hash, half(16)) {
            // Free, or claimed by a process that was killed before it had written the key.
            (_, 0) => continue,
            (0, _) => return Err(format!("cell {number} has no hash")),
            (_, 1) => {}
            (_, mark) => return Err(format!("cell {number} has the mark {mark}")),
        }
        let key = Key {
            kind: half(20),
            first: half(24) as i32,
            second: half(28) as i32,
            name: field::<LONGEST_NAME>(cell, 32),
        };
        let known = (0..STRIPES).any(|stripe| key.hash(stripe) == hash);
        match key.outcome() {
            Some(outcome) if known => seen.add(outcome, u64::from_ne_bytes(field(cell, 8))),
            _ => return Err(format!("cell {number} is invalid")),
        }
    }
    Ok(seen)
}

/// Returns the bytes at an offset of a file or cell, which has them.
fn field<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes[at..at + N].try_into().expect("the slice has N bytes")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::Outcome;
    use proptest::prelude::*;

    fn some() -> Seen {
        let mut seen = Seen {
            processes: 3,
            ..Seen::default()
        };
        seen.add(Outcome::Completion(0, 1), 53_000);
        seen.add(Outcome::Call("ibv_reg_mr", libc::ENOMEM), 2);
        seen.add(Outcome::Event(9), 1);
        seen.add(Outcome::CmEvent(8, 28), 1);
        seen
    }

    struct Folder(std::path::PathBuf);

    impl Folder {
        fn new(name: &str) -> Folder {
            let path = std::env::temp_dir().join(format!("coverage-{name}-{}", std::process::id()));
            fs::create_dir_all(&path).unwrap();
            Folder(path)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            fs::remove_dir_all(&self.0).unwrap();
        }
    }

    #[test]
    fn a_file_is_written_and_read() {
        let folder = Folder::new("written");
        let path = folder.0.join("data");
        write(&path, &some()).unwrap();
        assert_eq!(read(&path).unwrap(), some());
        create_or_keep(&path).unwrap();
        assert_eq!(read(&path).unwrap(), some());
        create(&path).unwrap();
        assert_eq!(read(&path).unwrap(), Seen::default());
        assert_eq!(fs::read_dir(&folder.0).unwrap().count(), 1);
        fs::remove_file(&path).unwrap();
        create_or_keep(&path).unwrap();
        assert_eq!(read(&path).unwrap(), Seen::default());
    }

    #[test]
    fn files_that_are_no_data_files_are_not_replaced() {
        let folder = Folder::new("others");
        let path = folder.0.join("source.c");
        fs::write(&path, "int main;").unwrap();
        for other in [path.as_path(), &folder.0, Path::new("/dev/null")] {
            let error = create(other).unwrap_err().to_string();
            assert!(error.contains("no coverage data file"), "{error}");
        }
        assert_eq!(fs::read(&path).unwrap(), b"int main;");
        for replaced in [&b""[..], &encode(&some())[..99]] {
            fs::write(&path, replaced).unwrap();
            create(&path).unwrap();
            assert_eq!(read(&path).unwrap(), Seen::default());
        }
    }

    #[test]
    fn wrong_files_are_refused() {
        let folder = Folder::new("wrong");
        let path = folder.0.join("data");
        let refused = |bytes: &[u8]| {
            fs::write(&path, bytes).unwrap();
            read(&path).unwrap_err().to_string()
        };
        let good = encode(&some());
        assert!(refused(b"").contains("no coverage data file"));
        assert!(refused(&[7; SIZE]).contains("no coverage data file"));
        assert!(refused(&good[..SIZE - 1]).contains("262207 bytes instead of"));
        let cell = (0..CELLS).map(|at| HEADER + at * CELL);
        let used = cell
            .clone()
            .find(|at| good[*at] != 0 && good[at + 32] == b'i')
            .unwrap();
        for (at, byte, reason) in [
            (used + 16, 2, "has the mark 2"),
            (used, good[used] ^ 1, "is invalid"),
            (used + 33, b' ', "is invalid"),
        ] {
            let mut bad = good.clone();
            bad[at] = byte;
            let message = refused(&bad);
            assert!(
                message.contains("is damaged: cell") && message.contains(reason),
                "{message}"
            );
        }
        let error = read(&folder.0).unwrap_err().to_string();
        assert!(error.contains("no coverage data file"), "{error}");
        let error = read(&folder.0.join("absent")).unwrap_err().to_string();
        assert!(
            error.contains("cannot read the coverage data file"),
            "{error}"
        );
    }

    #[test]
    fn a_cell_without_its_key_is_skipped() {
        let mut bytes = encode(&Seen::default());
        bytes[HEADER] = 9;
        assert_eq!(decode(&bytes), Ok(Seen::default()));
    }

    #[test]
    fn outcomes_beyond_the_table_are_counted_as_lost() {
        let mut seen = Seen::default();
        for status in 0..2 * CELLS as i32 {
            seen.add(Outcome::CmEvent(8, status), 1);
        }
        let read = decode(&encode(&seen)).unwrap();
        assert_eq!(
            read.lost + read.keys().map(|(_, count)| count).sum::<u64>(),
            2 * CELLS as u64
        );
    }

    proptest! {
        #[test]
        fn arbitrary_changes_do_not_panic(
            changes in prop::collection::vec((0..SIZE, any::<u8>()), 1..9)
        ) {
            let mut bytes = encode(&some());
            for (at, byte) in changes {
                bytes[at] = byte;
            }
            let _ = decode(&bytes);
        }
    }
}
