//! The connection manager's device, for the path shim: the kernel's `open`, `write` and `close` of
//! `/dev/infiniband/rdma_cm`. Failures are negative error numbers.

use libc::{c_int, c_void, ssize_t};
use std::slice;
use verbena_hca_os::refusal;
use verbena_rdmacm::command;

/// More than the longest command. write(2) accepts any length, a slice does not.
const LONGEST: usize = 4096;

/// Opens an event channel; its descriptor is close-on-exec.
#[unsafe(no_mangle)]
pub extern "C" fn verbena_cm_open() -> c_int {
    command::open().unwrap_or_else(|error| {
        refusal::report_call("rdma_create_event_channel", error);
        -error.0
    })
}

/// Carries out the command of `length` bytes at `buffer`.
///
/// # Safety
/// That of [`command::execute`]; `buffer` must be null or have `length` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn verbena_cm_write(
    descriptor: c_int,
    buffer: *const c_void,
    length: usize,
) -> ssize_t {
    if buffer.is_null() {
        return -(libc::EFAULT as ssize_t);
    }
    if length > LONGEST {
        return -(libc::EINVAL as ssize_t);
    }
    // SAFETY: not null, and the caller promises `length` bytes.
    let outcome = unsafe {
        let bytes = slice::from_raw_parts(buffer.cast::<u8>(), length);
        command::execute(descriptor, bytes)
    };
    match outcome {
        Ok(length) => length as ssize_t,
        // Not a channel of this process: the shim checks its kind.
        Err(error) if error.0 == libc::EBADF => -(error.0 as ssize_t),
        Err(error) => {
            // SAFETY: not null, and the caller promises `length` bytes.
            let bytes = unsafe { slice::from_raw_parts(buffer.cast::<u8>(), length) };
            command::tell_refused(bytes, error);
            -(error.0 as ssize_t)
        }
    }
}

/// Records that the descriptor may be another one of a channel: a copy, or received from another
/// process.
#[unsafe(no_mangle)]
pub extern "C" fn verbena_cm_copied(descriptor: c_int) {
    command::copied(descriptor);
}

/// Handles a descriptor that is about to be closed, or has just become another file.
#[unsafe(no_mangle)]
pub extern "C" fn verbena_cm_close(descriptor: c_int) {
    command::close(descriptor);
}
