//! A process with callers that send nothing, half a message, or invalid ones, and one without free
//! descriptors: legitimate callers get through.

use crate::rig::{Adapter, Running, connect, heard, message, say, scratch};
use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use verbena_hca::qp::Qp;
use verbena_hca_os::errno::Errno;
use verbena_hca_os::socket::Socket;
use verbena_hca_shm::registry::{self, SLOTS};

/// Callers that send nothing: more than are accepted at once.
const SILENT: usize = SLOTS + 200;

#[test]
fn valid_caller_connects_despite_invalid_callers() {
    let directory = scratch("callers");
    Running::start(&directory, "callers::host").wait();
    assert!(!directory.exists(), "the last one out removes the registry");
}

/// Starts a guest and returns it with the queue pair that is to receive from it. It has not
/// connected yet.
fn invite(adapter: &Adapter) -> (Running, Arc<Qp>) {
    let mut guest = Running::start(&registry::directory(), "callers::guest");
    let number = guest.hear("number").parse().unwrap();
    let queue_pair = adapter.queue_pair();
    connect(&queue_pair, number);
    queue_pair.post_receive(1, &[]).unwrap();
    (guest, queue_pair)
}

#[test]
#[ignore = "a child of the test above"]
fn guest() {
    let adapter = Adapter::open();
    let queue_pair: Arc<Qp> = adapter.queue_pair();
    say(&format!("number {}", queue_pair.number()));
    connect(&queue_pair, heard().trim().parse().unwrap());
    queue_pair.poster().post(&message()).unwrap();
    adapter.complete(1);
}

#[test]
#[ignore = "a child of the test above"]
fn host() {
    allow_many_descriptors();
    let adapter = Adapter::open();
    adapter.queue_pair();
    let member = adapter.context.process.join().unwrap();
    let identity = member.identity;
    let path = registry::directory().join(format!("{}.{}", identity.slot, identity.generation));

    // Connections with invalid messages are closed.
    let hello = |slot: u32, generation: u32| words(*b"verbena2", 1, slot, generation);
    let nonsense: [Vec<u8>; 6] = [
        vec![7; 10],
        vec![7; 72],
        vec![7; 4096],
        words(*b"verbena2", 99, 0, 0),
        // With the identity of the process itself, and of a process that does not exist.
        hello(identity.slot, identity.generation),
        hello(identity.slot + 1, 1),
    ];
    for bytes in nonsense {
        let caller = call(&path);
        caller.send(&bytes, &[]).unwrap();
        hung_up_on(&caller);
    }

    // Callers that send nothing are too many, and the first of them are dropped.
    let silent: Vec<Socket> = (0..SILENT).map(|_| call(&path)).collect();
    let (mut guest, queue_pair) = invite(&adapter);
    guest.write_line(&queue_pair.number().to_string());
    adapter.complete(1);
    guest.wait();
    hung_up_on(&silent[0]);
    drop(silent);

    // No descriptor is left when the guest connects; it gets through when there is one again.
    let (mut guest, queue_pair) = invite(&adapter);
    let taken: Vec<File> = std::iter::from_fn(|| File::open("/dev/null").ok()).collect();
    guest.write_line(&queue_pair.number().to_string());
    // Time for a vain attempt to connect; nothing depends on it.
    std::thread::sleep(Duration::from_millis(100));
    drop(taken);
    adapter.complete(1);
    guest.wait();
}

/// Connects, as soon as the accept queue has space.
fn call(path: &Path) -> Socket {
    loop {
        match Socket::connect(path) {
            Err(Errno::EAGAIN) => std::thread::sleep(Duration::from_millis(1)),
            socket => return socket.unwrap(),
        }
    }
}

fn hung_up_on(caller: &Socket) {
    caller.wait_readable(crate::rig::LIMIT).unwrap();
    let mut buffer = [0; 128];
    match caller.receive(&mut buffer) {
        Ok(received) => assert_eq!(received.length, 0, "nothing is answered"),
        Err(error) => assert_eq!(error, Errno(libc::ECONNRESET)),
    }
}

/// Returns a message in the format of `socket_message.rs` of hca-memory, with all other words 0.
fn words(magic: [u8; 8], kind: u64, slot: u32, generation: u32) -> Vec<u8> {
    let mut bytes = magic.to_vec();
    for word in [kind, slot.into(), generation.into(), 0, 0, 0, 0, 0] {
        bytes.extend(word.to_le_bytes());
    }
    bytes
}

fn allow_many_descriptors() {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: `limit` is valid for both calls.
    unsafe {
        libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit);
        limit.rlim_cur = limit.rlim_max.min(8192);
        libc::setrlimit(libc::RLIMIT_NOFILE, &limit);
    }
}
