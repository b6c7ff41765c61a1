//! What the tracer remembers, behind one lock.

use crate::lock::Lock;
use crate::names::Names;
use crate::record::Idle;
use crate::replaced::Replaced;

/// All of it.
pub struct State {
    /// What objects are called.
    pub names: Names,
    /// The functions that stood where the tracer's stand now.
    pub replaced: Replaced,
    /// Polls that found nothing, not told yet.
    pub idle: Option<Idle>,
}

/// The process's.
pub static STATE: Lock<State> = Lock::new(State {
    names: Names::new(),
    replaced: Replaced::new(),
    idle: None,
});
