//! From C's arguments to Rust's: pointers that may be null, counts with arrays, linked lists.
//!
//! What a program must promise about each argument stands in the man pages; these functions state
//! it once, so that the verbs themselves are safe code but for the call of a door.

use std::{any, slice};

use verbena_hca::errno::{Errno, Result};
use verbena_hca::refused;

/// A structure's name as C has it: without the modules.
fn c_name<T>() -> &'static str {
    let path = any::type_name::<T>();
    path.rsplit("::").next().unwrap_or(path)
}

/// The refusal of a null pointer.
#[cold]
#[inline(never)]
fn null<T>() -> Errno {
    let what = c_name::<T>();
    refused!(
        EINVAL,
        "the pointer to {what} is NULL: give one that is valid"
    )
}

/// The refusal of a negative count.
#[cold]
#[inline(never)]
fn negative<T>() -> Errno {
    let what = c_name::<T>();
    refused!(
        EINVAL,
        "the number of {what} in the list (num_sge of a work request) is negative: give 0 or more"
    )
}

/// A structure that the verb reads.
///
/// # Errors
/// EINVAL for null.
///
/// # Safety
/// Null, or valid for reads as long as the result is used.
#[inline]
pub unsafe fn input<'a, T>(pointer: *const T) -> Result<&'a T> {
    // SAFETY: null or valid, by the caller's promise.
    unsafe { pointer.as_ref() }.ok_or_else(null::<T>)
}

/// A structure that the verb reads and changes.
///
/// # Errors
/// EINVAL for null.
///
/// # Safety
/// Null, or valid and not used by others as long as the result is used.
#[inline]
pub unsafe fn in_out<'a, T>(pointer: *mut T) -> Result<&'a mut T> {
    // SAFETY: null or valid and exclusive, by the caller's promise.
    unsafe { pointer.as_mut() }.ok_or_else(null::<T>)
}

/// Where the verb puts a result. The memory may be uninitialised.
///
/// # Errors
/// EINVAL for null.
///
/// # Safety
/// Null, or valid for writes.
#[inline]
pub unsafe fn output<T>(pointer: *mut T, value: T) -> Result<()> {
    if pointer.is_null() {
        return Err(null::<T>());
    }
    // SAFETY: not null, so valid for writes by the caller's promise.
    unsafe { pointer.write(value) };
    Ok(())
}

/// An array with its length. A length of zero needs no array.
///
/// # Errors
/// EINVAL for a negative length, and for null with a positive one.
///
/// # Safety
/// Null, or `length` elements valid for reads as long as the result is used.
#[inline]
pub unsafe fn array<'a, T>(pointer: *const T, length: impl TryInto<usize>) -> Result<&'a [T]> {
    let length = length.try_into().map_err(|_| negative::<T>())?;
    if length == 0 {
        return Ok(&[]);
    }
    if pointer.is_null() {
        return Err(null::<T>());
    }
    // SAFETY: not null, so this many elements by the caller's promise.
    Ok(unsafe { slice::from_raw_parts(pointer, length) })
}

/// As [`array`], for the verb to fill.
///
/// # Errors
/// EINVAL for a negative length, and for null with a positive one.
///
/// # Safety
/// Null, or `length` elements valid and not used by others as long as the result is used.
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
    // SAFETY: not null, so this many elements by the caller's promise.
    Ok(unsafe { slice::from_raw_parts_mut(pointer, length) })
}

/// Copies the beginning of `value` into a structure of the program's that may be shorter or longer
/// than ours: what we know beyond its end is dropped, what it has beyond ours is zeroed. This is how
/// the extended queries stay compatible with headers older and newer than we are.
///
/// # Errors
/// EINVAL for null.
///
/// # Safety
/// Null, or `size` bytes valid for writes.
pub unsafe fn output_sized<T: Copy>(pointer: *mut T, size: usize, value: &T) -> Result<()> {
    if pointer.is_null() {
        return Err(null::<T>());
    }
    let known = size.min(size_of::<T>());
    // SAFETY: `size` bytes by the caller's promise, of which `known` come from `value`.
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
    fn null_is_refused_unless_nothing_is_asked_of_it() {
        // SAFETY: null throughout.
        unsafe {
            assert_eq!(input::<u8>(std::ptr::null()).err(), Some(Errno::EINVAL));
            assert_eq!(array::<u8>(std::ptr::null(), 0).unwrap(), &[]);
            assert_eq!(array::<u8>(std::ptr::null(), 1).err(), Some(Errno::EINVAL));
            assert_eq!(array::<u8>(std::ptr::null(), -1).err(), Some(Errno::EINVAL));
            assert_eq!(output(std::ptr::null_mut(), 1u8).err(), Some(Errno::EINVAL));
        }
    }

    #[test]
    fn a_shorter_structure_is_cut_and_a_longer_one_zeroed() {
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
