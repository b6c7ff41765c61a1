//! What can be replayed on a model: traces of programs, and schedules.

pub mod recorded;
pub mod schedule;
pub mod source;

use crate::exit::Exit;
use crate::interrupt;
use crate::output::data;
use serde::Serialize;

/// The exit code of replays, of which `done` of `all` are complete: fewer where the user interrupted.
fn concluded(done: usize, all: usize) -> Exit {
    if done == all {
        return Exit::Success;
    }
    interrupt::tell(&format!(
        "{done} of {all} replays were complete; no file was written"
    ));
    interrupt::exit()
}

/// One JSON object of one model, a list of several.
fn print_json<T: Serialize>(told: &[T]) {
    let text = match told {
        [one] => serde_json::to_string_pretty(one),
        several => serde_json::to_string_pretty(several),
    };
    data!("{}\n", text.expect("numbers are plain data"));
}
