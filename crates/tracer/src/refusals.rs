//! Refuses the calls that the rules in VERBENA_FAULTS name (`verbena_faults`), and records each
//! call that a rule was about.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use verbena_faults::call::{self, Returns};
use verbena_faults::own::Own;
use verbena_faults::rule::Action;
use verbena_faults::site::Site;

/// The failure of a call.
#[derive(Debug, Clone, Copy)]
pub struct Refusal {
    /// How the call tells it.
    pub returns: Returns,
    /// The error number.
    pub errno: i32,
}

/// The rules about calls of this process, with the number of calls of each so far.
struct Counted {
    own: Own,
    rules: Vec<RuleOfCall>,
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

/// Counts a call, and returns its failure if a rule refuses it.
pub fn refusal(name: &str) -> Option<Refusal> {
    counted()?.refusal(name)
}

impl Counted {
    /// Returns the rules about calls; none if there are none. The adapter follows the others.
    fn named() -> Option<Counted> {
        let own = Own::named()?;
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
        (!rules.is_empty()).then_some(Counted { own, rules })
    }

    fn refusal(&self, name: &str) -> Option<Refusal> {
        let mut refusal = None;
        for rule in self.rules.iter().filter(|rule| rule.call == name) {
            let count = rule.calls.fetch_add(1, Ordering::Relaxed) + 1;
            if refusal.is_none()
                && self.own.fires(rule.number, 0, count)
                && let Action::Refuse(errno) = rule.action
            {
                refusal = call::named(name).map(|call| Refusal {
                    returns: call.returns,
                    errno,
                });
            }
        }
        refusal
    }
}
