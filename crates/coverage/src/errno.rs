//! Names of error numbers, as strace(1) prints them.

macro_rules! named {
    ($($name:ident)*) => { &[$((stringify!($name), libc::$name)),*] };
}

#[rustfmt::skip]
const NAMES: &[(&str, i32)] = named![
    EPERM ENOENT ESRCH EINTR EIO ENXIO E2BIG EBADF ECHILD EAGAIN ENOMEM EACCES EFAULT EBUSY EEXIST
    EXDEV ENODEV ENOTDIR EISDIR EINVAL ENFILE EMFILE ENOTTY EFBIG ENOSPC ESPIPE EROFS EPIPE ERANGE
    EDEADLK ENAMETOOLONG ENOSYS ENODATA ETIME ECOMM EPROTO EBADMSG EOVERFLOW ESTALE ENOTSOCK
    EDESTADDRREQ EMSGSIZE EPROTONOSUPPORT EOPNOTSUPP EPFNOSUPPORT EAFNOSUPPORT EADDRINUSE
    EADDRNOTAVAIL ENETDOWN ENETUNREACH ECONNABORTED ECONNRESET ENOBUFS EISCONN ENOTCONN ETIMEDOUT
    ECONNREFUSED EHOSTDOWN EHOSTUNREACH EALREADY EINPROGRESS EREMOTEIO ECANCELED
];

/// The number of a failure without `errno`.
pub const UNKNOWN: i32 = -1;

/// Returns the name of an error number, `errno 4095` if it has none.
pub fn name(number: i32) -> String {
    if number == UNKNOWN {
        return "unknown".into();
    }
    match NAMES.iter().find(|(_, value)| *value == number) {
        Some((name, _)) => (*name).to_owned(),
        None => format!("errno {number}"),
    }
}

/// Returns the error number with this name.
pub fn number(name: &str) -> Option<i32> {
    let found = NAMES.iter().find(|(word, _)| *word == name);
    found.map(|(_, number)| *number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_are_inverse() {
        for (word, value) in NAMES {
            assert_eq!(number(word), Some(*value));
            assert_eq!(name(*value), *word);
        }
        assert_eq!((name(4095), number("E")), ("errno 4095".into(), None));
    }
}
