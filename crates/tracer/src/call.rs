//! Makes one call of the program, measures its time and sends its record.

use std::fmt::Display;

use verbena_coverage::errno::UNKNOWN;
use verbena_coverage::outcome::Outcome;
use verbena_faults::call::Returns;

use crate::lock::survive_forks;
use crate::names::Kind;
use crate::record::{Idle, Record};
use crate::refusals::Verdict;
use crate::state::STATE;
use crate::{alive, counters, refusals, sender, text, words};

/// The details of a call, filled in by the function that knows its arguments.
#[derive(Default)]
pub struct CallDetails {
    /// Arguments, as text.
    pub arguments: String,
    /// Bytes that it moved or was asked to move.
    pub bytes: u64,
    /// Whether texts are wanted; otherwise the call is only counted.
    pub text: bool,
    result: String,
    /// 0 or the error number; none if the call has no result to count.
    outcome: Option<i32>,
    idle: bool,
}

impl CallDetails {
    /// Sets the result of a call that returns 0 or the value of `errno`.
    pub fn errno_value(&mut self, result: libc::c_int) {
        match result {
            0 => self.number(0),
            // Some libraries return it negated, and some return -1.
            -1 => self.failed(errno()),
            error => self.failed(error.abs()),
        }
    }

    /// Sets the result of a call that returns 0 or a number, or -1 and `errno`.
    pub fn minus_one(&mut self, result: libc::c_int) {
        match result {
            -1 => self.failed(errno()),
            number => self.number(number),
        }
    }

    fn number(&mut self, number: libc::c_int) {
        self.outcome = Some(0);
        self.gave(number);
    }

    /// Sets the result of a call that returns a new object, or NULL and `errno`.
    pub fn object<T>(&mut self, kind: Kind, object: *const T) {
        match object.is_null() {
            true => self.failed(errno()),
            false => {
                self.outcome = Some(0);
                alive::made(kind, object.addr());
                if self.text {
                    self.result = text::name(kind, object).to_string();
                }
            }
        }
    }

    /// Sets the result, as text.
    pub fn gave(&mut self, result: impl Display) {
        if self.text {
            self.result = result.to_string();
        }
    }

    /// Appends to the result.
    pub fn with(&mut self, more: impl Display) {
        if self.text {
            self.result.push(' ');
            self.result.push_str(&more.to_string());
        }
    }

    /// Returns whether no error was set.
    pub fn succeeded(&self) -> bool {
        self.outcome.is_none_or(|errno| errno == 0)
    }

    /// Marks the call as a poll that found nothing: several of these share one record.
    pub fn found_nothing(&mut self) {
        self.idle = true;
    }

    fn failed(&mut self, errno: i32) {
        // A failure without a reason is one nevertheless.
        let errno = if errno == 0 { UNKNOWN } else { errno };
        self.outcome = Some(errno);
        if self.text {
            self.result = words::errno(errno);
        }
    }
}

/// The return value of a call that can be refused.
pub trait Refusable: Copy {
    /// Returns the value of a failed call.
    fn refused(returns: Returns, errno: i32) -> Self;
}

impl Refusable for libc::c_int {
    fn refused(returns: Returns, errno: i32) -> Self {
        match returns {
            Returns::Number => errno,
            Returns::MinusOne | Returns::Null => -1,
        }
    }
}

impl<T> Refusable for *mut T {
    fn refused(_: Returns, _: i32) -> Self {
        std::ptr::null_mut()
    }
}

/// Calls without a result, of which none is refused.
impl Refusable for () {
    fn refused(_: Returns, _: i32) -> Self {}
}

/// Sets the arguments: `arguments!(details, "{}, {}", a, b)`.
macro_rules! arguments {
    ($details:expr, $($format:tt)*) => {
        if $details.text {
            $details.arguments = format!($($format)*)
        }
    };
}
pub(crate) use arguments;

/// Returns whether calls are recorded, counted or refused.
pub fn is_wanted() -> bool {
    sender::has_listener() || counters::counts() || refusals::are_there() || alive::are_counted()
}

/// Makes a call, counts its outcome and sends its record.
///
/// `describe` gets the return value, and `errno` as the call has left it.
pub fn call<R: Refusable>(
    name: &'static str,
    make: impl FnOnce() -> R,
    describe: impl FnOnce(R, &mut CallDetails),
) -> R {
    call_or(name, make, || {}, describe)
}

