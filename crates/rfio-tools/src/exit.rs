//! Exit codes, RFIO's own: one table.

use std::process::ExitCode;

use verbena_rfio_protocol::{Status, shown};

/// Done.
pub const OK: u8 = 0;
/// The command line makes no sense.
pub const BAD_PARAMETER: u8 = 1;
/// The system said no.
pub const SYSTEM: u8 = 2;
/// Something else.
pub const UNKNOWN: u8 = 3;
/// Somebody else is writing the destination, or the server has no room for another session.
pub const BUSY: u8 = 16;
/// The destination is full.
pub const NO_SPACE: u8 = 28;
/// A signal ended it.
pub const KILLED: u8 = 196;
/// Data differ from their checksum.
pub const BAD_CHECKSUM: u8 = 200;

/// The exit code of a status.
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

/// Says what went wrong, with the program's name before it.
pub fn report(program: &str, what: impl std::fmt::Display) {
    use std::io::Write;
    // The words may be a server's. Whoever closed standard error wants none.
    let what = shown::line(&what.to_string());
    let _ = writeln!(std::io::stderr(), "{program}: {what}");
}

/// The exit code as the system takes it.
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
