//! Sessions for tools that act on names: one per server, for any number of names.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use verbena_rfio_client::{Address, Error, Location, MultiplexedConnection, Options};
use verbena_rfio_protocol::request::OnPath;
use verbena_rfio_protocol::types::{Attributes, Path};
use verbena_rfio_protocol::{Reply, Request, shown};

/// Sessions by server.
#[derive(Debug)]
pub struct Sessions {
    options: Options,
    sessions: HashMap<Address, Arc<MultiplexedConnection>>,
}

impl Sessions {
    /// Returns an empty set.
    pub fn new(options: Options) -> Self {
        Self {
            options,
            sessions: HashMap::new(),
        }
    }

    /// Returns the session with a server; connects if there is none or it is broken.
    ///
    /// # Errors
    /// The connection fails or the server refuses the user.
    pub fn with(&mut self, address: &Address) -> Result<&Arc<MultiplexedConnection>, Error> {
        let kept = self.sessions.get(address);
        if kept.is_none_or(|session| session.is_broken()) {
            let session = MultiplexedConnection::for_copies(address, &self.options)?;
            self.sessions.insert(address.clone(), session);
        }
        Ok(&self.sessions[address])
    }
}

/// Parses a location on a server.
///
/// # Errors
/// The text is not a location, or it is a local path.
pub fn place(text: &OsStr) -> Result<(Address, Path), Error> {
    match Location::parse(text.as_bytes()) {
        Ok(Location::Remote(address, path)) => Ok((address, path)),
        Ok(Location::Local(_)) => Err(Error::Setup(format!(
            "'{}' is not on a server; write HOST:/PATH or rfio://HOST[:PORT]/PATH",
            shown::bytes(text.as_bytes())
        ))),
        Err(bad) => Err(Error::Setup(bad.to_string())),
    }
}

/// Returns a path's attributes and follows a symbolic link.
///
/// # Errors
/// The request fails, or the server violates the protocol.
pub fn status(session: &Arc<MultiplexedConnection>, path: &Path) -> Result<Attributes, Error> {
    match session.call(Request::Status(OnPath { path: path.clone() }))? {
        Reply::Status(about) => Ok(about.attributes),
        other => Err(Error::unexpected(&other)),
    }
}

/// Returns a path's attributes, those of the link itself for a symbolic link.
///
/// # Errors
/// As [`status`].
pub fn link_status(session: &Arc<MultiplexedConnection>, path: &Path) -> Result<Attributes, Error> {
    match session.call(Request::LinkStatus(OnPath { path: path.clone() }))? {
        Reply::LinkStatus(about) => Ok(about.attributes),
        other => Err(Error::unexpected(&other)),
    }
}

/// Returns the path of a name in a directory.
///
/// # Errors
/// The path is not valid, for example too long.
pub fn below(directory: &Path, name: &[u8]) -> Result<Path, Error> {
    let slash: &[u8] = if directory.as_bytes().ends_with(b"/") {
        b""
    } else {
        b"/"
    };
    Path::new([directory.as_bytes(), slash, name].concat())
        .ok_or_else(|| Error::Setup("path too long".into()))
}

/// Runs `act` for each place and returns the exit code of the first failure. Reports every failure
/// and continues with the next place, but stops if a server rejects the user's authentication.
pub fn each(
    program: &str,
    places: &[OsString],
    options: Result<Options, Error>,
    mut act: impl FnMut(&Arc<MultiplexedConnection>, &Address, &Path) -> Result<(), Error>,
) -> std::process::ExitCode {
    let options = match options {
        Ok(options) => options,
        Err(error) => {
            crate::exit::report(program, &error);
            return crate::exit::with(crate::exit::code(error.status()));
        }
    };
    let mut sessions = Sessions::new(options);
    let mut code = crate::exit::OK;
    for text in places {
        let result =
            place(text).and_then(|(address, path)| act(sessions.with(&address)?, &address, &path));
        if let Err(error) = result {
            let text = shown::bytes(text.as_bytes());
            crate::exit::report(program, format_args!("{text}: {error}"));
            if code == crate::exit::OK {
                code = crate::exit::code(error.status());
            }
            if error.is_authentication_failure() {
                break;
            }
        }
    }
    crate::exit::with(code)
}
