//! Refuses the calls that the rules in VERBENA_FAULTS name (`verbena_faults`), or has them fail by
//! an event of the connection manager, and records each call that a rule was about. Where a rule
//! has the adapter fail, all of its later calls are refused.

use libc::c_uint;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use verbena_faults::call::{self, Class, Returns};
use verbena_faults::cm::CmEvent;
use verbena_faults::event::Event;
use verbena_faults::process_rules::ProcessRules;
use verbena_faults::rule::Action;
use verbena_faults::site::Site;

use crate::real::real;

/// The failure of a call.
#[derive(Debug, Clone, Copy)]
pub struct Refusal {
    /// How the call tells it.
    pub returns: Returns,
    /// The error number.
    pub errno: i32,
}

/// The effect of rules on a call.
pub enum Verdict {
    /// The call is made.
    Made,
    /// It is refused.
    Refused(Refusal),
    /// It is made, and fails by an event.
    Fails(PlannedEvent),
}

/// An event by which a call fails, and its rule.
#[derive(Clone, Copy)]
pub struct PlannedEvent {
    event: CmEvent,
    number: usize,
    count: u64,
}

/// The rules about calls of this process, with the number of calls of each so far.
struct Counted {
    own: ProcessRules,
    rules: Vec<RuleOfCall>,
    /// Whether the adapter may fail.
    may_fail: bool,
}

struct RuleOfCall {
    number: usize,
    call: &'static str,
    action: Action,
    calls: AtomicU64,
}

fn counted() -> Option<&'static Counted> {
    static COUNTED: OnceLock<Option<Counted>> = OnceLock::new();
    COUNTED.get_or_init(Counted::named).as_ref()
}

/// Returns whether there are rules.
pub fn are_there() -> bool {
    counted().is_some()
}

/// Counts the calls from one again; called in a child of fork(2).
pub fn begin_process() {
    for rule in counted().iter().flat_map(|counted| &counted.rules) {
        rule.calls.store(0, Ordering::Relaxed);
    }
}

/// Counts a call, and returns the effect of the rules.
pub fn verdict(name: &str) -> Verdict {
    counted().map_or(Verdict::Made, |counted| counted.verdict(name))
}

/// Makes a call that is to fail by an event. The adapter records that it has taken the event.
pub fn with_event<R>(planned: PlannedEvent, make: impl FnOnce() -> R) -> R {
    let plant = real!(verbena_cm_plant: unsafe extern "C" fn(c_uint, usize, u64));
    // SAFETY: the adapter's function, which takes any numbers.
    unsafe { plant(planned.event as c_uint, planned.number, planned.count) };
    let result = make();
    // SAFETY: as above.
    unsafe { plant(0, 0, 0) };
    result
}

/// Returns the refusal of a call by an adapter that has failed: of those of the verbs that make,
/// change, ask or post.
fn refused_by_failure(name: &str) -> Option<Refusal> {
    let call = call::named(name)?;
    let reaches = name.starts_with("ibv_") && call.class != Class::Wait;
    let is_local = matches!(name, "ibv_get_device_list" | "ibv_fork_init");
    if !reaches || is_local {
        return None;
    }
    let has_failed = real!(verbena_has_failed: unsafe extern "C" fn() -> bool);
    // SAFETY: the adapter's function, without arguments.
    unsafe { has_failed() }.then_some(Refusal {
        returns: call.returns,
        errno: libc::EIO,
    })
}

impl Counted {
    /// Returns the rules about calls; none if there are none. The adapter follows the others.
    fn named() -> Option<Counted> {
        let own = ProcessRules::from_env()?;
        let of_call = |(number, rule): (usize, &verbena_faults::rule::Rule)| match rule.site {
            Site::Call(call) => Some(RuleOfCall {
                number,
                call,
                action: rule.action,
                calls: AtomicU64::new(0),
            }),
            _ => None,
        };
        let rules: Vec<RuleOfCall> = own.rules().filter_map(of_call).collect();
        let may_fail = own
            .rules()
            .any(|(_, rule)| rule.action == Action::Raise(Event::Fatal));
        (!rules.is_empty() || may_fail).then_some(Counted {
            own,
            rules,
            may_fail,
        })
    }

    fn verdict(&self, name: &str) -> Verdict {
        let mut found = Verdict::Made;
        for rule in self.rules.iter().filter(|rule| rule.call == name) {
            let count = rule.calls.fetch_add(1, Ordering::Relaxed) + 1;
            let number = rule.number;
            if !matches!(found, Verdict::Made) || !self.own.is_met(number, 0, count) {
                continue;
            }
            if let Action::Deliver(event) = rule.action {
                found = Verdict::Fails(PlannedEvent {
                    event,
                    number,
                    count,
                });
                continue;
            }
            self.own.note(number, 0, count);
            if let (Action::Refuse(errno), Some(call)) = (rule.action, call::named(name)) {
                found = Verdict::Refused(Refusal {
                    returns: call.returns,
                    errno,
                });
            }
        }
        match (self.may_fail, found) {
            (true, Verdict::Made) => {
                refused_by_failure(name).map_or(Verdict::Made, Verdict::Refused)
            }
            (_, found) => found,
        }
    }
}
