//! The queue pairs of connections, their shared receive queue and their memory.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use verbena_verbs::qp::PairType;
use verbena_verbs::qp::attributes::{Change, Connection, Path};
use verbena_verbs::qp::builder::PairOptions;
use verbena_verbs::{
    AccessFlags, Buffer, CompletionQueue, ProtectionDomain, QueuePair, Region, SendTarget,
    SharedReceiveQueue, WorkCompletion,
};

use crate::adapter::RECEIVE;
use crate::connection::{self, End, Side};
use crate::encapsulation;
use crate::lane::{Lane, Slots};
use crate::receives::{self, Receives};
use crate::station::Sent;

/// Longest IP packet of a connection: Linux's.
pub const LONGEST_MTU: u32 = 65_520;
/// Bytes of a receive.
const SIZE: usize = 1 << 16;
/// Bytes of a request: a header, and the longest packet of the device, which may have to be cut.
const SLOT: usize = SIZE + 64;
/// Receives, and requests in flight: of all connections, and of one.
pub const RECEIVES: usize = receives::MOST;
pub const SENDS: usize = 128;
const DEPTH: usize = 48;
/// Time after which a receiver that takes nothing is no longer waited for. It has a queue of its
/// own to fill, so that is rare, and the retransmissions of TCP take longer.
const PATIENCE: Duration = Duration::from_millis(100);
/// The bit of a request's id that marks those of connections.
pub const CONNECTED: u64 = 1 << 62;
/// Acknowledgement timeout (67 ms) and retries.
const TIMEOUT: u8 = 14;
const RETRIES: u8 = 7;
/// A receiver that is not ready is waited for.
const RNR_RETRIES: u8 = 7;
/// Queue pairs that wait for the end of their requests from which on no others are made: as many as
/// there are connections, which end together after a change of the port.
const MOST_ENDING: usize = 2 * connection::MOST;

/// A completion of a connection.
#[derive(Debug, Clone, Copy)]
pub enum Completed {
    /// A request was sent.
    Sent,
    /// The queue pair of a connection has failed.
    Failed(u32),
    /// A message of this length was received from a connection.
    Received(Message),
    /// A message of a connection that has been closed, or a receive that failed.
    Lost,
    /// A request of a connection that has been closed.
    Nothing,
}

/// A received message in its buffer.
#[derive(Debug, Clone, Copy)]
pub struct Message {
    /// The connection's number.
    pub id: u32,
    /// The buffer's number.
    pub buffer: u32,
    /// Its length.
    pub length: usize,
}

/// The queue pairs of connections.
pub struct Connected {
    domain: Arc<ProtectionDomain>,
    sent: Arc<CompletionQueue>,
    received: Arc<CompletionQueue>,
    shared: Arc<SharedReceiveQueue>,
    receives: Receives,
    memory: Region,
    slots: Slots,
    lanes: HashMap<u32, Lane>,
    /// Connections that receive by the numbers of their queue pairs.
    numbers: HashMap<u32, u32>,
    /// Queue pairs in the error state, whose requests are flushed.
    ending: Vec<Ending>,
}

/// A queue pair that waits for the end of its requests: if it were destroyed before, its
/// completions would be lost, and with them buffers of the shared queue.
struct Ending {
    id: u32,
    _pair: QueuePair,
    stage: Stage,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Its requests are being flushed.
    Flushing,
    /// They have had time to be.
    Flushed,
    /// All completions from before have been taken.
    Drained,
}

