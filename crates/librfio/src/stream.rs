//! Streams: the C library's own, on top of a remote file (fopencookie(3)), so that buffering,
//! `getc` and the rest behave as the C library's. The pass-through functions exist because programs
//! link them.

use std::collections::HashMap;
use std::ffi::{CStr, c_char, c_int, c_long, c_void};
use std::sync::{Mutex, MutexGuard, OnceLock};

use verbena_rfio_client::Error;

use crate::core::resolve::{self, ResolvedPath};
use crate::core::table;
use crate::descriptor::{open, rfio_close};
use crate::{errors, ffi};

/// `cookie_io_functions_t`.
#[repr(C)]
struct CookieFunctions {
    read: Option<unsafe extern "C" fn(*mut c_void, *mut c_char, usize) -> isize>,
    write: Option<unsafe extern "C" fn(*mut c_void, *const c_char, usize) -> isize>,
    seek: Option<unsafe extern "C" fn(*mut c_void, *mut i64, c_int) -> c_int>,
    close: Option<unsafe extern "C" fn(*mut c_void) -> c_int>,
}

unsafe extern "C" {
    fn fopencookie(
        cookie: *mut c_void,
        mode: *const c_char,
        functions: CookieFunctions,
    ) -> *mut libc::FILE;
}

/// Descriptors of remote streams.
fn streams() -> MutexGuard<'static, HashMap<usize, c_int>> {
    static STREAMS: OnceLock<Mutex<HashMap<usize, c_int>>> = OnceLock::new();
    STREAMS
        .get_or_init(Mutex::default)
        .lock()
        .unwrap_or_else(|poison| poison.into_inner())
}

// The cookie is the descriptor number itself.
unsafe extern "C" fn read(cookie: *mut c_void, bytes: *mut c_char, size: usize) -> isize {
    // SAFETY: the C library passes a buffer of this size.
    unsafe { crate::descriptor::rfio_read64(cookie as usize as c_int, bytes.cast(), size) }
}

unsafe extern "C" fn write(cookie: *mut c_void, bytes: *const c_char, size: usize) -> isize {
    // SAFETY: the C library passes a buffer of this size.
    let written =
        unsafe { crate::descriptor::rfio_write64(cookie as usize as c_int, bytes.cast(), size) };
    // This callback returns zero for an error (fopencookie(3)).
    written.max(0)
}

unsafe extern "C" fn seek(cookie: *mut c_void, offset: *mut i64, whence: c_int) -> c_int {
    // SAFETY: the C library passes a valid pointer.
    let wanted = unsafe { *offset };
    match table::with(cookie as usize as c_int, |file| file.seek(wanted, whence)).map(ffi::number) {
        Some(position) if position >= 0 => {
            // SAFETY: the C library passes a valid pointer.
            unsafe { *offset = position };
            0
        }
        _ => -1,
    }
}

unsafe extern "C" fn close(cookie: *mut c_void) -> c_int {
    rfio_close(cookie as usize as c_int)
}

/// Returns the open flags of a stream's mode (fopen(3)).
fn flags(mode: &CStr) -> Result<c_int, Error> {
    let (first, rest) = mode
        .to_bytes()
        .split_first()
        .ok_or_else(|| ffi::invalid("mode"))?;
    let both = rest.contains(&b'+');
    let direction = |alone| if both { libc::O_RDWR } else { alone };
    match first {
        b'r' => Ok(direction(libc::O_RDONLY)),
        b'w' => Ok(direction(libc::O_WRONLY) | libc::O_CREAT | libc::O_TRUNC),
        b'a' => Ok(direction(libc::O_WRONLY) | libc::O_CREAT | libc::O_APPEND),
        _ => Err(ffi::invalid("mode")),
    }
}

