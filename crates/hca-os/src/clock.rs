//! Clocks in nanoseconds (clock_gettime(2)): CLOCK_MONOTONIC for retry and RNR timers, and
//! CLOCK_REALTIME for the times of captured packets.

/// Returns nanoseconds since an arbitrary start, never going back.
#[inline]
pub fn now() -> u64 {
    read(libc::CLOCK_MONOTONIC)
}

/// Returns nanoseconds since 1970 by the system's clock.
#[inline]
pub fn wall() -> u64 {
    read(libc::CLOCK_REALTIME)
}

/// Returns the milliseconds until a deadline, 1000 at most, or -1 for none, as epoll_wait takes
/// them.
pub fn milliseconds_until(deadline: u64) -> i32 {
    if deadline == u64::MAX {
        return -1;
    }
    deadline.saturating_sub(now()).div_ceil(1_000_000).min(1000) as i32
}

#[inline]
fn read(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is a valid, writable timespec for the duration of the call.
    unsafe { libc::clock_gettime(clock, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
