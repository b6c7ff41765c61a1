//! The peers of queue pairs that a rule is about: `qp*.send 3 peer ./server: flush`.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

/// Peers of queue pairs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Peer {
    /// Queue pairs of ports with this LID.
    Lid(u16),
    /// Queue pairs of ports with this GID; an IPv4 address is that of a RoCE port.
    Gid(Ipv6Addr),
    /// Queue pairs with this number.
    QueuePair(u32),
    /// Queue pairs of this process on the same host.
    Process(u32),
    /// Queue pairs of processes on the same host whose command line contains this text.
    Command(String),
}

/// A queue pair that is a peer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PeerAddress {
    /// LID of its port; 0 if it is not known.
    pub lid: u16,
    /// GID of its port, if the request has a global route.
    pub gid: Option<Ipv6Addr>,
    /// Its number.
    pub queue_pair: u32,
    /// Its process, if it is on the same host; 0 if not.
    pub process: u32,
    /// The command line of the process.
    pub command: String,
}

/// The word before a peer in a rule.
pub const WORD: &str = " peer ";

impl Peer {
    /// Reads it; none if the text is empty, or begins with the word of a number that it lacks.
    pub(crate) fn read(text: &str) -> Option<Peer> {
        let text = text.trim();
        let (word, rest) = text.split_once(' ').unwrap_or((text, ""));
        let rest = rest.trim();
        let is_text = !text.is_empty() && !text.contains(char::is_control);
        match word.to_ascii_lowercase().as_str() {
            "lid" => number(rest)
                .and_then(|lid| u16::try_from(lid).ok())
                .map(Peer::Lid),
            "gid" => rest.parse().ok().map(Peer::of_address),
            "qpn" => number(rest).map(Peer::QueuePair),
            "pid" => number(rest).map(Peer::Process),
            _ => is_text.then(|| Peer::Command(text.to_owned())),
        }
    }

    /// Returns the peer with the address that this text is; none if it is another peer. Rules with
    /// such a text are about command lines, which is rarely wanted.
    pub fn as_address(&self) -> Option<Peer> {
        match self {
            Peer::Command(text) => text.parse::<IpAddr>().ok().map(Peer::of_address),
            _ => None,
        }
    }

    fn of_address(address: IpAddr) -> Peer {
        Peer::Gid(match address {
            IpAddr::V4(address) => address.to_ipv6_mapped(),
            IpAddr::V6(address) => address,
        })
    }

    /// Returns whether a queue pair is meant.
    pub fn includes(&self, address: &PeerAddress) -> bool {
        match self {
            Peer::Lid(lid) => *lid == address.lid,
            Peer::Gid(gid) => Some(*gid) == address.gid,
            Peer::QueuePair(number) => *number == address.queue_pair,
            Peer::Process(process) => *process == address.process,
            Peer::Command(text) => address.command.contains(text),
        }
    }
}

/// Reads a number from 1, decimal or with `0x`.
fn number(text: &str) -> Option<u32> {
    let number = match text.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    };
    number.filter(|number| *number > 0)
}

impl fmt::Display for Peer {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Peer::Lid(lid) => write!(to, "lid {lid}"),
            Peer::Gid(gid) => match gid.to_ipv4_mapped() {
                Some(address) => write!(to, "gid {address}"),
                None => write!(to, "gid {gid}"),
            },
            Peer::QueuePair(number) => write!(to, "qpn {number:#x}"),
            Peer::Process(process) => write!(to, "pid {process}"),
            Peer::Command(text) => to.write_str(text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn peers_are_read_and_printed() {
        for text in [
            "lid 4",
            "gid fe80::2",
            "gid 10.0.0.2",
            "qpn 0x111",
            "pid 4242",
            "./server --port 1",
        ] {
            assert_eq!(Peer::read(text).expect(text).to_string(), text);
        }
        assert_eq!(Peer::read("qpn 17"), Some(Peer::QueuePair(17)));
        assert_eq!(Peer::read("LID 4"), Some(Peer::Lid(4)));
        assert_eq!(Peer::read("Pid 17"), Some(Peer::Process(17)));
        for text in [
            "",
            "lid",
            "lid 65536",
            "lid x",
            "gid 10.0.0",
            "pid 0",
            "qpn 0x",
        ] {
            assert_eq!(Peer::read(text), None, "{text}");
        }
    }

    #[test]
    fn an_address_without_its_word_is_recognised() {
        let of = |text| Peer::read(text).unwrap().as_address();
        assert_eq!(of("10.0.0.2"), Peer::read("gid 10.0.0.2"));
        assert_eq!(of("fe80::2"), Peer::read("gid fe80::2"));
        for other in ["gid 10.0.0.2", "./client 10.0.0.2", "10.0.0"] {
            assert_eq!(of(other), None, "{other}");
        }
    }

    #[test]
    fn peers_include_addresses() {
        let server = PeerAddress {
            lid: 4,
            gid: Some("::ffff:10.0.0.2".parse().unwrap()),
            queue_pair: 17,
            process: 42,
            command: "./server -v".into(),
        };
        let meant = ["lid 4", "gid 10.0.0.2", "qpn 0x11", "pid 42", "./server"];
        let others = ["lid 5", "gid 10.0.0.3", "qpn 0x12", "pid 43", "./client"];
        for (one, other) in meant.into_iter().zip(others) {
            assert!(Peer::read(one).unwrap().includes(&server), "{one}");
            assert!(!Peer::read(other).unwrap().includes(&server), "{other}");
        }
        // Nothing is known of a process on another host.
        let elsewhere = PeerAddress {
            process: 0,
            command: String::new(),
            ..server
        };
        assert!(!Peer::read("./server").unwrap().includes(&elsewhere));
        assert!(!Peer::read("pid 42").unwrap().includes(&elsewhere));
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "(?s).{0,60}") {
            if let Some(peer) = Peer::read(&text) {
                prop_assert_eq!(Peer::read(&peer.to_string()), Some(peer));
            }
        }
    }
}
