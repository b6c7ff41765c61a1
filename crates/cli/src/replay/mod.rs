//! Replays traces and schedules on a model.

mod interval;
pub mod recorded;
pub mod schedule;

use crate::exit::Exit;
use crate::interrupt;
use crate::output::json;
use serde::Serialize;
pub use verbena_replay::source;

/// Returns the exit code; `done` is less than `all` if the user interrupted.
fn concluded(done: usize, all: usize) -> Exit {
    if done == all {
        return Exit::Success;
    }
    interrupt::tell(&format!(
        "{done} of {all} replays were complete; no file was written"
    ));
    interrupt::exit()
}

/// Prints one object, or a list of several.
fn print_json<T: Serialize>(told: &[T]) {
    match told {
        [one] => json(one),
        several => json(&several),
    }
}
