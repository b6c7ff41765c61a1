//! Asynchronous requests, in any order.

use std::ffi::{c_int, c_void};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::time::Duration;

use verbena_rfio_client::Error;
use verbena_rfio_client::connection::{
    Memory, Operation, OperationOutput, PendingOperation, wait_any,
};
use verbena_rfio_protocol::types::{Handle, Range};

use crate::core::caller_buffer::CallerBuffer;
use crate::core::table::{self, Entry};
use crate::descriptor::iovec64;
use crate::ffi;

/// An asynchronous request.
pub struct rfio_request {
    state: State,
    /// Where the lengths of ranges are written.
    lengths: *mut c_int,
}

enum State {
    Remote(PendingOperation, Arc<Entry>),
    /// A local file's request, which is done when it begins.
    Local(Result<i64, Error>),
}

fn begun(state: Result<State, Error>, lengths: *mut c_int) -> *mut rfio_request {
    match state {
        Ok(state) => Box::into_raw(Box::new(rfio_request { state, lengths })),
        Err(error) => {
            ffi::number(Err(error));
            std::ptr::null_mut()
        }
    }
}

/// Begins an operation on a remote file; `None` if the descriptor is not a remote file's.
fn begin_remote(
    descriptor: c_int,
    buffer: *mut c_void,
    size: usize,
    operation: impl FnOnce(Handle) -> Result<Operation, Error>,
) -> Option<Result<State, Error>> {
    let found = table::find(descriptor)?;
    Some(found.and_then(|entry| {
        let memory = CallerBuffer::new(buffer, size)?;
        let file = entry.async_file()?;
        let pending = file.begin(operation(file.handle())?, memory)?;
        Ok(State::Remote(pending, entry))
    }))
}

fn offset_of(offset: i64) -> Result<u64, Error> {
    u64::try_from(offset).map_err(|_| ffi::invalid("offset"))
}

/// Converts the result of a local call.
fn local(given: isize) -> State {
    let failed = || Error::Local("local file".into(), std::io::Error::last_os_error());
    State::Local(match given {
        0.. => Ok(given as i64),
        _ => Err(failed()),
    })
}

/// Begins to read at an offset.
///
/// # Safety
/// See the crate's safety contract; the buffer is the library's until the request is finished.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rfio_begin_pread(
    descriptor: c_int,
    buffer: *mut c_void,
    size: usize,
    offset: i64,
) -> *mut rfio_request {
    let there = begin_remote(descriptor, buffer, size, |handle| {
        let offset = offset_of(offset)?;
        Ok(Operation::Read { handle, offset })
    });
    let state = there.unwrap_or_else(|| {
        // SAFETY: the crate's contract promises valid pointers.
        Ok(local(unsafe {
            libc::pread64(descriptor, buffer, size, offset)
        }))
    });
    begun(state, std::ptr::null_mut())
}

/// Begins to write at an offset.
///
/// # Safety
/// See the crate's safety contract; the buffer must not change until the request is finished.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rfio_begin_pwrite(
    descriptor: c_int,
    buffer: *const c_void,
    size: usize,
    offset: i64,
) -> *mut rfio_request {
    let there = begin_remote(descriptor, buffer.cast_mut(), size, |handle| {
        let offset = offset_of(offset)?;
        Ok(Operation::Write { handle, offset })
    });
    let state = there.unwrap_or_else(|| {
        // SAFETY: the crate's contract promises valid pointers.
        Ok(local(unsafe {
            libc::pwrite64(descriptor, buffer, size, offset)
        }))
    });
    begun(state, std::ptr::null_mut())
}

/// Begins to read ranges, one after the other in the buffer.
///
/// # Safety
/// See the crate's safety contract; buffer and lengths belong to the library until the request is
/// finished.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rfio_begin_preadv(
    descriptor: c_int,
    ranges: *const iovec64,
    count: c_int,
    buffer: *mut c_void,
    size: usize,
    lengths: *mut c_int,
) -> *mut rfio_request {
    let listed = usize::try_from(count).map_err(|_| ffi::invalid("count"));
    let listed = listed.and_then(
        |count| match (count, ranges.is_null() || lengths.is_null()) {
            (0, _) => Ok(&[][..]),
            (_, true) => Err(ffi::invalid("ranges")),
            // SAFETY: `ranges` is not null and has `count` elements, as the crate's contract
            // requires.
            _ => Ok(unsafe { std::slice::from_raw_parts(ranges, count) }),
        },
    );
    let ranges = listed.and_then(|listed| {
        let range = |range: &iovec64| {
            let length = u32::try_from(range.iov_len).map_err(|_| ffi::invalid("length"))?;
            let offset = offset_of(range.iov_base)?;
            Ok(Range { offset, length })
        };
        listed
            .iter()
            .map(range)
            .collect::<Result<Vec<Range>, Error>>()
    });
    let ranges = match ranges {
        Ok(ranges) => ranges,
        Err(error) => return begun(Err(error), lengths),
    };
    let there = begin_remote(descriptor, buffer, size, |handle| {
        Ok(Operation::Vector {
            handle,
            ranges: ranges.clone(),
        })
    });
    let state = match there {
        Some(state) => state,
        None => CallerBuffer::new(buffer, size).and_then(|mut memory| {
            let lengths = match ranges.len() {
                0 => &mut [][..],
                // SAFETY: `lengths` has one element per range, as the crate's contract requires.
                count => unsafe { std::slice::from_raw_parts_mut(lengths, count) },
            };
            read_local(descriptor, &ranges, memory.bytes_mut(), lengths)
        }),
    };
    begun(state, lengths)
}

