//! `rfio-tools`: the client tools of RFIO in one program, selected by the name it is called by.

use std::process::ExitCode;

use verbena_rfio_tools::{exit, tools};

fn main() -> ExitCode {
    match tools::called() {
        Ok((_, run)) => run(),
        Err(message) => {
            exit::report("rfio-tools", message);
            exit::with(exit::BAD_PARAMETER)
        }
    }
}
