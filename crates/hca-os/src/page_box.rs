//! A box on separate pages, which contain no other data of the program.
//!
//! So it is not affected when the program registers or protects whole pages of the heap.

use crate::errno::Result;
use crate::mm;
use std::ops::Deref;
use std::ptr::NonNull;

/// As a `Box`, but not on the heap.
pub struct PageBox<T> {
    value: NonNull<T>,
}

impl<T> PageBox<T> {
    /// Moves a value to separate pages.
    ///
    /// # Errors
    /// The system's, when it has no memory left.
    pub fn new(value: T) -> Result<PageBox<T>> {
        const { assert!(align_of::<T>() <= 4096 && size_of::<T>() > 0) };
        let rights = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: a fresh mapping at an address of the kernel's choice.
        let at = unsafe { mm::map(0, size_of::<T>() as u64, rights, flags, -1, 0) }?;
        let place: *mut T = std::ptr::with_exposed_provenance_mut(at as usize);
        // SAFETY: the mapping was just made for a value of this size, and pages are sufficiently
        // aligned.
        unsafe {
            place.write(value);
            Ok(PageBox {
                value: NonNull::new_unchecked(place),
            })
        }
    }
}

impl<T> Deref for PageBox<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: written by `new`, and valid until `self` is dropped.
        unsafe { self.value.as_ref() }
    }
}

impl<T> Drop for PageBox<T> {
    fn drop(&mut self) {
        // SAFETY: the value was written by `new` and is dropped only here; its pages belong to
        // `self`.
        unsafe {
            self.value.drop_in_place();
            let _ = mm::unmap(self.value.as_ptr() as u64, size_of::<T>() as u64);
        }
    }
}

// SAFETY: it owns the value, as a box does.
unsafe impl<T: Send> Send for PageBox<T> {}
// SAFETY: it gives out shared references to the value only.
unsafe impl<T: Sync> Sync for PageBox<T> {}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn apart_value_is_reached_and_dropped_once() {
        let counted = Arc::new(());
        let boxed = PageBox::new((counted.clone(), [7_u8; 10_000])).unwrap();
        assert_eq!(boxed.1[9_999], 7);
        assert_eq!(Arc::strong_count(&counted), 2);
        drop(boxed);
        assert_eq!(Arc::strong_count(&counted), 1);
    }
}
