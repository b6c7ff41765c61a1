//! RDMA on the server: what may be reached, by whom, and how much of it.
//!
//! # The law
//!
//! - The server initiates every transfer. Its memory is registered for itself alone, so it has no key to give out.
//! - A data queue pair belongs to one session. It is connected to the end that the authenticated session named, and does
//!   nothing before a token, made for it and valid once, has come over it.
//! - Memory: the cache, registered as a whole, and a fixed pool of staging slots for what does not lie in it. A transfer
//!   that finds no slot waits; nothing grows.
//! - An error completion ends its queue pair. The session and everybody else go on.

mod admission;
mod data;
mod staging;

pub use data::{Arrived, DataPair, Finished};
pub use staging::{Slot, Staging};

use std::sync::Arc;

use verbena_verbs::{AccessFlags, Buffer, Region};

use crate::fabric::{Adapter, FabricError};
use crate::server::cache::Arena;

/// The server's side of the fabric.
pub struct ServerFabric {
    adapter: Arc<Adapter>,
    staging: Arc<Staging>,
}

impl ServerFabric {
    /// Uses an adapter, with `slots` staging slots of `slot` bytes.
    pub fn new(adapter: Arc<Adapter>, slots: usize, slot: usize) -> Result<Self, FabricError> {
        let staging = Staging::new(registered(&adapter, slots * slot)?, slot);
        Ok(Self { adapter, staging })
    }

    /// The adapter.
    pub fn adapter(&self) -> &Arc<Adapter> {
        &self.adapter
    }

    /// The staging slots.
    pub fn staging(&self) -> &Arc<Staging> {
        &self.staging
    }
}

/// Memory that the adapter may use on the server's behalf, and nobody else.
pub fn register(adapter: &Adapter, bytes: usize) -> Result<Region, FabricError> {
    Ok(adapter
        .domain()
        .register(Buffer::allocate(bytes)?, AccessFlags::LOCAL)?)
}

/// The same, as an arena.
pub fn registered(adapter: &Adapter, bytes: usize) -> Result<Arena, FabricError> {
    Arena::registered(register(adapter, bytes)?).map_err(|_| FabricError::Unregistered)
}

impl std::fmt::Debug for ServerFabric {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "server fabric on {:?}", self.adapter)
    }
}
