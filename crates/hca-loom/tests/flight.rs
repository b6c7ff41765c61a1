//! Sleeping on a channel: the words of `flight.rs` with the protocol of `sleep.rs`. A
//! test whose name begins with `without` has the order that the adapter once had, and must find the
//! wake-up that it lost.
//!
//! A channel is modelled as a count of published records and one of consumed records, each written
//! by one side.

use loom::sync::atomic::AtomicBool;
use loom::sync::{Arc, Mutex};
use loom::thread;
use verbena_hca_loom::flight::Flight;
use verbena_hca_loom::sleep;
use verbena_hca_loom::sync::{AtomicU64, Ordering};

#[derive(Default)]
struct Channel {
    /// Records in the ring.
    published: AtomicU64,
    /// The responder's position.
    head: AtomicU64,
    /// The requester's lock-free state.
    flight: Flight,
    /// The requester's private state.
    sending: Mutex<Sending>,
    /// Of the requester's progress thread.
    armed: AtomicU64,
    rung: AtomicBool,
}

#[derive(Default)]
struct Sending {
    tail: u64,
    starving: bool,
    completed: u64,
}

/// Capacity of the ring in records.
const ROOM: u64 = 1;

#[derive(Clone, Copy, PartialEq)]
enum Announce {
    BeforePublishing,
    AfterPublishing,
}

#[derive(Clone, Copy, PartialEq)]
enum Starve {
    UnderTheLockOfThePush,
    UnderALockOfItsOwn,
}

impl Channel {
    /// The application's thread pushes a request; false when there is no space.
    fn push(&self, sending: &mut Sending, announce: Announce) -> bool {
        if sending.tail - self.head.load(Ordering::Acquire) >= ROOM {
            return false;
        }
        sending.tail += 1;
        if announce == Announce::BeforePublishing {
            self.flight.announce(sending.tail);
        }
        self.published.store(sending.tail, Ordering::Release);
        if announce == Announce::AfterPublishing {
            self.flight.announce(sending.tail);
        }
        true
    }

    /// The responder consumes the published records, and rings for the requester if it may sleep.
    fn respond(&self) {
        let published = self.published.load(Ordering::Acquire);
        if published > self.head.load(Ordering::Relaxed) {
            self.head.store(published, Ordering::Release);
            sleep::ring_if_armed(&self.armed, &AtomicU64::new(0), || {
                self.rung.store(true, Ordering::SeqCst);
                true
            });
        }
    }

    /// A look by the requester: completes consumed records, and wakes a queue pair that waits for
    /// space. Returns whether there was anything.
    fn look(&self, announce: Announce) -> bool {
        if self.flight.is_idle() {
            return false;
        }
        let head = self.head.load(Ordering::Acquire);
        if !self.flight.has_news(head) {
            return false;
        }
        let mut sending = self.sending.lock().unwrap();
        sending.completed = head;
        if std::mem::take(&mut sending.starving) {
            assert!(self.push(&mut sending, announce), "there is room now");
        }
        // Last, after the consumed records are complete.
        self.flight.note_acknowledged(head);
        true
    }
}

/// The application posts one request and waits for an event, which the progress thread would raise.
fn one_request(announce: Announce) {
    loom::model(move || {
        let channel = Arc::new(Channel::default());
        let application = thread::spawn({
            let channel = channel.clone();
            move || assert!(channel.push(&mut channel.sending.lock().unwrap(), announce))
        });
        let responder = thread::spawn({
            let channel = channel.clone();
            move || channel.respond()
        });
        let sleeps = sleep::before_sleep(&channel.armed, || channel.look(announce));
        application.join().unwrap();
        responder.join().unwrap();
        let completed = channel.sending.lock().unwrap().completed;
        // Consumed, not completed, asleep and not rung: the event never comes.
        assert!(
            channel.head.load(Ordering::Acquire) == completed
                || !sleeps
                || channel.rung.load(Ordering::SeqCst),
            "an event is lost"
        );
    });
}

/// Would find: a record that can be answered before it is announced, so that the channel seems idle
/// to a thread that goes to sleep waiting for the answer.
#[test]
fn record_is_announced_before_it_can_be_answered() {
    one_request(Announce::BeforePublishing);
}

#[test]
#[should_panic(expected = "an event is lost")]
fn without_announcing_first_an_event_is_lost() {
    one_request(Announce::AfterPublishing);
}

/// The ring is full. A queue pair wants to push one more and waits for space, while the responder
/// frees space and a polling thread completes.
fn full_ring(starve: Starve) {
    loom::model(move || {
        let announce = Announce::BeforePublishing;
        let channel = Arc::new(Channel::default());
        assert!(channel.push(&mut channel.sending.lock().unwrap(), announce));
        let posting = thread::spawn({
            let channel = channel.clone();
            move || {
                let mut sending = channel.sending.lock().unwrap();
                if channel.push(&mut sending, announce) {
                    return;
                }
                if starve == Starve::UnderALockOfItsOwn {
                    drop(sending);
                    // Loom does not switch threads at the release of a lock without this.
                    thread::yield_now();
                    sending = channel.sending.lock().unwrap();
                }
                sending.starving = true;
            }
        });
        let responder = thread::spawn({
            let channel = channel.clone();
            move || channel.respond()
        });
        let polling = thread::spawn({
            let channel = channel.clone();
            move || {
                channel.look(announce);
            }
        });
        posting.join().unwrap();
        responder.join().unwrap();
        polling.join().unwrap();
        // From here on the responder and the polling thread alternate, and nothing else happens.
        for _ in 0..2 {
            channel.respond();
            channel.look(announce);
        }
        let sending = channel.sending.lock().unwrap();
        assert_eq!(
            (sending.tail, sending.starving),
            (2, false),
            "a queue pair is stuck"
        );
    });
}

/// Would find: a queue pair that waits for space that was made, and completed, before it began to
/// wait: the channel is idle then, and no thread looks at it any more.
#[test]
fn queue_pair_waiting_for_room_is_woken_by_completion() {
    full_ring(Starve::UnderTheLockOfThePush);
}

#[test]
#[should_panic(expected = "a queue pair is stuck")]
fn without_the_lock_of_the_push_a_queue_pair_is_stuck() {
    full_ring(Starve::UnderALockOfItsOwn);
}

/// As the first, with all parts together: the ring is full, the queue pair waits, the requester's
/// thread goes to sleep.
#[test]
fn sleeping_thread_is_woken_for_awaited_room() {
    loom::model(|| {
        let announce = Announce::BeforePublishing;
        let channel = Arc::new(Channel::default());
        assert!(channel.push(&mut channel.sending.lock().unwrap(), announce));
        let posting = thread::spawn({
            let channel = channel.clone();
            move || {
                let mut sending = channel.sending.lock().unwrap();
                if !channel.push(&mut sending, announce) {
                    sending.starving = true;
                }
            }
        });
        let responder = thread::spawn({
            let channel = channel.clone();
            move || channel.respond()
        });
        let sleeps = sleep::before_sleep(&channel.armed, || channel.look(announce));
        posting.join().unwrap();
        responder.join().unwrap();
        let sending = channel.sending.lock().unwrap();
        assert!(
            !sending.starving || !sleeps || channel.rung.load(Ordering::SeqCst),
            "a queue pair is stuck"
        );
    });
}
