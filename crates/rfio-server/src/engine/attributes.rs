//! Converts the system's `stat` to the protocol's attributes, and computes the version that detects
//! changed data.

use std::os::fd::AsFd;
use std::time::SystemTime;

use rustix::fs::Stat;
use verbena_rfio_common::timestamp_granularity::{has_passed, has_passed_among};
use verbena_rfio_common::writers::{self, Writers};
use verbena_rfio_protocol::types::Attributes;

use crate::cache::FileVersion;

/// Returns the protocol's attributes.
pub fn attributes(stat: &Stat) -> Attributes {
    let nanoseconds =
        |seconds: i64, rest: i64| seconds.saturating_mul(1_000_000_000).saturating_add(rest);
    let modified = nanoseconds(stat.st_mtime, stat.st_mtime_nsec as i64);
    let changed = nanoseconds(stat.st_ctime, stat.st_ctime_nsec as i64);
    let size = stat.st_size.max(0) as u64;
    Attributes {
        device: stat.st_dev,
        inode: stat.st_ino,
        mode: stat.st_mode,
        // 32 bits on some machines.
        #[allow(clippy::useless_conversion)]
        links: stat.st_nlink.into(),
        owner: stat.st_uid,
        group: stat.st_gid,
        size,
        blocks: stat.st_blocks.max(0) as u64,
        accessed: nanoseconds(stat.st_atime, stat.st_atime_nsec as i64),
        modified,
        changed,
        version: digest([size, modified as u64, changed as u64]),
        settled: has_passed(changed, SystemTime::now()),
    }
}

/// Returns the attributes of a file open for reading; `settled` takes its writers into account.
pub(crate) fn attributes_of(file: impl AsFd) -> rustix::io::Result<Attributes> {
    let stat = rustix::fs::fstat(&file)?;
    Ok(attributes_among(&stat, writers::of(file.as_fd())))
}

/// Like [`attributes_of`], for a file whose writers are known.
pub(crate) fn attributes_among(stat: &Stat, writers: Writers) -> Attributes {
    let mut about = attributes(stat);
    about.settled &= has_passed_among(about.changed, SystemTime::now(), writers);
    about
}

/// Returns the cache key of a file's blocks.
pub(crate) fn file_version(attributes: &Attributes) -> FileVersion {
    FileVersion {
        device: attributes.device,
        inode: attributes.inode,
        version: attributes.version,
    }
}

/// Mixes words so that inputs that differ in one bit yield versions that differ in about half of
/// their bits (the finalizer of SplitMix64).
fn digest(words: [u64; 3]) -> u64 {
    words.into_iter().fold(0, |state, word| {
        let mut mixed = (state ^ word).wrapping_add(0x9E37_79B9_7F4A_7C15);
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_depends_on_each_word() {
        let base = digest([1, 2, 3]);
        assert!(
            [digest([0, 2, 3]), digest([1, 3, 2]), digest([1, 2, 4])]
                .iter()
                .all(|&other| other != base)
        );
    }
}
