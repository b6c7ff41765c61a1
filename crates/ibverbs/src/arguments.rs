//! Conversion of C's arguments to Rust's: pointers that may be null, counts with arrays, linked
//! lists.
//!
//! The man pages state the requirements for each argument; these functions state them once, so that
//! the verbs are safe code except for the calls of these functions.

use std::{any, slice};

use verbena_hca_os::errno::{Errno, Result};
use verbena_hca_os::refused;

/// Returns a structure's C name: without the modules.
fn c_name<T>() -> &'static str {
    let path = any::type_name::<T>();
    path.rsplit("::").next().unwrap_or(path)
}

/// Returns the error for a null pointer.
#[cold]
#[inline(never)]
fn null<T>() -> Errno {
    let what = c_name::<T>();
    refused!(EINVAL, "the pointer to {what} is NULL: give a valid one")
}

/// Returns the error for a negative count.
#[cold]
#[inline(never)]
fn negative<T>() -> Errno {
    let what = c_name::<T>();
    refused!(
        EINVAL,
        "the number of {what} in the list (num_sge of a work request) is negative: give 0 or more"
    )
}

/// Returns a structure that the verb reads.
///
/// # Errors
/// EINVAL for null.
///
/// # Safety
/// `pointer` must be null, or valid for reads while the result is used.
#[inline]
pub unsafe fn input<'a, T>(pointer: *const T) -> Result<&'a T> {
    // SAFETY: the caller promises null or a valid pointer.
    unsafe { pointer.as_ref() }.ok_or_else(null::<T>)
}

/// Returns a structure that the verb reads and changes.
///
/// # Errors
/// EINVAL for null.
///
/// # Safety
/// `pointer` must be null, or valid and not used elsewhere while the result is used.
#[inline]
pub unsafe fn in_out<'a, T>(pointer: *mut T) -> Result<&'a mut T> {
    // SAFETY: the caller promises null or a valid, exclusive pointer.
    unsafe { pointer.as_mut() }.ok_or_else(null::<T>)
}

/// Writes a result. The memory may be uninitialised.
///
/// # Errors
/// EINVAL for null.
///
/// # Safety
/// `pointer` must be null or valid for writes.
#[inline]
pub unsafe fn output<T>(pointer: *mut T, value: T) -> Result<()> {
    if pointer.is_null() {
        return Err(null::<T>());
    }
    // SAFETY: not null, so valid for writes, as the caller promises.
    unsafe { pointer.write(value) };
    Ok(())
}

/// Returns an array with its length. A length of zero needs no array.
///
/// # Errors
/// EINVAL for a negative length, and for null with a positive one.
///
/// # Safety
/// `pointer` must be null, or have `length` elements valid for reads while the result is used.
#[inline]
pub unsafe fn array<'a, T>(pointer: *const T, length: impl TryInto<usize>) -> Result<&'a [T]> {
    let length = length.try_into().map_err(|_| negative::<T>())?;
    if length == 0 {
        return Ok(&[]);
    }
    if pointer.is_null() {
        return Err(null::<T>());
    }
    // SAFETY: not null, so it has this many elements, as the caller promises.
    Ok(unsafe { slice::from_raw_parts(pointer, length) })
}

/// Like [`fn@array`], for the verb to fill.
///
/// # Errors
/// EINVAL for a negative length, and for null with a positive one.
///
/// # Safety
/// `pointer` must be null, or have `length` elements valid and not used elsewhere while the result
/// is used.
#[inline]
pub unsafe fn array_mut<'a, T>(
    pointer: *mut T,
    length: impl TryInto<usize>,
) -> Result<&'a mut [T]> {
    let length = length.try_into().map_err(|_| negative::<T>())?;
    if length == 0 {
        return Ok(&mut []);
    }
    if pointer.is_null() {
        return Err(null::<T>());
    }
    // SAFETY: not null, so it has this many elements, as the caller promises.
    Ok(unsafe { slice::from_raw_parts_mut(pointer, length) })
}

/// Copies `value` into a structure of the program that may be shorter or longer: members beyond its
/// end are dropped, members beyond the end of `value` are zeroed. So the extended queries are
/// compatible with older and newer headers.
///
/// # Errors
/// EINVAL for null.
///
/// # Safety
/// `pointer` must be null, or have `size` bytes valid for writes.
pub unsafe fn output_sized<T: Copy>(pointer: *mut T, size: usize, value: &T) -> Result<()> {
    if pointer.is_null() {
        return Err(null::<T>());
    }
    let known = size.min(size_of::<T>());
    // SAFETY: not null, so `size` bytes are writable, as the caller promises; `known` come from
    // `value`.
    unsafe {
        let target = pointer.cast::<u8>();
        target.copy_from_nonoverlapping((value as *const T).cast(), known);
        target.add(known).write_bytes(0, size - known);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn null_is_refused_except_for_empty_arrays() {
        // SAFETY: all pointers are null.
        unsafe {
            assert_eq!(input::<u8>(std::ptr::null()).err(), Some(Errno::EINVAL));
            assert_eq!(array::<u8>(std::ptr::null(), 0).unwrap(), &[]);
            assert_eq!(array::<u8>(std::ptr::null(), 1).err(), Some(Errno::EINVAL));
            assert_eq!(array::<u8>(std::ptr::null(), -1).err(), Some(Errno::EINVAL));
            assert_eq!(output(std::ptr::null_mut(), 1u8).err(), Some(Errno::EINVAL));
        }
    }

    #[test]
    fn short_structures_are_truncated_and_long_ones_zeroed() {
        let value: [u8; 4] = [1, 2, 3, 4];
        let mut memory = [9u8; 8];
        // SAFETY: at most eight bytes are written.
        unsafe {
            output_sized(memory.as_mut_ptr().cast(), 2, &value).unwrap();
            assert_eq!(memory, [1, 2, 9, 9, 9, 9, 9, 9]);
            output_sized(memory.as_mut_ptr().cast(), 6, &value).unwrap();
            assert_eq!(memory, [1, 2, 3, 4, 0, 0, 9, 9]);
        }
    }
}
