//! `rfrm`: removes files.

use std::sync::Arc;

use std::process::ExitCode;

use crate::arguments::{self, Remove};
use crate::remote;
use verbena_rfio_client::bounds::{self, HeldNames};
use verbena_rfio_client::copy::list;
use verbena_rfio_client::{Error, MultiplexedConnection};
use verbena_rfio_protocol::Request;
use verbena_rfio_protocol::request::OnPath;
use verbena_rfio_protocol::types::Path;

/// Runs the tool on this process's arguments, and returns its exit code.
pub fn main() -> ExitCode {
    let arguments: Remove = match arguments::parse() {
        Ok(arguments) => arguments,
        Err(code) => return code,
    };
    remote::each(
        "rfrm",
        &arguments.places,
        arguments.connection.options(),
        |session, _, path| {
            let about = remote::link_status(session, path)?;
            if about.mode & libc::S_IFMT == libc::S_IFDIR {
                if !arguments.recursive {
                    return Err(Error::Setup(
                        "is a directory; remove it and its contents with -r".into(),
                    ));
                }
                remove_tree(session, path)
            } else {
                unlink(session, path)
            }
        },
    )
}

fn unlink(session: &Arc<MultiplexedConnection>, path: &Path) -> Result<(), Error> {
    session
        .call(Request::Unlink(OnPath { path: path.clone() }))
        .map(|_| ())
}

/// Removes a tree. Each directory is removed after its content; symbolic links are removed, never
/// followed.
fn remove_tree(session: &Arc<MultiplexedConnection>, root: &Path) -> Result<(), Error> {
    let mut found = vec![root.clone()];
    let mut directories = Vec::new();
    let mut held = HeldNames::default();
    while let Some(directory) = found.pop() {
        bounds::depth(&directory.as_bytes()[root.as_bytes().len()..])?;
        held.take(directory.as_bytes())?;
        for entry in list(|request| session.call(request), &directory)? {
            let path = remote::below(&directory, entry.name.as_bytes())?;
            match entry.attributes.mode & libc::S_IFMT {
                libc::S_IFDIR => found.push(path),
                _ => unlink(session, &path)?,
            }
        }
        directories.push(directory);
    }
    for path in directories.into_iter().rev() {
        session.call(Request::RemoveDirectory(OnPath { path }))?;
    }
    Ok(())
}
