//! Objects by handle number, for the import verbs: ibv_import_pd(3), ibv_import_mr(3),
//! ibv_import_dm(3). Numbers are unique in the process and never reused.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use verbena_hca_os::errno::Result;
use verbena_hca_os::refused;

/// Importable objects of one kind. It keeps weak references only.
pub struct Exports<T> {
    table: Mutex<Table<T>>,
}

struct Table<T> {
    next: u32,
    objects: BTreeMap<u32, Weak<T>>,
}

impl<T> Exports<T> {
    /// Returns an empty table.
    pub const fn empty() -> Self {
        let table = Table {
            next: 0,
            objects: BTreeMap::new(),
        };
        Exports {
            table: Mutex::new(table),
        }
    }

    /// Assigns a number to an object.
    pub fn add(&self, object: &Arc<T>) -> u32 {
        let mut table = self.lock();
        let number = table.next;
        table.next += 1;
        table.objects.insert(number, Arc::downgrade(object));
        number
    }

    /// Returns the object with a number.
    ///
    /// # Errors
    /// EINVAL if there is none any more.
    pub fn find(&self, number: u32) -> Result<Arc<T>> {
        self.lock()
            .objects
            .get(&number)
            .and_then(Weak::upgrade)
            .ok_or_else(|| {
                refused!(
                    EINVAL,
                    "handle {number} does not name an object of this process: only objects of the \
                     same process can be imported, while they exist"
                )
            })
    }

    /// Removes the number of a destroyed object.
    pub fn remove(&self, number: u32) {
        self.lock().objects.remove(&number);
    }

    fn lock(&self) -> MutexGuard<'_, Table<T>> {
        self.table
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use verbena_hca_os::errno::Errno;

    #[test]
    fn an_object_is_found_while_alive_and_numbers_are_not_reused() {
        let exports = Exports::empty();
        let object = Arc::new(7);
        let number = exports.add(&object);
        assert_eq!(exports.find(number), Ok(object.clone()));
        exports.remove(number);
        assert_eq!(exports.find(number), Err(Errno::EINVAL));

        let other = exports.add(&object);
        assert_ne!(other, number);
        drop(object);
        assert_eq!(exports.find(other), Err(Errno::EINVAL));
    }
}
