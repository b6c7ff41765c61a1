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
        0 => Finding::missing(subject, "the kernel does not report the allowed processors"),
        1 => Finding::limited(subject, "1 is allowed").advise(
            "programs run, but measurements between two processes include their time slices",
        ),
        several => Finding::ok(subject, format!("{several} are allowed")),
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
        Ok(true) => Finding::ok(subject, "processes can be pinned to processors"),
        _ => Finding::limited(subject, "sched_setaffinity is refused")
            .advise("figures will vary more: benchmarks cannot pin their processes"),
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
            .advise("short latencies are measured less precisely"),
    }
}
