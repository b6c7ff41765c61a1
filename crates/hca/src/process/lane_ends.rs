//! The private state of lanes at both ends ([`verbena_hca_shm::lane`]): which numbers are taken at
//! the producer, and how far the consumer is.

use crate::process::next_record::NextRecord;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use verbena_hca_os::held::Held;
use verbena_hca_os::lock::Lock;
use verbena_hca_shm::channel::{Channel, LANES, Lane};
use verbena_hca_shm::context_table::{ContextTable, QpRecord};
use verbena_hca_shm::lane;

/// Lane numbers of a channel at its producer.
#[derive(Default)]
pub struct LaneNumbers(Mutex<Numbers>);

#[derive(Default)]
struct Numbers {
    /// The first number that was never used.
    next: u32,
    /// Lanes that were released.
    free: Vec<FreeLane>,
}

/// A lane that no queue pair sends by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FreeLane {
    /// Its number.
    pub number: u32,
    /// Position behind the last message.
    pub tail: u32,
    /// Its last generation.
    pub generation: u16,
}

impl LaneNumbers {
    /// Takes a lane that is empty.
    pub fn take(&self, channel: &Channel) -> Option<FreeLane> {
        let mut numbers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_empty = |one: &FreeLane| lane::released(&channel.lane(one.number)) == one.tail;
        if let Some(index) = numbers.free.iter().position(is_empty) {
            return Some(numbers.free.swap_remove(index));
        }
        let number = numbers.next;
        (number < LANES).then(|| {
            numbers.next += 1;
            FreeLane {
                number,
                ..FreeLane::default()
            }
        })
    }

    /// Releases a lane. It is used again once the consumer has emptied it.
    pub fn release(&self, lane: FreeLane) {
        let mut numbers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        numbers.free.push(lane);
    }
}

/// A queue pair in one incarnation, by number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LaneEnd {
    /// Its number.
    pub number: u32,
    /// Its incarnation.
    pub incarnation: u32,
}

/// A lane at its consumer. It shares no cache line: threads write to it with each message.
#[repr(align(128))]
pub struct LaneIn<Q> {
    /// Its number in the channel.
    pub number: u32,
    /// Hints for looks without the lock: the position that the consumer has reached.
    position: AtomicU32,
    next: NextRecord,
    /// Position of the message that the progress thread saw at its last look.
    seen: AtomicU64,
    /// The consumer's state; its lock admits one thread at a time, so order is kept.
    pub state: Lock<LaneState<Q>>,
}

/// Value of `seen` when there was no message; positions never reach it.
const NOTHING: u64 = u64::MAX;

/// The consumer's state of a lane.
pub struct LaneState<Q> {
    /// The lane's number in the channel.
    pub number_in_channel: u32,
    /// Position of the next message.
    pub position: u32,
    /// Generation of the lane, by the last notice.
    pub generation: u16,
    /// The queue pair that sends.
    pub source: LaneEnd,
    /// The queue pair that receives.
    pub destination: LaneEnd,
    /// The same, until it is destroyed.
    pub queue_pair: Option<Arc<Q>>,
    /// The gates with which messages need no other check of the two queue pairs.
    pub gates: Option<OpenGates>,
}

/// The gates of the two queue pairs of a lane, as they were when both were found ready for plain
/// messages.
pub struct OpenGates {
    /// Of the queue pair that receives.
    pub receiver: OpenGate,
    /// Of the queue pair that sends.
    pub sender: OpenGate,
}

/// A queue pair's gate and a value that it had.
pub struct OpenGate {
    record: Held<QpRecord, ContextTable>,
    value: u32,
}

impl OpenGate {
    /// Returns the gate of a queue pair as it is now.
    pub fn of(contexts: &Arc<ContextTable>, number: u32) -> OpenGate {
        let record = Held::new(contexts, |contexts| contexts.queue_pair(number));
        // SYNC POINT gate.
        let value = record.gate.load(Ordering::SeqCst);
        OpenGate { record, value }
    }

    /// Returns the queue pair's record.
    #[inline]
    pub fn record(&self) -> &QpRecord {
        &self.record
    }

    /// Returns whether the gate has not changed since.
    #[inline]
    pub fn is_unchanged(&self) -> bool {
        // SYNC POINT gate.
        self.record.gate.load(Ordering::SeqCst) == self.value
    }
}

impl<Q> LaneIn<Q> {
    /// Returns an unused lane, in memory that lives at least as long.
    pub fn new(number: u32, memory: Lane<'_>) -> LaneIn<Q> {
        LaneIn {
            number,
            position: AtomicU32::new(0),
            next: NextRecord::in_lane(memory, 0),
            seen: AtomicU64::new(NOTHING),
            state: Lock::new(LaneState {
                number_in_channel: number,
                position: 0,
                generation: 0,
                source: LaneEnd::default(),
                destination: LaneEnd::default(),
                queue_pair: None,
                gates: None,
            }),
        }
    }

    /// Returns whether a message is published, by one look and without the lock. If another thread
    /// is serving, the result may be stale, but that thread looks again before it stops.
    #[inline]
    pub fn has_message(&self) -> bool {
        self.next.is_published()
    }

    /// Returns the position of the next message, if it is published, like
    /// [`LaneIn::has_message`].
    pub fn next_message(&self) -> Option<u32> {
        let next = self.position.load(Ordering::Relaxed);
        self.has_message().then_some(next)
    }

    /// Returns whether a message is published that was already published at the last call. For the
    /// progress thread.
    pub fn has_left_message(&self) -> bool {
        let next = self.next_message().map_or(NOTHING, u64::from);
        self.seen.swap(next, Ordering::Relaxed) == next && next != NOTHING
    }

    /// Notes the position that serving has reached.
    #[inline]
    pub fn note_position(&self, state: &LaneState<Q>, memory: Lane<'_>) {
        self.position.store(state.position, Ordering::Relaxed);
        self.next.note_in_lane(memory, state.position);
    }
}
