//! Replays of recorded programs and of schedules on models, with the intervals of their times, as
//! JSON, text and a page.

pub mod interval;
pub mod recorded;
pub mod schedule;

use crate::Failure;
use verbena_bench::Failure as BenchFailure;

/// Returns the failure for wrong input.
fn input(reason: impl ToString) -> Failure {
    BenchFailure::Input(reason.to_string()).into()
}
