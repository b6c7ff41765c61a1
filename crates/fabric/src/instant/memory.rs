//! Buffers and regions of the in-process fabric.

use super::world::World;
use crate::error::{Error, Result};
use crate::executor::until;
use crate::in_process::Bytes;
use crate::region::{Location, Region, RemoteRegion};
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

/// Unregistered memory.
pub struct InstantBuffer {
    pub(super) bytes: Bytes,
    pub(super) location: Location,
}

/// Registered memory.
pub struct InstantRegion {
    pub(super) world: Rc<RefCell<World>>,
    pub(super) bytes: Bytes,
    pub(super) location: Location,
    pub(super) key: u32,
    pub(super) address: u64,
}

impl Drop for InstantRegion {
    fn drop(&mut self) {
        self.world.borrow_mut().registered.remove(self.key);
    }
}

impl InstantRegion {
    async fn until_true(&self, what: &'static str, holds: impl Fn(&[u8]) -> bool) -> Result<()> {
        until(|| {
            if holds(&self.bytes.borrow()) {
                return Some(Ok(()));
            }
            let world = self.world.borrow();
            let waited = Duration::from_nanos(world.now);
            world.stuck.then_some(Err(Error::stalled(what, waited)))
        })
        .await
    }
}

impl Region for InstantRegion {
    fn length(&self) -> usize {
        self.bytes.length()
    }

    fn remote(&self) -> RemoteRegion {
        RemoteRegion {
            address: self.address,
            key: self.key,
            length: self.length() as u64,
        }
    }

    fn write(&self, offset: usize, bytes: &[u8]) -> Result<()> {
        self.bytes.write(offset, bytes)?;
        self.world.borrow_mut().changed();
        Ok(())
    }

    fn read(&self, offset: usize, into: &mut [u8]) -> Result<()> {
        self.bytes.read(offset, into)
    }

    fn load_byte(&self, offset: usize) -> u8 {
        self.bytes.borrow()[offset]
    }

    fn store_byte(&self, offset: usize, value: u8) {
        self.bytes.borrow_mut()[offset] = value;
        self.world.borrow_mut().changed();
    }

    fn load_word(&self, offset: usize) -> u64 {
        self.bytes.load_word(offset)
    }

    fn store_word(&self, offset: usize, value: u64) {
        self.bytes.store_word(offset, value);
        self.world.borrow_mut().changed();
    }

    async fn until_byte(&self, offset: usize, value: u8) -> Result<()> {
        self.bytes.check("Region::until_byte", offset, 1)?;
        self.until_true("a byte in memory", |bytes| bytes[offset] == value)
            .await
    }

    async fn until_word(&self, offset: usize, value: u64) -> Result<()> {
        self.bytes.check("Region::until_word", offset, 8)?;
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
