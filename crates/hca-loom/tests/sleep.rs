//! Going to sleep without missing a ring: `sleep.rs` and its conditions on callers. A test
//! whose name begins with `without` breaks one of the conditions, and must find a lost wake-up.

use loom::sync::atomic::AtomicBool;
use loom::sync::{Arc, Mutex};
use loom::thread;
use verbena_hca_loom::sleep;
use verbena_hca_loom::sync::{AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};

/// State shared by a sleeper and its wakers.
#[derive(Default)]
struct Bed {
    armed: AtomicU64,
    /// Whether a ring has not been taken yet.
    rung: AtomicBool,
}

impl Bed {
    /// Rings as a publisher that has never rung.
    fn ring_if_armed(&self) {
        self.ring_again_if_armed(&AtomicU64::new(0));
    }

    /// Rings as a publisher that last rang for `rung`.
    fn ring_again_if_armed(&self, rung: &AtomicU64) {
        sleep::ring_if_armed(&self.armed, rung, || {
            self.rung.store(true, Ordering::SeqCst);
            true
        });
    }
}

/// Would find: data published for a process that then sleeps without having been rung.
#[test]
fn record_published_before_sleep_is_seen_or_rung_for() {
    loom::model(|| {
        let bed = Arc::new(Bed::default());
        let published = Arc::new(AtomicU32::new(0));
        let peer = thread::spawn({
            let (bed, published) = (bed.clone(), published.clone());
            move || {
                published.store(1, Ordering::Release);
                bed.ring_if_armed();
            }
        });
        let sleeps = sleep::before_sleep(&bed.armed, || published.load(Ordering::Acquire) == 1);
        peer.join().unwrap();
        assert!(
            !sleeps || bed.rung.load(Ordering::SeqCst),
            "it would sleep for ever"
        );
    });
}

/// As above, with two publishers: the ring of one must not stand for the other's.
#[test]
fn records_of_two_publishers_are_seen_or_rung_for() {
    loom::model(|| {
        let bed = Arc::new(Bed::default());
        let published = Arc::new([AtomicU32::new(0), AtomicU32::new(0)]);
        let peers: Vec<_> = (0..2)
            .map(|index: usize| {
                let (bed, published) = (bed.clone(), published.clone());
                thread::spawn(move || {
                    published[index].store(1, Ordering::Release);
                    bed.ring_if_armed();
                })
            })
            .collect();
        let look = || published.iter().all(|one| one.load(Ordering::Acquire) == 1);
        let mut all = false;
        let sleeps = sleep::before_sleep(&bed.armed, || {
            all = look();
            all
        });
        for peer in peers {
            peer.join().unwrap();
        }
        assert!(!sleeps || bed.rung.load(Ordering::SeqCst));
    });
}

/// An application begins to wait for events, by `want`, while the progress thread wakes up.
fn woken_while_events_are_wanted(want: fn(&AtomicU64, &AtomicUsize)) {
    loom::model(move || {
        let bed = Arc::new(Bed::default());
        let armings = Arc::new(AtomicUsize::new(0));
        sleep::arm(&bed.armed);
        let application = thread::spawn({
            let (bed, armings) = (bed.clone(), armings.clone());
            move || want(&bed.armed, &armings)
        });
        sleep::after_sleep(&bed.armed, || armings.load(Ordering::SeqCst) > 0);
        application.join().unwrap();
        assert!(sleep::is_armed(bed.armed.load(Ordering::SeqCst)));
    });
}

/// Would find: a disarming that undoes the arming of a thread that has just begun to wait for
/// events (a completion queue armed while the progress thread wakes up).
#[test]
fn wake_up_keeps_rings_armed_for_a_new_event_waiter() {
    woken_while_events_are_wanted(sleep::want_rings);
}

/// The same for a thread that arms a queue again that is already armed.
#[test]
fn wake_up_keeps_rings_armed_for_a_rearming_event_waiter() {
    woken_while_events_are_wanted(sleep::want_rings_still);
}

