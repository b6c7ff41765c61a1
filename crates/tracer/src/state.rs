//! The tracer's state, behind one lock.

use std::collections::BTreeSet;

use crate::lock::Lock;
use crate::names::{Kind, Names};
use crate::record::Idle;
use crate::replaced::Replaced;

pub struct State {
    /// Names of objects.
    pub names: Names,
    /// The addresses of the objects that are not destroyed yet, if they are counted.
    pub alive: BTreeSet<(Kind, usize)>,
    /// The functions that the tracer has replaced.
    pub replaced: Replaced,
    /// Collected polls that found nothing, not sent yet.
    pub idle: Option<Idle>,
}

/// The state of the process.
pub static STATE: Lock<State> = Lock::new(State {
    names: Names::new(),
    alive: BTreeSet::new(),
    replaced: Replaced::new(),
    idle: None,
});
