//! Buffers and regions, and the processor's access to them.

use super::core::Core;
use super::waits::Awaited;
use super::world::World;
use crate::error::Result;
use crate::in_process::Bytes;
use crate::region::{Location, Region, RemoteRegion};
use std::rc::Rc;
use verbena_model::adapter::MemoryLocation;

/// Unregistered memory.
pub struct ModelBuffer {
    pub(super) bytes: Bytes,
    pub(super) location: Location,
}

/// Registered memory.
pub struct ModelRegion {
    pub(super) world: Rc<World>,
    pub(super) core: Core,
    pub(super) bytes: Bytes,
    pub(super) location: Location,
    pub(super) key: u32,
    pub(super) address: u64,
}

/// Returns key and bytes of a region.
pub(super) fn held(region: &ModelRegion) -> (u32, &Bytes) {
    (region.key, &region.bytes)
}

impl Drop for ModelRegion {
    fn drop(&mut self) {
        self.world.registered.borrow_mut().remove(self.key);
    }
}

impl ModelRegion {
    fn place(&self, offset: usize) -> MemoryLocation {
        self.world.local_place(self.key, offset)
    }

    /// Polls memory until it has changed, and spends the time to detect the change.
    async fn until_true(&self, what: &'static str, holds: impl Fn(&[u8]) -> bool) -> Result<()> {
        self.world
            .waits
            .until((self.core.rank, Awaited::Data), what, || {
                holds(&self.bytes.borrow()).then_some(())
            })
            .await?;
        self.core.process.notice().await;
        Ok(())
    }
}

impl Region for ModelRegion {
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
        self.bytes.write(offset, bytes)
    }

    fn read(&self, offset: usize, into: &mut [u8]) -> Result<()> {
        self.bytes.read(offset, into)
    }

    fn load_byte(&self, offset: usize) -> u8 {
        self.bytes.borrow()[offset]
    }

    fn store_byte(&self, offset: usize, value: u8) {
        self.bytes.borrow_mut()[offset] = value;
    }

    fn load_word(&self, offset: usize) -> u64 {
        self.bytes.load_word(offset)
    }

    fn store_word(&self, offset: usize, value: u64) {
        self.bytes.store_word(offset, value);
    }

    async fn until_byte(&self, offset: usize, value: u8) -> Result<()> {
        self.bytes.check("Region::until_byte", offset, 1)?;
        self.until_true("a byte in memory", |bytes| bytes[offset] == value)
            .await
    }

    async fn until_word(&self, offset: usize, value: u64) -> Result<()> {
        self.bytes.check("Region::until_word", offset, 8)?;
        let value = value.to_ne_bytes();
        self.until_true("a word in memory", |b| b[offset..offset + 8] == value)
            .await
    }

    async fn copy(&self, to: usize, source: &Self, from: usize, length: usize) -> Result<()> {
        let mut bytes = vec![0; length];
        source.read(from, &mut bytes)?;
        self.bytes.check("Region::copy", to, length)?;
        let process = &self.core.process;
        process
            .copy(source.place(from), self.place(to), length as u64)
            .await;
        self.write(to, &bytes)
    }

    async fn consume(&self, offset: usize, length: usize) -> Result<()> {
        self.bytes.check("Region::consume", offset, length)?;
        let place = self.place(offset);
        self.core.process.read(place, length as u64).await;
        Ok(())
    }
}
