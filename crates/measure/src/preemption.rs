//! How often the system took the processor away (rule 5: trim by load state, never by value).

/// How often the system has put this thread aside for another so far (getrusage(2), `ru_nivcsw`).
pub fn preemptions() -> u64 {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the call writes a whole structure; a structure of zeroes is one, too.
    let usage = unsafe {
        libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr());
        usage.assume_init()
    };
    usage.ru_nivcsw as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    #[test]
    fn the_system_counts_preemptions() {
        let before = preemptions();
        let start = Instant::now();
        // Two threads for one processor would do; a thread that never gives way does on a busy machine.
        while start.elapsed() < Duration::from_millis(5) {}
        assert!(preemptions() >= before);
    }
}
