//! Conversion of open(2) flags to those of the protocol.

use verbena_rfio_protocol::request::OpenFlags;

use super::error::Error;

/// Converts the flags of open(2).
///
/// # Errors
/// EINVAL for an invalid access mode.
pub fn protocol_flags(flags: i32) -> Result<u32, Error> {
    let mut wanted = match flags & libc::O_ACCMODE {
        libc::O_RDONLY => OpenFlags::READ,
        libc::O_WRONLY => OpenFlags::WRITE,
        libc::O_RDWR => OpenFlags::READ | OpenFlags::WRITE,
        _ => {
            return Err(Error::Local(
                "flags".into(),
                std::io::Error::from_raw_os_error(libc::EINVAL),
            ));
        }
    };
    for (system, ours) in [
        (libc::O_CREAT, OpenFlags::CREATE),
        (libc::O_EXCL, OpenFlags::EXCLUSIVE),
        (libc::O_TRUNC, OpenFlags::TRUNCATE),
        (libc::O_APPEND, OpenFlags::APPEND),
        (libc::O_NOFOLLOW, OpenFlags::NO_FOLLOW),
    ] {
        if flags & system != 0 {
            wanted |= ours;
        }
    }
    Ok(wanted)
}
