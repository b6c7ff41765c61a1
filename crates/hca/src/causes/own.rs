//! The rules of this process.

use std::sync::OnceLock;
use verbena_faults::process_rules::ProcessRules;

/// Returns the rules that are about this process, if there are any. They are read once.
pub(super) fn own() -> Option<&'static ProcessRules> {
    static OWN: OnceLock<Option<ProcessRules>> = OnceLock::new();
    OWN.get_or_init(ProcessRules::from_env).as_ref()
}
