//! A thread that sleeps much, works for moments and should begin soon: what it asks of the scheduler.

/// The kernel adds 50 us to every sleep of a thread that does not ask for less (PR_SET_TIMERSLACK).
const SLACK_NANOSECONDS: libc::c_ulong = 1000;
/// The time slice, in nanoseconds: the least that there is. Among threads that compute, the one with the shortest slice gets
/// a processor first when it wakes up, and gives it back the sooner (Linux 6.12, sched(7); older ones take no notice).
const SLICE_NANOSECONDS: u64 = 100_000;

/// Asks for it for the calling thread. What is refused, by a filter of system calls say, is not needed.
pub fn be_punctual() {
    let (option, slack, none) = (
        libc::PR_SET_TIMERSLACK,
        SLACK_NANOSECONDS,
        0 as libc::c_ulong,
    );
    // With all arguments that the system call has: valgrind reports those that are not set.
    // SAFETY: no pointers; it concerns the calling thread alone.
    unsafe { libc::prctl(option, slack, none, none, none) };
    if let Some(mut attributes) = attributes()
        && attributes.sched_policy == libc::SCHED_OTHER as u32
    {
        attributes.sched_runtime = SLICE_NANOSECONDS;
        // SAFETY: the attributes are plain data, read during the call; thread 0 is the calling one.
        unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) };
    }
}

/// How the calling thread is scheduled.
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
    fn only_the_slice_changes() {
        let before = attributes();
        be_punctual();
        let (Some(before), Some(after)) = (before, attributes()) else {
            return;
        };
        assert_eq!(after.sched_policy, before.sched_policy);
        assert_eq!(after.sched_nice, before.sched_nice);
        // Kernels that have no slice of a thread's own say 0.
        assert!([0, SLICE_NANOSECONDS].contains(&after.sched_runtime));
    }
}
