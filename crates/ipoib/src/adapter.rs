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

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use verbena_verbs::qp::PairType;
use verbena_verbs::qp::attributes::{Change, Connection, Path};
use verbena_verbs::qp::builder::PairOptions;
use verbena_verbs::{
    AccessFlags, AddressHandle, Buffer, Channel, CompletionQueue, Context, Event, Gid, Library,
    PortAttributes, ProtectionDomain, QueuePair, Region, SendTarget, WorkCompletion,
};

use crate::administration::record::{Local, Path as PathRecord, Properties};
use crate::administration::{Administration, Event as Answered, Refusal};
use crate::connected::{self, Completed, Connected};
use crate::connection::message::Message;
use crate::connection::{End, Pairs, Side};
use crate::encapsulation::{self, Protocol};
use crate::group;
use crate::hardware_address::{self, HardwareAddress};
use crate::lane::{DEPTH, Lane, PATIENCE, Slots};
use crate::management::{self, Management};
use crate::neighbour::Neighbour;
use crate::station::{Sent, Source};

/// Queue key of the groups where no subnet administration states one: that of OpenSM.
const QUEUE_KEY: u32 = 0x0b1b;
/// Bytes in front of each received datagram.
pub const ROUTE: usize = 40;
/// Receives and sends in flight.
const RECEIVES: usize = 2048;
const SENDS: usize = 1024;
/// Most lanes, and most address handles of groups and of neighbours that are answered.
const MOST_LANES: usize = 256;
const MOST_ADDRESSES: usize = 256;
/// The bit of a request's id that marks a receive.
pub const RECEIVE: u64 = 1 << 63;
/// Number of completions taken at once.
pub const BATCH: usize = 16;
/// Numbers of the lane to groups and of the first lane of answers.
const MAIN: u32 = 0;
const ANSWERS: u32 = 1;
/// Time for which the broadcast group is waited for: the subnet manager may have just started.
const LONGEST_JOIN: Duration = Duration::from_secs(12);
const WAIT: Duration = Duration::from_millis(100);

/// The reason why the adapter cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// A verbs call failed.
    #[error(transparent)]
    Verbs(#[from] verbena_verbs::Error),

    /// No port is active.
    #[error("{0} has no active port; check it with ibv_devinfo")]
    NoPort(String),

    /// No GID can send to the groups.
    #[error(
        "port {port} of {device} has no IPv6 GID, which the groups of IP over InfiniBand need; \
         enable IPv6 on its interface"
    )]
    NoGid {
        /// The device.
        device: String,
        /// The port.
        port: u8,
    },

    /// The port was not joined to the broadcast group.
    #[error(
        "the port could not join {group}, the broadcast group of partition {partition:#06x}: \
         {refusal}; the subnet manager makes the group if partitions.conf has the flag ipoib for \
         the partition; `saquery -g` shows the groups"
    )]
    NoBroadcast {
        /// The group.
        group: Gid,
        /// The key of the partition.
        partition: u16,
        /// The reason.
        refusal: Refusal,
    },

    /// The MTU of the broadcast group is longer than that of the port.
    #[error(
        "the MTU of {group}, the broadcast group of partition {partition:#06x}, is {mtu}, and that \
         of the port is {of_port}; set a smaller one with the flag mtu in partitions.conf"
    )]
    LongBroadcast {
        /// The group.
        group: Gid,
        /// The key of the partition.
        partition: u16,
        /// MTU of the group.
        mtu: u32,
        /// MTU of the port.
        of_port: u32,
    },
}

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

/// A lane, its destination and the time of its last use.
struct ToNeighbour {
    lane: Lane,
    address: Arc<AddressHandle>,
    key: Neighbour,
    used: u64,
}

/// The effect of events of the port.
#[derive(Debug, Clone, Copy, Default)]
pub struct PortChange {
    /// Paths to the port, or memberships, may be others.
    pub are_paths_changed: bool,
    /// Connections must be made anew: the LID of the port or the P_Key index has changed.
    pub is_moved: bool,
    /// The port is not in the partition any more.
    pub is_outside: bool,
}

/// The effect of a completion.
pub enum Completion {
    /// Nothing was received.
    Nothing,
    /// A datagram was received.
    Datagram(Received),
    /// A connection has received or failed.
    Connected(Completed),
}

