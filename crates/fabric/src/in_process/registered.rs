//! Registered memory: regions by key, their bounds and permissions, and transfers between them
//! (contract, rules 2, 5 and 6).

use super::bytes::Bytes;
use crate::completion::Status;
use crate::operation::Remote;
use crate::region::{Access, Location};
use std::collections::HashMap;

/// Regions start on page boundaries, with a free page between them.
const PAGE: u64 = 4096;
/// Address of the first region; no region is at address 0.
const FIRST_ADDRESS: u64 = 0x1000_0000;

pub(crate) struct RegionState {
    pub bytes: Bytes,
    pub address: u64,
    pub access: Access,
    pub location: Location,
    /// Rank of the process that registered it.
    pub owner: usize,
}

/// A scatter/gather element, its region named by key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Segment {
    pub key: u32,
    pub offset: usize,
    pub length: usize,
}

/// All regions of a job.
#[derive(Default)]
pub(crate) struct Registered {
    regions: HashMap<u32, RegionState>,
    keys: u32,
    pages: u64,
}

impl Registered {
    /// Registers memory; returns a key and an address that were never used before.
    pub fn insert(
        &mut self,
        bytes: Bytes,
        access: Access,
        location: Location,
        owner: usize,
    ) -> (u32, u64) {
        self.keys += 1;
        let address = FIRST_ADDRESS + self.pages * PAGE;
        self.pages += (bytes.length() as u64).div_ceil(PAGE) + 1;
        let state = RegionState {
            bytes,
            address,
            access,
            location,
            owner,
        };
        self.regions.insert(self.keys, state);
        (self.keys, address)
    }

    /// Deregisters a region, which ends all access.
    pub fn remove(&mut self, key: u32) {
        self.regions.remove(&key);
    }

    pub fn region(&self, key: u32) -> Option<&RegionState> {
        self.regions.get(&key)
    }

    /// Returns the concatenated bytes of local segments.
    pub fn gather(&self, local: &[Segment]) -> Result<Vec<u8>, Status> {
        let mut payload = Vec::with_capacity(local.iter().map(|s| s.length).sum());
        for segment in local {
            let region = self.region(segment.key).ok_or(Status::LOCAL_PROTECTION)?;
            let bytes = region.bytes.borrow();
            let part = bytes.get(segment.offset..segment.offset + segment.length);
            payload.extend_from_slice(part.ok_or(Status::LOCAL_PROTECTION)?);
        }
        Ok(payload)
    }

    /// Distributes `data` over local segments.
    pub fn scatter(&self, local: &[Segment], data: &[u8]) -> Status {
        let mut rest = data;
        for segment in local {
            let Some(region) = self.region(segment.key) else {
                return Status::LOCAL_PROTECTION;
            };
            let (part, tail) = rest.split_at(rest.len().min(segment.length));
            let mut bytes = region.bytes.borrow_mut();
            match bytes.get_mut(segment.offset..segment.offset + part.len()) {
                Some(place) => place.copy_from_slice(part),
                None => return Status::LOCAL_PROTECTION,
            }
            rest = tail;
        }
        match rest.is_empty() {
            true => Status::SUCCESS,
            false => Status::LOCAL_LENGTH,
        }
    }

    /// Writes `data` to remote memory.
    pub fn place(&self, to: Remote, data: &[u8]) -> Status {
        if data.is_empty() {
            return Status::SUCCESS;
        }
        match self.remote(to, data.len(), |access| access.remote_write) {
            Err(status) => status,
            Ok((bytes, at)) => {
                bytes.borrow_mut()[at..at + data.len()].copy_from_slice(data);
                Status::SUCCESS
            }
        }
    }

    /// Reads remote memory.
    pub fn fetch(&self, from: Remote, length: usize) -> Result<Vec<u8>, Status> {
        let (bytes, at) = self.remote(from, length, |access| access.remote_read)?;
        Ok(bytes.borrow()[at..at + length].to_vec())
    }

    /// Changes eight aligned bytes of remote memory and returns their old value.
    pub fn atomic(&self, at: Remote, change: impl Fn(u64) -> u64) -> Result<u64, Status> {
        if !at.address.is_multiple_of(8) {
            return Err(Status::REMOTE_INVALID);
        }
        let (bytes, offset) = self.remote(at, 8, |access| access.remote_atomic)?;
        let old = bytes.load_word(offset);
        bytes.store_word(offset, change(old));
        Ok(old)
    }

    fn remote(
        &self,
        at: Remote,
        length: usize,
        allowed: impl Fn(Access) -> bool,
    ) -> Result<(&Bytes, usize), Status> {
        let region = self.region(at.key).ok_or(Status::REMOTE_ACCESS)?;
        let offset = at
            .address
            .checked_sub(region.address)
            .ok_or(Status::REMOTE_ACCESS)?;
        let end = offset
            .checked_add(length as u64)
            .ok_or(Status::REMOTE_ACCESS)?;
        if !allowed(region.access) || end > region.bytes.length() as u64 {
            return Err(Status::REMOTE_ACCESS);
        }
        Ok((&region.bytes, offset as usize))
    }
}
