//! Tables of objects by number.

use std::collections::HashMap;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Arc, Mutex, RwLock, Weak};

/// A table for few objects, which it does not keep alive.
pub struct WeakTable<T: ?Sized> {
    entries: RwLock<HashMap<u32, Weak<T>>>,
}

impl<T: ?Sized> Default for WeakTable<T> {
    fn default() -> WeakTable<T> {
        WeakTable {
            entries: RwLock::default(),
        }
    }
}

impl<T: ?Sized> WeakTable<T> {
    /// Adds an object.
    pub fn insert(&self, number: u32, object: &Arc<T>) {
        self.write().insert(number, Arc::downgrade(object));
    }

    /// Removes a number.
    pub fn remove(&self, number: u32) {
        self.write().remove(&number);
    }

    /// Changes the number of an object.
    pub fn rename(&self, from: u32, to: u32) {
        let mut entries = self.write();
        if let Some(object) = entries.remove(&from) {
            entries.insert(to, object);
        }
    }

    /// Returns the object with a number.
    pub fn find(&self, number: u32) -> Option<Arc<T>> {
        self.entries
            .read()
            .unwrap_or_else(|e| e.into_inner())
            .get(&number)?
            .upgrade()
    }

    /// Returns whether the condition holds for any object.
    pub fn any(&self, is_so: impl Fn(&T) -> bool) -> bool {
        let entries = self.entries.read().unwrap_or_else(|e| e.into_inner());
        entries
            .values()
            .filter_map(Weak::upgrade)
            .any(|object| is_so(&object))
    }

    /// Calls `action` for all objects.
    pub fn for_each(&self, action: impl Fn(&T)) {
        let entries = self.entries.read().unwrap_or_else(|e| e.into_inner());
        let all: Vec<Arc<T>> = entries.values().filter_map(Weak::upgrade).collect();
        drop(entries);
        all.iter().for_each(|object| action(object));
    }

    fn write(&self) -> std::sync::RwLockWriteGuard<'_, HashMap<u32, Weak<T>>> {
        self.entries.write().unwrap_or_else(|e| e.into_inner())
    }
}

const CHUNK: usize = 256;
const CHUNKS: usize = (1 << 24) / CHUNK;

type Chunk<T> = [RwLock<Option<Arc<T>>>; CHUNK];

/// A table for many objects by 24-bit number; a lookup costs two loads and a lock of the entry.
pub struct NumberTable<T> {
    chunks: Box<[AtomicPtr<Chunk<T>>]>,
    growth: Mutex<()>,
}

impl<T> Default for NumberTable<T> {
    fn default() -> NumberTable<T> {
        let chunks = (0..CHUNKS).map(|_| AtomicPtr::default()).collect();
        NumberTable {
            chunks,
            growth: Mutex::default(),
        }
    }
}

impl<T> NumberTable<T> {
    /// Returns the object with a number.
    #[inline]
    pub fn find(&self, number: u32) -> Option<Arc<T>> {
        let chunk = self.chunk(number)?;
        chunk[number as usize % CHUNK]
            .read()
            .unwrap_or_else(|e| e.into_inner())
            .clone()
    }

    /// Sets the object of a number; returns the old one.
    pub fn set(&self, number: u32, object: Option<Arc<T>>) -> Option<Arc<T>> {
        let chunk = self.chunk(number).or_else(|| {
            object.as_ref()?;
            self.grow(number);
            self.chunk(number)
        })?;
        let mut slot = chunk[number as usize % CHUNK]
            .write()
            .unwrap_or_else(|e| e.into_inner());
        std::mem::replace(&mut *slot, object)
    }

    /// Returns all objects.
    pub fn all(&self) -> Vec<Arc<T>> {
        (0..CHUNKS as u32)
            .filter_map(|index| self.chunk(index * CHUNK as u32))
            .flat_map(|chunk| chunk.iter())
            .filter_map(|slot| slot.read().unwrap_or_else(|e| e.into_inner()).clone())
            .collect()
    }

    #[inline]
    fn chunk(&self, number: u32) -> Option<&Chunk<T>> {
        let pointer = self
            .chunks
            .get(number as usize / CHUNK)?
            .load(Ordering::Acquire);
        // SAFETY: null or a leaked box that lives until the table is dropped.
        unsafe { pointer.as_ref() }
    }

    fn grow(&self, number: u32) {
        let _growth = self.growth.lock().unwrap_or_else(|e| e.into_inner());
        let Some(place) = self.chunks.get(number as usize / CHUNK) else {
            return;
        };
        if place.load(Ordering::Acquire).is_null() {
            let chunk: Box<Chunk<T>> = Box::new([const { RwLock::new(None) }; CHUNK]);
            place.store(Box::into_raw(chunk), Ordering::Release);
        }
    }
}

impl<T> Drop for NumberTable<T> {
    fn drop(&mut self) {
        for place in &self.chunks {
            let chunk = place.load(Ordering::Acquire);
            if !chunk.is_null() {
                // SAFETY: made by `grow` with Box::into_raw; `&mut self` excludes other users of
                // the table.
                drop(unsafe { Box::from_raw(chunk) });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn number_table_returns_the_stored_value() {
        let table = NumberTable::default();
        assert!(table.find(5).is_none());
        assert!(table.set(5, None::<Arc<u8>>).is_none());
        table.set(5, Some(Arc::new(1u8)));
        table.set(0xff_fffe, Some(Arc::new(2)));
        assert_eq!(table.find(5).as_deref(), Some(&1));
        assert_eq!(table.all().len(), 2);
        assert_eq!(table.set(5, None).as_deref(), Some(&1));
        assert!(table.find(5).is_none());
        assert!(table.find(1 << 24).is_none());
    }
}
