//! The clock that retry and RNR timers run on: CLOCK_MONOTONIC in nanoseconds (clock_gettime(2)).

/// Nanoseconds since an arbitrary start, never going back.
pub fn now() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is a valid, writable timespec for the length of the call.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