impl Connected {
    /// Makes the shared receive queue.
    ///
    /// # Errors
    ///
    /// A verbs call fails.
    pub fn new(
        domain: &Arc<ProtectionDomain>,
        [sent, received]: [&Arc<CompletionQueue>; 2],
    ) -> verbena_verbs::Result<Connected> {
        let memory = Buffer::allocate(RECEIVES * SIZE)?;
        Ok(Connected {
            domain: Arc::clone(domain),
            sent: Arc::clone(sent),
            received: Arc::clone(received),
            shared: domain.shared_receive_queue(RECEIVES as u32, 1)?,
            receives: Receives::new(),
            memory: domain.register(memory, AccessFlags::LOCAL)?,
            slots: Slots::new(domain, SENDS, SLOT, (CONNECTED, DEPTH, PATIENCE))?,
            lanes: HashMap::new(),
            numbers: HashMap::new(),
            ending: Vec::new(),
        })
    }

    /// Takes back the buffer of a message that has been used.
    pub fn release(&mut self, buffer: u32) {
        self.receives.release(buffer);
        self.post_receives();
    }

    /// Posts as many receives as connections need.
    pub fn post_receives(&mut self) {
        while let Some(buffer) = self.receives.next() {
            let id = RECEIVE | CONNECTED | u64::from(buffer);
            if let Some(segment) = self.memory.part(buffer as usize * SIZE, SIZE) {
                // It is never refused: the queue is as deep as there are buffers.
                let _ = self.shared.post_receive_one(id, segment);
            }
        }
    }

    /// Makes a queue pair of a connection in INIT. Returns its number.
    pub fn create(
        &mut self,
        id: u32,
        side: Side,
        (port, partition_index): (u8, u16),
    ) -> Option<u32> {
        if self.ending.len() >= MOST_ENDING {
            return None;
        }
        let options = PairOptions {
            send_depth: DEPTH as u32,
            receive_depth: 0,
            // A sender has no receives, so peers can use none by its connections.
            shared: (side == Side::Receiver).then_some(&self.shared),
            receive_completions: &self.received,
            ..PairOptions::new(&self.domain, PairType::Rc, &self.sent)
        };
        let pair = options.create().ok()?;
        let change = Change::to_init(PairType::Rc, port, AccessFlags::LOCAL, 0);
        pair.modify(&change.in_partition(partition_index)).ok()?;
        let number = pair.number();
        if side == Side::Receiver {
            self.numbers.insert(number, id);
            self.receives.open();
            self.post_receives();
        }
        self.lanes.insert(id, Lane::new(id, pair));
        Some(number)
    }

    /// Connects a queue pair with the peer's. Returns whether it succeeded.
    pub fn connect(&self, id: u32, path: Path, mtu_code: u32, end: &End, psn: u32) -> bool {
        let Some(lane) = self.lanes.get(&id) else {
            return false;
        };
        let connection = Connection {
            path,
            peer: end.queue_pair,
            peer_psn: end.psn,
            psn,
            mtu_code,
            reads_served: 0,
            reads_initiated: 0,
            timeout: TIMEOUT,
            retries: RETRIES,
            rnr_retries: RNR_RETRIES,
        };
        let changes = [
            Change::to_rtr(PairType::Rc, &connection),
            Change::to_rts(PairType::Rc, &connection),
        ];
        changes
            .iter()
            .all(|change| lane.pair().modify(change).is_ok())
    }

    /// Destroys a queue pair. Returns the number of its requests that have not completed.
    pub fn destroy(&mut self, id: u32) -> usize {
        let Some(lane) = self.lanes.remove(&id) else {
            return 0;
        };
        if self.numbers.remove(&lane.pair().number()).is_some() {
            self.receives.close();
        }
        let in_flight = lane.in_flight();
        let pair = lane.into_pair();
        // It fails if the adapter has failed, and then nothing completes any more.
        let _ = pair.modify(&Change::to_error());
        self.ending.push(Ending {
            id,
            _pair: pair,
            stage: Stage::Flushing,
        });
        in_flight
    }

    /// Destroys the queue pairs whose requests have been flushed. Called from time to time.
    pub fn tick(&mut self) {
        let slots = &mut self.slots;
        self.ending.retain_mut(|one| match one.stage {
            Stage::Drained => {
                // The adapter reads no request of a queue pair in the error state.
                slots.release_all(one.id);
                false
            }
            Stage::Flushed => true,
            Stage::Flushing => {
                one.stage = Stage::Flushed;
                true
            }
        });
    }

