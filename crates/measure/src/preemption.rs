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
    use crate::start;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::{Duration, Instant};

    #[test]
    fn of_two_threads_for_one_processor_each_is_put_aside() {
        let limit = Duration::from_secs(30);
        let counted = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    let begun = Instant::now();
                    start::pin(0).expect("a processor");
                    let before = preemptions();
                    let mut seen = false;
                    // Also one that was put aside goes on, for the other needs somebody to give way to.
                    while counted.load(Ordering::Relaxed) < 2 {
                        if !seen && preemptions() > before {
                            seen = true;
                            counted.fetch_add(1, Ordering::Relaxed);
                        }
                        assert!(begun.elapsed() < limit, "never put aside");
                    }
                });
            }
        });
    }
}
