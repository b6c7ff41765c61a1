//! Decides whether a file's timestamps are old enough that a further change must alter them.
//!
//! A kernel sets timestamps to the time of its last tick, and some file systems store whole seconds
//! only. Until the tick is over, a file may be written again without changing its timestamps. Code
//! that relies on timestamps (a cached block, a copy that claims to be of one state of its source)
//! must not rely on such ones.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::writers::Writers;

/// Twice the longest tick of a kernel's clock (10 ms at 100 Hz).
const TICK: Duration = Duration::from_millis(20);

/// The tick where timestamps have no fraction of a second: FAT stores every other second
/// (mkfs.fat(8)), others every second.
const COARSE_TICK: Duration = Duration::from_millis(2100);

/// Allowance for the duration of a single write by a process that has the file open: the timestamp
/// is that of its beginning.
const SLOW_WRITE: Duration = Duration::from_millis(1000);

/// The longest time after which a change of a file without writers must alter its timestamps.
pub const LONGEST: Duration = COARSE_TICK;

/// Like [`has_passed`], for a file whose writers are known.
pub fn has_passed_among(changed: i64, now: SystemTime, writers: Writers) -> bool {
    let tick = match writers {
        Writers::Some => SLOW_WRITE,
        Writers::None | Writers::Unknown => Duration::ZERO,
    };
    has_passed(changed, now) && distance(changed, now) > tick.as_nanos()
}

fn distance(changed: i64, now: SystemTime) -> u128 {
    let now = now
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_nanos() as i128);
    (now - i128::from(changed)).unsigned_abs()
}

/// Returns whether the granularity of timestamps has passed at `now` since the last change of an
/// inode at `changed` (nanoseconds since 1970), so that a further change must alter them. For a
/// time far in the future it has: a change would set the time back.
pub fn has_passed(changed: i64, now: SystemTime) -> bool {
    let tick = match changed % 1_000_000_000 {
        0 => COARSE_TICK,
        _ => TICK,
    };
    distance(changed, now) > tick.as_nanos()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timestamp_settles_after_a_clock_tick() {
        let changed = 1_700_000_000_123_456_789;
        let after = |milliseconds| {
            UNIX_EPOCH + Duration::from_nanos(changed as u64) + Duration::from_millis(milliseconds)
        };
        assert!(!has_passed(changed, after(0)));
        assert!(!has_passed(changed, after(20)));
        assert!(has_passed(changed, after(21)));
        let behind = UNIX_EPOCH + Duration::from_nanos(changed as u64) - Duration::from_secs(60);
        assert!(has_passed(changed, behind), "a clock that was set back");
    }

    #[test]
    fn timestamps_in_whole_seconds_settle_after_two_seconds() {
        let changed = 1_700_000_000_000_000_000;
        let at = |milliseconds: u64| {
            UNIX_EPOCH + Duration::from_millis(1_700_000_000_000 + milliseconds)
        };
        assert!(!has_passed(changed, at(1900)));
        assert!(has_passed(changed, at(2200)));
    }
}