/// A received datagram, of which the buffer has a copy.
pub struct Received {
    /// Its sender.
    pub source: Source,
    /// Its length.
    pub length: usize,
    /// Whether it was received.
    pub is_success: bool,
}

impl Adapter {
    /// Opens the first device of a library, and its first active port, in the partition with a key,
    /// with connections or without. On a port with a subnet manager, joins the broadcast group.
    ///
    /// # Errors
    ///
    /// No port is active, the port is not in the partition, the broadcast group is not joined, or a
    /// verbs call fails.
    pub fn open(
        library: &Arc<Library>,
        partition: u16,
        has_connections: bool,
    ) -> Result<(Adapter, Option<Administration>), Failure> {
        let context = library.device(None)?.open()?;
        let ports = context.attributes()?.ports;
        for port in 1..=ports {
            let attributes = context.port(port)?;
            if attributes.active {
                let place = (port, partition);
                return Adapter::on_port(&context, place, attributes, has_connections);
            }
        }
        Err(Failure::NoPort(context.name().to_owned()))
    }

    fn on_port(
        context: &Arc<Context>,
        (port, partition): (u8, u16),
        attributes: PortAttributes,
        has_connections: bool,
    ) -> Result<(Adapter, Option<Administration>), Failure> {
        let gid_index = match attributes.ethernet {
            false => 0,
            true => ipv6_gid(context, port, attributes.gids).ok_or_else(|| Failure::NoGid {
                device: context.name().to_owned(),
                port,
            })?,
        };
        let domain = context.protection_domain()?;
        let channel = context.channel()?;
        let (of_receives, of_sends) = match has_connections {
            true => (connected::RECEIVES, connected::SENDS),
            false => (0, 0),
        };
        let received = (RECEIVES + of_receives) as u32;
        let received = context.completion_queue(received, Some(&channel))?;
        let sent = (SENDS + of_sends) as u32;
        let sent = context.completion_queue(sent, Some(&channel))?;
        let size = attributes.mtu as usize;
        let receives = Buffer::allocate(RECEIVES * (ROUTE + size))?;
        let gid = context.gid(port, gid_index)?;
        let partition_index = context.partition(port, partition)?;
        let (management, administration) = match attributes.has_reregistration {
            true => {
                let mut management = Management::new(context, &domain, &channel)?;
                start(management.pair(), (port, 0), management::QUEUE_KEY)?;
                management.start_receiving();
                let local = Local { gid, partition };
                let joined = join_broadcast(&mut management, &channel, local, (port, &attributes))?;
                (Some(management), Some(joined))
            }
            false => (None, None),
        };
        let properties = administration.as_ref().and_then(Administration::properties);
        let options = PairOptions {
            send_depth: DEPTH as u32,
            receive_depth: RECEIVES as u32,
            receive_completions: &received,
            ..PairOptions::new(&domain, PairType::Ud, &sent)
        };
        let pair = options.create()?;
        let answers = sending_pair(&domain, &sent)?;
        let adapter = Adapter {
            context: Arc::clone(context),
            port,
            attributes,
            gid,
            gid_index,
            partition,
            partition_index,
            management,
            queue_key: properties.map_or(QUEUE_KEY, |one| one.queue_key),
            traffic_class: properties.map_or(0, |one| one.traffic_class),
            longest: properties.map_or(attributes.mtu, |one| bytes_of_mtu(one.mtu)),
            main: Lane::new(MAIN, pair),
            answers: Lane::new(ANSWERS, answers),
            lanes: HashMap::new(),
            numbers: HashMap::new(),
            newest_lane: ANSWERS,
            clock: 0,
            addresses: HashMap::new(),
            receives: domain.register(receives, AccessFlags::LOCAL)?,
            slots: Slots::new(&domain, SENDS, size, (0, DEPTH, PATIENCE))?,
            discarded: 0,
            connected: match has_connections {
                true => Some(Connected::new(&domain, [&sent, &received])?),
                false => None,
            },
            domain,
            channel,
            sent,
            received,
        };
        adapter.start(adapter.main.pair())?;
        adapter.start(adapter.answers.pair())?;
        Ok((adapter, administration))
    }

