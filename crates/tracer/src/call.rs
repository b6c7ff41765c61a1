//! One call: made, timed, and told.

use std::fmt::Display;

use crate::lock::survive_forks;
use crate::names::Kind;
use crate::record::{Idle, Record};
use crate::state::STATE;
use crate::{listener, text, words};

/// What is told of a call, filled by whoever knows its arguments.
#[derive(Default)]
pub struct Told {
    /// Its arguments, as text.
    pub arguments: String,
    /// Bytes that it moved or asked to move.
    pub bytes: u64,
    result: String,
    errno: i32,
    idle: bool,
}

impl Told {
    /// A call that gives 0, or the value of `errno`.
    pub fn errno_value(&mut self, result: libc::c_int) {
        match result {
            0 => self.result = "0".into(),
            // Some libraries give it with the other sign, and some -1.
            -1 => self.failed(errno()),
            error => self.failed(error.abs()),
        }
    }

    /// A call that gives 0 or a number, or -1 and `errno`.
    pub fn minus_one(&mut self, result: libc::c_int) {
        match result {
            -1 => self.failed(errno()),
            number => self.result = number.to_string(),
        }
    }

    /// A call that makes an object, or gives NULL and `errno`.
    pub fn object<T>(&mut self, kind: Kind, object: *const T) {
        match object.is_null() {
            true => self.failed(errno()),
            false => self.result = text::name(kind, object).to_string(),
        }
    }

    /// What it gave, in words.
    pub fn gave(&mut self, result: impl Display) {
        self.result = result.to_string();
    }

    /// More of what it gave.
    pub fn with(&mut self, more: impl Display) {
        self.result.push(' ');
        self.result.push_str(&more.to_string());
    }

    /// Whether it succeeded, as far as was said.
    pub fn succeeded(&self) -> bool {
        self.errno == 0
    }

    /// It looked, and found nothing: many of these are told as one.
    pub fn found_nothing(&mut self) {
        self.idle = true;
    }

    fn failed(&mut self, errno: i32) {
        self.errno = errno;
        self.result = words::errno(errno);
    }
}

/// Arguments as text: `arguments!(told, "{}, {}", a, b)`.
macro_rules! arguments {
    ($told:expr, $($format:tt)*) => {
        $told.arguments = format!($($format)*)
    };
}
pub(crate) use arguments;

/// Makes a call and tells it.
///
/// `describe` sees what it returned, and `errno` as the call left it.
pub fn call<R: Copy>(
    name: &'static str,
    make: impl FnOnce() -> R,
    describe: impl FnOnce(R, &mut Told),
) -> R {
    if !listener::listens() {
        return make();
    }
    survive_forks();
    let start = now();
    let result = make();
    let duration = now().saturating_sub(start);
    let errno = errno();
    let mut told = Told::default();
    describe(result, &mut told);
    tell(
        Record {
            start,
            duration,
            calls: 1,
            bytes: told.bytes,
            errno: told.errno,
            name,
            arguments: told.arguments,
            result: told.result,
        },
        told.idle,
    );
    set_errno(errno);
    result
}

/// Tells what was gathered before, and this, unless it is gathered too.
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
        listener::tell(&before.record.encode());
    }
    match idle {
        true => {
            state.idle = Some(Idle { record });
            at_the_end();
        }
        // Under the lock, so that what is told has the order in which it happened.
        false => listener::tell(&record.encode()),
    }
}

/// Has what is gathered told when the process ends.
fn at_the_end() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    extern "C" fn end() {
        if let Some(idle) = STATE.lock().idle.take() {
            listener::tell(&idle.record.encode());
        }
    }
    // SAFETY: a function that lives as long as the process.
    ONCE.call_once(|| unsafe {
        libc::atexit(end);
    });
}

fn now() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: writable for the call, and every Linux has this clock.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

fn errno() -> i32 {
    // SAFETY: the C library returns a valid pointer to the calling thread's `errno`.
    unsafe { *libc::__errno_location() }
}

fn set_errno(value: i32) {
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = value }
}

/// Exported functions that are told: signature, then what is told of them.
macro_rules! verbs {
    ($($(#[$doc:meta])* fn $verb:ident($($argument:ident: $type:ty),*) -> $returns:ty
        |$result:ident, $told:ident| $describe:block)*) => {$(
        $(#[$doc])*
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $verb($($argument: $type),*) -> $returns {
            let real = crate::real::real!($verb: unsafe extern "C" fn($($type),*) -> $returns);
            // SAFETY: the program's own call, passed on.
            crate::call::call(stringify!($verb), || unsafe { real($($argument),*) }, |$result, $told| $describe)
        }
    )*};
}
pub(crate) use verbs;

/// Exported functions that end an object and give 0 or the value of `errno`.
macro_rules! ends {
    ($(fn $verb:ident($object:ident: *mut $type:ty) of $kind:expr)*) => {$(
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $verb($object: *mut $type) -> libc::c_int {
            let real = crate::real::real!($verb: unsafe extern "C" fn(*mut $type) -> libc::c_int);
            // SAFETY: the program's own call, passed on.
            crate::call::end(stringify!($verb), $kind, $object, || unsafe { real($object) })
        }
    )*};
}
pub(crate) use ends;

/// A call that ends an object.
pub fn end<T>(
    verb: &'static str,
    kind: Kind,
    object: *mut T,
    make: impl FnOnce() -> libc::c_int,
) -> libc::c_int {
    let address = object.addr();
    let name = STATE.lock().names.take(kind, address);
    call(verb, make, |result, told| {
        told.errno_value(result);
        if !told.succeeded() {
            STATE.lock().names.give_back(address, name);
        }
        arguments!(told, "{name}");
    })
}
