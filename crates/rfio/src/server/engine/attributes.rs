//! From the system's `stat` to the protocol's attributes, and the version that tells changed data apart.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::fs::Stat;
use verbena_rfio_protocol::types::Attributes;

use crate::server::cache::FileVersion;

/// Times of a changed file may stay equal for one tick of the kernel's clock; twice the longest tick (10 ms at 100 Hz)
/// is safe.
const TICK: Duration = Duration::from_millis(20);

/// The protocol's attributes.
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
        links: stat.st_nlink,
        owner: stat.st_uid,
        group: stat.st_gid,
        size,
        blocks: stat.st_blocks.max(0) as u64,
        accessed: nanoseconds(stat.st_atime, stat.st_atime_nsec as i64),
        modified,
        changed,
        version: digest([size, modified as u64, changed as u64]),
    }
}

/// The key of a file's blocks in the cache.
pub(crate) fn file_version(attributes: &Attributes) -> FileVersion {
    FileVersion {
        device: attributes.device,
        inode: attributes.inode,
        version: attributes.version,
    }
}

/// Whether the file's times are old enough that a further change must show in them.
pub(crate) fn is_settled(attributes: &Attributes) -> bool {
    let changed = UNIX_EPOCH + Duration::from_nanos(attributes.changed.max(0) as u64);
    SystemTime::now()
        .duration_since(changed)
        .is_ok_and(|age| age > TICK)
}

/// Mixes words so that versions that differ in one bit differ in about half of theirs (the finaliser of SplitMix64).
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
