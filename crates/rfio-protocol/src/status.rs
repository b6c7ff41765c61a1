//! The status of a reply: zero, a Linux errno, or an RFIO number from 1000 on.

use std::fmt;

/// The status of a request. Unknown numbers are kept, and shown as numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Status(pub u32);

macro_rules! statuses {
    ($($(#[$doc:meta])* $name:ident = $code:literal, $text:literal;)*) => {
        impl Status {
            $($(#[$doc])* pub const $name: Status = Status($code);)*

            /// Returns RFIO's message for one of its own numbers.
            pub fn sentence(self) -> Option<&'static str> {
                match self.0 { $($code => Some($text),)* _ => None }
            }
        }
    };
}

statuses! {
    /// Success.
    OK = 0, "success";
    /// The host's name has no address.
    NO_SUCH_HOST = 1001, "host unknown";
    /// No progress for too long.
    TIMED_OUT = 1004, "timed out";
    /// A name or path is too long.
    NAME_TOO_LONG = 1008, "name too long";
    /// No version in common.
    BAD_VERSION = 1010, "protocol version not supported";
    /// A fault of the service itself.
    INTERNAL = 1015, "internal error";
    /// The peer closed the connection.
    CONNECTION_DROPPED = 1016, "connection dropped by the peer";
    /// The network failed, or the peer did not follow the protocol.
    COMMUNICATION = 1018, "communication error";
    /// The operation is not offered.
    NOT_SUPPORTED = 1022, "operation not supported";
    /// Data differ from their checksum.
    CHECKSUM = 1037, "checksum does not match";
}

/// The first number that is not an errno.
pub const FIRST_OWN: u32 = 1000;

impl Status {
    /// Returns whether the request succeeded.
    pub fn is_ok(self) -> bool {
        self == Self::OK
    }

    /// Returns the status for a Linux errno.
    pub fn errno(errno: i32) -> Self {
        match u32::try_from(errno) {
            Ok(code @ 1..FIRST_OWN) => Self(code),
            _ => Self::INTERNAL,
        }
    }

    /// Returns the errno, if the status is one.
    pub fn as_errno(self) -> Option<i32> {
        (self.0 != 0 && self.0 < FIRST_OWN).then_some(self.0 as i32)
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.sentence(), self.as_errno()) {
            (Some(sentence), _) => f.write_str(sentence),
            (None, Some(errno)) => write!(f, "{}", std::io::Error::from_raw_os_error(errno)),
            (None, None) => write!(f, "status {}", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn valid_errnos_pass_and_others_become_internal() {
        assert_eq!(Status::errno(28).as_errno(), Some(28));
        assert_eq!(Status::errno(0), Status::INTERNAL);
        assert_eq!(Status::errno(-3), Status::INTERNAL);
        assert_eq!(Status::errno(1001), Status::INTERNAL);
        assert_eq!(Status::CHECKSUM.as_errno(), None);
    }

    #[test]
    fn unknown_statuses_are_printed_as_numbers() {
        assert_eq!(Status(1999).to_string(), "status 1999");
        assert!(Status(2).to_string().contains("No such file"));
    }
}
