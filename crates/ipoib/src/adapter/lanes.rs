//! Sending datagrams: to groups, to neighbours, and answers.

use std::sync::Arc;

use verbena_verbs::{AddressHandle, Gid, SendTarget};

use super::failure::Failure;
use super::opening::sending_pair;
use super::{ANSWERS, Adapter};
use crate::administration::record::{Path as PathRecord, Properties};
use crate::connected::Connected;
use crate::encapsulation::Protocol;
use crate::group;
use crate::lane::{Lane, PATIENCE, Slots};
use crate::neighbour::Neighbour;
use crate::segment::Segments;
use crate::station::Sent;

/// Most lanes, and most address handles of groups and of neighbours that are answered.
const MOST_LANES: usize = 256;
const MOST_ADDRESSES: usize = 256;

/// A lane, its destination and the time of its last use.
pub(super) struct ToNeighbour {
    pub(super) lane: Lane,
    address: Arc<AddressHandle>,
    key: Neighbour,
    used: u64,
}

impl Adapter {
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
    pub(super) fn renew_answers(&mut self) -> Result<(), Failure> {
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
        self.to(to, |lane, slots, target| {
            lane.send(slots, target, protocol.header(), packet)
        })
        .unwrap_or(Sent::Refused)
    }

    /// Sends segments of a long packet to a neighbour, none of which is longer than
    /// [`Adapter::mtu`], while it takes them. Returns the numbers of those that were sent, and of
    /// those that were refused.
    pub fn unicast_segments(
        &mut self,
        to: &Neighbour,
        protocol: Protocol,
        segments: &mut Segments,
    ) -> (u64, u64) {
        self.to(to, |lane, slots, target| {
            lane.send_segments(slots, target, protocol.header(), segments)
        })
        .unwrap_or((0, 0))
    }

    /// Calls a function with the lane to a neighbour, unless none can be made.
    fn to<R>(
        &mut self,
        to: &Neighbour,
        send: impl FnOnce(&mut Lane, &mut Slots, SendTarget<'_>) -> R,
    ) -> Option<R> {
        if self.slots.are_used_up() {
            self.discard_stalled();
        }
        let number = self.lane_to(*to).ok()?;
        let found = self.lanes.get_mut(&number)?;
        let target = SendTarget::Datagram(&found.address, to.hardware.queue_pair, self.queue_key);
        Some(send(&mut found.lane, &mut self.slots, target))
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

    pub(super) fn discard(&mut self, number: u32) {
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
}
