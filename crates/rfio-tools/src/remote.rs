//! Sessions for tools that act on names: one per server, however many names.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use verbena_rfio::client::{Address, Error, Exchange, Location, Options};
use verbena_rfio_protocol::request::OnPath;
use verbena_rfio_protocol::types::{Attributes, Path};
use verbena_rfio_protocol::{Reply, Request, shown};

/// Sessions by server.
#[derive(Debug)]
pub struct Sessions {
    options: Options,
    sessions: HashMap<Address, Arc<Exchange>>,
}

impl Sessions {
    /// None yet.
    pub fn new(options: Options) -> Self {
        Self {
            options,
            sessions: HashMap::new(),
        }
    }

    /// The session with a server.
    pub fn with(&mut self, address: &Address) -> Result<&Arc<Exchange>, Error> {
        let kept = self.sessions.get(address);
        if kept.is_none_or(|session| session.is_broken()) {
            let session = Exchange::for_copies(address, &self.options)?;
            self.sessions.insert(address.clone(), session);
        }
        Ok(&self.sessions[address])
    }
}

/// Reads a place that must be on a server.
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

/// What a path is, following a symbolic link.
pub fn status(session: &Arc<Exchange>, path: &Path) -> Result<Attributes, Error> {
    match session.call(Request::Status(OnPath { path: path.clone() }))? {
        Reply::Status(about) => Ok(about.attributes),
        other => Err(Error::Protocol(format!(
            "unexpected reply {}",
            other.name()
        ))),
    }
}

/// What a path is, a symbolic link itself.
pub fn link_status(session: &Arc<Exchange>, path: &Path) -> Result<Attributes, Error> {
    match session.call(Request::LinkStatus(OnPath { path: path.clone() }))? {
        Reply::LinkStatus(about) => Ok(about.attributes),
        other => Err(Error::Protocol(format!(
            "unexpected reply {}",
            other.name()
        ))),
    }
}

/// A name in a directory.
pub fn below(directory: &Path, name: &[u8]) -> Result<Path, Error> {
    let slash: &[u8] = if directory.as_bytes().ends_with(b"/") {
        b""
    } else {
        b"/"
    };
    Path::new([directory.as_bytes(), slash, name].concat())
        .ok_or_else(|| Error::Setup("path too long".into()))
}

/// Runs a tool over its places: each failure is reported and the others go on, unless a server does
/// not let the user in; the exit code is the first failure's.
pub fn each(
    program: &str,
    places: &[OsString],
    options: Result<Options, Error>,
    mut act: impl FnMut(&Arc<Exchange>, &Address, &Path) -> Result<(), Error>,
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
            if error.is_of_identity() {
                break;
            }
        }
    }
    crate::exit::with(code)
}
