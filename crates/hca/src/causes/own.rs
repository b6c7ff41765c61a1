//! The rules of this process.

use std::sync::OnceLock;
use verbena_faults::own::Own;

/// Returns the rules that are about this process, if there are any. They are read once.
pub(super) fn own() -> Option<&'static Own> {
    static OWN: OnceLock<Option<Own>> = OnceLock::new();
    OWN.get_or_init(Own::named).as_ref()
}
