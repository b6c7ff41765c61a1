//! `rfchmod`: changes permission bits.

use std::process::ExitCode;

use crate::arguments::{self, ChangeMode};
use crate::remote;
use verbena_rfio_protocol::Request;
use verbena_rfio_protocol::request::PathMode;

/// Runs the tool on this process's arguments, and returns its exit code.
pub fn main() -> ExitCode {
    let arguments: ChangeMode = match arguments::parse() {
        Ok(arguments) => arguments,
        Err(code) => return code,
    };
    remote::each(
        "rfchmod",
        &arguments.places,
        arguments.connection.options(),
        |session, _, path| {
            let request = Request::ChangeMode(PathMode {
                path: path.clone(),
                mode: arguments.mode,
            });
            session.call(request).map(|_| ())
        },
    )
}