    /// Posts the receives. The thread that calls this should be the one that receives: the locks of
    /// the queues are cheapest for their first user.
    pub fn start_receiving(&mut self) {
        for index in 0..RECEIVES {
            self.post_receive(index);
        }
        if let Some(connected) = &mut self.connected {
            connected.post_receives();
        }
    }

    /// Takes a queue pair of datagrams to RTS.
    fn start(&self, pair: &QueuePair) -> Result<(), Failure> {
        start(pair, (self.port, self.partition_index), self.queue_key)
    }

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

    /// Sends a packet to a group, of which `properties` are known with a subnet manager.
    pub fn multicast(
        &mut self,
        gid: Gid,
        properties: Option<&Properties>,
        protocol: Protocol,
        packet: &[u8],
    ) -> Sent {
        let path = PathRecord {
            lid: properties.map_or(group::LID, |one| one.lid),
            service_level: properties.map_or(0, Properties::service_level),
        };
        let Ok(address) = self.address(gid, path) else {
            return Sent::Refused;
        };
        let target = SendTarget::Datagram(&address, group::QUEUE_PAIR, self.queue_key);
        self.main
            .send(&mut self.slots, target, protocol.header(), packet)
    }

    /// Returns the address handle of a port or a group.
    fn address(&mut self, gid: Gid, path: PathRecord) -> Result<Arc<AddressHandle>, Failure> {
        if let Some(known) = self.addresses.get(&(gid, path)) {
            return Ok(Arc::clone(known));
        }
        let address = self.domain.address_handle(&self.path(path, gid))?;
        if self.addresses.len() == MOST_ADDRESSES {
            self.addresses.clear();
        }
        self.addresses.insert((gid, path), Arc::clone(&address));
        Ok(address)
    }

    /// Sends an answer to a neighbour, whose queue pair may be any. Answers that wait for a stopped
    /// process are discarded as soon as they delay others.
    pub fn answer(&mut self, to: &Neighbour, protocol: Protocol, packet: &[u8]) -> Sent {
        if self.slots.are_used_up() {
            self.discard_stalled();
        }
        if self.answers.is_stalled() && self.renew_answers().is_err() {
            return Sent::Refused;
        }
        let Ok(address) = self.address(to.hardware.gid, to.path) else {
            return Sent::Refused;
        };
        let target = SendTarget::Datagram(&address, to.hardware.queue_pair, self.queue_key);
        self.answers
            .send(&mut self.slots, target, protocol.header(), packet)
    }

    /// Replaces the lane of answers by another without requests.
    fn renew_answers(&mut self) -> Result<(), Failure> {
        let lane = self.new_lane()?;
        let old = std::mem::replace(&mut self.answers, lane);
        let number = old.number();
        // The adapter reads no request of a queue pair that has been destroyed.
        drop(old);
        self.slots.release_all(number);
        Ok(())
    }

    /// Makes a lane with another number than all others.
    fn new_lane(&mut self) -> Result<Lane, Failure> {
        let pair = sending_pair(&self.domain, &self.sent)?;
        self.start(&pair)?;
        // Ids have 30 bits for it, and a number is free again long before they end.
        self.newest_lane = (self.newest_lane + 1) & 0x3fff_ffff;
        self.newest_lane = self.newest_lane.max(ANSWERS + 1);
        Ok(Lane::new(self.newest_lane, pair))
    }

    /// Sends an IP packet to a neighbour.
    pub fn unicast(&mut self, to: &Neighbour, protocol: Protocol, packet: &[u8]) -> Sent {
        if self.slots.are_used_up() {
            self.discard_stalled();
        }
        let Ok(number) = self.lane_to(*to) else {
            return Sent::Refused;
        };
        let Some(found) = self.lanes.get_mut(&number) else {
            return Sent::Refused;
        };
        let target = SendTarget::Datagram(&found.address, to.hardware.queue_pair, self.queue_key);
        found
            .lane
            .send(&mut self.slots, target, protocol.header(), packet)
    }

