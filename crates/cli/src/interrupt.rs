//! Interrupts of a measurement, as exit codes of this program.

use crate::exit::Exit;
use crate::failure::Failure;
use crate::host::HOST;
pub use verbena_bench::interrupt::{is_wanted, tell, unless_interrupted};

/// Starts catching SIGINT and SIGTERM.
///
/// # Errors
///
/// Fails if the system refuses the signal handler or its thread.
pub fn watch() -> Result<(), Failure> {
    Ok(verbena_bench::interrupt::watch(&HOST)?)
}

/// Returns the exit code of an interrupted measurement: 128 plus the signal number.
pub fn exit() -> Exit {
    match verbena_bench::interrupt::is_terminated() {
        true => Exit::Terminated,
        false => Exit::Interrupted,
    }
}
