//! Buffers and regions over verbs.

use super::patience::Patience;
use crate::error::Result;
use crate::region::{Region, RemoteRegion};

/// Memory before registration.
pub struct VerbsBuffer(pub(super) verbena_verbs::Buffer);

/// Registered memory.
pub struct VerbsRegion {
    pub(super) inner: verbena_verbs::Region,
    pub(super) patience: Patience,
}

impl Region for VerbsRegion {
    fn length(&self) -> usize {
        self.inner.length()
    }

    fn remote(&self) -> RemoteRegion {
        RemoteRegion {
            address: self.inner.address(),
            key: self.inner.remote_key(),
            length: self.inner.length() as u64,
        }
    }

    fn write(&self, offset: usize, bytes: &[u8]) -> Result<()> {
        Ok(self.inner.write(offset, bytes)?)
    }

    fn read(&self, offset: usize, into: &mut [u8]) -> Result<()> {
        Ok(self.inner.read(offset, into)?)
    }

    #[inline]
    fn load_byte(&self, offset: usize) -> u8 {
        self.inner.load_byte(offset)
    }

    #[inline]
    fn store_byte(&self, offset: usize, value: u8) {
        self.inner.store_byte(offset, value);
    }

    #[inline]
    fn load_word(&self, offset: usize) -> u64 {
        self.inner.load_word(offset)
    }

    #[inline]
    fn store_word(&self, offset: usize, value: u64) {
        self.inner.store_word(offset, value);
    }

    #[inline]
    async fn until_byte(&self, offset: usize, value: u8) -> Result<()> {
        let arrived = || (self.inner.load_byte(offset) == value).then_some(());
        self.patience.until("a byte in memory", arrived)
    }

    #[inline]
    async fn until_word(&self, offset: usize, value: u64) -> Result<()> {
        let arrived = || (self.inner.load_word(offset) == value).then_some(());
        self.patience.until("a word in memory", arrived)
    }

    async fn copy(&self, to: usize, source: &Self, from: usize, length: usize) -> Result<()> {
        Ok(self.inner.copy_from(to, &source.inner, from, length)?)
    }
}
