//! The tracer's state, behind one lock.

use crate::lock::Lock;
use crate::names::Names;
use crate::record::Idle;
use crate::replaced::Replaced;

pub struct State {
    /// Names of objects.
    pub names: Names,
    /// The functions that the tracer has replaced.
    pub replaced: Replaced,
    /// Collected polls that found nothing, not sent yet.
    pub idle: Option<Idle>,
}

/// The state of the process.
pub static STATE: Lock<State> = Lock::new(State {
    names: Names::new(),
    replaced: Replaced::new(),
    idle: None,
});
