//! Limits of the adapter that rules lower: `adapter: max_qp 16`.

use super::own::own;
use std::sync::atomic::{AtomicU32, Ordering};
use verbena_faults::rule::Action;
use verbena_hca_memory::limits;

/// Lowers the limits, when the process opens the device. A limit above the adapter's own changes
/// nothing, so its rule never fires.
pub fn follow() {
    static PROCESS: AtomicU32 = AtomicU32::new(0);
    let Some(own) = own() else {
        return;
    };
    if PROCESS.swap(std::process::id(), Ordering::Relaxed) == std::process::id() {
        return;
    }
    for (number, rule) in own.rules() {
        if let Action::Limit(limit) = rule.action
            && limits::named(limit.name).is_some_and(|known| known.lower(limit.value))
        {
            own.note(number, 0, 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_name_limits_of_the_adapter() {
        for name in verbena_faults::limit::NAMES {
            assert!(limits::named(name).is_some(), "{name}");
        }
    }
}
