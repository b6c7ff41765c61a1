//! RFIO's exit codes.

use std::process::ExitCode;

use verbena_rfio_protocol::{Status, shown};

/// Success.
pub const OK: u8 = 0;
/// Invalid command line, or EINVAL.
pub const BAD_PARAMETER: u8 = 1;
/// The system or the server refused the operation.
pub const SYSTEM: u8 = 2;
/// Any other error.
pub const UNKNOWN: u8 = 3;
/// Another process writes the destination, or the server has no space for another session.
pub const BUSY: u8 = 16;
/// No space at the destination (ENOSPC or EDQUOT).
pub const NO_SPACE: u8 = 28;
/// Ended by a signal.
pub const KILLED: u8 = 196;
/// Checksum mismatch.
pub const BAD_CHECKSUM: u8 = 200;

/// Returns the exit code of a status.
pub fn code(status: Status) -> u8 {
    match (status, status.as_errno()) {
        (Status::OK, _) => OK,
        (Status::CHECKSUM, _) => BAD_CHECKSUM,
        (_, Some(libc::EBUSY)) => BUSY,
        (_, Some(libc::ENOSPC | libc::EDQUOT)) => NO_SPACE,
        (_, Some(libc::EINVAL)) => BAD_PARAMETER,
        (_, Some(_)) => SYSTEM,
        (Status::INTERNAL, _) => UNKNOWN,
        (status, None) if status.sentence().is_some() => SYSTEM,
        _ => UNKNOWN,
    }
}

/// Prints an error to standard error, after the program's name.
pub fn report(program: &str, what: impl std::fmt::Display) {
    use std::io::Write;
    // The text may come from a server, so unprintable characters are escaped. A closed standard
    // error is ignored.
    let what = shown::line(&what.to_string());
    let _ = writeln!(std::io::stderr(), "{program}: {what}");
}

/// Returns an exit code as [`ExitCode`].
pub fn with(code: u8) -> ExitCode {
    ExitCode::from(code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_codes_equal_those_of_the_old_tools() {
        assert_eq!(code(Status::OK), 0);
        assert_eq!(code(Status::errno(libc::EINVAL)), 1);
        assert_eq!(code(Status::errno(libc::ENOENT)), 2);
        assert_eq!(code(Status::TIMED_OUT), 2);
        assert_eq!(code(Status::INTERNAL), 3);
        assert_eq!(code(Status(1999)), 3);
        assert_eq!(code(Status::errno(libc::EBUSY)), 16);
        assert_eq!(code(Status::errno(libc::ENOSPC)), 28);
        assert_eq!(code(Status::CHECKSUM), 200);
    }
}