fn read_local(
    descriptor: c_int,
    ranges: &[Range],
    mut memory: &mut [u8],
    lengths: &mut [c_int],
) -> Result<State, Error> {
    let mut sum = 0;
    for (range, length) in ranges.iter().zip(lengths) {
        let (place, behind) = memory
            .split_at_mut_checked(range.length as usize)
            .ok_or_else(|| ffi::invalid("buffer"))?;
        // SAFETY: `place` is an exclusive slice.
        let read = unsafe {
            let offset = range.offset as i64;
            libc::pread64(descriptor, place.as_mut_ptr().cast(), place.len(), offset)
        };
        if read < 0 {
            return Ok(local(read));
        }
        *length = read as c_int;
        sum += read;
        memory = behind;
    }
    Ok(local(sum))
}

/// Returns a request that is not finished.
///
/// # Safety
/// `request` must be null, or a request that was begun and is not finished.
unsafe fn request<'a>(request: *mut rfio_request) -> Result<&'a rfio_request, Error> {
    // SAFETY: the caller promises null or a request that is not finished.
    unsafe { request.as_ref() }.ok_or_else(|| ffi::invalid("request"))
}

/// Returns whether a request is done, without waiting.
///
/// # Safety
/// See the crate's safety contract.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rfio_request_done(pointer: *mut rfio_request) -> c_int {
    // SAFETY: the crate's contract promises valid pointers.
    let done = unsafe { request(pointer) }.and_then(|request| match &request.state {
        State::Remote(pending, _) => pending.is_done().map(i64::from),
        State::Local(_) => Ok(1),
    });
    ffi::number(done) as c_int
}

/// Cancels a request, if that is still possible.
///
/// # Safety
/// See the crate's safety contract.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rfio_request_cancel(pointer: *mut rfio_request) -> c_int {
    // SAFETY: the crate's contract promises valid pointers.
    let cancelled = unsafe { request(pointer) }.and_then(|request| match &request.state {
        State::Remote(pending, _) => pending.cancel(),
        State::Local(_) => Ok(()),
    });
    ffi::status(cancelled)
}

/// Returns a descriptor that becomes readable when a request may be done.
///
/// # Safety
/// See the crate's safety contract.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rfio_request_events(pointer: *mut rfio_request) -> c_int {
    // SAFETY: the crate's contract promises valid pointers.
    let events = unsafe { request(pointer) }.and_then(|request| match &request.state {
        State::Remote(pending, _) => Ok(pending.events().as_raw_fd().into()),
        State::Local(_) => Err(ffi::invalid("request of a local file")),
    });
    ffi::number(events) as c_int
}

/// Waits until one of the requests is done. Returns its index, or `count` after a timeout.
///
/// # Safety
/// See the crate's safety contract; null pointers among the requests are skipped.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rfio_request_wait(
    requests: *const *mut rfio_request,
    count: c_int,
    milliseconds: c_int,
) -> c_int {
    let listed = match usize::try_from(count) {
        Ok(count) if count > 0 && !requests.is_null() => {
            // SAFETY: the crate's contract promises valid pointers.
            unsafe { std::slice::from_raw_parts(requests, count) }
        }
        _ => return ffi::number(Err(ffi::invalid("requests"))) as c_int,
    };
    let (mut tickets, mut places) = (Vec::new(), Vec::new());
    for (place, &pointer) in listed.iter().enumerate() {
        // SAFETY: the crate's contract promises valid pointers.
        match unsafe { pointer.as_ref() }.map(|request| &request.state) {
            Some(State::Local(_)) => return place as c_int,
            Some(State::Remote(pending, _)) => {
                tickets.push(pending);
                places.push(place);
            }
            None => {}
        }
    }
    if tickets.is_empty() {
        return ffi::number(Err(ffi::invalid("requests"))) as c_int;
    }
    let at_most = u64::try_from(milliseconds).ok().map(Duration::from_millis);
    let waited = wait_any(&tickets, at_most);
    ffi::number(waited.map(|found| found.map_or(i64::from(count), |index| places[index] as i64)))
        as c_int
}

/// Waits for a request, returns its result, and frees it.
///
/// # Safety
/// See the crate's safety contract; the pointer is invalid afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rfio_request_finish(pointer: *mut rfio_request) -> isize {
    if pointer.is_null() {
        return ffi::number(Err(ffi::invalid("request"))) as isize;
    }
    // SAFETY: the pointer comes from `begun`, and the caller finishes each request once.
    let request = unsafe { Box::from_raw(pointer) };
    let given = match request.state {
        State::Local(given) => given,
        State::Remote(pending, entry) => pending.wait().and_then(|done| {
            let size = done.memory.bytes().len() as i64;
            // Also for a write that failed or was cancelled after a partial transfer.
            if !matches!(
                done.outcome,
                Ok(OperationOutput::Read(_) | OperationOutput::Vector(_))
            ) {
                entry.has_changed();
            }
            match done.outcome? {
                OperationOutput::Read(read) => Ok(read as i64),
                OperationOutput::Written => Ok(size),
                OperationOutput::Vector(lengths) => {
                    for (index, &length) in lengths.iter().enumerate() {
                        // SAFETY: `lengths` has one element per range, as the caller of
                        // `rfio_begin_preadv` promised.
                        unsafe { request.lengths.add(index).write(length as c_int) };
                    }
                    Ok(lengths.iter().map(|&length| i64::from(length)).sum())
                }
                OperationOutput::Reply(..) => Err(ffi::invalid("request")),
            }
        }),
    };
    ffi::number(given) as isize
}
