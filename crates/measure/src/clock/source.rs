//! Reads the time-stamp counter and the system clock.

use std::fs;

/// Reads the counter with fences: earlier loads complete before the read, and later instructions
/// wait for it.
#[cfg(target_arch = "x86_64")]
#[inline]
pub fn counter() -> u64 {
    use core::arch::x86_64::{_mm_lfence, _rdtsc};
    // SAFETY: both instructions exist on every x86-64 processor (lfence is part of SSE2).
    unsafe {
        _mm_lfence();
        let ticks = _rdtsc();
        _mm_lfence();
        ticks
    }
}

/// Without a counter, falls back to the system clock; `counter_is_usable` reports the lack.
#[cfg(not(target_arch = "x86_64"))]
pub fn counter() -> u64 {
    system_nanos()
}

/// Checks that the kernel reports a constant and non-stop counter.
///
/// # Errors
///
/// States the missing processor feature, or why `/proc/cpuinfo` cannot be read.
pub fn counter_is_usable() -> Result<(), String> {
    if !cfg!(target_arch = "x86_64") {
        return Err("not an x86-64 processor".to_owned());
    }
    let flags = fs::read_to_string("/proc/cpuinfo").map_err(|e| format!("/proc/cpuinfo: {e}"))?;
    let flags = flags
        .lines()
        .find(|line| line.starts_with("flags"))
        .unwrap_or("");
    for flag in ["constant_tsc", "nonstop_tsc"] {
        if !flags.split_whitespace().any(|word| word == flag) {
            return Err(format!("the processor has no {flag}"));
        }
    }
    Ok(())
}

/// Reads `CLOCK_MONOTONIC_RAW` in nanoseconds.
#[inline]
pub fn system_nanos() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is a valid `timespec` that outlives the call. The clock exists on Linux, so
    // the call does not fail.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC_RAW, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
