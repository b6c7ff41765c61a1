//! Scheduler settings for a thread that sleeps much, works briefly and should start soon after a
//! wake-up.

/// Timer slack in nanoseconds. By default the kernel adds 50 us to every sleep (PR_SET_TIMERSLACK).
const SLACK_NANOSECONDS: libc::c_ulong = 1000;
/// Time slice in nanoseconds: the shortest there is. Among threads that compute, the one with the
/// shortest slice gets a processor first when it wakes up, and yields it sooner (Linux 6.12,
/// sched(7); older kernels ignore it).
const SLICE_NANOSECONDS: u64 = 100_000;

/// Highest priority of the real-time policies (sched(7)).
const HIGHEST_PRIORITY: u32 = 99;

/// Applies the settings to the calling thread. A refusal, by a system call filter say, is ignored.
///
/// A thread that inherited a real-time policy gets the next higher priority: with the same one it
/// would never run while the threads that it serves poll on every processor (sched(7), SCHED_FIFO).
pub fn request_fast_wakeup() {
    let (option, slack, none) = (
        libc::PR_SET_TIMERSLACK,
        SLACK_NANOSECONDS,
        0 as libc::c_ulong,
    );
    // All arguments of the system call are passed, because valgrind reports missing ones.
    // SAFETY: the call takes no pointers and concerns the calling thread alone.
    unsafe { libc::prctl(option, slack, none, none, none) };
    let Some(mut attributes) = attributes() else {
        return;
    };
    match attributes.sched_policy as libc::c_int {
        libc::SCHED_OTHER => attributes.sched_runtime = SLICE_NANOSECONDS,
        libc::SCHED_FIFO | libc::SCHED_RR => {
            attributes.sched_priority = HIGHEST_PRIORITY.min(attributes.sched_priority + 1);
        }
        _ => return,
    }
    // SAFETY: the attributes are plain data, read during the call; thread 0 is the calling one.
    unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) };
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

    /// Gives the calling thread a policy; false where that is not permitted.
    fn is_given(policy: libc::c_int, priority: u32) -> bool {
        let mut wanted = attributes().unwrap();
        wanted.sched_policy = policy as u32;
        wanted.sched_priority = priority;
        // SAFETY: the attributes are plain data, read during the call.
        unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const wanted, 0) == 0 }
    }

    #[test]
    fn a_real_time_thread_gets_the_next_higher_priority() {
        for (policy, before, after) in [
            (libc::SCHED_FIFO, 1, 2),
            (libc::SCHED_RR, 98, 99),
            (libc::SCHED_FIFO, 99, 99),
        ] {
            let thread = std::thread::spawn(move || {
                if is_given(policy, before) {
                    request_fast_wakeup();
                    let found = attributes().unwrap();
                    assert_eq!(found.sched_policy, policy as u32);
                    assert_eq!(found.sched_priority, after);
                }
            });
            thread.join().unwrap();
        }
    }

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
