//! The one object of a type in this process, which a forked child does not take over.

use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, Ordering};

/// Holds the object. A forked child can forget it without a lock.
pub struct Singleton<T> {
    object: AtomicPtr<T>,
}

impl<T> Singleton<T> {
    /// Returns a holder of nothing.
    pub const fn none() -> Singleton<T> {
        Singleton {
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
    pub fn set(&self, object: Arc<T>) {
        self.object
            .store(Arc::into_raw(object).cast_mut(), Ordering::Release);
    }

    /// Forgets the object without freeing it. Async-signal-safe.
    pub fn abandon(&self) {
        self.object.store(std::ptr::null_mut(), Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn abandoned_object_is_neither_returned_nor_freed() {
        let singleton = Singleton::none();
        assert!(singleton.get().is_none());
        let object = Arc::new(7);
        singleton.set(object.clone());
        assert_eq!(singleton.get().as_deref(), Some(&7));
        assert_eq!(Arc::strong_count(&object), 2);
        singleton.abandon();
        assert!(singleton.get().is_none());
        assert_eq!(Arc::strong_count(&object), 2);
    }
}
