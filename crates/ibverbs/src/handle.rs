//! The memory behind a program's pointer to a verbs object.
//!
//! The C structure, which the program may read, comes first, so that a pointer to one is a pointer
//! to the other. After it come a tag, which identifies the kind of object and is cleared when the
//! object is freed, and the object itself.
//!
//! **Safety vocabulary of this crate.** A "live" pointer is one that a function of this library has
//! returned and that the program has not yet passed to the matching destroy function. The verbs
//! require that of every object pointer. A null pointer and, as far as the tag can tell, a pointer
//! to something else or to a freed object are refused with EINVAL instead of being dereferenced.

use std::any;
use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicU32, Ordering};

use verbena_hca_os::errno::{Errno, Result};
use verbena_hca_os::refused;

/// A kind of object.
pub trait Object: Sized {
    /// The program's view of it.
    type C;
    /// Four letters that no other kind has.
    const TAG: [u8; 4];
}

/// Returns the error for a pointer that is not a live one of this kind.
#[cold]
#[inline(never)]
fn not_ours<T: Object>(pointer: *mut T::C) -> Errno {
    let what = any::type_name::<T::C>()
        .rsplit("::")
        .next()
        .unwrap_or_default();
    let what = what.trim_end_matches("_ex");
    match pointer.is_null() {
        true => refused!(
            EINVAL,
            "the {what} is NULL: check whether the call that creates it failed"
        ),
        false => refused!(
            EINVAL,
            "{pointer:p} is not a valid {what} of this library: it is of another kind or device, \
             or already destroyed"
        ),
    }
}

/// An object with its C structure.
#[repr(C)]
pub struct Handle<T: Object> {
    c: UnsafeCell<T::C>,
    tag: AtomicU32,
    /// The object.
    pub object: T,
}

impl<T: Object> Handle<T> {
    const LIVE: u32 = u32::from_ne_bytes(T::TAG);

    /// Creates an object that the program will own.
    pub fn create(c: T::C, object: T) -> *mut T::C {
        let handle = Box::new(Handle {
            c: UnsafeCell::new(c),
            tag: AtomicU32::new(Self::LIVE),
            object,
        });
        Box::into_raw(handle).cast()
    }

    /// Returns the object behind a pointer.
    ///
    /// # Errors
    /// EINVAL for null, and if the tag shows that it is something else.
    ///
    /// # Safety
    /// `pointer` must be null or live, and stay so while the result is used.
    #[inline]
    pub unsafe fn of<'a>(pointer: *mut T::C) -> Result<&'a Handle<T>> {
        if pointer.is_null() {
            return Err(not_ours::<T>(pointer));
        }
        // SAFETY: a live pointer points to the beginning of such a structure.
        let handle = unsafe { &*pointer.cast::<Handle<T>>() };
        if handle.tag.load(Ordering::Relaxed) != Self::LIVE {
            return Err(not_ours::<T>(pointer));
        }
        Ok(handle)
    }

    /// Returns the object behind a pointer without checking the tag: for the slots in an object's
    /// own structure, which can only be reached through the right kind of pointer.
    ///
    /// # Safety
    /// `pointer` must be live and of this kind, and stay so while the result is used.
    #[inline]
    pub unsafe fn known<'a>(pointer: *mut T::C) -> &'a Handle<T> {
        // SAFETY: a live pointer points to the beginning of such a structure.
        let handle = unsafe { &*pointer.cast::<Handle<T>>() };
        debug_assert_eq!(handle.tag.load(Ordering::Relaxed), Self::LIVE);
        handle
    }

    /// Takes the object back from the program.
    ///
    /// # Safety
    /// `pointer` must be live; neither it nor a result of [`Handle::of`] may be used again.
    pub unsafe fn destroy(pointer: *mut T::C) -> T {
        // SAFETY: `create` made it from a box, and the caller promises that it is not used again.
        let handle = unsafe { Box::from_raw(pointer.cast::<Handle<T>>()) };
        handle.tag.store(0, Ordering::Relaxed);
        handle.object
    }

    /// Returns the C structure. The program reads it and, where the header allows, writes it.
    #[inline]
    pub fn c(&self) -> *mut T::C {
        self.c.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct One(u32);
    struct Other;

    impl Object for One {
        type C = u64;
        const TAG: [u8; 4] = *b"one.";
    }

    impl Object for Other {
        type C = u64;
        const TAG: [u8; 4] = *b"othr";
    }

    #[test]
    fn a_handle_pointer_resolves_to_its_object() {
        let pointer = Handle::create(7, One(42));
        // SAFETY: created here, and destroyed at the end.
        unsafe {
            assert_eq!(*pointer, 7);
            assert_eq!(Handle::<One>::of(pointer).unwrap().object.0, 42);
            assert_eq!(Handle::<One>::of(pointer).unwrap().c(), pointer);
            assert_eq!(Handle::<One>::destroy(pointer).0, 42);
        }
    }

    #[test]
    fn null_and_handles_of_other_kinds_are_refused() {
        let other = Handle::create(7, Other);
        // SAFETY: both kinds have the same layout here, so reading the tag is sound.
        unsafe {
            assert_eq!(
                Handle::<One>::of(std::ptr::null_mut()).err(),
                Some(Errno::EINVAL)
            );
            assert_eq!(Handle::<One>::of(other).err(), Some(Errno::EINVAL));
            Handle::<Other>::destroy(other);
        }
    }
}
