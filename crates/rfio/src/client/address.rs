//! Where a file is: `host:/path`, `rfio://host[:port]/path`, or a local path.
//!
//! A host may stand in brackets: an IPv6 address, or, if it begins with `/`, `./` or `../`, the path of a Unix socket of a service
//! on this host. Whatever holds no `:/` is local, so `a:b` is a file here.

use std::fmt;
use std::path::PathBuf;

use verbena_rfio_protocol::DEFAULT_PORT;
use verbena_rfio_protocol::types::Path;

/// A service.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Address {
    /// On the network.
    Host(String, u16),
    /// On this host.
    Socket(PathBuf),
}

/// A file or directory, here or there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Location {
    /// Here.
    Local(PathBuf),
    /// There.
    Remote(Address, Path),
}

/// Why a location makes no sense.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadLocation {
    /// No host before the colon.
    #[error("'{0}' names no host; write HOST:/PATH or rfio://HOST[:PORT]/PATH")]
    NoHost(String),
    /// A port that is none.
    #[error("'{0}' has a port that is not a number from 1 to 65535")]
    Port(String),
    /// A host that no system could look up.
    #[error("'{0}' has a host name with a character that no name has")]
    Host(String),
    /// A path that no server could have.
    #[error("'{0}' has a path that is too long or holds a NUL byte")]
    Path(String),
    /// A bracket without its partner.
    #[error("'{0}' has a '[' without a ']'")]
    Bracket(String),
}

impl Location {
    /// Reads what a user typed.
    pub fn parse(text: &str) -> Result<Self, BadLocation> {
        Self::parse_with_default_port(text, default_port())
    }

    fn parse_with_default_port(text: &str, default_port: u16) -> Result<Self, BadLocation> {
        let path_of =
            |path: &str| Path::new(path).ok_or_else(|| BadLocation::Path(text.to_owned()));
        if let Some(rest) = text.strip_prefix("rfio://") {
            // A Unix socket in brackets holds slashes of its own.
            let search = rest
                .find(']')
                .filter(|_| rest.starts_with('['))
                .unwrap_or(0);
            let slash = rest[search..].find('/').map(|slash| slash + search);
            let (authority, path) = slash.map_or((rest, "/"), |slash| rest.split_at(slash));
            return Ok(Self::Remote(
                Address::parse_with_default_port(authority, text, default_port)?,
                path_of(path)?,
            ));
        }
        let search = match text.starts_with('[') {
            true => text
                .find(']')
                .ok_or_else(|| BadLocation::Bracket(text.to_owned()))?,
            false => 0,
        };
        match text[search..].find(":/") {
            // A slash before the colon belongs to a local path.
            Some(colon) if search > 0 || !text[..colon].contains('/') => {
                let (host, path) = text.split_at(search + colon);
                Ok(Self::Remote(
                    Address::parse_with_default_port(host, text, default_port)?,
                    path_of(&path[1..])?,
                ))
            }
            _ => Ok(Self::Local(PathBuf::from(text))),
        }
    }
}

/// The port when none is typed: `$RFIO_PORT` or the protocol's.
fn default_port() -> u16 {
    std::env::var("RFIO_PORT")
        .ok()
        .and_then(|port| port.parse().ok())
        .unwrap_or(DEFAULT_PORT)
}

impl Address {
    fn parse_with_default_port(
        text: &str,
        whole: &str,
        default_port: u16,
    ) -> Result<Self, BadLocation> {
        let (host, rest) = if let Some(bracketed) = text.strip_prefix('[') {
            bracketed
                .split_once(']')
                .ok_or_else(|| BadLocation::Bracket(whole.to_owned()))?
        } else {
            let colon = text.find(':').unwrap_or(text.len());
            text.split_at(colon)
        };
        if host.is_empty() {
            return Err(BadLocation::NoHost(whole.to_owned()));
        }
        let is_path = ["/", "./", "../"]
            .iter()
            .any(|begin| host.starts_with(begin));
        if is_path && rest.is_empty() {
            return Ok(Self::Socket(PathBuf::from(host)));
        }
        let is_foreign =
            |c: char| matches!(c, '/' | '[' | ']') || c.is_whitespace() || c.is_control();
        if host.contains(is_foreign) {
            return Err(BadLocation::Host(whole.to_owned()));
        }
        let port = match rest.strip_prefix(':') {
            None if !rest.is_empty() => return Err(BadLocation::Port(whole.to_owned())),
            Some(port) => Some(port)
                .filter(|port| port.bytes().all(|byte| byte.is_ascii_digit()))
                .and_then(|port| port.parse().ok())
                .filter(|&port| port != 0)
                .ok_or_else(|| BadLocation::Port(whole.to_owned()))?,
            None => default_port,
        };
        Ok(Self::Host(host.to_owned(), port))
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Host(host, port) if host.contains(':') => write!(f, "[{host}]:{port}"),
            Self::Host(host, port) => write!(f, "{host}:{port}"),
            Self::Socket(path) => write!(f, "[{}]", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn remote(text: &str) -> (Address, String) {
        match Location::parse_with_default_port(text, 5001).unwrap() {
            Location::Remote(address, path) => (address, path.to_string()),
            Location::Local(path) => panic!("{text} is local: {path:?}"),
        }
    }

    fn host(name: &str, port: u16) -> Address {
        Address::Host(name.into(), port)
    }

    #[test]
    fn what_names_a_host_is_remote() {
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
    fn everything_else_is_local() {
        for text in ["a", "/a/b", "a:b", "./a:/b", "/x/h:/y", "-", ""] {
            assert_eq!(
                Location::parse_with_default_port(text, 5001),
                Ok(Location::Local(text.into())),
                "{text}"
            );
        }
    }

    #[test]
    fn nonsense_is_named() {
        assert!(matches!(
            Location::parse("rfio:///a"),
            Err(BadLocation::NoHost(_))
        ));
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
