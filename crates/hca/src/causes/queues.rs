//! Faults of completion queues, which rules bring about: `cq1.poll 3: empty`, `cq*.event: delay 5
//! ms`, `cq1.completion 10: overrun`.
//!
//! A queue without rules has none of this: its functions are others.

use super::own::own;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use verbena_faults::queue::{Part, QueueFault};
use verbena_faults::rule::{Action, Rule};
use verbena_faults::site::Site;

/// Number of completion queues that the process has created, as `verbena trace` counts them.
static QUEUES: AtomicU32 = AtomicU32::new(0);

/// Returns whether rules are about completion queues.
pub fn are_ruled() -> bool {
    let is_about = |(_, rule): (usize, &Rule)| matches!(rule.site, Site::Queue(_));
    own().is_some_and(|own| own.rules().any(is_about))
}

/// A rule about a completion queue, and the number of uses so far that it may concern.
struct Counted {
    number: usize,
    part: Part,
    /// None records the use only.
    fault: Option<QueueFault>,
    count: u64,
}

/// The rules about a completion queue.
pub struct QueueRules {
    object: u32,
    counted: Mutex<Vec<Counted>>,
    /// Whether the present batch of the extended interface has one completion only.
    is_single: AtomicBool,
    is_destroyed: Mutex<bool>,
}

impl QueueRules {
    /// Counts a queue that is created, and returns the rules about it; none if there are none.
    pub fn of_next() -> Option<Arc<QueueRules>> {
        let object = QUEUES.fetch_add(1, Ordering::Relaxed) + 1;
        let counted = |(number, rule): (usize, &Rule)| match (rule.site, rule.action) {
            (Site::Queue(queue), Action::Spoil(_) | Action::Pass)
                if queue.objects.include(object) =>
            {
                Some(Counted {
                    number,
                    part: queue.part,
                    fault: match rule.action {
                        Action::Spoil(fault) => Some(fault),
                        _ => None,
                    },
                    count: 0,
                })
            }
            _ => None,
        };
        let counted: Vec<Counted> = own()?.rules().filter_map(counted).collect();
        (!counted.is_empty()).then(|| {
            Arc::new(QueueRules {
                object,
                counted: Mutex::new(counted),
                is_single: AtomicBool::new(false),
                is_destroyed: Mutex::new(false),
            })
        })
    }

    /// Counts a use of the queue, and returns the fault that it has. Of several rules that are met
    /// the first counts.
    fn next(&self, part: Part) -> Option<QueueFault> {
        let own = own()?;
        let mut found = None;
        for rule in lock(&self.counted)
            .iter_mut()
            .filter(|one| one.part == part)
        {
            rule.count += 1;
            if found.is_none() && own.is_met(rule.number, self.object, rule.count) {
                own.note(rule.number, self.object, rule.count);
                found = rule.fault;
            }
        }
        found
    }

    /// Returns the fault of a poll that finds a completion.
    pub fn next_poll(&self) -> Option<QueueFault> {
        let fault = self.next(Part::Poll);
        self.is_single
            .store(fault == Some(QueueFault::Single), Ordering::Relaxed);
        fault
    }

    /// Returns whether the present batch has one completion only.
    pub fn is_single(&self) -> bool {
        self.is_single.load(Ordering::Relaxed)
    }

    /// Returns the fault of an event that is raised.
    pub fn next_event(&self) -> Option<QueueFault> {
        self.next(Part::Event)
    }

    /// Returns whether a completion that is added overruns the queue.
    pub fn overruns(&self) -> bool {
        self.next(Part::Completion) == Some(QueueFault::Overrun)
    }

    /// Returns whether completions are counted.
    pub fn count_completions(&self) -> bool {
        let counted = lock(&self.counted);
        counted.iter().any(|one| one.part == Part::Completion)
    }

    /// Notes that the queue is destroyed: no later event is raised.
    pub fn destroy(&self) {
        *lock(&self.is_destroyed) = true;
    }

    /// Calls `raise` unless the queue is destroyed, which waits meanwhile.
    pub fn raise(&self, raise: impl FnOnce()) {
        let is_destroyed = lock(&self.is_destroyed);
        if !*is_destroyed {
            raise();
        }
    }
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}