/// As [`call`]; `refuse` writes the results of a refused call besides its return value.
pub fn call_or<R: Refusable>(
    name: &'static str,
    make: impl FnOnce() -> R,
    refuse: impl FnOnce(),
    describe: impl FnOnce(R, &mut CallDetails),
) -> R {
    if !is_wanted() {
        return make();
    }
    let text = sender::has_listener();
    survive_forks();
    // The header's inline functions call some exports by a name of their own.
    let verb = name.strip_prefix('_').unwrap_or(name);
    let start = if text { now() } else { 0 };
    let result = match refusals::verdict(verb) {
        Verdict::Made => make(),
        Verdict::Fails(planned) => refusals::with_event(planned, make),
        Verdict::Refused(refusal) => {
            refuse();
            let result = R::refused(refusal.returns, refusal.errno);
            set_errno(refusal.errno);
            result
        }
    };
    let duration = if text { now().saturating_sub(start) } else { 0 };
    let errno = errno();
    let mut details = CallDetails {
        text,
        ..CallDetails::default()
    };
    describe(result, &mut details);
    if let Some(outcome) = details.outcome {
        counters::count(Outcome::Call(verb, outcome));
    }
    if text {
        tell(
            Record {
                start,
                duration,
                calls: 1,
                bytes: details.bytes,
                errno: details.outcome.unwrap_or_default(),
                name,
                arguments: details.arguments,
                result: details.result,
            },
            details.idle,
        );
    }
    set_errno(errno);
    result
}

/// Sends the collected polls and this record, unless it is collected too.
fn tell(record: Record, idle: bool) {
    let mut state = STATE.lock();
    let record = match (&mut state.idle, idle) {
        (Some(gathered), true) => match gathered.take(record) {
            Some(record) => record,
            None => return,
        },
        _ => record,
    };
    let before = state.idle.take();
    if let Some(before) = before {
        sender::send(&before.record.encode());
    }
    match idle {
        true => {
            state.idle = Some(Idle { record });
            at_the_end();
        }
        // Under the lock, so that records are sent in the order of the calls.
        false => sender::send(&record.encode()),
    }
}

/// Has the collected polls sent when the process exits.
fn at_the_end() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    extern "C" fn end() {
        if let Some(idle) = STATE.lock().idle.take() {
            sender::send(&idle.record.encode());
        }
    }
    // SAFETY: the function lives as long as the process.
    ONCE.call_once(|| unsafe {
        libc::atexit(end);
    });
}

fn now() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is writable, and every Linux has this clock.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

fn errno() -> i32 {
    // SAFETY: the C library returns a valid pointer to the calling thread's `errno`.
    unsafe { *libc::__errno_location() }
}

fn set_errno(value: i32) {
    // SAFETY: the C library returns a valid pointer to the calling thread's `errno`.
    unsafe { *libc::__errno_location() = value }
}

/// Defines exported functions: their signature, then the code that describes the call. Those of
/// another library than the verbs begin with its name: `in CM:`.
macro_rules! verbs {
    (in $library:ident: $($(#[$doc:meta])*
        fn $verb:ident($($argument:ident: $type:ty),*) -> $returns:ty
        |$result:ident, $details:ident| $describe:block)*) => {$(
        $(#[$doc])*
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $verb($($argument: $type),*) -> $returns {
            let real =
                crate::real::real!($library, $verb: unsafe extern "C" fn($($type),*) -> $returns);
            // SAFETY: the program's call, with its own arguments.
            crate::call::call(stringify!($verb), || unsafe { real($($argument),*) }, |$result,
                $details| $describe)
        }
    )*};
    ($($verbs:tt)*) => { crate::call::verbs!(in VERBS: $($verbs)*); };
}
pub(crate) use verbs;

/// Defines exported functions that destroy an object and return 0 or the value of `errno`.
macro_rules! ends {
    ($(fn $verb:ident($object:ident: *mut $type:ty) of $kind:expr)*) => {$(
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $verb($object: *mut $type) -> libc::c_int {
            let real = crate::real::real!($verb: unsafe extern "C" fn(*mut $type) -> libc::c_int);
            // SAFETY: the program's call, with its own arguments.
            crate::call::end(stringify!($verb), $kind, $object, || unsafe { real($object) })
        }
    )*};
}
pub(crate) use ends;

/// Makes a call that destroys an object.
pub fn end<T>(
    verb: &'static str,
    kind: Kind,
    object: *mut T,
    make: impl FnOnce() -> libc::c_int,
) -> libc::c_int {
    let address = object.addr();
    let name = STATE.lock().names.take(kind, address);
    let was_alive = alive::gone(kind, address);
    call(verb, make, |result, details| {
        details.errno_value(result);
        if !details.succeeded() {
            STATE.lock().names.give_back(address, name);
            if was_alive {
                alive::made(kind, address);
            }
        }
        arguments!(details, "{name}");
    })
}
