//! A table that numbers its objects. An object gets the lowest free number, because librdmacm
//! indexes an array with it.

/// Number of objects that librdmacm can index.
const MOST: usize = 1 << 16;

/// Objects by number.
#[derive(Debug)]
pub struct Table<T> {
    slots: Vec<Option<T>>,
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Table { slots: Vec::new() }
    }
}

impl<T> Table<T> {
    /// Adds an object under the lowest free number; returns `None` if none is free.
    pub fn insert(&mut self, object: T) -> Option<u32> {
        let free = self.slots.iter().position(Option::is_none);
        let number = free.unwrap_or(self.slots.len());
        if number >= MOST {
            return None;
        }
        if number == self.slots.len() {
            self.slots.push(None);
        }
        self.slots[number] = Some(object);
        Some(number as u32)
    }

    /// Returns the object with a number.
    pub fn get(&self, number: u32) -> Option<&T> {
        self.slots.get(number as usize)?.as_ref()
    }

    /// Returns the object with a number, mutably.
    pub fn get_mut(&mut self, number: u32) -> Option<&mut T> {
        self.slots.get_mut(number as usize)?.as_mut()
    }

    /// Removes an object and returns it.
    pub fn remove(&mut self, number: u32) -> Option<T> {
        self.slots.get_mut(number as usize)?.take()
    }

    /// Returns all objects with their numbers.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        let numbered = self.slots.iter().enumerate();
        numbered.filter_map(|(number, slot)| Some((number as u32, slot.as_ref()?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_free_number_is_reused() {
        let mut table = Table::default();
        assert_eq!(table.insert('a'), Some(0));
        assert_eq!(table.insert('b'), Some(1));
        assert_eq!(table.remove(0), Some('a'));
        assert_eq!(table.remove(0), None);
        assert_eq!(table.insert('c'), Some(0));
        assert_eq!(table.iter().collect::<Vec<_>>(), [(0, &'c'), (1, &'b')]);
    }

    #[test]
    fn the_table_is_limited_like_the_kernels() {
        let mut table = Table::default();
        for number in 0..MOST as u32 {
            assert_eq!(table.insert(()), Some(number));
        }
        assert_eq!(table.insert(()), None);
    }
}