/// # Safety
/// See the crate's safety contract.
unsafe fn open_stream(path: *const c_char, mode: *const c_char) -> Result<*mut libc::FILE, Error> {
    // SAFETY: the crate's contract promises valid pointers.
    let text = unsafe { ffi::name(path) }?;
    if mode.is_null() {
        return Err(ffi::invalid("mode"));
    }
    let failed = || Error::Local("stream".into(), std::io::Error::last_os_error());
    if let ResolvedPath::Local(_) = resolve::find(text)? {
        // SAFETY: the crate's contract promises valid pointers.
        let stream = unsafe { libc::fopen(path, mode) };
        return if stream.is_null() {
            Err(failed())
        } else {
            Ok(stream)
        };
    }
    // SAFETY: not null, and valid by the crate's contract.
    let descriptor = open(text, flags(unsafe { CStr::from_ptr(mode) })?, 0o666)?;
    let functions = CookieFunctions {
        read: Some(read),
        write: Some(write),
        seek: Some(seek),
        close: Some(close),
    };
    // SAFETY: `mode` is a C string, and the functions expect this cookie.
    let stream = unsafe { fopencookie(descriptor as usize as *mut c_void, mode, functions) };
    if stream.is_null() {
        rfio_close(descriptor);
        return Err(failed());
    }
    streams().insert(stream as usize, descriptor);
    Ok(stream)
}

/// Opens a stream.
///
/// # Safety
/// See the crate's safety contract.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rfio_fopen(path: *const c_char, mode: *const c_char) -> *mut libc::FILE {
    // SAFETY: the crate's contract promises valid pointers.
    unsafe { open_stream(path, mode) }.unwrap_or_else(|error| {
        errors::note(&error);
        std::ptr::null_mut()
    })
}

/// Opens a stream.
///
/// # Safety
/// See the crate's safety contract.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rfio_fopen64(path: *const c_char, mode: *const c_char) -> *mut libc::FILE {
    // SAFETY: the crate's contract promises valid pointers.
    unsafe { rfio_fopen(path, mode) }
}

/// Closes; buffered data is written first.
///
/// # Safety
/// See the crate's safety contract.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rfio_fclose(stream: *mut libc::FILE) -> c_int {
    streams().remove(&(stream as usize));
    // SAFETY: the crate's contract promises valid pointers.
    unsafe { libc::fclose(stream) }
}

/// Returns the descriptor.
///
/// # Safety
/// See the crate's safety contract.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rfio_fileno(stream: *mut libc::FILE) -> c_int {
    match streams().get(&(stream as usize)) {
        Some(&descriptor) => descriptor,
        // SAFETY: the crate's contract promises valid pointers.
        None => unsafe { libc::fileno(stream) },
    }
}

macro_rules! passed_on {
    ($($name:ident($($argument:ident: $type:ty),*) -> $result:ty = $system:ident;)*) => { $(
        /// The C library's function.
        ///
        /// # Safety
        /// See the crate's safety contract.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($argument: $type),*) -> $result {
            // SAFETY: the crate's contract promises valid pointers.
            unsafe { libc::$system($($argument),*) }
        }
    )* };
}

passed_on! {
    rfio_fread(buffer: *mut c_void, size: usize, count: usize,
        stream: *mut libc::FILE) -> usize = fread;
    rfio_fwrite(buffer: *const c_void, size: usize, count: usize,
        stream: *mut libc::FILE) -> usize = fwrite;
    rfio_fseek(stream: *mut libc::FILE, offset: c_long, whence: c_int) -> c_int = fseek;
    rfio_fseeko64(stream: *mut libc::FILE, offset: i64, whence: c_int) -> c_int = fseeko64;
    rfio_ftell(stream: *mut libc::FILE) -> c_long = ftell;
    rfio_ftello64(stream: *mut libc::FILE) -> i64 = ftello64;
    rfio_feof(stream: *mut libc::FILE) -> c_int = feof;
    rfio_ferror(stream: *mut libc::FILE) -> c_int = ferror;
    rfio_fflush(stream: *mut libc::FILE) -> c_int = fflush;
    rfio_getc(stream: *mut libc::FILE) -> c_int = fgetc;
}
