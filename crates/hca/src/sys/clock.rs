//! Clocks in nanoseconds (clock_gettime(2)): CLOCK_MONOTONIC, which retry and RNR timers run on, and CLOCK_REALTIME, by
//! which packets are told that are captured.

/// Nanoseconds since an arbitrary start, never going back.
pub fn now() -> u64 {
    read(libc::CLOCK_MONOTONIC)
}

/// Nanoseconds since 1970, as the system has its time set.
pub fn wall() -> u64 {
    read(libc::CLOCK_REALTIME)
}

fn read(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is a valid, writable timespec for the length of the call.
    unsafe { libc::clock_gettime(clock, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
