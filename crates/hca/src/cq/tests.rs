use super::*;
use crate::context::Context;
use crate::device::Device;
use crate::process::Cq;
use std::time::Duration;
use verbena_hca_os::errno::Errno;

fn queue(init: CqInit) -> Arc<Cq> {
    let context = Context::open(Device::FIRST).unwrap();
    Cq::create_with(&context.process, &context.events, init).unwrap()
}

fn small(entries: u32) -> CqInit {
    CqInit {
        entries,
        ..CqInit::default()
    }
}

fn completion(wr_id: u64, qp_num: u32) -> Completion<'static> {
    Completion::received(ibv_wc {
        wr_id,
        qp_num,
        ..ibv_wc::default()
    })
}

fn polled(cq: &Cq, count: usize) -> Vec<u64> {
    let mut target = vec![ibv_wc::default(); count];
    let found = cq.poll(&mut target);
    target.iter().take(found).map(|wc| wc.wr_id).collect()
}

#[test]
fn completions_are_polled_once_in_order() {
    let cq = queue(small(3));
    for round in 0..10 {
        for wr_id in 0..3 {
            assert_eq!(
                cq.push(completion(round * 3 + wr_id, 1), false),
                CqPush::Stored
            );
        }
        assert_eq!(polled(&cq, 2), [round * 3, round * 3 + 1]);
        assert_eq!(polled(&cq, 2), [round * 3 + 2]);
        assert_eq!(polled(&cq, 2), []);
    }
}

#[test]
fn concurrent_push_and_poll_lose_nothing() {
    const EACH: u64 = 20_000;
    let cq = queue(small(64));
    let taken = Lock::new(Vec::new());
    std::thread::scope(|scope| {
        for filler in 0..2 {
            let cq = &cq;
            scope.spawn(move || {
                for number in 0..EACH {
                    // Waits for space: an overrun would fail the queue.
                    let is_full = || {
                        let (head, tail) = cq.ends();
                        tail - head > 32
                    };
                    while is_full() {
                        std::thread::yield_now();
                    }
                    assert_eq!(
                        cq.push(completion(filler << 32 | number, 1), false),
                        CqPush::Stored
                    );
                }
            });
        }
        for _ in 0..2 {
            let (cq, taken) = (&cq, &taken);
            scope.spawn(move || {
                while taken.lock().len() < 2 * EACH as usize {
                    // Polled under the lock of the list, so that the list keeps the order of
                    // polling.
                    let mut all = taken.lock();
                    let mut target = [ibv_wc::default(); 7];
                    if !cq.is_empty() {
                        let found = cq.poll(&mut target);
                        all.extend(target.iter().take(found).map(|wc| wc.wr_id));
                    }
                }
            });
        }
    });
    let taken = taken.lock();
    for filler in 0..2 {
        let of_it: Vec<u64> = taken
            .iter()
            .copied()
            .filter(|id| id >> 32 == filler)
            .collect();
        assert!(of_it.iter().map(|id| id & 0xffff_ffff).eq(0..EACH));
    }
}

#[test]
fn overrun_is_reported_once_and_breaks_the_queue() {
    let cq = queue(small(2));
    cq.set_cookie(0x1234);
    assert_eq!(cq.push(completion(1, 1), false), CqPush::Stored);
    assert_eq!(cq.push(completion(2, 1), false), CqPush::Stored);
    assert_eq!(cq.push(completion(3, 1), false), CqPush::Overrun);
    assert_eq!(cq.push(completion(4, 1), false), CqPush::Overrun);
    let event = cq.events.next().unwrap();
    assert_eq!((event.kind, event.element), (IBV_EVENT_CQ_ERR, 0x1234));
    assert_eq!(cq.events.forget(|_| true), 0, "told once");
    assert_eq!(polled(&cq, 9), [1, 2], "earlier completions are kept");
    assert_eq!(cq.push(completion(5, 1), false), CqPush::Overrun);
    assert_eq!(polled(&cq, 9), []);
}

#[test]
fn ignored_overrun_drops_excess_completions() {
    let cq = queue(CqInit {
        on_overrun: OnOverrun::Ignore,
        ..small(1)
    });
    for wr_id in 1..=2 {
        assert_eq!(cq.push(completion(wr_id, 1), false), CqPush::Stored);
    }
    assert_eq!(polled(&cq, 9), [1]);
    assert_eq!(cq.push(completion(3, 1), false), CqPush::Stored);
    assert_eq!(polled(&cq, 9), [3]);
    assert_eq!(cq.events.forget(|_| true), 0);
}

