//! Buffers and regions over verbs, in host or adapter memory.

use super::wait_limit::WaitLimit;
use crate::error::{Error, Result};
use crate::region::{Region, RemoteRegion};
use std::future::ready;
use verbena_verbs as v;

/// Unregistered memory.
pub enum VerbsBuffer {
    /// Host memory.
    Host(v::Buffer),
    /// Adapter memory.
    Device(v::DeviceMemory),
}

pub(super) enum Registered {
    Host(v::Region),
    Device(v::DeviceRegion),
}

/// Registered memory.
pub struct VerbsRegion {
    pub(super) memory: Registered,
    pub(super) wait_limit: WaitLimit,
}

impl VerbsRegion {
    /// Returns a part of it for a work request; `None` if it is out of bounds.
    #[inline]
    pub(super) fn part(&self, offset: usize, length: usize) -> Option<v::Segment<'_>> {
        match &self.memory {
            Registered::Host(region) => region.part(offset, length),
            Registered::Device(region) => region.part(offset, length),
        }
    }
}

/// Loads a few bytes of adapter memory for the calls without an error result.
fn load<const N: usize>(region: &v::DeviceRegion, offset: usize) -> [u8; N] {
    let mut bytes = [0; N];
    let outcome = region.read(offset, &mut bytes);
    outcome.unwrap_or_else(|error| panic!("{error}"));
    bytes
}

fn store(region: &v::DeviceRegion, offset: usize, bytes: &[u8]) {
    let outcome = region.write(offset, bytes);
    outcome.unwrap_or_else(|error| panic!("{error}"));
}

impl Region for VerbsRegion {
    fn length(&self) -> usize {
        match &self.memory {
            Registered::Host(region) => region.length(),
            Registered::Device(region) => region.length(),
        }
    }

    fn remote(&self) -> RemoteRegion {
        let (address, key) = match &self.memory {
            Registered::Host(region) => (region.address(), region.remote_key()),
            Registered::Device(region) => (0, region.remote_key()),
        };
        RemoteRegion {
            address,
            key,
            length: self.length() as u64,
        }
    }

    fn write(&self, offset: usize, bytes: &[u8]) -> Result<()> {
        match &self.memory {
            Registered::Host(region) => region.write(offset, bytes)?,
            Registered::Device(region) => region.write(offset, bytes)?,
        }
        Ok(())
    }

    fn read(&self, offset: usize, into: &mut [u8]) -> Result<()> {
        match &self.memory {
            Registered::Host(region) => region.read(offset, into)?,
            Registered::Device(region) => region.read(offset, into)?,
        }
        Ok(())
    }

    #[inline]
    fn load_byte(&self, offset: usize) -> u8 {
        match &self.memory {
            Registered::Host(region) => region.load_byte(offset),
            Registered::Device(region) => load::<1>(region, offset)[0],
        }
    }

    #[inline]
    fn store_byte(&self, offset: usize, value: u8) {
        match &self.memory {
            Registered::Host(region) => region.store_byte(offset, value),
            Registered::Device(region) => store(region, offset, &[value]),
        }
    }

    #[inline]
    fn load_word(&self, offset: usize) -> u64 {
        match &self.memory {
            Registered::Host(region) => region.load_word(offset),
            Registered::Device(region) => u64::from_ne_bytes(load(region, offset)),
        }
    }

    #[inline]
    fn store_word(&self, offset: usize, value: u64) {
        match &self.memory {
            Registered::Host(region) => region.store_word(offset, value),
            Registered::Device(region) => store(region, offset, &value.to_ne_bytes()),
        }
    }

    #[inline(always)]
    fn until_byte(&self, offset: usize, value: u8) -> impl Future<Output = Result<()>> {
        let arrived = || (self.load_byte(offset) == value).then_some(());
        ready(self.wait_limit.until("a byte in memory", arrived))
    }

    #[inline(always)]
    fn until_word(&self, offset: usize, value: u64) -> impl Future<Output = Result<()>> {
        let arrived = || (self.load_word(offset) == value).then_some(());
        ready(self.wait_limit.until("a word in memory", arrived))
    }

    async fn copy(&self, to: usize, source: &Self, from: usize, length: usize) -> Result<()> {
        match (&self.memory, &source.memory) {
            (Registered::Host(mine), Registered::Host(theirs)) => {
                Ok(mine.copy_from(to, theirs, from, length)?)
            }
            _ => Err(Error::invalid(
                "Region::copy",
                "the processor copies between host memories only",
            )),
        }
    }
}
