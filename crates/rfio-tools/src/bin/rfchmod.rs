//! `rfchmod`: changes permission bits.

use std::process::ExitCode;

use verbena_rfio_protocol::Request;
use verbena_rfio_protocol::request::PathMode;
use verbena_rfio_tools::arguments::{self, ChangeMode};
use verbena_rfio_tools::remote;

fn main() -> ExitCode {
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
