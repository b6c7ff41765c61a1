//! The one object of a kind in this process.

use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, Ordering};

/// Holds the object. A forked child can drop it without a lock.
pub struct Current<T> {
    object: AtomicPtr<T>,
}

impl<T> Current<T> {
    /// Returns a holder of nothing.
    pub(crate) const fn none() -> Current<T> {
        Current {
            object: AtomicPtr::new(std::ptr::null_mut()),
        }
    }

    /// Returns the object, if there is one.
    pub fn get(&self) -> Option<Arc<T>> {
        let object = self.object.load(Ordering::Acquire);
        if object.is_null() {
            return None;
        }
        // SAFETY: a pointer stored here comes from Arc::into_raw and its reference is never
        // dropped, so the count is positive.
        unsafe {
            Arc::increment_strong_count(object);
            Some(Arc::from_raw(object))
        }
    }

    /// Sets the object.
    pub(crate) fn set(&self, object: Arc<T>) {
        self.object
            .store(Arc::into_raw(object).cast_mut(), Ordering::Release);
    }

    /// Forgets the object without freeing it. Async-signal-safe.
    pub(crate) fn abandon(&self) {
        self.object.store(std::ptr::null_mut(), Ordering::Release);
    }
}
