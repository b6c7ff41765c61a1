//! `rfmkdir`: creates directories.

use std::sync::Arc;

use std::process::ExitCode;

use crate::arguments::{self, MakeDirectory};
use crate::remote;
use verbena_rfio_client::{Error, MultiplexedConnection};
use verbena_rfio_protocol::Request;
use verbena_rfio_protocol::request::PathMode;
use verbena_rfio_protocol::types::Path;

/// Runs the tool on this process's arguments, and returns its exit code.
pub fn main() -> ExitCode {
    let arguments: MakeDirectory = match arguments::parse() {
        Ok(arguments) => arguments,
        Err(code) => return code,
    };
    remote::each(
        "rfmkdir",
        &arguments.places,
        arguments.connection.options(),
        |session, _, path| {
            if arguments.parents {
                make_all(session, path, arguments.mode)
            } else {
                make(session, path, arguments.mode).map_err(|error| explain(error, session, path))
            }
        },
    )
}

fn make(session: &Arc<MultiplexedConnection>, path: &Path, mode: u32) -> Result<(), Error> {
    session
        .call(Request::MakeDirectory(PathMode {
            path: path.clone(),
            mode,
        }))
        .map(|_| ())
}

/// Names the first missing directory above a path that could not be created for lack of it.
fn explain(error: Error, session: &Arc<MultiplexedConnection>, path: &Path) -> Error {
    if error.errno() != Some(libc::ENOENT) {
        return error;
    }
    let bytes = path.as_bytes();
    let ends = (1..bytes.len()).filter(|&end| bytes[end] == b'/');
    let missing = ends
        .filter_map(|end| Path::new(&bytes[..end]))
        .find(|parent| {
            let about = remote::status(session, parent);
            about.is_err_and(|error| error.errno() == Some(libc::ENOENT))
        });
    match missing {
        Some(parent) => Error::Explained(
            error.status(),
            format!("no directory {parent} on the server; create missing directories with -p"),
        ),
        None => error,
    }
}

fn make_all(session: &Arc<MultiplexedConnection>, path: &Path, mode: u32) -> Result<(), Error> {
    let bytes = path.as_bytes();
    let ends = (1..=bytes.len()).filter(|&end| end == bytes.len() || bytes[end] == b'/');
    for end in ends {
        let part = Path::new(&bytes[..end]).ok_or_else(|| Error::Setup("path too long".into()))?;
        let is_root = part.as_bytes().iter().all(|&byte| byte == b'/');
        match make(
            session,
            &part,
            if end == bytes.len() { mode } else { 0o777 },
        ) {
            _ if is_root => {}
            Err(error) if error.errno() == Some(libc::EEXIST) => {
                if remote::status(session, &part)?.mode & libc::S_IFMT != libc::S_IFDIR {
                    return Err(error);
                }
            }
            other => other?,
        }
    }
    Ok(())
}
