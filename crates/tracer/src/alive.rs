//! Counts the verbs objects that the process has, and records them when it exits, where
//! VERBENA_FAULTS_ALIVE asks for it. The identifiers of librdmacm are not counted, as not all ways
//! to destroy them are traced.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use verbena_faults::{alive, process_rules};

use crate::names::Kind;
use crate::state::STATE;

/// Returns whether objects are counted.
pub fn are_counted() -> bool {
    static COUNTED: OnceLock<bool> = OnceLock::new();
    *COUNTED.get_or_init(|| std::env::var_os(alive::VARIABLE).is_some())
}

/// Counts a new object.
pub fn made(kind: Kind, address: usize) {
    if are_counted() && !matches!(kind, Kind::CmId | Kind::CmChannel) {
        STATE.lock().alive.insert((kind, address));
    }
}

/// Counts an object no longer, which is about to be destroyed; returns whether it was counted.
pub fn gone(kind: Kind, address: usize) -> bool {
    are_counted() && STATE.lock().alive.remove(&(kind, address))
}

/// Forgets the objects of the parent; called in a child of fork(2).
pub fn begin_process() {
    if are_counted() {
        STATE.lock().alive.clear();
    }
}

/// Records the objects at the exit of the process, after its own functions for that.
extern "C" fn end() {
    if are_counted() {
        let mut objects: BTreeMap<String, u64> = BTreeMap::new();
        for (kind, _) in &STATE.lock().alive {
            *objects.entry(kind.word().to_owned()).or_default() += 1;
        }
        if !objects.is_empty() {
            process_rules::note_alive(objects);
        }
    }
}

/// The dynamic linker calls the function when the process exits.
#[used]
// SAFETY: the section has addresses of functions without arguments.
#[unsafe(link_section = ".fini_array")]
static END: extern "C" fn() = end;
