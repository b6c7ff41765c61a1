//! Interrupts of a measurement, as exit codes of this program.

use crate::exit::Exit;
use crate::failure::Failure;
use crate::host::HOST;
pub use verbena_bench::interrupt::{is_wanted, tell, unless_interrupted, word};

/// Starts catching SIGINT and SIGTERM.
///
/// # Errors
///
/// Fails if the system refuses the signal handler or its thread.
pub fn watch() -> Result<(), Failure> {
    Ok(verbena_bench::interrupt::watch(&HOST)?)
}

/// Returns the exit code of a measurement that stopped early: 128 plus the signal number, or that
/// of a time limit.
pub fn exit() -> Exit {
    match verbena_bench::interrupt::is_terminated() {
        true => Exit::Terminated,
        false if is_wanted() => Exit::Interrupted,
        false => Exit::OutOfTime,
    }
}
