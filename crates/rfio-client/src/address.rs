//! Parses locations of files: `host:/path`, `rfio://host[:port]/path`, or a local path.
//!
//! A host may be in brackets: an IPv6 address, or, if it begins with `/`, `./` or `../`, the path
//! of a Unix socket of a service on this host. Text without `:/` is local, so `a:b` is a local
//! file.

use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use verbena_rfio_protocol::types::Path;
use verbena_rfio_protocol::{DEFAULT_PORT, shown};

/// Address of a service.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Address {
    /// Host name and port.
    Host(String, u16),
    /// Path of a Unix socket on this host.
    Socket(PathBuf),
}

/// Location of a file or directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Location {
    /// On this host.
    Local(PathBuf),
    /// On a server.
    Remote(Address, Path),
}

/// Why a location is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadLocation {
    /// No host before the colon.
    #[error("'{0}' has no host; write HOST:/PATH or rfio://HOST[:PORT]/PATH")]
    NoHost(String),
    /// An invalid port.
    #[error("'{0}' has a port that is not a number from 1 to 65535")]
    Port(String),
    /// A host name with an invalid character.
    #[error("'{0}' has a host name with an invalid character")]
    Host(String),
    /// A path that is too long or holds a NUL byte.
    #[error("'{0}' has a path that is too long or holds a NUL byte")]
    Path(String),
    /// An unmatched bracket.
    #[error("'{0}' has a '[' without a ']'")]
    Bracket(String),
}

impl Location {
    /// Parses a location typed by a user. Paths are bytes and need not be UTF-8.
    ///
    /// # Errors
    /// Why it is invalid.
    pub fn parse(text: impl AsRef<[u8]>) -> Result<Self, BadLocation> {
        Self::parse_with_default_port(text.as_ref(), default_port())
    }

    fn parse_with_default_port(text: &[u8], default_port: u16) -> Result<Self, BadLocation> {
        let path_of =
            |path: &[u8]| Path::new(path).ok_or_else(|| BadLocation::Path(shown::bytes(text)));
        if let Some(rest) = text.strip_prefix(b"rfio://") {
            // The path of a Unix socket in brackets contains slashes.
            let search = match rest.first() {
                Some(b'[') => position(rest, b']').unwrap_or(0),
                _ => 0,
            };
            let slash = position(&rest[search..], b'/').map(|slash| slash + search);
            let (authority, path) = slash.map_or((rest, &b"/"[..]), |slash| rest.split_at(slash));
            return Ok(Self::Remote(
                Address::parse_with_default_port(authority, text, default_port)?,
                path_of(path)?,
            ));
        }
        let search = match text.first() {
            Some(b'[') => {
                position(text, b']').ok_or_else(|| BadLocation::Bracket(shown::bytes(text)))?
            }
            _ => 0,
        };
        match text[search..].windows(2).position(|pair| pair == b":/") {
            // A slash before the colon belongs to a local path.
            Some(colon) if search > 0 || !text[..colon].contains(&b'/') => {
                let (host, path) = text.split_at(search + colon);
                Ok(Self::Remote(
                    Address::parse_with_default_port(host, text, default_port)?,
                    path_of(&path[1..])?,
                ))
            }
            _ => Ok(Self::Local(local_path(text))),
        }
    }
}

fn position(bytes: &[u8], wanted: u8) -> Option<usize> {
    bytes.iter().position(|&byte| byte == wanted)
}

fn local_path(bytes: &[u8]) -> PathBuf {
    PathBuf::from(OsStr::from_bytes(bytes))
}

/// Returns the default port: `$RFIO_PORT` or the protocol's.
fn default_port() -> u16 {
    std::env::var("RFIO_PORT")
        .ok()
        .and_then(|port| port.parse().ok())
        .unwrap_or(DEFAULT_PORT)
}

impl Address {
    fn parse_with_default_port(
        text: &[u8],
        whole: &[u8],
        default_port: u16,
    ) -> Result<Self, BadLocation> {
        let whole = || shown::bytes(whole);
        let (host, rest) = if let Some(bracketed) = text.strip_prefix(b"[") {
            let end = position(bracketed, b']').ok_or_else(|| BadLocation::Bracket(whole()))?;
            (&bracketed[..end], &bracketed[end + 1..])
        } else {
            text.split_at(position(text, b':').unwrap_or(text.len()))
        };
        if host.is_empty() {
            return Err(BadLocation::NoHost(whole()));
        }
        let is_path = [&b"/"[..], b"./", b"../"]
            .iter()
            .any(|begin| host.starts_with(begin));
        if is_path && rest.is_empty() {
            if host.contains(&0) {
                return Err(BadLocation::Path(whole()));
            }
            return Ok(Self::Socket(local_path(host)));
        }
        let is_foreign =
            |c: char| matches!(c, '/' | '[' | ']') || c.is_whitespace() || c.is_control();
        let host = str::from_utf8(host).ok();
        let host = host.filter(|host| !host.contains(is_foreign));
        let host = host.ok_or_else(|| BadLocation::Host(whole()))?;
        let port = match rest.strip_prefix(b":") {
            None if !rest.is_empty() => return Err(BadLocation::Port(whole())),
            Some(port) => Some(port)
                .filter(|port| port.iter().all(u8::is_ascii_digit))
                .and_then(|port| str::from_utf8(port).ok()?.parse().ok())
                .filter(|&port| port != 0)
                .ok_or_else(|| BadLocation::Port(whole()))?,
            None => default_port,
        };
        Ok(Self::Host(host.to_owned(), port))
    }
}

impl Address {
    /// Returns the location of a path on this server, as the tools accept it.
    pub fn location(&self, path: &Path) -> String {
        self.location_with_default_port(path, default_port())
    }

