//! Where a URL leads. Names are bytes to a server; those that are no UTF-8 come as Python has them (`surrogateescape`).

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;

use verbena_rfio::client::{Address, Error, Location};
use verbena_rfio_protocol::types::Path;

/// A file or directory of a server.
#[derive(Debug)]
pub struct Place {
    /// The server.
    pub address: Address,
    /// The path there.
    pub path: Path,
    /// As it was given.
    pub url: OsString,
}

impl Place {
    /// Reads `rfio://host[:port]/path`.
    pub fn new(url: OsString) -> Result<Self, Error> {
        let bytes = url.as_bytes();
        let shown = || url.to_string_lossy().into_owned();
        let rest = bytes
            .strip_prefix(b"rfio://")
            .ok_or_else(|| Error::Setup(format!("'{}' does not begin with rfio://", shown())))?;
        // A Unix socket in brackets has slashes of its own.
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
