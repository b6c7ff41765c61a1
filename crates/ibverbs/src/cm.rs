//! The device of the connection manager, for the path shim: what the kernel's `open`, `write` and `close` of
//! `/dev/infiniband/rdma_cm` do. Failures are negative error numbers.

use libc::{c_int, c_void, ssize_t};
use std::slice;
use verbena_hca::refusal;
use verbena_rdmacm::command;

/// More than the longest command. write(2) takes any length, a slice does not.
const LONGEST: usize = 4096;

/// Opens an event channel; its descriptor is closed on exec.
#[unsafe(no_mangle)]
pub extern "C" fn verbena_cm_open() -> c_int {
    command::open().unwrap_or_else(|error| {
        refusal::tell_call("rdma_create_event_channel", error);
        -error.0
    })
}

/// Carries out the command of `length` bytes at `buffer`.
///
/// # Safety
/// As for [`command::execute`]; `buffer` has `length` bytes.
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
    // SAFETY: by the caller's promise.
    let outcome = unsafe {
        let bytes = slice::from_raw_parts(buffer.cast::<u8>(), length);
        command::execute(descriptor, bytes)
    };
    match outcome {
        Ok(length) => length as ssize_t,
        // No channel of this process: the shim looks what it is.
        Err(error) if error.0 == libc::EBADF => -(error.0 as ssize_t),
        Err(error) => {
            // SAFETY: by the caller's promise.
            let bytes = unsafe { slice::from_raw_parts(buffer.cast::<u8>(), length) };
            command::tell_refused(bytes, error);
            -(error.0 as ssize_t)
        }
    }
}

/// The descriptor may be another one of a channel: a copy, or one that a process has sent.
#[unsafe(no_mangle)]
pub extern "C" fn verbena_cm_copied(descriptor: c_int) {
    command::copied(descriptor);
}

/// The descriptor is about to be closed, or has just become another file.
#[unsafe(no_mangle)]
pub extern "C" fn verbena_cm_close(descriptor: c_int) {
    command::close(descriptor);
}
