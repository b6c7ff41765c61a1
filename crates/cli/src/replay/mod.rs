//! Replays traces and schedules on a model.

mod interval;
pub mod recorded;
pub mod schedule;
pub mod source;

use crate::exit::Exit;
use crate::interrupt;
use crate::output::data;
use serde::Serialize;

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
    let text = match told {
        [one] => serde_json::to_string_pretty(one),
        several => serde_json::to_string_pretty(several),
    };
    data!("{}\n", text.expect("numbers are plain data"));
}