#[test]
fn destroyed_queue_pair_removes_its_completions() {
    let cq = queue(CqInit {
        timestamps: Timestamps::On,
        ..small(8)
    });
    for wr_id in 0..8 {
        assert_eq!(
            cq.push(completion(wr_id, wr_id as u32 % 3), false),
            CqPush::Stored
        );
    }
    cq.clean(1);
    let mut before = 0;
    for wr_id in [0, 2, 3, 5, 6] {
        let taken = cq.take().unwrap();
        assert_eq!(taken.wc.wr_id, wr_id);
        assert!(
            taken.timestamp >= before,
            "times move with their completions"
        );
        before = taken.timestamp;
    }
    assert!(before > 0);
    assert!(cq.take().is_none());
}

#[test]
fn polling_a_send_completion_frees_send_queue_space() {
    let cq = queue(small(4));
    let retired = Arc::new(Retired::default());
    let wc = ibv_wc::default();
    assert_eq!(
        cq.push(Completion::sent(wc, &retired, 3), false),
        CqPush::Stored
    );
    assert_eq!(retired.position(), 0);
    assert_eq!(polled(&cq, 1), [0]);
    assert_eq!(retired.position(), 3);
    assert_eq!(
        cq.push(Completion::sent(wc, &retired, 5), false),
        CqPush::Stored
    );
    cq.clean(0);
    assert_eq!(retired.position(), 5, "cleaned slots are free");
}

#[test]
fn resize_keeps_completions() {
    for polled_by in [Polled::ByAny, Polled::ByOne] {
        let cq = queue(CqInit {
            polled: polled_by,
            timestamps: Timestamps::On,
            ..small(4)
        });
        for wr_id in 0..6 {
            assert_eq!(cq.push(completion(wr_id, 1), false), CqPush::Stored);
            if wr_id < 3 {
                assert_eq!(polled(&cq, 1), [wr_id]);
            }
        }
        assert_eq!(cq.resize(2), Err(Errno::EINVAL));
        assert_eq!(cq.resize(100), Ok(()));
        assert_eq!(cq.capacity(), 100);
        assert_eq!(cq.push(completion(6, 1), false), CqPush::Stored);
        assert!(cq.take().is_some_and(|first| first.timestamp > 0));
        assert_eq!(cq.resize(3), Ok(()));
        assert_eq!(polled(&cq, 9), [4, 5, 6]);
    }
}

#[test]
fn armed_event_is_raised_once() {
    let context = Context::open(Device::FIRST).unwrap();
    let channel = Arc::new(CompletionChannel::new().unwrap());
    let init = CqInit {
        channel: Some(channel.clone()),
        ..small(16)
    };
    let cq = Cq::create_with(&context.process, &context.events, init).unwrap();
    cq.set_cookie(7);
    let events = || channel.forget(|cookie| *cookie == 7);
    let push = |solicited| assert_eq!(cq.push(completion(1, 1), solicited), CqPush::Stored);
    push(true);
    assert_eq!(events(), 0, "no notification was requested");
    cq.arm(true);
    push(false);
    assert_eq!(events(), 0, "not solicited");
    push(true);
    push(true);
    assert_eq!(events(), 1, "once");
    cq.arm(false);
    cq.arm(true);
    push(false);
    assert_eq!(events(), 1, "asking for less withdraws nothing");
    cq.moderate(3, Duration::from_secs(3600));
    cq.arm(false);
    push(false);
    push(false);
    assert_eq!(events(), 0);
    push(false);
    assert_eq!(events(), 1);
}

#[test]
fn completion_is_taken_only_while_the_ring_is_empty_and_the_queue_unarmed() {
    let cq = queue(small(8));
    let other = queue(small(8));
    let mut target = [ibv_wc::default(); 2];
    let mut taking = Taking::new(&cq, &mut target);
    let mut add = |to: &Cq, wr_id| {
        let stored = to.push_or_take(completion(wr_id, 1), false, Some(&mut taking));
        assert_eq!(stored, CqPush::Stored);
        taking.count()
    };
    assert_eq!(add(&cq, 1), 1);
    assert_eq!(add(&other, 2), 1, "of another queue");
    assert_eq!(cq.push(completion(3, 1), false), CqPush::Stored);
    assert_eq!(add(&cq, 4), 1, "a completion in the ring is older");
    assert_eq!(polled(&cq, 8), [3, 4]);
    cq.arm(false);
    assert_eq!(add(&cq, 5), 1, "an event is wanted");
    assert_eq!(polled(&cq, 8), [5]);
    // The event has disarmed the queue.
    assert_eq!(add(&cq, 6), 2);
    assert_eq!(add(&cq, 7), 2, "the poll wants no more");
    assert_eq!(target.map(|wc| wc.wr_id), [1, 6]);
    assert_eq!(polled(&cq, 8), [7]);
    assert_eq!(polled(&other, 8), [2]);
}
