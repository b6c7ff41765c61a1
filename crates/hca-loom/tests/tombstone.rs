//! An atomic whose word is moved away takes effect once. Without the second check of the right, or
//! without the exchange, it is lost or done twice.

use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering, fence};
use loom::thread;
use verbena_hca_loom::tombstone;

const NONCE: u64 = 1 << 40;

#[derive(Default)]
struct World {
    /// 0: the word is at its old place; 1: peers cannot reach it.
    hidden: AtomicU64,
    old: AtomicU64,
    word: AtomicU64,
    tombstone: AtomicU64,
}

/// Returns whether the atomic counts.
fn add_one(world: &World, looks_again: bool) -> bool {
    if world.hidden.load(Ordering::SeqCst) != 0 {
        return false;
    }
    tombstone::announce(&world.word, &world.tombstone, 7);
    if looks_again && world.hidden.load(Ordering::SeqCst) != 0 {
        tombstone::withdraw(&world.word);
        return false;
    }
    let found = world.old.fetch_add(1, Ordering::SeqCst);
    fence(Ordering::Acquire);
    let held = world.hidden.load(Ordering::SeqCst) == 0;
    let counts = held || !tombstone::was_void(&world.tombstone, found);
    tombstone::withdraw(&world.word);
    counts
}

/// Moves the word; returns its value at the new place.
fn move_away(world: &World) -> u64 {
    world.hidden.store(1, Ordering::SeqCst);
    fence(Ordering::SeqCst);
    let announced = tombstone::announced(&world.word);
    let copied = world.old.load(Ordering::SeqCst);
    match announced {
        Some(7) => {
            tombstone::write_nonce(&world.tombstone, NONCE);
            tombstone::retire(&world.old, NONCE)
        }
        _ => copied,
    }
}

fn run(looks_again: bool) {
    loom::model(move || {
        let world = Arc::new(World::default());
        let theirs = world.clone();
        let requester = thread::spawn(move || add_one(&theirs, looks_again));
        let value = move_away(&world);
        let counts = requester.join().unwrap();
        assert_eq!(
            value,
            u64::from(counts),
            "each counted entry is present once"
        );
    });
}

#[test]
fn atomic_takes_effect_once() {
    run(true);
}

#[test]
#[should_panic(expected = "each counted entry is present")]
fn without_the_second_look_the_atomic_is_lost() {
    run(false);
}
