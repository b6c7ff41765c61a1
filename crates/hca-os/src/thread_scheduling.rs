//! Scheduler settings for a thread that sleeps much, works briefly and should start soon after a
//! wake-up.

/// Timer slack in nanoseconds. By default the kernel adds 50 us to every sleep (PR_SET_TIMERSLACK).
const SLACK_NANOSECONDS: libc::c_ulong = 1000;
/// Time slice in nanoseconds: the shortest there is. Among threads that compute, the one with the
/// shortest slice gets a processor first when it wakes up, and yields it sooner (Linux 6.12,
/// sched(7); older kernels ignore it).
const SLICE_NANOSECONDS: u64 = 100_000;

/// Applies the settings to the calling thread. A refusal, by a system call filter say, is ignored.
pub fn request_fast_wakeup() {
    let (option, slack, none) = (
        libc::PR_SET_TIMERSLACK,
        SLACK_NANOSECONDS,
        0 as libc::c_ulong,
    );
    // All arguments of the system call are passed, because valgrind reports missing ones.
    // SAFETY: the call takes no pointers and concerns the calling thread alone.
    unsafe { libc::prctl(option, slack, none, none, none) };
    if let Some(mut attributes) = attributes()
        && attributes.sched_policy == libc::SCHED_OTHER as u32
    {
        attributes.sched_runtime = SLICE_NANOSECONDS;
        // SAFETY: the attributes are plain data, read during the call; thread 0 is the calling one.
        unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) };
    }
}

/// Returns the scheduling attributes of the calling thread.
fn attributes() -> Option<libc::sched_attr> {
    // SAFETY: plain numbers, for which zero is a value.
    let mut attributes: libc::sched_attr = unsafe { std::mem::zeroed() };
    let size = size_of::<libc::sched_attr>();
    // SAFETY: the kernel writes at most `size` bytes there; thread 0 is the calling one.
    let answer = unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attributes, size, 0) };
    (answer == 0).then_some(attributes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_scheduler_slice_changes() {
        let before = attributes();
        request_fast_wakeup();
        let (Some(before), Some(after)) = (before, attributes()) else {
            return;
        };
        assert_eq!(after.sched_policy, before.sched_policy);
        assert_eq!(after.sched_nice, before.sched_nice);
        // Kernels without slices per thread report 0.
        assert!([0, SLICE_NANOSECONDS].contains(&after.sched_runtime));
    }
}
