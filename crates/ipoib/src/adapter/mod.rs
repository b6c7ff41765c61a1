//! The adapter's side of an interface: queue pairs, memory, groups.
//!
//! Datagrams to groups leave by the queue pair of the interface's hardware address, which receives
//! everything. IP packets to a neighbour leave by a queue pair for that neighbour, a *lane*,
//! because requests to a stopped process wait, and with them all others of their queue pair.
//! Answers to requests for addresses leave by one lane for all, so that a peer that states many
//! hardware addresses costs no queue pairs.
//!
//! On a port with a subnet manager, another queue pair exchanges datagrams with subnet
//! administration. The broadcast group is joined before the others exist, because it states their
//! queue key.

mod completions;
mod failure;
mod lanes;
mod opening;
mod pairs;
mod port;

use std::collections::HashMap;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::Instant;

use verbena_verbs::qp::attributes::Path;
use verbena_verbs::{
    AddressHandle, Channel, CompletionQueue, Context, Gid, PortAttributes, ProtectionDomain, Region,
};

pub use self::completions::{Completion, Received};
pub use self::failure::Failure;
use self::lanes::ToNeighbour;
use crate::administration::Administration;
use crate::administration::record::Path as PathRecord;
use crate::connected::Connected;
use crate::encapsulation;
use crate::hardware_address::{self, HardwareAddress};
use crate::lane::{Lane, Slots};
use crate::management::Management;
use crate::neighbour::Neighbour;

/// Queue key of the groups where no subnet administration states one: that of OpenSM.
const QUEUE_KEY: u32 = 0x0b1b;
/// Bytes in front of each received datagram.
pub const ROUTE: usize = 40;
/// Receives and sends in flight.
const RECEIVES: usize = 2048;
const SENDS: usize = 1024;
/// The bit of a request's id that marks a receive.
pub const RECEIVE: u64 = 1 << 63;
/// Number of completions taken at once.
pub const BATCH: usize = 16;
/// Numbers of the lane to groups and of the first lane of answers.
const MAIN: u32 = 0;
const ANSWERS: u32 = 1;

/// A port of an adapter for one interface.
pub struct Adapter {
    context: Arc<Context>,
    domain: Arc<ProtectionDomain>,
    channel: Arc<Channel>,
    /// Completions of requests, which are worth a wake-up only if a packet waits for one.
    sent: Arc<CompletionQueue>,
    received: Arc<CompletionQueue>,
    port: u8,
    attributes: PortAttributes,
    gid: Gid,
    gid_index: u8,
    partition: u16,
    partition_index: u16,
    /// Receives everything; sends to groups.
    main: Lane,
    /// Sends answers.
    answers: Lane,
    lanes: HashMap<u32, ToNeighbour>,
    /// Numbers of the lanes.
    numbers: HashMap<Neighbour, u32>,
    newest_lane: u32,
    clock: u64,
    /// Address handles of groups and of neighbours that are answered.
    addresses: HashMap<(Gid, PathRecord), Arc<AddressHandle>>,
    receives: Region,
    slots: Slots,
    discarded: u64,
    /// In connected mode.
    connected: Option<Connected>,
    /// On a port with a subnet manager.
    management: Option<Management>,
    /// Queue key and traffic class of all datagrams, and the longest datagram.
    queue_key: u32,
    traffic_class: u8,
    longest: u32,
}

impl Adapter {
    fn path(&self, path: PathRecord, gid: Gid) -> Path {
        let is_ethernet = self.attributes.ethernet;
        Path {
            lid: if is_ethernet { 0 } else { path.lid },
            gid: Some(gid),
            source_gid: self.gid_index,
            traffic_class: self.traffic_class,
            service_level: path.service_level,
            port: self.port,
        }
    }

    /// Returns the hardware address of the interface.
    pub fn hardware(&self) -> HardwareAddress {
        HardwareAddress {
            flags: match self.connected {
                Some(_) => hardware_address::RC,
                None => 0,
            },
            queue_pair: self.main.pair().number(),
            gid: self.gid,
        }
    }

    /// Returns the key of the partition.
    pub fn partition(&self) -> u16 {
        self.partition
    }

    /// Returns the number of the port.
    pub fn port(&self) -> u8 {
        self.port
    }

    /// Returns the LID of the port.
    pub fn lid(&self) -> u16 {
        self.attributes.lid
    }

    /// Returns the code of the port's MTU.
    pub fn path_mtu(&self) -> u8 {
        self.attributes.mtu_code as u8
    }

    /// Returns the longest datagram.
    pub fn longest(&self) -> u32 {
        self.longest
    }

    /// Returns the longest IP packet in a datagram.
    pub fn mtu(&self) -> u32 {
        self.longest - encapsulation::LENGTH as u32
    }

    /// Receives the packets of a group with this LID from now on.
    ///
    /// # Errors
    ///
    /// The adapter refuses it.
    pub fn attach(&self, gid: Gid, lid: u16) -> Result<(), verbena_verbs::Error> {
        self.main.pair().attach_multicast(gid, lid)
    }

    /// Receives them no longer.
    ///
    /// # Errors
    ///
    /// The adapter refuses it.
    pub fn detach(&self, gid: Gid, lid: u16) -> Result<(), verbena_verbs::Error> {
        self.main.pair().detach_multicast(gid, lid)
    }

    /// Returns the queue pairs of connections, in connected mode.
    pub fn connected(&mut self) -> Option<&mut Connected> {
        self.connected.as_mut()
    }

    /// Returns whether [`Adapter::tick`] must be called soon.
    pub fn is_ending(&self) -> bool {
        self.connected.as_ref().is_some_and(Connected::is_ending)
    }

    /// Destroys queue pairs that have ended.
    pub fn tick(&mut self) {
        if let Some(connected) = &mut self.connected {
            connected.tick();
        }
    }

    /// Sets the time at which requests are sent and complete from now on.
    pub fn set_time(&mut self, now: Instant) {
        self.slots.set_time(now);
        if let Some(connected) = &mut self.connected {
            connected.set_time(now);
        }
    }

    /// Exchanges datagrams with subnet administration.
    ///
    /// # Errors
    ///
    /// The adapter fails.
    pub fn exchange(&mut self, with: &mut Administration, now: u64) -> Result<(), Failure> {
        let to = path_to_manager(self.port, &self.attributes);
        match &mut self.management {
            Some(management) => Ok(management.exchange(&to, with, now)?),
            None => Ok(()),
        }
    }

    /// Returns the descriptor that is readable when there is an event.
    pub fn events(&self) -> BorrowedFd<'_> {
        self.channel.as_fd()
    }
}

/// Returns the bytes of an MTU with this code.
pub fn bytes_of_mtu(code: u8) -> u32 {
    128 << code
}

/// Returns the path to the subnet manager of a port.
fn path_to_manager(port: u8, attributes: &PortAttributes) -> Path {
    Path {
        lid: attributes.manager_lid,
        gid: None,
        source_gid: 0,
        traffic_class: 0,
        service_level: attributes.manager_service_level,
        port,
    }
}
