//! RDMA on the server, with its access rules and limits.
//!
//! # Rules
//!
//! - The server initiates every transfer. Its memory is registered for local access only, so it
//!   gives out no keys.
//! - A data queue pair belongs to one session. It is connected to the peer that the authenticated
//!   session named, and does nothing before it has received a one-time token issued for it.
//! - Memory: the cache, registered as a whole, and a fixed pool of staging slots for data outside
//!   it. A transfer that finds no slot waits; the memory does not grow.
//! - An error completion ends its queue pair. The session and all others continue.

mod admission;
mod data;
mod staging;

pub use data::{Arrived, DataPair, FinishedTransfer};
pub use staging::Staging;

use std::sync::Arc;

use verbena_rfio_common::fabric::{Adapter, FabricError};
use verbena_verbs::{AccessFlags, Buffer, Region};

use crate::cache::Arena;

/// The adapter and its staging slots.
pub struct ServerFabric {
    adapter: Arc<Adapter>,
    staging: Arc<Staging>,
}

impl ServerFabric {
    /// Uses an adapter, with `slots` staging slots of `slot` bytes each.
    ///
    /// # Errors
    /// The memory cannot be allocated or registered.
    pub fn new(adapter: Arc<Adapter>, slots: usize, slot: usize) -> Result<Self, FabricError> {
        let staging = Staging::new(registered(&adapter, slots * slot)?, slot);
        Ok(Self { adapter, staging })
    }

    /// Returns the adapter.
    pub fn adapter(&self) -> &Arc<Adapter> {
        &self.adapter
    }

    /// Returns the staging slots.
    pub fn staging(&self) -> &Arc<Staging> {
        &self.staging
    }
}

/// Allocates memory registered for local access only.
///
/// # Errors
/// The memory cannot be allocated or registered.
pub fn register(adapter: &Adapter, bytes: usize) -> Result<Region, FabricError> {
    Ok(adapter
        .domain()
        .register(Buffer::allocate(bytes)?, AccessFlags::LOCAL)?)
}

/// Like [`register`], but returns an arena.
///
/// # Errors
/// As [`register`].
pub fn registered(adapter: &Adapter, bytes: usize) -> Result<Arena, FabricError> {
    Arena::registered(register(adapter, bytes)?).map_err(|_| FabricError::Unregistered)
}

impl std::fmt::Debug for ServerFabric {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "server fabric on {:?}", self.adapter)
    }
}
