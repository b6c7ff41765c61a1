//! Recorded MPI programs on a model.
//!
//! A trace becomes a program a rank: it computes, begins messages, collective operations and accesses, and waits for their ends. Each
//! receive gets the message that it got when it was recorded, whatever it would have taken; collective operations are the messages of
//! the modelled library's algorithms. So what was recorded may be run with other adapters, placements and processors, as long as the
//! program's way does not depend on them.

mod build;
mod collective;
mod diary;
mod export;
mod matching;
mod play;
mod program;
mod timeline;
mod waiting;

pub use build::{Error, programs};
pub use diary::{Deed, Span};
pub use export::goal;
pub use play::{Failure, Outcome, Parts, Replay, run};
pub use program::{Act, Program, Step};
pub use timeline::timeline;
pub use waiting::{Chain, Link, Stretch, Waited};