    /// Returns the number of the lane to a neighbour, which is made if there is none.
    fn lane_to(&mut self, key: Neighbour) -> Result<u32, Failure> {
        self.clock += 1;
        if let Some(&number) = self.numbers.get(&key) {
            if let Some(found) = self.lanes.get_mut(&number) {
                found.used = self.clock;
            }
            return Ok(number);
        }
        if self.lanes.len() == MOST_LANES {
            let oldest = self.lanes.iter().min_by_key(|(_, found)| found.used);
            if let Some(number) = oldest.map(|(number, _)| *number) {
                self.discard(number);
            }
        }
        let path = self.path(key.path, key.hardware.gid);
        let address = self.domain.address_handle(&path)?;
        let lane = self.new_lane()?;
        let number = lane.number();
        let used = self.clock;
        self.lanes.insert(
            number,
            ToNeighbour {
                lane,
                address,
                key,
                used,
            },
        );
        self.numbers.insert(key, number);
        Ok(number)
    }

    /// Discards the requests of neighbours that take nothing, so that others have slots.
    fn discard_stalled(&mut self) {
        let stalled = self
            .lanes
            .iter()
            .filter(|(_, found)| found.lane.is_stuck(PATIENCE));
        let stalled: Vec<u32> = stalled.map(|(number, _)| *number).collect();
        for number in stalled {
            self.discard(number);
        }
    }

    fn discard(&mut self, number: u32) {
        if let Some(found) = self.lanes.remove(&number) {
            self.numbers.remove(&found.key);
            self.discarded += found.lane.in_flight() as u64;
            // The adapter reads no request of a queue pair that has been destroyed.
            drop(found);
            self.slots.release_all(number);
        }
    }

    /// Returns the number of datagrams that have not been sent completely.
    pub fn in_flight(&self) -> usize {
        let to_neighbours = self.lanes.values().map(|found| found.lane.in_flight());
        let connected = self.connected.as_ref().map_or(0, Connected::in_flight);
        self.main.in_flight() + self.answers.in_flight() + to_neighbours.sum::<usize>() + connected
    }

    /// Returns the number of IP packets that were discarded after they had been sent, once.
    pub fn take_discarded(&mut self) -> u64 {
        std::mem::take(&mut self.discarded)
    }

    /// Takes completions of receives; returns their number.
    ///
    /// # Errors
    ///
    /// The adapter fails.
    pub fn poll(&self, into: &mut [WorkCompletion; BATCH]) -> Result<usize, Failure> {
        Ok(self.received.poll(into, |completion| *completion)?)
    }

    /// Takes completions of requests; returns their number.
    ///
    /// # Errors
    ///
    /// The adapter fails.
    pub fn poll_sent(&self, into: &mut [WorkCompletion; BATCH]) -> Result<usize, Failure> {
        Ok(self.sent.poll(into, |completion| *completion)?)
    }

    /// Returns the queue pairs of connections, in connected mode.
    pub fn connected(&mut self) -> Option<&mut Connected> {
        self.connected.as_mut()
    }

    /// Uses a completion. Copies the datagram of a receive into `buffer`, which is not shorter than
    /// the port's MTU.
    pub fn complete(&mut self, completion: &WorkCompletion, buffer: &mut [u8]) -> Completion {
        if completion.id & connected::CONNECTED != 0 {
            let connected = self.connected.as_mut();
            let completed = connected.map(|connected| connected.complete(completion));
            return completed.map_or(Completion::Nothing, Completion::Connected);
        }
        if completion.id & RECEIVE == 0 {
            let number = (completion.id >> 32) as u32;
            let lane = match number {
                MAIN => Some(&mut self.main),
                number if number == self.answers.number() => Some(&mut self.answers),
                number => self.lanes.get_mut(&number).map(|found| &mut found.lane),
            };
            if let Some(lane) = lane {
                lane.complete(&mut self.slots, completion.id);
            }
            return Completion::Nothing;
        }
        let index = (completion.id & !RECEIVE) as usize;
        let at = index * (ROUTE + self.attributes.mtu as usize);
        let length = (completion.length as usize)
            .saturating_sub(ROUTE)
            .min(buffer.len());
        let mut gid = [0; 16];
        let is_success = completion.status.is_success()
            && self.receives.read(at + 8, &mut gid).is_ok()
            && self
                .receives
                .read(at + ROUTE, &mut buffer[..length])
                .is_ok();
        self.post_receive(index);
        Completion::Datagram(Received {
            source: Source {
                queue_pair: completion.source,
                path: PathRecord {
                    lid: completion.source_lid,
                    service_level: 0,
                },
                gid: completion.has_route.then_some(Gid(gid)),
            },
            length,
            is_success,
        })
    }

