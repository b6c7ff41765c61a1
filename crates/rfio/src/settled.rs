//! When a file's times are old enough that a further change must show in them.
//!
//! A kernel stamps files with the time of its last tick, and some file systems keep whole seconds only. Until the tick is
//! over, a file may be written again and keep its times. What relies on times (a cached block, a copy that claims to be of
//! one state of its source) must not rely on such ones.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::writers::Writers;

/// Twice the longest tick of a kernel's clock (10 ms at 100 Hz).
const TICK: Duration = Duration::from_millis(20);

/// The same where times have no fraction of a second: FAT keeps every other second (mkfs.fat(8)), others each.
const COARSE_TICK: Duration = Duration::from_millis(2100);

/// What a single write of somebody who has the file open may take: the file has the time of its beginning.
const SLOW_WRITE: Duration = Duration::from_millis(1000);

/// The longest that a file needs to settle once nobody writes it any more.
pub const LONGEST: Duration = COARSE_TICK;

/// The same for a file of which it is known who can write to it.
pub fn is_settled_among(changed: i64, now: SystemTime, writers: Writers) -> bool {
    let tick = match writers {
        Writers::Some => SLOW_WRITE,
        Writers::None | Writers::Unknown => Duration::ZERO,
    };
    is_settled(changed, now) && distance(changed, now) > tick.as_nanos()
}

fn distance(changed: i64, now: SystemTime) -> u128 {
    let now = now
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_nanos() as i128);
    (now - i128::from(changed)).unsigned_abs()
}

/// Whether a file whose inode was last changed at `changed` (nanoseconds since 1970) has settled at `now`. A time far in
/// the future has: a change would set it back.
pub fn is_settled(changed: i64, now: SystemTime) -> bool {
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
    fn a_time_settles_after_its_clocks_tick() {
        let changed = 1_700_000_000_123_456_789;
        let after = |milliseconds| {
            UNIX_EPOCH + Duration::from_nanos(changed as u64) + Duration::from_millis(milliseconds)
        };
        assert!(!is_settled(changed, after(0)));
        assert!(!is_settled(changed, after(20)));
        assert!(is_settled(changed, after(21)));
        let behind = UNIX_EPOCH + Duration::from_nanos(changed as u64) - Duration::from_secs(60);
        assert!(is_settled(changed, behind), "a clock that was set back");
    }

    #[test]
    fn whole_seconds_settle_after_two() {
        let changed = 1_700_000_000_000_000_000;
        let at = |milliseconds: u64| {
            UNIX_EPOCH + Duration::from_millis(1_700_000_000_000 + milliseconds)
        };
        assert!(!is_settled(changed, at(1900)));
        assert!(is_settled(changed, at(2200)));
    }
}
