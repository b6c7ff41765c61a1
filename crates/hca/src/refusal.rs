//! Why a call was refused or a work request failed: one line each, with `VERBENA_LOG=info`, on
//! standard error or in the file that `VERBENA_LOG_FILE` names ([`sink`]).
//!
//! C carries an error number or a status, and both are coarse: EINVAL of ibv_modify_qp(3) has some
//! forty causes. Whoever refuses says why where it is found ([`because`], by the macro
//! [`refused`](crate::refused)); whoever answers the program writes it with the call's name
//! ([`tell_call`]), or with the work request's ([`tell`]).
//!
//! **Contract.**
//! - A refusal is one line, written at once and by one write(2), so that those of several processes
//!   do not mix.
//! - What is no refusal has none: EAGAIN of a descriptor that does not block, ENODATA of an empty
//!   table entry, and what is flushed behind a request that failed.
//! - Nothing that succeeds comes here, but for one notice: an address that belongs to a RoCE port
//!   ([`crate::ah`]). All that is here is cold, and does not even make the text while it is off.
//! - The level is read once in a process ([`prepare`]); what is not understood is said then, once.
//!
//! **Why not `tracing`.** There is one kind of event and it is either wanted or not. A subscriber
//! would have to be set up when the library is loaded, in programs that may have one of their own,
//! and each call site registers itself; this is one static word, which only a refusal looks at.

use crate::errno::Errno;
use std::cell::RefCell;
use std::fmt;
use std::sync::atomic::AtomicU8;
use std::sync::atomic::Ordering::Relaxed;

mod sink;

const VARIABLE: &str = "VERBENA_LOG";

/// What is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Level {
    /// Nothing, the default.
    Off,
    /// Refusals and failures.
    Info,
}

impl Level {
    /// What the variable says; `Err` for what it may not say.
    fn of(value: &str) -> Result<Level, ()> {
        match value {
            "" | "off" => Ok(Level::Off),
            "info" => Ok(Level::Info),
            _ => Err(()),
        }
    }
}

const UNREAD: u8 = 0;
const OFF: u8 = 1;
const INFO: u8 = 2;
static LEVEL: AtomicU8 = AtomicU8::new(UNREAD);

/// Reads the level, so that a wrong one is said when the device is opened and not at the first refusal.
pub fn prepare() {
    if LEVEL.load(Relaxed) != UNREAD {
        return;
    }
    let value = std::env::var_os(VARIABLE).unwrap_or_default();
    let level = value.to_str().ok_or(()).and_then(Level::of);
    let word = match level {
        Ok(Level::Info) => INFO,
        Ok(Level::Off) | Err(()) => OFF,
    };
    if word == INFO {
        sink::prepare();
    }
    // Of several threads that come here at once one reads it.
    let is_first = LEVEL
        .compare_exchange(UNREAD, word, Relaxed, Relaxed)
        .is_ok();
    if is_first && level.is_err() {
        sink::to_standard_error(&line(format_args!(
            "{VARIABLE} is {value:?}, which is no level: set it to \"info\" for the reason of each refusal, or to \"off\""
        )));
    }
}

/// Whether anybody wants to know.
#[cold]
pub fn is_told() -> bool {
    prepare();
    LEVEL.load(Relaxed) == INFO
}

thread_local! {
    /// The reason that was found last in this thread, with the error that it belongs to; until somebody tells it.
    static REASON: RefCell<Option<(Errno, String)>> = const { RefCell::new(None) };
}

/// Keeps the reason of an error that is on its way to the program.
#[cold]
#[inline(never)]
pub fn because(error: Errno, why: fmt::Arguments<'_>) -> Errno {
    if is_told() {
        let kept = Some((error, why.to_string()));
        // A thread that is ending has no place for it any more.
        let _ = REASON.try_with(|reason| reason.replace(kept));
    }
    error
}

/// The error, with its reason: `refused!(EINVAL, "port_num is {port}, ...")`.
#[macro_export]
macro_rules! refused {
    ($error:ident, $($why:tt)*) => {
        $crate::refusal::because($crate::errno::Errno::$error, format_args!($($why)*))
    };
}

/// The reason of a fault that is on its way to where a work request fails: it has no error number.
pub(crate) fn note(why: fmt::Arguments<'_>) {
    because(FAULT, why);
}

const FAULT: Errno = Errno(0);

/// Takes the reason that was noted last, if there is one.
pub(crate) fn noted() -> Option<String> {
    reason_of(|_| true)
}

fn reason_of(is_its: impl FnOnce(Errno) -> bool) -> Option<String> {
    let last = REASON.try_with(|reason| reason.take()).ok().flatten();
    last.filter(|(error, _)| is_its(*error)).map(|(_, why)| why)
}

/// Writes that a call was refused, and why.
#[cold]
#[inline(never)]
pub fn tell_call(call: &str, error: Errno) {
    let is_refusal = !matches!(error.0, libc::EAGAIN | libc::ENODATA);
    if !is_told() || !is_refusal {
        return;
    }
    let name = error.name().unwrap_or("error");
    match reason_of(|of| of == error) {
        Some(why) => write(format_args!("{call}: {name}: {why}")),
        None => write(format_args!("{call}: {name}: {error}")),
    }
}

/// Writes that something failed which no call answers for.
#[cold]
pub fn tell(what: fmt::Arguments<'_>) {
    if is_told() {
        write(what);
    }
}

/// Writes one line, whole.
fn write(what: fmt::Arguments<'_>) {
    sink::write(&line(what));
}

fn line(what: fmt::Arguments<'_>) -> String {
    format!("verbena[{}]: {what}\n", std::process::id())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_levels_and_nothing_else() {
        assert_eq!(Level::of(""), Ok(Level::Off));
        assert_eq!(Level::of("off"), Ok(Level::Off));
        assert_eq!(Level::of("info"), Ok(Level::Info));
        for wrong in ["debug", "INFO", "1", "info,hca=off"] {
            assert_eq!(Level::of(wrong), Err(()), "{wrong}");
        }
    }

    #[test]
    fn a_reason_is_told_once_and_with_its_own_error() {
        LEVEL.store(INFO, Relaxed);
        let error = refused!(EINVAL, "{} is too many", 9);
        assert_eq!(error, Errno::EINVAL);
        assert_eq!(reason_of(|of| of == Errno::ENOMEM), None);
        assert_eq!(reason_of(|of| of == error), None);
        refused!(EINVAL, "{} is too many", 9);
        assert_eq!(
            reason_of(|of| of == error).as_deref(),
            Some("9 is too many")
        );
    }
}
