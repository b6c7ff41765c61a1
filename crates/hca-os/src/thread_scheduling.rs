//! Scheduler settings for a thread that sleeps much, works briefly and should start soon after a
//! wake-up.

use std::io;
use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};

/// Timer slack in nanoseconds. By default the kernel adds 50 us to every sleep (PR_SET_TIMERSLACK).
const SLACK_NANOSECONDS: libc::c_ulong = 1000;
/// Time slice in nanoseconds: the shortest there is. Among threads that compute, the one with the
/// shortest slice gets a processor first when it wakes up, and yields it sooner (Linux 6.12,
/// sched(7); older kernels ignore it).
const SLICE_NANOSECONDS: u64 = 100_000;

/// Highest priority of the real-time policies (sched(7)).
const HIGHEST_PRIORITY: u32 = 99;

/// The priority that a thread of this process was raised to: a thread that it starts inherits it.
static RAISED: AtomicU32 = AtomicU32::new(0);

/// Reports a real-time priority that cannot be raised, once in a process.
static REPORTED: Once = Once::new();

/// Applies the settings to the calling thread. A refusal, by a system call filter say, is ignored.
///
/// A thread that inherited a real-time policy gets the next higher priority: with the same one it
/// would never run while the threads that it serves poll on every processor (sched(7), SCHED_FIFO).
/// If that is refused, or the priority is the highest, a line on standard error names the remedy.
pub fn request_fast_wakeup() {
    let (option, slack, none) = (
        libc::PR_SET_TIMERSLACK,
        SLACK_NANOSECONDS,
        0 as libc::c_ulong,
    );
    // All arguments of the system call are passed, because valgrind reports missing ones.
    // SAFETY: the call takes no pointers and concerns the calling thread alone.
    unsafe { libc::prctl(option, slack, none, none, none) };
    let Some(current) = attributes() else {
        return;
    };
    let is_raised = current.sched_priority == RAISED.load(Ordering::Relaxed);
    if is_real_time(current.sched_policy) && is_raised {
        return;
    }
    let Some(wanted) = wanted(current) else {
        return;
    };
    // SAFETY: the attributes are plain data, read during the call; thread 0 is the calling one.
    let answer = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const wanted, 0) };
    let refusal = (answer != 0).then(io::Error::last_os_error);
    if answer == 0 && is_real_time(current.sched_policy) {
        RAISED.store(wanted.sched_priority, Ordering::Relaxed);
    }
    let remedy = remedy((current.sched_policy, current.sched_priority), refusal);
    if let Some(remedy) = remedy {
        REPORTED.call_once(|| {
            eprintln!(
                "verbena: the adapter's threads do not run while threads of this real-time \
                 program poll on every processor: {remedy}"
            );
        });
    }
}

/// Returns the attributes that a thread with these requests; `None` if it keeps its own.
fn wanted(current: libc::sched_attr) -> Option<libc::sched_attr> {
    let mut wanted = current;
    if current.sched_policy as libc::c_int == libc::SCHED_OTHER {
        wanted.sched_runtime = SLICE_NANOSECONDS;
    } else if is_real_time(current.sched_policy) {
        wanted.sched_priority = HIGHEST_PRIORITY.min(current.sched_priority + 1);
    } else {
        return None;
    }
    Some(wanted)
}

fn is_real_time(policy: u32) -> bool {
    [libc::SCHED_FIFO, libc::SCHED_RR].contains(&(policy as libc::c_int))
}

/// Returns why a thread with this policy and priority has no higher one than the program, with the
/// remedy; `None` if it has, or the policy is not a real-time one.
fn remedy((policy, priority): (u32, u32), refusal: Option<io::Error>) -> Option<String> {
    if !is_real_time(policy) {
        return None;
    }
    if priority >= HIGHEST_PRIORITY {
        return Some(format!(
            "priority {priority} is the highest; run the program with a lower one"
        ));
    }
    let higher = priority + 1;
    refusal.map(|error| {
        format!(
            "priority {higher} was refused ({error}); set RLIMIT_RTPRIO (`ulimit -r`) to {higher} \
             or more"
        )
    })
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

    /// Returns attributes with a policy and a priority.
    fn with(policy: libc::c_int, priority: u32) -> libc::sched_attr {
        // SAFETY: plain numbers, for which zero is a value.
        let mut attributes: libc::sched_attr = unsafe { std::mem::zeroed() };
        attributes.sched_policy = policy as u32;
        attributes.sched_priority = priority;
        attributes
    }

    #[test]
    fn a_real_time_thread_gets_the_next_higher_priority() {
        for (policy, before, after) in [
            (libc::SCHED_FIFO, 1, 2),
            (libc::SCHED_RR, 98, 99),
            (libc::SCHED_FIFO, 99, 99),
        ] {
            let found = wanted(with(policy, before)).unwrap();
            assert_eq!(found.sched_policy, policy as u32);
            assert_eq!(found.sched_priority, after);
            assert_eq!(found.sched_runtime, 0);
        }
        let found = wanted(with(libc::SCHED_OTHER, 0)).unwrap();
        assert_eq!(found.sched_priority, 0);
        assert_eq!(found.sched_runtime, SLICE_NANOSECONDS);
        assert!(wanted(with(libc::SCHED_BATCH, 0)).is_none());
    }

    #[test]
    fn a_priority_that_cannot_be_raised_is_reported_with_the_remedy() {
        let refusal = || Some(io::Error::from_raw_os_error(libc::EPERM));
        let fifo = libc::SCHED_FIFO as u32;
        let text = remedy((fifo, 4), refusal()).unwrap();
        assert!(text.contains("RLIMIT_RTPRIO (`ulimit -r`) to 5"), "{text}");
        let text = remedy((fifo, 99), None).unwrap();
        assert!(text.contains("a lower one"), "{text}");
        assert_eq!(remedy((fifo, 4), None), None);
        assert_eq!(remedy((libc::SCHED_OTHER as u32, 0), refusal()), None);
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
