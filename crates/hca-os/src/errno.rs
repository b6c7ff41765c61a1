//! The error number that a verb returns (errno.h), as a separate type.

use std::fmt;
use std::io;

/// An `errno` value. Every verb of this crate fails with one, because the C ABI can carry nothing
/// else.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Errno(pub libc::c_int);

/// Result of a verb.
pub type Result<T> = std::result::Result<T, Errno>;

impl Errno {
    /// An argument or a combination of arguments is not allowed.
    pub const EINVAL: Errno = Errno(libc::EINVAL);
    /// No room: a queue is full or a limit of the device is reached.
    pub const ENOMEM: Errno = Errno(libc::ENOMEM);
    /// The device does not have the feature, and advertises so.
    pub const EOPNOTSUPP: Errno = Errno(libc::EOPNOTSUPP);
    /// The object is still in use.
    pub const EBUSY: Errno = Errno(libc::EBUSY);
    /// A memory range is not mapped, or not with the requested rights.
    pub const EFAULT: Errno = Errno(libc::EFAULT);
    /// The descriptor is not open.
    pub const EBADF: Errno = Errno(libc::EBADF);
    /// The descriptor does not have the rights.
    pub const EACCES: Errno = Errno(libc::EACCES);
    /// Nothing available now; try again.
    pub const EAGAIN: Errno = Errno(libc::EAGAIN);
    /// No such object.
    pub const ENOENT: Errno = Errno(libc::ENOENT);
    /// The object exists already.
    pub const EEXIST: Errno = Errno(libc::EEXIST);
    /// Not allowed for this caller.
    pub const EPERM: Errno = Errno(libc::EPERM);
    /// The peer breaks the protocol, or uses another version of it.
    pub const EPROTO: Errno = Errno(libc::EPROTO);
    /// The opened object has since been removed.
    pub const ESTALE: Errno = Errno(libc::ESTALE);
    /// The adapter's own state could not be set up.
    pub const EIO: Errno = Errno(libc::EIO);

    /// Returns the remedy for a limit of the process or the machine that is exhausted.
    pub fn remedy(self) -> Option<&'static str> {
        match self.0 {
            libc::EMFILE => Some("raise the limit of open files, `ulimit -n`"),
            libc::ENFILE => Some("raise the machine's limit of open files, fs.file-max"),
            libc::ENOMEM => Some("raise the limit of address space, `ulimit -v`, or free memory"),
            libc::EAGAIN => Some("raise the limit of processes and threads, `ulimit -u`"),
            _ => None,
        }
    }

    /// Returns its name in errno.h, if it is one that verbs return.
    pub fn name(self) -> Option<&'static str> {
        Some(match self.0 {
            libc::EINVAL => "EINVAL",
            libc::ENOMEM => "ENOMEM",
            libc::EOPNOTSUPP => "EOPNOTSUPP",
            libc::EBUSY => "EBUSY",
            libc::EFAULT => "EFAULT",
            libc::ENOENT => "ENOENT",
            libc::EEXIST => "EEXIST",
            libc::EPERM => "EPERM",
            libc::EACCES => "EACCES",
            libc::EPROTO => "EPROTO",
            libc::ESTALE => "ESTALE",
            libc::EIO => "EIO",
            libc::EBADF => "EBADF",
            libc::EMFILE => "EMFILE",
            libc::ENOSYS => "ENOSYS",
            libc::ENOSPC => "ENOSPC",
            libc::ENODEV => "ENODEV",
            libc::ENETDOWN => "ENETDOWN",
            libc::ENOTCONN => "ENOTCONN",
            libc::EADDRINUSE => "EADDRINUSE",
            libc::EADDRNOTAVAIL => "EADDRNOTAVAIL",
            libc::EAFNOSUPPORT => "EAFNOSUPPORT",
            _ => return None,
        })
    }

    /// Returns the calling thread's `errno`.
    pub fn last() -> Errno {
        Errno(
            io::Error::last_os_error()
                .raw_os_error()
                .unwrap_or(libc::EIO),
        )
    }
}

impl From<rustix::io::Errno> for Errno {
    fn from(error: rustix::io::Errno) -> Errno {
        Errno(error.raw_os_error())
    }
}

impl fmt::Debug for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", io::Error::from_raw_os_error(self.0))
    }
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

impl std::error::Error for Errno {}

impl From<io::Error> for Errno {
    fn from(error: io::Error) -> Errno {
        Errno(error.raw_os_error().unwrap_or(libc::EIO))
    }
}
