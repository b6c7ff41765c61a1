//! Going to sleep without missing a ring: the progress thread's side and a peer's, as `process/thread.rs` and
//! `Peer::wake` do it.

use loom::sync::atomic::{AtomicBool, AtomicU32, Ordering, fence};
use loom::sync::{Arc, Mutex};
use loom::thread;

/// Would find: something stored for a process that then sleeps without having been rung.
#[test]
fn what_is_stored_before_the_sleep_is_seen_or_rung_for() {
    loom::model(|| {
        let stored = Arc::new(AtomicU32::new(0));
        let armed = Arc::new(AtomicU32::new(0));
        let rung = Arc::new(AtomicBool::new(false));
        let peer = thread::spawn({
            let (stored, armed, rung) = (stored.clone(), armed.clone(), rung.clone());
            move || {
                stored.store(1, Ordering::Release);
                fence(Ordering::SeqCst);
                if armed.load(Ordering::SeqCst) != 0 {
                    rung.store(true, Ordering::SeqCst);
                }
            }
        });
        armed.store(1, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        let seen = stored.load(Ordering::Acquire) == 1;
        peer.join().unwrap();
        assert!(
            seen || rung.load(Ordering::SeqCst),
            "the process would sleep for ever"
        );
    });
}

/// Would find: the progress thread leaving a peer to a polling thread that holds its lock, and sleeping, when that
/// thread had looked before the peer stored. So it waits for the lock in its last look (`progress_before_sleep`).
#[test]
fn a_look_before_sleep_does_not_rely_on_another_threads_look() {
    loom::model(|| {
        let stored = Arc::new(AtomicU32::new(0));
        let armed = Arc::new(AtomicU32::new(0));
        let rung = Arc::new(AtomicBool::new(false));
        let served = Arc::new(Mutex::new(false));
        let look = |served: &mut bool, stored: &AtomicU32| {
            *served |= stored.load(Ordering::Acquire) == 1;
        };
        let peer = thread::spawn({
            let (stored, armed, rung) = (stored.clone(), armed.clone(), rung.clone());
            move || {
                stored.store(1, Ordering::Release);
                fence(Ordering::SeqCst);
                if armed.load(Ordering::SeqCst) != 0 {
                    rung.store(true, Ordering::SeqCst);
                }
            }
        });
        let poller = thread::spawn({
            let (stored, served) = (stored.clone(), served.clone());
            move || {
                if let Ok(mut served) = served.try_lock() {
                    look(&mut served, &stored);
                }
            }
        });
        armed.store(1, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        look(&mut served.lock().unwrap(), &stored);
        peer.join().unwrap();
        poller.join().unwrap();
        assert!(
            *served.lock().unwrap() || rung.load(Ordering::SeqCst),
            "the process would sleep for ever"
        );
    });
}
