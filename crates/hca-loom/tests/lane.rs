//! Lanes between one producer and one consumer: slots, the head as an acknowledgement, when it is
//! left to a later look, the gate, and the order between a lane and its channel. A test whose name
//! begins with `without` leaves a step of the protocol out, and must find the fault.

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;
use std::convert::Infallible;
use verbena_hca_loom::lane::{self, Header, SLOT, Store};
use verbena_hca_loom::lane_flight::LaneFlight;
use verbena_hca_loom::sleep;
use verbena_hca_loom::sync::{AtomicBool, AtomicU32, AtomicU64, Ordering, model_fence};

const SLOTS: usize = 2;

struct Model {
    stamps: [AtomicU32; SLOTS],
    slots: [UnsafeCell<[u8; SLOT]>; SLOTS],
    head: AtomicU32,
    /// Answers on the channel: the number of the message that was refused, plus one.
    answer: AtomicU32,
    /// Records in the channel.
    records: AtomicU32,
    gate: AtomicU32,
    state: AtomicU32,
    armed: AtomicU64,
    rung: AtomicBool,
}

impl Model {
    fn new() -> Model {
        Model {
            stamps: std::array::from_fn(|_| AtomicU32::new(0)),
            slots: std::array::from_fn(|_| UnsafeCell::new([0; SLOT])),
            head: AtomicU32::new(0),
            answer: AtomicU32::new(0),
            records: AtomicU32::new(0),
            gate: AtomicU32::new(0),
            state: AtomicU32::new(READY),
            armed: AtomicU64::new(0),
            rung: AtomicBool::new(false),
        }
    }
}

// SAFETY: always two slots; the arrays check the indices.
unsafe impl Store for Model {
    fn slots(&self) -> u32 {
        SLOTS as u32
    }
    fn stamp(&self, index: u32) -> &AtomicU32 {
        &self.stamps[index as usize]
    }
    fn head(&self) -> &AtomicU32 {
        &self.head
    }
    fn readable(&self, index: u32) -> *const u8 {
        // Loom reports an error here if a write is not ordered before this read.
        self.slots[index as usize].with(|slot| slot.cast())
    }
    fn writable(&self, index: u32) -> *mut u8 {
        // Loom reports an error here if a read is not ordered before this write.
        self.slots[index as usize].with_mut(|slot| slot.cast())
    }
}

/// States of a queue pair.
const READY: u32 = 3;
const ENDED: u32 = 6;

fn publish(model: &Model, position: u32) {
    let header = Header {
        psn_and_lane: position,
        ..Header::default()
    };
    let Ok(()) = lane::publish(model, position, header, |_| Ok::<(), Infallible>(()));
}

/// Publishes a message if the consumer has released its slot.
fn try_publish(model: &Model, position: u32) -> bool {
    let has_free = position.wrapping_sub(lane::released(model)) < SLOTS as u32;
    if has_free {
        publish(model, position);
    }
    has_free
}

/// Would find: a stamp that is published before the message, or a head that is published before
/// the last read.
#[test]
fn messages_arrive_whole_in_order_before_slots_are_reused() {
    loom::model(|| {
        let model = Arc::new(Model::new());
        for position in 0..2 {
            publish(&model, position);
        }
        let producer = thread::spawn({
            let model = model.clone();
            move || (2..5).take_while(|one| try_publish(&model, *one)).count()
        });
        let mut position = 0;
        for _ in 0..3 {
            if let Some(message) = lane::peek(&*model, position, 0) {
                assert_eq!(message.header.psn_and_lane, position);
                position += 1;
                lane::release(&*model, position);
            }
        }
        let published = producer.join().unwrap() as u32;
        while let Some(message) = lane::peek(&*model, position, 0) {
            assert_eq!(message.header.psn_and_lane, position);
            position += 1;
        }
        assert_eq!(position, 2 + published);
    });
}

#[derive(Clone, Copy, PartialEq)]
enum Answers {
    BeforeTheHead,
    AfterTheHead,
}

/// The consumer refuses the only message. The producer must not take it for delivered.
fn refusal(answers: Answers) {
    loom::model(move || {
        let model = Arc::new(Model::new());
        publish(&model, 0);
        let consumer = thread::spawn({
            let model = model.clone();
            move || {
                if answers == Answers::AfterTheHead {
                    lane::release(&*model, 1);
                }
                model.answer.store(1, Ordering::Release);
                lane::release(&*model, 1);
            }
        });
        let head = lane::released(&*model);
        let is_refused = model.answer.load(Ordering::Acquire) == 1;
        assert!(head == 0 || is_refused, "acknowledged before the answer");
        consumer.join().unwrap();
    });
}

