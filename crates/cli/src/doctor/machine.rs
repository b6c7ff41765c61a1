//! Checks the prerequisites of measurements: processors and the clock.

use verbena_measure::clock::Clock;
use verbena_measure::processors;

use super::finding::Finding;

pub fn findings() -> Vec<Finding> {
    vec![processor_count(), pinning(), clock()]
}

fn processor_count() -> Finding {
    let subject = "processors";
    match processors::allowed().len() {
        0 => Finding::missing(subject, "the kernel does not say which may be used"),
        1 => Finding::limited(subject, "1 may be used").advise(
            "programs run; what is measured between two processes is how they take turns on it",
        ),
        several => Finding::ok(subject, format!("{several} may be used")),
    }
}

/// Runs in a separate thread, so that the binding ends with it.
fn pinning() -> Finding {
    let subject = "pinning";
    let bound = std::thread::spawn(|| {
        let allowed = processors::allowed();
        allowed
            .last()
            .is_some_and(|&last| processors::bind(&[last]))
    });
    match bound.join() {
        Ok(true) => Finding::ok(subject, "processes can be bound to processors"),
        _ => Finding::limited(subject, "sched_setaffinity is refused")
            .advise("figures will scatter more: benchmarks bind their processes where they may"),
    }
}

fn clock() -> Finding {
    let subject = "clock";
    let clock = Clock::best();
    let found = format!(
        "{}, a reading takes {:.0} ns",
        clock.name(),
        clock.overhead_nanos
    );
    match &clock.refused_counter {
        None => Finding::ok(subject, found),
        Some(reason) => Finding::limited(subject, format!("{found}: {reason}"))
            .advise("short latencies are measured less exactly"),
    }
}
