//! Taking memory away while a peer may be accessing it.

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;
use verbena_hca_loom::access;
use verbena_hca_loom::sync::{AtomicU32, AtomicU64, Ordering};

struct Model {
    counter: AtomicU64,
    key: AtomicU32,
    memory: UnsafeCell<u64>,
}

/// Would find: a deregistration that returns while the peer, having seen the key still valid,
/// writes to the memory.
#[test]
fn memory_is_untouched_after_the_owner_waited() {
    loom::model(|| {
        let model = Arc::new(Model {
            counter: AtomicU64::new(0),
            key: AtomicU32::new(0x100),
            memory: UnsafeCell::new(0),
        });
        let peer = thread::spawn({
            let model = model.clone();
            move || {
                let Some(entered) = access::enter(&model.counter) else {
                    return;
                };
                if model.key.load(Ordering::SeqCst) == 0x100 {
                    // SAFETY: the access under test: loom reports it if it is not ordered.
                    model.memory.with_mut(|memory| unsafe { *memory = 1 });
                }
                access::leave(&model.counter, entered);
            }
        });
        model.key.store(0, Ordering::SeqCst);
        while access::open_section(&model.counter).is_some() {
            thread::yield_now();
        }
        // SAFETY: the access under test: loom reports it if it is not ordered.
        model.memory.with_mut(|memory| unsafe { *memory = 2 });
        peer.join().unwrap();
    });
}