#[test]
fn answers_are_seen_before_the_head_that_passes_their_messages() {
    refusal(Answers::BeforeTheHead);
}

#[test]
#[should_panic(expected = "acknowledged before the answer")]
fn without_the_answer_before_the_head() {
    refusal(Answers::AfterTheHead);
}

#[derive(Clone, Copy, PartialEq)]
enum Echo {
    BehindTheAnswer,
    BeforeTheAnswer,
}

/// The consumer refuses the only message of a lane, and another thread of its
/// process sends a message back, which carries the acknowledgement. The producer takes the answer,
/// and uses the slot again.
fn echo(echo: Echo) {
    loom::model(move || {
        let (there, back) = (Arc::new(Model::new()), Arc::new(Model::new()));
        // What `ReceivedByLane` holds.
        let received = Arc::new(AtomicU32::new(0));
        publish(&there, 0);
        let consumer = thread::spawn({
            let (there, received) = (there.clone(), received.clone());
            move || {
                let message = lane::peek(&*there, 0, 0);
                assert!(message.is_some());
                if echo == Echo::BeforeTheAnswer {
                    received.store(1, Ordering::Release);
                }
                there.answer.store(1, Ordering::Release);
                lane::release(&*there, 1);
                received.store(1, Ordering::Release);
            }
        });
        let poster = thread::spawn({
            let back = back.clone();
            move || {
                let header = Header {
                    acknowledged: received.load(Ordering::Acquire),
                    ..Header::default()
                };
                let fill = |_| Ok::<(), Infallible>(());
                let Ok(()) = lane::publish(&*back, 0, header, fill);
            }
        });
        if let Some(message) = lane::peek(&*back, 0, 0)
            && message.header.acknowledged == 1
        {
            let is_refused = there.answer.load(Ordering::Acquire) == 1;
            assert!(is_refused, "acknowledged before the answer");
            publish(&there, SLOTS as u32);
        }
        consumer.join().unwrap();
        poster.join().unwrap();
    });
}

#[test]
fn message_back_acknowledges_behind_the_answers() {
    echo(Echo::BehindTheAnswer);
}

#[test]
#[should_panic(expected = "acknowledged before the answer")]
fn without_the_answer_before_the_message_back() {
    echo(Echo::BeforeTheAnswer);
}

#[derive(Clone, Copy, PartialEq)]
enum Await {
    BeforePublishing,
    AfterPublishing,
}

/// A thread sends a message whose acknowledgement is awaited. Another one finds the acknowledgement
/// and leaves it to a later look if nothing awaits it.
fn leave(order: Await) {
    loom::model(move || {
        let model = Arc::new(Model::new());
        let flight = Arc::new(LaneFlight::new(0));
        let consumer = thread::spawn({
            let model = model.clone();
            move || {
                if lane::peek(&*model, 0, 0).is_some() {
                    lane::release(&*model, 1);
                }
            }
        });
        let producer = thread::spawn({
            let (model, flight) = (model.clone(), flight.clone());
            move || {
                if order == Await::BeforePublishing {
                    flight.await_until(1);
                }
                flight.announce(1);
                publish(&model, 0);
                if order == Await::AfterPublishing {
                    flight.await_until(1);
                }
            }
        });
        let head = lane::released(&*model);
        if head == 1 {
            assert!(!flight.leaves(head), "left although awaited");
        }
        consumer.join().unwrap();
        producer.join().unwrap();
    });
}

#[test]
fn awaited_acknowledgement_is_never_left() {
    leave(Await::BeforePublishing);
}

#[test]
#[should_panic(expected = "left although awaited")]
fn without_awaiting_before_publishing() {
    leave(Await::AfterPublishing);
}

/// A slot whose release one thread finds and leaves, and another one takes, is written again only
/// after the consumer's last read. Would find: `passed` without Release or Acquire.
#[test]
fn left_acknowledgement_hands_on_the_slot() {
    loom::model(|| {
        let model = Arc::new(Model::new());
        let flight = Arc::new(LaneFlight::new(0));
        flight.announce(1);
        publish(&model, 0);
        let consumer = thread::spawn({
            let model = model.clone();
            move || {
                if lane::peek(&*model, 0, 0).is_some() {
                    lane::release(&*model, 1);
                }
            }
        });
        let poller = thread::spawn({
            let (model, flight) = (model.clone(), flight.clone());
            move || {
                let head = lane::released(&*model);
                head == 1 && flight.leaves(head)
            }
        });
        if flight.take_left() == 1 {
            publish(&model, SLOTS as u32);
        }
        consumer.join().unwrap();
        poller.join().unwrap();
    });
}