/// Would find: as the first, over a whole turn of the progress thread: awake, asleep, and a
/// publication in between.
#[test]
fn record_published_during_wake_up_is_found_by_next_look() {
    loom::model(|| {
        let bed = Arc::new(Bed::default());
        let published = Arc::new(AtomicU32::new(0));
        sleep::arm(&bed.armed);
        let peer = thread::spawn({
            let (bed, published) = (bed.clone(), published.clone());
            move || {
                published.store(1, Ordering::Release);
                bed.ring_if_armed();
            }
        });
        let look = || published.load(Ordering::Acquire) == 1;
        sleep::after_sleep(&bed.armed, || false);
        // Rings are kept until they are taken, which was before it disarmed.
        let sleeps = !look() && sleep::before_sleep(&bed.armed, look);
        peer.join().unwrap();
        assert!(!sleeps || bed.rung.load(Ordering::SeqCst));
    });
}

/// The value that a sleeper writes before it looks once more.
#[derive(Clone, Copy)]
enum Arming {
    WithANewValue,
    WithTheSameValue,
}

/// A publisher that publishes twice, and a sleeper that was woken by the first ring, if there was
/// one, and sleeps again.
fn rung_for_once_and_published_twice(arming: Arming) {
    loom::model(move || {
        let bed = Arc::new(Bed::default());
        let published = Arc::new(AtomicU32::new(0));
        sleep::arm(&bed.armed);
        let first = bed.armed.load(Ordering::Relaxed);
        let peer = thread::spawn({
            let (bed, published) = (bed.clone(), published.clone());
            move || {
                let rung = AtomicU64::new(0);
                for count in 1..=2 {
                    published.store(count, Ordering::Release);
                    bed.ring_again_if_armed(&rung);
                }
            }
        });
        // It is awake, takes the rings so far, and goes on.
        bed.rung.swap(false, Ordering::SeqCst);
        sleep::after_sleep(&bed.armed, || false);
        let mut seen = published.load(Ordering::Acquire);
        let sleeps = sleep::before_sleep(&bed.armed, || {
            if let Arming::WithTheSameValue = arming {
                bed.armed.store(first, Ordering::SeqCst);
                fence(Ordering::SeqCst);
            }
            let before = std::mem::replace(&mut seen, published.load(Ordering::Acquire));
            seen != before
        });
        peer.join().unwrap();
        assert!(
            seen == 2 || !sleeps || bed.rung.load(Ordering::SeqCst),
            "it would sleep for ever"
        );
    });
}

/// Would find: a peer that rings once for two armings.
#[test]
fn publisher_rings_again_for_the_next_sleep() {
    rung_for_once_and_published_twice(Arming::WithANewValue);
}

#[test]
#[should_panic(expected = "sleep for ever")]
fn without_a_new_value_a_wake_up_is_lost() {
    rung_for_once_and_published_twice(Arming::WithTheSameValue);
}

#[derive(Clone, Copy)]
enum LastLook {
    WaitsForTheLock,
    LeavesItToLockHolder,
}

/// The second condition: the sleeper's last look, while a thread of the application looks too.
fn last_look_beside_another(last: LastLook) {
    loom::model(move || {
        let bed = Arc::new(Bed::default());
        let published = Arc::new(AtomicU32::new(0));
        let served = Arc::new(Mutex::new(false));
        let look = |served: &mut bool, published: &AtomicU32| {
            *served |= published.load(Ordering::Acquire) == 1;
        };
        let peer = thread::spawn({
            let (bed, published) = (bed.clone(), published.clone());
            move || {
                published.store(1, Ordering::Release);
                bed.ring_if_armed();
            }
        });
        let poller = thread::spawn({
            let (published, served) = (published.clone(), served.clone());
            move || {
                if let Ok(mut served) = served.try_lock() {
                    look(&mut served, &published);
                }
            }
        });
        sleep::before_sleep(&bed.armed, || {
            match last {
                LastLook::WaitsForTheLock => look(&mut served.lock().unwrap(), &published),
                LastLook::LeavesItToLockHolder => {
                    if let Ok(mut served) = served.try_lock() {
                        look(&mut served, &published);
                    }
                }
            }
            false
        });
        peer.join().unwrap();
        poller.join().unwrap();
        assert!(
            *served.lock().unwrap() || bed.rung.load(Ordering::SeqCst),
            "it would sleep for ever"
        );
    });
}

#[test]
fn last_look_does_not_rely_on_another_threads_look() {
    last_look_beside_another(LastLook::WaitsForTheLock);
}

#[test]
#[should_panic(expected = "sleep for ever")]
fn without_waiting_for_the_lock_a_wake_up_is_lost() {
    last_look_beside_another(LastLook::LeavesItToLockHolder);
}