    /// Notes that there are no completions of receives.
    pub fn note_drained(&mut self) {
        for one in &mut self.ending {
            if one.stage == Stage::Flushed {
                one.stage = Stage::Drained;
            }
        }
    }

    /// Returns whether [`Connected::tick`] must be called soon.
    pub fn is_ending(&self) -> bool {
        !self.ending.is_empty()
    }

    /// Sets the time at which requests are sent and complete from now on.
    pub fn set_time(&mut self, now: Instant) {
        self.slots.set_time(now);
    }

    /// Returns whether every slot is in use.
    pub fn are_slots_used_up(&self) -> bool {
        self.slots.are_used_up()
    }

    /// Returns the connections whose peers take nothing.
    pub fn stalled(&self) -> Vec<u32> {
        let stalled = self
            .lanes
            .iter()
            .filter(|(_, lane)| lane.is_stuck(PATIENCE));
        stalled.map(|(id, _)| *id).collect()
    }

    /// Returns the number of requests that have not completed.
    pub fn in_flight(&self) -> usize {
        self.lanes.values().map(Lane::in_flight).sum()
    }

    /// Sends a packet behind a header.
    pub fn send(&mut self, id: u32, header: [u8; encapsulation::LENGTH], packet: &[u8]) -> Sent {
        match self.lanes.get_mut(&id) {
            Some(lane) => lane.send(&mut self.slots, SendTarget::Connected, header, packet),
            None => Sent::Refused,
        }
    }

    /// Returns a slot for a packet of any connection. It stays free until it is sent.
    pub fn next_slot(&self) -> Option<u32> {
        self.slots.next_free()
    }

    /// Returns a slot's memory: the region, and where its message starts.
    pub fn slot(&self, slot: u32) -> (&Region, usize) {
        self.slots.place(slot)
    }

    /// Sends the first bytes of a slot. The connection may be busy.
    pub fn send_slot(&mut self, id: u32, slot: u32, length: usize) -> Sent {
        let Some(lane) = self.lanes.get_mut(&id) else {
            return Sent::Refused;
        };
        match lane.slot(&self.slots) {
            Some(free) if free == slot => {
                lane.post(&mut self.slots, SendTarget::Connected, slot, length)
            }
            _ => Sent::Busy,
        }
    }

    /// Uses a completion.
    pub fn complete(&mut self, completion: &WorkCompletion) -> Completed {
        if completion.id & RECEIVE == 0 {
            let id = (completion.id & !CONNECTED) >> 32;
            let id = id as u32;
            let Some(lane) = self.lanes.get_mut(&id) else {
                // Its queue pair is ending, and the request has been counted.
                self.slots.release(completion.id as u32);
                return Completed::Nothing;
            };
            if !completion.status.is_success() {
                // It stays in flight, so that it counts as lost when the queue pair is destroyed.
                self.slots.release(completion.id as u32);
                return Completed::Failed(id);
            }
            lane.complete(&mut self.slots, completion.id);
            return Completed::Sent;
        }
        let buffer = completion.id as u32;
        self.receives.complete();
        match self.numbers.get(&completion.pair) {
            Some(&id) if completion.status.is_success() => Completed::Received(Message {
                id,
                buffer,
                length: (completion.length as usize).min(SIZE),
            }),
            _ => {
                self.release(buffer);
                match completion.status.is_flushed() {
                    true => Completed::Nothing,
                    false => Completed::Lost,
                }
            }
        }
    }

    /// Returns the memory of received messages, and where one starts.
    pub fn message(&self, message: &Message) -> (&Region, usize) {
        (&self.memory, message.buffer as usize * SIZE)
    }
}