#[derive(Clone, Copy, PartialEq)]
enum Older {
    First,
    Ignored,
}

/// The producer sends a message by the lane and then a record by the channel.
fn order(older: Older) {
    loom::model(move || {
        let model = Arc::new(Model::new());
        let producer = thread::spawn({
            let model = model.clone();
            move || {
                publish(&model, 0);
                model.records.store(1, Ordering::Release);
            }
        });
        let mut served = 0;
        let mut serve_lane = || {
            if lane::is_published(&*model, served) {
                served += 1;
            }
            served
        };
        if model.records.load(Ordering::Acquire) == 1 {
            let before = match older {
                Older::First => serve_lane(),
                Older::Ignored => 0,
            };
            assert_eq!(before, 1, "the record overtook the message");
        }
        producer.join().unwrap();
    });
}

#[test]
fn records_are_served_after_older_messages() {
    order(Older::First);
}

#[test]
#[should_panic(expected = "the record overtook the message")]
fn without_the_look_at_the_lane_before_a_record() {
    order(Older::Ignored);
}

/// The lane goes over to another connection: the notice is in the channel before the message is in
/// the lane, but the consumer looks at the lane first.
fn reopening(generation: u16) {
    loom::model(move || {
        let model = Arc::new(Model::new());
        let producer = thread::spawn({
            let model = model.clone();
            move || {
                model.records.store(1, Ordering::Release);
                let header = Header {
                    generation,
                    ..Header::default()
                };
                let fill = |_| Ok::<(), Infallible>(());
                let Ok(()) = lane::publish(&*model, 0, header, fill);
            }
        });
        let is_notified = model.records.load(Ordering::Acquire) == 1;
        let is_found = lane::peek(&*model, 0, u16::from(is_notified)).is_some();
        assert!(!is_found || is_notified, "served for the old connection");
        producer.join().unwrap();
    });
}

#[test]
fn messages_behind_a_notice_wait_for_it() {
    reopening(1);
}

#[test]
#[should_panic(expected = "served for the old connection")]
fn without_a_new_generation() {
    reopening(0);
}

#[derive(Clone, Copy, PartialEq)]
enum Gate {
    AfterTheState,
    BeforeTheState,
}

/// The consumer notes the gate, then checks the state; the other side ends the connection, and
/// afterwards the consumer looks at the gate alone.
fn end(gate: Gate) {
    loom::model(move || {
        let model = Arc::new(Model::new());
        let ending = thread::spawn({
            let model = model.clone();
            move || {
                if gate == Gate::BeforeTheState {
                    model.gate.store(1, Ordering::SeqCst);
                }
                model.state.store(ENDED, Ordering::SeqCst);
                if gate == Gate::AfterTheState {
                    model.gate.store(1, Ordering::SeqCst);
                }
            }
        });
        let noted = model.gate.load(Ordering::SeqCst);
        model_fence();
        let is_ready = model.state.load(Ordering::SeqCst) == READY;
        ending.join().unwrap();
        let is_open = is_ready && model.gate.load(Ordering::SeqCst) == noted;
        assert!(!is_open, "the gate of an ended connection is open");
    });
}

#[test]
fn gate_that_was_noted_closes_with_the_state() {
    end(Gate::AfterTheState);
}

#[test]
#[should_panic(expected = "the gate of an ended connection is open")]
fn without_the_state_before_the_gate() {
    end(Gate::BeforeTheState);
}

/// The consumer goes to sleep while a message is published.
fn sleep_on_a_lane(rings: bool) {
    loom::model(move || {
        let model = Arc::new(Model::new());
        let producer = thread::spawn({
            let model = model.clone();
            move || {
                publish(&model, 0);
                if rings {
                    sleep::ring_if_armed(&model.armed, &AtomicU64::new(0), || {
                        model.rung.store(true, Ordering::SeqCst);
                        true
                    });
                }
            }
        });
        let look = || lane::is_published(&*model, 0);
        let sleeps = sleep::before_sleep(&model.armed, look);
        producer.join().unwrap();
        let is_woken = model.rung.load(Ordering::SeqCst);
        assert!(!sleeps || is_woken, "sleeps beside a message");
    });
}

#[test]
fn sleeper_finds_the_message_or_is_woken() {
    sleep_on_a_lane(true);
}

#[test]
#[should_panic(expected = "sleeps beside a message")]
fn without_the_look_for_a_sleeper() {
    sleep_on_a_lane(false);
}
