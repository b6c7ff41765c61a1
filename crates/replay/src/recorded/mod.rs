//! Recorded MPI programs on a model.
//!
//! A trace becomes one program per rank: it computes, begins messages, collective operations and
//! accesses, and waits for their ends. Each receive gets the message that it got in the recording,
//! regardless of wildcards; collective operations become the messages of the modelled library's
//! algorithms. A recording can therefore run with other adapters, placements and processors, as
//! long as the program's control flow does not depend on them.

mod build;
mod collective;
mod export;
mod least;
mod matching;
mod play;
mod timeline;
mod timeline_export;
mod waiting;

pub use build::{Error, programs};
pub use export::goal;
pub use least::least;
pub use play::{Failure, Replay, Replayed, run};
pub use timeline::{Activity, Span};
pub use timeline_export::timeline;
pub use waiting::{Chain, Link, Stretch, Waited};