    fn location_with_default_port(&self, path: &Path, default_port: u16) -> String {
        match self {
            Self::Socket(_) => format!("{self}:{path}"),
            Self::Host(host, port) if *port == default_port && host.contains(':') => {
                format!("[{host}]:{path}")
            }
            Self::Host(host, port) if *port == default_port => format!("{host}:{path}"),
            Self::Host(..) => format!("rfio://{self}{path}"),
        }
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Local(path) => f.write_str(&shown::bytes(path.as_os_str().as_bytes())),
            Self::Remote(address, path) => f.write_str(&address.location(path)),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Host(host, port) if host.contains(':') => write!(f, "[{host}]:{port}"),
            Self::Host(host, port) => write!(f, "{host}:{port}"),
            Self::Socket(path) => write!(f, "[{}]", shown::bytes(path.as_os_str().as_bytes())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn remote(text: &str) -> (Address, String) {
        match Location::parse_with_default_port(text.as_bytes(), 5001).unwrap() {
            Location::Remote(address, path) => (address, path.to_string()),
            Location::Local(path) => panic!("{text} is local: {path:?}"),
        }
    }

    fn host(name: &str, port: u16) -> Address {
        Address::Host(name.into(), port)
    }

    #[test]
    fn locations_with_a_host_are_remote() {
        assert_eq!(remote("h:/a/b"), (host("h", 5001), "/a/b".into()));
        assert_eq!(remote("h:/"), (host("h", 5001), "/".into()));
        assert_eq!(remote("rfio://h/a"), (host("h", 5001), "/a".into()));
        assert_eq!(remote("rfio://h:99/a:/b"), (host("h", 99), "/a:/b".into()));
        assert_eq!(remote("rfio://h"), (host("h", 5001), "/".into()));
        assert_eq!(remote("[::1]:/a"), (host("::1", 5001), "/a".into()));
        assert_eq!(remote("rfio://[::1]:7/a"), (host("::1", 7), "/a".into()));
        assert_eq!(
            remote("[/run/s]:/a"),
            (Address::Socket("/run/s".into()), "/a".into())
        );
        assert_eq!(
            remote("rfio://[/run/s]/a/b"),
            (Address::Socket("/run/s".into()), "/a/b".into())
        );
        assert_eq!(
            remote("[./s]:/a"),
            (Address::Socket("./s".into()), "/a".into())
        );
        assert_eq!(
            remote("[../s]:/a"),
            (Address::Socket("../s".into()), "/a".into())
        );
    }

    #[test]
    fn printed_locations_are_accepted_as_the_same() {
        for (text, printed) in [
            ("h:/a", "h:/a"),
            ("rfio://h:5001/a", "h:/a"),
            ("rfio://h:99/a:/b", "rfio://h:99/a:/b"),
            ("[::1]:/a", "[::1]:/a"),
            ("rfio://[::1]:7/a", "rfio://[::1]:7/a"),
            ("rfio://[/run/s]/a", "[/run/s]:/a"),
            ("[./s]:/a/b", "[./s]:/a/b"),
        ] {
            let parse = |text: &str| Location::parse_with_default_port(text.as_bytes(), 5001);
            let Ok(Location::Remote(address, path)) = parse(text) else {
                panic!("{text} is local");
            };
            assert_eq!(address.location_with_default_port(&path, 5001), printed);
            assert_eq!(parse(printed), parse(text));
        }
    }

    #[test]
    fn other_locations_are_local() {
        for text in ["a", "/a/b", "a:b", "./a:/b", "/x/h:/y", "-", ""] {
            assert_eq!(
                Location::parse_with_default_port(text.as_bytes(), 5001),
                Ok(Location::Local(text.into())),
                "{text}"
            );
        }
    }

    #[test]
    fn paths_are_bytes_and_hosts_are_text() {
        let parse = |text: &[u8]| Location::parse_with_default_port(text, 5001);
        let remote = Location::Remote(host("h", 5001), Path::new(&b"/a\xff"[..]).unwrap());
        assert_eq!(parse(b"h:/a\xff").as_ref(), Ok(&remote));
        assert_eq!(parse(b"rfio://h/a\xff"), Ok(remote));
        let local = Location::Local(local_path(b"a\xff"));
        assert_eq!(parse(b"a\xff"), Ok(local));
        let named = BadLocation::Host("h\\xff:/a".into());
        assert_eq!(parse(b"h\xff:/a"), Err(named));
    }

    #[test]
    fn invalid_locations_are_refused_with_a_reason() {
        assert!(matches!(
            Location::parse("rfio:///a"),
            Err(BadLocation::NoHost(_))
        ));
        for text in ["rfio://[/run/\0s]/a", "[./s\0]:/a"] {
            assert!(matches!(Location::parse(text), Err(BadLocation::Path(_))));
        }
        assert!(matches!(
            Location::parse("rfio://h:0/a"),
            Err(BadLocation::Port(_))
        ));
        assert!(matches!(
            Location::parse("rfio://h:x/a"),
            Err(BadLocation::Port(_))
        ));
        for text in ["rfio://[f/run/s]/a", "rfio://a b/c", "rfio://[a[b]/c"] {
            assert_eq!(
                Location::parse(text),
                Err(BadLocation::Host(text.to_owned()))
            );
        }
        for text in ["rfio://[::1]x/a", "rfio://[::1]:/a", "rfio://h:+1/a"] {
            assert_eq!(
                Location::parse(text),
                Err(BadLocation::Port(text.to_owned()))
            );
        }
        assert!(matches!(
            Location::parse("[::1:/a"),
            Err(BadLocation::Bracket(_))
        ));
        assert!(matches!(
            Location::parse("h:/a\0b"),
            Err(BadLocation::Path(_))
        ));
    }
}
