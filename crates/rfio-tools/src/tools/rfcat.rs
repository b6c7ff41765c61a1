//! `rfcat`: writes files to standard output.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::process::ExitCode;

use crate::arguments::{self, Concatenate};
use crate::exit;
use verbena_rfio_client::copy::stream_file;
use verbena_rfio_client::{Error, Location, Options};
use verbena_rfio_protocol::shown;

/// Runs the tool on this process's arguments, and returns its exit code.
pub fn main() -> ExitCode {
    let arguments: Concatenate = match arguments::parse() {
        Ok(arguments) => arguments,
        Err(code) => return code,
    };
    let mut code = exit::OK;
    for place in &arguments.places {
        let written = arguments
            .connection
            .options()
            .and_then(|options| write(place, options));
        if let Err(error) = written {
            let place = shown::bytes(place.as_bytes());
            exit::report("rfcat", format_args!("{place}: {error}"));
            if code == exit::OK {
                code = exit::code(error.status());
            }
            if error.is_authentication_failure() {
                break;
            }
        }
    }
    exit::with(code)
}

fn write(place: &OsStr, options: Options) -> Result<(), Error> {
    let from = Location::parse(place.as_bytes()).map_err(|bad| Error::Setup(bad.to_string()))?;
    let mut output = std::io::stdout().lock();
    stream_file(&from, &mut output, &options).map_err(|error| error.error)
}
