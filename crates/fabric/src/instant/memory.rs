//! Buffers and regions of the in-process fabric.

use super::world::World;
use crate::error::{Error, Result};
use crate::executor::until;
use crate::region::{Region, RemoteRegion};
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

/// Memory before registration.
pub struct InstantBuffer {
    pub(super) bytes: Rc<RefCell<Vec<u8>>>,
}

/// Registered memory.
pub struct InstantRegion {
    pub(super) world: Rc<RefCell<World>>,
    pub(super) bytes: Rc<RefCell<Vec<u8>>>,
    pub(super) key: u32,
    pub(super) address: u64,
}

impl Drop for InstantRegion {
    fn drop(&mut self) {
        self.world.borrow_mut().regions.remove(&self.key);
    }
}

impl InstantRegion {
    fn checked(&self, call: &'static str, offset: usize, length: usize) -> Result<()> {
        let have = self.bytes.borrow().len();
        if offset.checked_add(length).is_some_and(|end| end <= have) {
            return Ok(());
        }
        Err(Error::invalid(
            call,
            format!("{length} bytes at {offset} of a region of {have}"),
        ))
    }

    async fn until_true(&self, what: &'static str, holds: impl Fn(&[u8]) -> bool) -> Result<()> {
        until(|| {
            if holds(&self.bytes.borrow()) {
                return Some(Ok(()));
            }
            let world = self.world.borrow();
            let waited = Duration::from_nanos(world.now);
            world.stuck.then_some(Err(Error::Stalled { what, waited }))
        })
        .await
    }
}

impl Region for InstantRegion {
    fn length(&self) -> usize {
        self.bytes.borrow().len()
    }

    fn remote(&self) -> RemoteRegion {
        RemoteRegion {
            address: self.address,
            key: self.key,
            length: self.length() as u64,
        }
    }

    fn write(&self, offset: usize, bytes: &[u8]) -> Result<()> {
        self.checked("Region::write", offset, bytes.len())?;
        self.bytes.borrow_mut()[offset..offset + bytes.len()].copy_from_slice(bytes);
        self.world.borrow_mut().changed();
        Ok(())
    }

    fn read(&self, offset: usize, into: &mut [u8]) -> Result<()> {
        self.checked("Region::read", offset, into.len())?;
        into.copy_from_slice(&self.bytes.borrow()[offset..offset + into.len()]);
        Ok(())
    }

    fn load_byte(&self, offset: usize) -> u8 {
        self.bytes.borrow()[offset]
    }

    fn store_byte(&self, offset: usize, value: u8) {
        self.bytes.borrow_mut()[offset] = value;
        self.world.borrow_mut().changed();
    }

    fn load_word(&self, offset: usize) -> u64 {
        assert!(offset.is_multiple_of(8), "word at {offset} is not aligned");
        u64::from_ne_bytes(
            self.bytes.borrow()[offset..offset + 8]
                .try_into()
                .expect("8 bytes"),
        )
    }

    fn store_word(&self, offset: usize, value: u64) {
        assert!(offset.is_multiple_of(8), "word at {offset} is not aligned");
        self.bytes.borrow_mut()[offset..offset + 8].copy_from_slice(&value.to_ne_bytes());
        self.world.borrow_mut().changed();
    }

    async fn until_byte(&self, offset: usize, value: u8) -> Result<()> {
        self.checked("Region::until_byte", offset, 1)?;
        self.until_true("a byte in memory", |bytes| bytes[offset] == value)
            .await
    }

    async fn until_word(&self, offset: usize, value: u64) -> Result<()> {
        self.checked("Region::until_word", offset, 8)?;
        self.until_true("a word in memory", |b| {
            b[offset..offset + 8] == value.to_ne_bytes()
        })
        .await
    }

    async fn copy(&self, to: usize, source: &Self, from: usize, length: usize) -> Result<()> {
        let mut bytes = vec![0; length];
        source.read(from, &mut bytes)?;
        self.write(to, &bytes)
    }
}
