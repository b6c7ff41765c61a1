//! Registered pages that move to another place in the arena while they are in use.

use crate::rig::*;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use verbena_abi::*;
use verbena_hca::process::Process;
use verbena_hca::qp::SendRequest;
use verbena_hca_memory::evict::evict;
use verbena_hca_memory::process_memory::ProcessMemory;
use verbena_hca_memory::quarantine::Release;
use verbena_hca_memory::region::{Change, Region};

/// Two of these tests at once would move pages faster than the arena recovers them.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

fn release_when(word: &Arc<AtomicBool>) -> Release {
    let word = word.clone();
    Arc::new(move || word.load(Ordering::SeqCst))
}

/// Returns the number of pieces of the arena that wait for this release.
fn kept_by(release: &Release) -> usize {
    Arc::strong_count(release) - 1
}

fn quarantined(memory: &ProcessMemory) -> u64 {
    memory.arena().map_or(0, |arena| arena.quarantined())
}

#[test]
#[ignore = "run by path"]
fn case_pages_move_under_their_keys_while_peers_write() {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(|e| e.into_inner());
    const LENGTH: usize = 96 * 1024;
    let (a, b) = pair(IBV_QPT_RC);
    let memory = Process::current().unwrap().memory.clone();
    let over = Arc::new(AtomicBool::new(false));
    let release = release_when(&over);
    let (key, address) = (b.region.key(), b.address(4096));
    let stop = Arc::new(AtomicBool::new(false));
    let mover = {
        let (stop, memory, release) = (stop.clone(), memory.clone(), release.clone());
        std::thread::spawn(move || {
            let mut moved = 0u64;
            while !stop.load(Ordering::SeqCst) && moved < 200 {
                evict(&memory, key, &|| drop(memory.wait_for_sections()), &release).unwrap();
                moved += 1;
            }
            moved
        })
    };
    for round in 0..300u32 {
        pattern(&mut a.buffer[..LENGTH], round as u8);
        let sges = [a.sge(0, LENGTH)];
        a.post(&SendRequestTo(address, key).write(&sges));
        a.wait_ok();
        assert_eq!(b.buffer[4096..4096 + LENGTH], a.buffer[..LENGTH], "{round}");
        // The owner's own writes are kept too.
        b.buffer[4096] ^= 0xff;
        let own = b.buffer[4096];
        let sges = [a.sge(LENGTH, 8)];
        a.post(&SendRequestTo(address, key).read(&sges));
        a.wait_ok();
        assert_eq!(a.buffer[LENGTH], own, "{round}");
    }
    stop.store(true, Ordering::SeqCst);
    let moved = mover.join().unwrap();
    assert!(moved > 0);
    let pages = (BUFFER as u64 / 4096) * 4096;
    // Other tests running beside this one may keep pages in quarantine too: on a busy machine their
    // threads are preempted inside a section.
    assert!(quarantined(&memory) >= moved * pages);
    assert!(kept_by(&release) as u64 >= moved);
    let kept = b.buffer[..8192].to_vec();
    b.region.deregister().unwrap();
    assert_eq!(b.buffer[..8192], kept);
    over.store(true, Ordering::SeqCst);
    memory.arena().unwrap().sweep();
    assert_eq!(kept_by(&release), 0);
    assert!(
        evict(&memory, key, &|| (), &release).is_err(),
        "no such key"
    );
}

#[test]
#[ignore = "run by path"]
fn case_messages_from_moving_pages_arrive_whole() {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(|e| e.into_inner());
    const EACH: usize = 16_000;
    const IN_FLIGHT: usize = 8;
    let (a, b) = pair(IBV_QPT_RC);
    let memory = Process::current().unwrap().memory.clone();
    let over = Arc::new(AtomicBool::new(false));
    let release = release_when(&over);
    let key = a.region.key();
    let stop = Arc::new(AtomicBool::new(false));
    let mover = {
        let (stop, memory, release) = (stop.clone(), memory.clone(), release.clone());
        std::thread::spawn(move || {
            for _ in 0..200 {
                if stop.load(Ordering::SeqCst) {
                    return;
                }
                let fence = || drop(memory.wait_for_sections());
                evict(&memory, key, &fence, &release).unwrap();
            }
        })
    };
    for round in 0..300u32 {
        pattern(&mut a.buffer[..IN_FLIGHT * EACH], round as u8);
        for index in 0..IN_FLIGHT {
            b.receive(index as u64, index * EACH, EACH);
        }
        for index in 0..IN_FLIGHT {
            let sges = [a.sge(index * EACH, EACH)];
            a.post(&SendRequest {
                wr_id: index as u64,
                ..request(IBV_WR_SEND, &sges)
            });
        }
        for index in 0..IN_FLIGHT as u64 {
            assert_eq!(b.wait_ok().wr_id, index, "{round}");
        }
        for index in 0..IN_FLIGHT as u64 {
            assert_eq!(a.wait_ok().wr_id, index, "{round}");
        }
        assert_eq!(
            b.buffer[..IN_FLIGHT * EACH],
            a.buffer[..IN_FLIGHT * EACH],
            "{round}"
        );
    }
    stop.store(true, Ordering::SeqCst);
    mover.join().unwrap();
    over.store(true, Ordering::SeqCst);
    memory.arena().unwrap().sweep();
}

/// Builds requests to one remote address.
struct SendRequestTo(u64, u32);

impl SendRequestTo {
    fn write<'a>(&self, sges: &'a [ibv_sge]) -> SendRequest<'a> {
        self.to(request(IBV_WR_RDMA_WRITE, sges))
    }

    fn read<'a>(&self, sges: &'a [ibv_sge]) -> SendRequest<'a> {
        self.to(request(IBV_WR_RDMA_READ, sges))
    }

    fn to<'a>(&self, request: SendRequest<'a>) -> SendRequest<'a> {
        verbena_hca::qp::SendRequest {
            remote_address: self.0,
            rkey: self.1,
            ..request
        }
    }
}

#[test]
#[ignore = "run by path"]
fn case_memory_outside_a_shrunk_region_is_unreachable_and_private() {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(|e| e.into_inner());
    let (a, b) = pair(IBV_QPT_RC);
    let memory = pages(4 * 4096);
    let address = memory.as_ptr() as u64;
    let access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
    let region = Region::register(&b.pd, address, 4 * 4096, address, access).unwrap();
    let sges = [a.sge(0, 8)];
    a.post(&SendRequestTo(address, region.key()).write(&sges));
    a.wait_ok();
    let half = Change {
        translation: Some((address + 2 * 4096, 2 * 4096)),
        ..Change::default()
    };
    region.reregister(half).unwrap();
    // SAFETY: memory of this test; dropped pages are written before they are read again.
    let dropped = unsafe { libc::madvise(address as *mut _, 2 * 4096, libc::MADV_DONTNEED) };
    assert_eq!(dropped, 0);
    assert!(
        memory[..2 * 4096].iter().all(|byte| *byte == 0),
        "private pages"
    );
    a.post(&SendRequestTo(address + 2 * 4096, region.key()).write(&sges));
    a.wait_ok();
    a.post(&SendRequestTo(address, region.key()).write(&sges));
    assert_eq!(a.wait().status, IBV_WC_REM_ACCESS_ERR);
    region.deregister().unwrap();
}
