//! `rfdir`: lists directories.

use std::sync::Arc;

use std::process::ExitCode;

use crate::arguments::{self, Directory};
use crate::{display, remote, say};
use verbena_rfio_client::bounds::{self, HeldNames};
use verbena_rfio_client::copy::list;
use verbena_rfio_client::{Error, MultiplexedConnection};
use verbena_rfio_protocol::types::Path;

/// Runs the tool on this process's arguments, and returns its exit code.
pub fn main() -> ExitCode {
    let arguments: Directory = match arguments::parse() {
        Ok(arguments) => arguments,
        Err(code) => return code,
    };
    remote::each(
        "rfdir",
        &arguments.places,
        arguments.connection.options(),
        |session, _, path| show(session, path, arguments.recursive),
    )
}

fn show(session: &Arc<MultiplexedConnection>, path: &Path, recursive: bool) -> Result<(), Error> {
    let about = remote::status(session, path)?;
    if about.mode & libc::S_IFMT != libc::S_IFDIR {
        say!("{}", display::line(&path.to_string(), &about));
        return Ok(());
    }
    let mut directories = vec![path.clone()];
    let mut held = HeldNames::default();
    let mut too_deep = Ok(());
    while let Some(directory) = directories.pop() {
        let relative = &directory.as_bytes()[path.as_bytes().len()..];
        if let Err(error) = bounds::depth(relative) {
            too_deep = Err(error);
            continue;
        }
        if recursive {
            say!("\n{directory}:");
        }
        let mut entries = list(|request| session.call(request), &directory)?;
        entries.sort_by(|a, b| a.name.as_bytes().cmp(b.name.as_bytes()));
        for entry in &entries {
            say!(
                "{}",
                display::line(&entry.name.to_string(), &entry.attributes)
            );
        }
        if recursive {
            for entry in entries
                .iter()
                .rev()
                .filter(|entry| entry.attributes.mode & libc::S_IFMT == libc::S_IFDIR)
            {
                let path = remote::below(&directory, entry.name.as_bytes())?;
                held.take(path.as_bytes())?;
                directories.push(path);
            }
        }
    }
    too_deep
}