    fn post_receive(&self, index: usize) {
        let size = ROUTE + self.attributes.mtu as usize;
        let id = RECEIVE | index as u64;
        if let Some(segment) = self.receives.part(index * size, size) {
            // Refused only if the queue pair has failed, and then nothing is received.
            let _ = self.main.pair().post_receive_one(id, segment);
        }
    }

    /// Requests an event for the next receive, and for the next completion of a request if packets
    /// wait for one.
    ///
    /// # Errors
    ///
    /// The adapter fails.
    pub fn arm(&self, is_blocked: bool) -> Result<(), Failure> {
        if let Some(management) = &self.management {
            management.arm()?;
        }
        if is_blocked {
            self.sent.arm()?;
        }
        Ok(self.received.arm()?)
    }

    /// Takes an event, for which [`Adapter::events`] is readable.
    ///
    /// # Errors
    ///
    /// The adapter fails.
    pub fn take_event(&self) -> Result<(), Failure> {
        self.channel.wait(Duration::ZERO)?;
        Ok(())
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

    /// Returns the descriptor that is readable when an event of the port waits.
    pub fn port_events(&self) -> BorrowedFd<'_> {
        self.context.events()
    }

    /// Takes the events of the port, and uses the P_Key index that they state. Returns `None`
    /// if nothing has changed.
    ///
    /// # Errors
    ///
    /// The adapter fails.
    pub fn take_port_events(&mut self) -> Result<Option<PortChange>, Failure> {
        let mut change = PortChange::default();
        while let Some(event) = self.context.take_event()? {
            change.are_paths_changed |= event == Event::Paths;
            if event == Event::Partitions {
                match self.context.partition(self.port, self.partition) {
                    Ok(index) => {
                        change.are_paths_changed = true;
                        change.is_moved |= index != self.partition_index;
                        change.is_outside = false;
                        self.move_to(index, self.queue_key)?;
                    }
                    Err(_) => change.is_outside = true,
                }
            }
        }
        if !change.are_paths_changed {
            return Ok(change.is_outside.then_some(change));
        }
        let before = self.attributes.lid;
        self.attributes = PortAttributes {
            // The memory for datagrams does not grow.
            mtu: self.attributes.mtu,
            mtu_code: self.attributes.mtu_code,
            ..self.context.port(self.port)?
        };
        change.is_moved |= self.attributes.lid != before;
        Ok(Some(change))
    }

    /// Uses other properties of the broadcast group.
    ///
    /// # Errors
    ///
    /// The adapter refuses the queue key.
    pub fn set_properties(&mut self, properties: &Properties) -> Result<(), Failure> {
        self.addresses.clear();
        if self.traffic_class != properties.traffic_class {
            self.traffic_class = properties.traffic_class;
            self.discard_lanes();
        }
        self.move_to(self.partition_index, properties.queue_key)
    }

    /// Moves the queue pairs of datagrams to another P_Key index or queue key. Requests that wait
    /// for neighbours are discarded.
    fn move_to(&mut self, partition_index: u16, queue_key: u32) -> Result<(), Failure> {
        if (partition_index, queue_key) == (self.partition_index, self.queue_key) {
            return Ok(());
        }
        (self.partition_index, self.queue_key) = (partition_index, queue_key);
        for change in [
            Change::to_drained(),
            Change::while_drained(partition_index, queue_key),
            Change::from_drained(),
        ] {
            self.main.pair().modify(&change)?;
        }
        self.discard_lanes();
        self.renew_answers()
    }

