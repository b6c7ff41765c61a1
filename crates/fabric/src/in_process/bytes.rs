//! The bytes of a buffer, shared by its owner's handle and the fabric, and access to them.

use crate::error::{Error, Result};
use std::cell::{Ref, RefCell, RefMut};
use std::rc::Rc;

/// Bytes of a buffer. Clones share the same bytes.
#[derive(Clone)]
pub(crate) struct Bytes(Rc<RefCell<Vec<u8>>>);

impl Bytes {
    /// Creates `length` zero bytes.
    pub fn new(length: usize) -> Bytes {
        Bytes(Rc::new(RefCell::new(vec![0; length])))
    }

    pub fn length(&self) -> usize {
        self.0.borrow().len()
    }

    pub fn borrow(&self) -> Ref<'_, Vec<u8>> {
        self.0.borrow()
    }

    pub fn borrow_mut(&self) -> RefMut<'_, Vec<u8>> {
        self.0.borrow_mut()
    }

    /// Checks that a range is inside the buffer.
    ///
    /// # Errors
    ///
    /// Returns [`Error::Invalid`] for `call` otherwise.
    pub fn check(&self, call: &'static str, offset: usize, length: usize) -> Result<()> {
        let have = self.length();
        if offset.checked_add(length).is_some_and(|end| end <= have) {
            return Ok(());
        }
        Err(Error::invalid(
            call,
            format!("{length} bytes at {offset} of a region of {have}"),
        ))
    }

    pub fn write(&self, offset: usize, bytes: &[u8]) -> Result<()> {
        self.check("Region::write", offset, bytes.len())?;
        self.borrow_mut()[offset..offset + bytes.len()].copy_from_slice(bytes);
        Ok(())
    }

    pub fn read(&self, offset: usize, into: &mut [u8]) -> Result<()> {
        self.check("Region::read", offset, into.len())?;
        into.copy_from_slice(&self.borrow()[offset..offset + into.len()]);
        Ok(())
    }

    /// Loads eight aligned bytes.
    ///
    /// # Panics
    ///
    /// If they are outside the buffer or not aligned.
    pub fn load_word(&self, offset: usize) -> u64 {
        assert!(offset.is_multiple_of(8), "word at {offset} is not aligned");
        let bytes = self.borrow();
        u64::from_ne_bytes(bytes[offset..offset + 8].try_into().expect("8 bytes"))
    }

    /// Stores eight aligned bytes.
    ///
    /// # Panics
    ///
    /// If they are outside the buffer or not aligned.
    pub fn store_word(&self, offset: usize, value: u64) {
        assert!(offset.is_multiple_of(8), "word at {offset} is not aligned");
        self.borrow_mut()[offset..offset + 8].copy_from_slice(&value.to_ne_bytes());
    }
}
