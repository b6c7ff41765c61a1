//! The channels of a process: those that it has, and those that it is asked for.

use crate::process::channel_requests::ConnectRequests;
use crate::process::handshake_descriptors::Handshakes;
use crate::process::link::{Inbound, Outbound};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, RwLock};
use verbena_hca_shm::registry::Identity;

/// A snapshot of the channels.
pub struct Channels<Q> {
    /// To processes that this one sends requests to.
    pub outbound: Vec<Arc<Outbound<Q>>>,
    /// From processes that send requests to this one.
    pub inbound: Vec<Arc<Inbound<Q>>>,
}

impl<Q> Default for Channels<Q> {
    fn default() -> Channels<Q> {
        Channels {
            outbound: Vec::new(),
            inbound: Vec::new(),
        }
    }
}

impl<Q> Clone for Channels<Q> {
    fn clone(&self) -> Channels<Q> {
        Channels {
            outbound: self.outbound.clone(),
            inbound: self.inbound.clone(),
        }
    }
}

/// A cached view of the channels for frequent looks, which saves counting a reference each time.
pub struct SeenChannels<Q> {
    version: u64,
    pub(crate) channels: Arc<Channels<Q>>,
    /// Index at which the next partial look begins.
    pub(crate) turn: usize,
    /// Number of queue armings at the last look at all channels.
    pub(crate) armings: usize,
    /// Looks in a row during which the progress thread was working.
    pub(crate) looks: u32,
}

impl<Q> Default for SeenChannels<Q> {
    fn default() -> SeenChannels<Q> {
        SeenChannels {
            version: 0,
            channels: Arc::default(),
            turn: 0,
            armings: 0,
            looks: 0,
        }
    }
}

/// The channels, requests for channels, and connections during their handshake.
pub(crate) struct ChannelSet<Q> {
    current: RwLock<Arc<Channels<Q>>>,
    /// Changes with `current`.
    version: AtomicU64,
    outbound: RwLock<HashMap<Identity, Arc<Outbound<Q>>>>,
    requests: ConnectRequests<Q>,
    handshakes: Handshakes,
}

impl<Q> Default for ChannelSet<Q> {
    fn default() -> ChannelSet<Q> {
        ChannelSet {
            current: RwLock::default(),
            version: AtomicU64::new(1),
            outbound: RwLock::default(),
            requests: ConnectRequests::default(),
            handshakes: Handshakes::default(),
        }
    }
}

impl<Q> ChannelSet<Q> {
    /// Returns the requests for channels.
    pub(super) fn requests(&self) -> &ConnectRequests<Q> {
        &self.requests
    }

    /// Returns the descriptors of connections during their handshake.
    pub(super) fn handshakes(&self) -> &Handshakes {
        &self.handshakes
    }

    /// Returns a snapshot of the channels.
    #[inline]
    pub(crate) fn snapshot(&self) -> Arc<Channels<Q>> {
        self.current
            .read()
            .unwrap_or_else(|e| e.into_inner())
            .clone()
    }

    /// Brings a cached view of the channels up to date; normally one look finds nothing new.
    #[inline]
    pub(crate) fn look(&self, seen: &mut SeenChannels<Q>) {
        if seen.version != self.version.load(Ordering::Acquire) {
            self.look_again(seen);
        }
    }

    #[cold]
    fn look_again(&self, seen: &mut SeenChannels<Q>) {
        let current = self.current.read().unwrap_or_else(|e| e.into_inner());
        seen.version = self.version.load(Ordering::Acquire);
        seen.channels = current.clone();
    }

    fn change(&self, change: impl FnOnce(&mut Channels<Q>)) {
        let mut current = self.current.write().unwrap_or_else(|e| e.into_inner());
        let mut next = Channels::clone(&current);
        change(&mut next);
        *current = Arc::new(next);
        self.version.fetch_add(1, Ordering::AcqRel);
    }

    pub(super) fn add_inbound(&self, inbound: Arc<Inbound<Q>>) {
        self.change(|channels| channels.inbound.push(inbound));
    }

    pub(super) fn add_outbound(&self, identity: Identity, outbound: Arc<Outbound<Q>>) {
        self.outbound
            .write()
            .unwrap_or_else(|e| e.into_inner())
            .insert(identity, outbound.clone());
        self.change(|channels| channels.outbound.push(outbound));
    }

    /// Drops channels, on which nothing is in flight any more.
    pub(super) fn remove(&self, dead: &Channels<Q>) {
        let is_dead = |outbound: &Arc<Outbound<Q>>| {
            let mut all = dead.outbound.iter();
            all.any(|buried| Arc::ptr_eq(buried, outbound))
        };
        self.outbound
            .write()
            .unwrap_or_else(|e| e.into_inner())
            .retain(|_, outbound| !is_dead(outbound));
        self.change(|channels| {
            channels.inbound.retain(|inbound| {
                let mut all = dead.inbound.iter();
                !all.any(|buried| Arc::ptr_eq(buried, inbound))
            });
            channels.outbound.retain(|outbound| !is_dead(outbound));
        });
    }

    /// Returns the channel to a process, if there is one.
    pub(crate) fn outbound_to(&self, identity: Identity) -> Option<Arc<Outbound<Q>>> {
        self.outbound
            .read()
            .unwrap_or_else(|e| e.into_inner())
            .get(&identity)
            .cloned()
    }
}
