//! `rfrename`: renames a file or directory on one server.

use std::os::unix::ffi::OsStrExt;
use std::process::ExitCode;

use crate::arguments::{self, Rename};
use crate::remote;
use verbena_rfio_client::Error;
use verbena_rfio_protocol::request::TwoPaths;
use verbena_rfio_protocol::{Request, shown};

/// Runs the tool on this process's arguments, and returns its exit code.
pub fn main() -> ExitCode {
    let arguments: Rename = match arguments::parse() {
        Ok(arguments) => arguments,
        Err(code) => return code,
    };
    let from = std::slice::from_ref(&arguments.from);
    remote::each(
        "rfrename",
        from,
        arguments.connection.options(),
        |session, address, from| {
            let (other, to) = remote::place(&arguments.to)?;
            if other != *address {
                return Err(Error::Setup(format!(
                    "'{}' is on another server; copy with rfcp instead",
                    shown::bytes(arguments.to.as_bytes())
                )));
            }
            session
                .call(Request::Rename(TwoPaths {
                    from: from.clone(),
                    to,
                }))
                .map(|_| ())
        },
    )
}