    fn discard_lanes(&mut self) {
        for number in self.lanes.keys().copied().collect::<Vec<_>>() {
            self.discard(number);
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

impl Pairs for Adapter {
    fn create(&mut self, id: u32, side: Side) -> Option<u32> {
        let port = (self.port, self.partition_index);
        self.connected.as_mut()?.create(id, side, port)
    }

    fn connect(&mut self, id: u32, peer: &Neighbour, end: &End, psn: u32, side: Side) -> bool {
        let code = match side {
            Side::Sender => self.attributes.mtu_code,
            // The receiver of a request accepts no longer packets than its port has.
            Side::Receiver if end.path_mtu > self.path_mtu() => return false,
            Side::Receiver => end.path_mtu.into(),
        };
        let path = self.path(peer.path, peer.hardware.gid);
        let connected = self.connected.as_ref();
        connected.is_some_and(|connected| connected.connect(id, path, code, end, psn))
    }

    fn destroy(&mut self, id: u32) {
        if let Some(connected) = &mut self.connected {
            self.discarded += connected.destroy(id) as u64;
        }
    }

    fn send(&mut self, id: u32, protocol: Protocol, packet: &[u8]) -> Sent {
        match &mut self.connected {
            Some(connected) => connected.send(id, protocol.header(), packet),
            None => Sent::Refused,
        }
    }

    fn tell(&mut self, to: &Neighbour, message: &Message) {
        // Messages that are lost are sent again, or their connections found to be unused.
        let _ = self.answer(to, Protocol::Connection, &message.bytes());
    }
}

/// Takes a queue pair of datagrams to RTS, in the partition with an index.
fn start(pair: &QueuePair, (port, partition): (u8, u16), queue_key: u32) -> Result<(), Failure> {
    let change = Change::to_init(PairType::Ud, port, AccessFlags::LOCAL, queue_key);
    pair.modify(&change.in_partition(partition))?;
    // Datagram pairs use the sequence number of it alone.
    let path = Path {
        lid: 0,
        gid: None,
        source_gid: 0,
        traffic_class: 0,
        service_level: 0,
        port,
    };
    let connection = Connection {
        path,
        peer: 0,
        peer_psn: 0,
        psn: 0,
        mtu_code: 1,
        reads_served: 0,
        reads_initiated: 0,
        timeout: 0,
        retries: 0,
        rnr_retries: 0,
    };
    pair.modify(&Change::to_rtr(PairType::Ud, &connection))?;
    pair.modify(&Change::to_rts(PairType::Ud, &connection))?;
    Ok(())
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

/// Joins the broadcast group of a partition.
fn join_broadcast(
    management: &mut Management,
    channel: &Channel,
    local: Local,
    (port, attributes): (u8, &PortAttributes),
) -> Result<Administration, Failure> {
    let (group, partition) = (group::broadcast(local.partition), local.partition);
    let to = path_to_manager(port, attributes);
    let start = Instant::now();
    // Transactions of several interfaces and of earlier ones should differ.
    let first = RandomState::new().hash_one(management.pair().number());
    let mut administration = Administration::new(local, group, first, 0);
    let refused = |refusal| Failure::NoBroadcast {
        group,
        partition,
        refusal,
    };
    loop {
        let now = start.elapsed().as_millis() as u64;
        administration.tick(now);
        management.arm()?;
        management.exchange(&to, &mut administration, now)?;
        let events = administration.take_events();
        for event in &events {
            if let Answered::Refused(_, refusal @ (Refusal::Status(_) | Refusal::Invalid)) = event {
                return Err(refused(*refusal));
            }
        }
        if let Some(properties) = administration.properties() {
            let mtu = bytes_of_mtu(properties.mtu);
            if mtu > attributes.mtu {
                return Err(Failure::LongBroadcast {
                    group,
                    partition,
                    mtu,
                    of_port: attributes.mtu,
                });
            }
            administration.put_back(events);
            return Ok(administration);
        }
        if start.elapsed() >= LONGEST_JOIN {
            return Err(refused(Refusal::Unanswered));
        }
        channel.wait(WAIT)?;
    }
}

/// Makes a queue pair that sends.
fn sending_pair(
    domain: &Arc<ProtectionDomain>,
    completions: &Arc<CompletionQueue>,
) -> Result<QueuePair, Failure> {
    let options = PairOptions {
        send_depth: DEPTH as u32,
        receive_depth: 0,
        ..PairOptions::new(domain, PairType::Ud, completions)
    };
    Ok(options.create()?)
}

/// Returns the index of the first IPv6 GID of an Ethernet port.
fn ipv6_gid(context: &Context, port: u8, gids: u32) -> Option<u8> {
    let indices = 0..u8::try_from(gids).unwrap_or(u8::MAX);
    let is_ipv6 = |index: &u8| {
        context.gid(port, *index).is_ok_and(|gid| {
            let address = std::net::Ipv6Addr::from(gid.0);
            !address.is_unspecified() && address.to_ipv4_mapped().is_none()
        })
    };
    indices.into_iter().find(is_ipv6)
}
