//! The channels of a process: those that it has, and those that it is asked for.

use crate::process::channel_ends::{Inbound, Outbound};
use crate::process::channel_requests::ConnectRequests;
use crate::process::handshake_descriptors::Handshakes;
use crate::process::lane_ends::LaneIn;
use crate::process::outbound_lane::{LaneOut, LaneUser};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, RwLock};
use verbena_hca_memory::peer::Peer;
use verbena_hca_shm::channel::HeldLane;
use verbena_hca_shm::registry::Identity;

/// A lane at its consumer, with its channel.
pub struct InboundLane<Q> {
    /// The channel.
    pub inbound: Arc<Inbound<Q>>,
    /// The lane.
    pub lane: Arc<LaneIn<Q>>,
    /// Its shared memory.
    pub memory: HeldLane<Inbound<Q>>,
    /// The queue pair that receives; none if it does not exist.
    pub receiver: Option<LaneUser>,
    /// The lane by which that queue pair sends, if it has one.
    pub back: Option<Arc<LaneOut<Q>>>,
}

impl<Q> InboundLane<Q> {
    /// Returns a lane of a channel.
    pub fn new(
        inbound: Arc<Inbound<Q>>,
        lane: Arc<LaneIn<Q>>,
        receiver: Option<LaneUser>,
    ) -> InboundLane<Q> {
        InboundLane {
            memory: HeldLane::new(&inbound, |inbound| &inbound.channel, lane.number),
            inbound,
            lane,
            receiver,
            back: None,
        }
    }

    /// Returns whether a message is published, by one look and without the lock.
    #[inline]
    pub fn has_message(&self) -> bool {
        self.lane.has_message()
    }
}

impl<Q> Clone for InboundLane<Q> {
    fn clone(&self) -> InboundLane<Q> {
        InboundLane {
            inbound: self.inbound.clone(),
            lane: self.lane.clone(),
            memory: self.memory.clone(),
            receiver: self.receiver,
            back: self.back.clone(),
        }
    }
}

/// A snapshot of the channels.
pub struct Channels<Q> {
    /// Grows with each change.
    version: u64,
    /// Length of the longest list.
    most: usize,
    has_lanes: bool,
    /// To processes that this one sends requests to.
    pub outbound: Vec<Arc<Outbound<Q>>>,
    /// From processes that send requests to this one.
    pub inbound: Vec<Arc<Inbound<Q>>>,
    /// Lanes that this process sends by.
    pub lanes_out: Vec<Arc<LaneOut<Q>>>,
    /// Lanes that peers send by.
    pub lanes_in: Vec<InboundLane<Q>>,
}

impl<Q> Channels<Q> {
    /// Returns the length of the longest list.
    pub(super) fn most(&self) -> usize {
        self.most
    }

    /// Returns whether there are lanes.
    #[inline]
    pub(super) fn has_lanes(&self) -> bool {
        self.has_lanes
    }

    fn count(mut self) -> Channels<Q> {
        for of in &mut self.lanes_in {
            let Some(receiver) = of.receiver else {
                of.back = None;
                continue;
            };
            let is_back = |one: &&Arc<LaneOut<Q>>| one.is_back_of(&of.inbound, receiver.number);
            of.back = self.lanes_out.iter().find(is_back).cloned();
        }
        let lanes = self.lanes_in.len().max(self.lanes_out.len());
        self.has_lanes = lanes > 0;
        self.most = lanes.max(self.inbound.len()).max(self.outbound.len());
        self
    }

    /// Returns whether a message is published in a lane.
    pub(super) fn has_message(&self) -> bool {
        self.lanes_in.iter().any(InboundLane::has_message)
    }

    /// Returns the channels that a condition on the peer selects.
    pub(super) fn of_peers(&self, is_one: impl Fn(&Peer) -> bool) -> Channels<Q> {
        let outbound = self.outbound.iter().filter(|one| is_one(&one.peer));
        let inbound = self.inbound.iter().filter(|one| is_one(&one.peer));
        let lanes_out = self.lanes_out.iter().filter(|one| is_one(&one.via.peer));
        let lanes_in = self.lanes_in.iter();
        Channels {
            version: self.version,
            outbound: outbound.cloned().collect(),
            inbound: inbound.cloned().collect(),
            lanes_out: lanes_out.cloned().collect(),
            lanes_in: lanes_in
                .filter(|of| is_one(&of.inbound.peer))
                .cloned()
                .collect(),
            most: 0,
            has_lanes: false,
        }
        .count()
    }
}

impl<Q> Default for Channels<Q> {
    fn default() -> Channels<Q> {
        Channels {
            version: 0,
            most: 0,
            has_lanes: false,
            outbound: Vec::new(),
            inbound: Vec::new(),
            lanes_out: Vec::new(),
            lanes_in: Vec::new(),
        }
    }
}

impl<Q> Clone for Channels<Q> {
    fn clone(&self) -> Channels<Q> {
        Channels {
            version: self.version,
            most: self.most,
            has_lanes: self.has_lanes,
            outbound: self.outbound.clone(),
            inbound: self.inbound.clone(),
            lanes_out: self.lanes_out.clone(),
            lanes_in: self.lanes_in.clone(),
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
            version: AtomicU64::new(0),
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

    fn change(&self, change: impl FnOnce(&mut Channels<Q>)) {
        let mut current = self.current.write().unwrap_or_else(|e| e.into_inner());
        let mut next = Channels::clone(&current);
        change(&mut next);
        next.version = self.version.load(Ordering::Relaxed) + 1;
        let version = next.version;
        *current = Arc::new(next.count());
        self.version.store(version, Ordering::Release);
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

    /// Returns whether the channels have changed since a snapshot was made.
    #[inline]
    pub(super) fn is_newer_than(&self, channels: &Channels<Q>) -> bool {
        self.version.load(Ordering::Acquire) != channels.version
    }

    /// Adds a lane, or replaces it.
    pub(super) fn set_inbound_lane(&self, lane: InboundLane<Q>) {
        let is_it = |one: &&mut InboundLane<Q>| Arc::ptr_eq(&one.lane, &lane.lane);
        self.change(|channels| match channels.lanes_in.iter_mut().find(is_it) {
            Some(known) => *known = lane.clone(),
            None => channels.lanes_in.push(lane.clone()),
        });
    }

    pub(crate) fn add_outbound_lane(&self, lane: Arc<LaneOut<Q>>) {
        self.change(|channels| channels.lanes_out.push(lane));
    }

    /// Stops looking for acknowledgements in a lane.
    pub(crate) fn remove_outbound_lane(&self, lane: &Arc<LaneOut<Q>>) {
        let is_other = |one: &Arc<LaneOut<Q>>| !Arc::ptr_eq(one, lane);
        self.change(|channels| channels.lanes_out.retain(is_other));
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
            channels.lanes_out.retain(|lane| {
                let mut all = dead.lanes_out.iter();
                !all.any(|buried| Arc::ptr_eq(buried, lane))
            });
            channels.lanes_in.retain(|of| {
                let mut all = dead.lanes_in.iter();
                !all.any(|buried| Arc::ptr_eq(&buried.lane, &of.lane))
            });
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
