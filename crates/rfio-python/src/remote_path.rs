//! Parses URLs. Names on a server are bytes; those that are not UTF-8 use Python's
//! `surrogateescape`.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;

use verbena_rfio_client::{Address, Error, Location};
use verbena_rfio_protocol::types::Path;

/// A file or directory on a server.
#[derive(Debug)]
pub struct RemotePath {
    /// Server.
    pub address: Address,
    /// Path on the server.
    pub path: Path,
    /// Original URL.
    pub url: OsString,
}

impl RemotePath {
    /// Parses `rfio://host[:port]/path`.
    ///
    /// # Errors
    /// The URL is malformed, or its path is too long or contains a NUL byte.
    pub fn new(url: OsString) -> Result<Self, Error> {
        let bytes = url.as_bytes();
        let shown = || url.to_string_lossy().into_owned();
        let rest = bytes
            .strip_prefix(b"rfio://")
            .ok_or_else(|| Error::Setup(format!("'{}' does not begin with rfio://", shown())))?;
        // The path of a Unix socket in brackets contains slashes.
        let bracket = rest.starts_with(b"[").then(|| position(rest, b']'));
        let from = bracket.flatten().unwrap_or(0);
        let slash = position(&rest[from..], b'/').map_or(rest.len(), |slash| from + slash);
        let (server, path) = rest.split_at(slash);
        let server = format!("rfio://{}/", String::from_utf8_lossy(server));
        let Location::Remote(address, root) =
            Location::parse(&server).map_err(|bad| Error::Setup(bad.to_string()))?
        else {
            return Err(Error::Setup(format!("'{server}' names no server")));
        };
        let path = match path.is_empty() {
            true => root,
            false => Path::new(path).ok_or_else(|| {
                Error::Setup(format!("'{}' is too long or holds a NUL byte", shown()))
            })?,
        };
        Ok(Self { address, path, url })
    }
}

fn position(bytes: &[u8], wanted: u8) -> Option<usize> {
    bytes.iter().position(|&byte| byte == wanted)
}
