//! Reasons for refused calls and failed work requests: one line each, with `VERBENA_LOG=info`, on
//! standard error or in the file that `VERBENA_LOG_FILE` names (`sink`).
//!
//! The C interface carries an error number or a status, and both are coarse: EINVAL of
//! ibv_modify_qp(3) has some forty causes. The code that refuses records the reason
//! ([`keep_reason`], by the macro [`refused`](crate::refused)); the code that answers the program
//! writes it with the call's name ([`report_call`]), or with the work request's ([`report`]).
//!
//! **Contract.**
//! - A refusal is one line, written at once and by one write(2), so that those of several processes
//!   do not mix.
//! - Results that are no refusals write no line: EAGAIN of a non-blocking descriptor, ENODATA of an
//!   empty table entry, and work requests flushed behind a failed one.
//! - Success never calls this module, with one exception: the notice about an address that belongs
//!   to a RoCE port. All functions are cold, and do not even format the text while
//!   logging is off.
//! - The level is read once in a process ([`prepare`]); an invalid value is reported then, once.
//!
//! **Why not `tracing`.** There is one kind of event, which is either wanted or not. A subscriber
//! would have to be set up when the library is loaded, in programs that may have one of their own,
//! and each call site registers itself; this is one static word, which only a refusal reads.

use crate::errno::Errno;
use std::cell::RefCell;
use std::fmt;
use std::sync::atomic::AtomicU8;
use std::sync::atomic::Ordering::Relaxed;

mod sink;

const VARIABLE: &str = "VERBENA_LOG";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Level {
    /// Nothing, the default.
    Off,
    /// Refusals and failures.
    Info,
}

impl Level {
    /// Parses the variable; `Err` for an invalid value.
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

/// Reads the level, so that an invalid one is reported when the device is opened and not at the
/// first refusal.
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
    // If several threads arrive at once, one of them reports.
    let is_first = LEVEL
        .compare_exchange(UNREAD, word, Relaxed, Relaxed)
        .is_ok();
    if is_first && level.is_err() {
        sink::to_standard_error(&line(format_args!(
            "{VARIABLE} is {value:?}, which is not a level: set it to \"info\" for the reason of \
             each refusal, or to \"off\""
        )));
    }
}

/// The reason of a failure that a rule causes.
pub const BY_RULE: &str = "a rule of verbena run --fault";

/// Returns whether reasons are logged.
#[cold]
pub fn is_reported() -> bool {
    prepare();
    LEVEL.load(Relaxed) == INFO
}

thread_local! {
    /// The last reason in this thread, with its error, until it is taken.
    static REASON: RefCell<Option<(Errno, String)>> = const { RefCell::new(None) };
}

/// Keeps the reason of an error that is about to be returned to the program. Returns the error.
#[cold]
#[inline(never)]
pub fn keep_reason(error: Errno, why: fmt::Arguments<'_>) -> Errno {
    if is_reported() {
        let kept = Some((error, why.to_string()));
        // An exiting thread may have dropped its storage already.
        let _ = REASON.try_with(|reason| reason.replace(kept));
    }
    error
}

/// Records a reason and returns its error: `refused!(EINVAL, "port_num is {port}, ...")`.
#[macro_export]
macro_rules! refused {
    ($error:ident, $($why:tt)*) => {
        $crate::refusal::keep_reason($crate::errno::Errno::$error, format_args!($($why)*))
    };
}

/// Records the reason of a fault in a work request, which has no error number.
pub fn note(why: fmt::Arguments<'_>) {
    keep_reason(FAULT, why);
}

const FAULT: Errno = Errno(0);

/// Takes the last reason, if there is one.
pub fn noted() -> Option<String> {
    reason_of(|_| true)
}

fn reason_of(is_its: impl FnOnce(Errno) -> bool) -> Option<String> {
    let last = REASON.try_with(|reason| reason.take()).ok().flatten();
    last.filter(|(error, _)| is_its(*error)).map(|(_, why)| why)
}

/// Writes that a call was refused, and why.
#[cold]
#[inline(never)]
pub fn report_call(call: &str, error: Errno) {
    let is_refusal = !matches!(error.0, libc::EAGAIN | libc::ENODATA);
    if !is_reported() || !is_refusal {
        return;
    }
    let name = error.name().unwrap_or("error");
    match reason_of(|of| of == error) {
        Some(why) => write(format_args!("{call}: {name}: {why}")),
        None => write(format_args!("{call}: {name}: {error}")),
    }
}

/// Writes a failure that belongs to no call.
#[cold]
pub fn report(what: fmt::Arguments<'_>) {
    if is_reported() {
        write(what);
    }
}

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
    fn only_off_and_info_are_levels() {
        assert_eq!(Level::of(""), Ok(Level::Off));
        assert_eq!(Level::of("off"), Ok(Level::Off));
        assert_eq!(Level::of("info"), Ok(Level::Info));
        for wrong in ["debug", "INFO", "1", "info,hca=off"] {
            assert_eq!(Level::of(wrong), Err(()), "{wrong}");
        }
    }

    #[test]
    fn reason_is_taken_once_with_its_own_error() {
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
