//! What can be replayed on a model: traces of programs, and schedules.

pub mod recorded;
pub mod schedule;
pub mod source;

use crate::output::outln;
use serde::Serialize;

/// One JSON object of one model, a list of several.
fn print_json<T: Serialize>(told: &[T]) {
    let text = match told {
        [one] => serde_json::to_string_pretty(one),
        several => serde_json::to_string_pretty(several),
    };
    outln!("{}", text.expect("numbers are plain data"));
}
